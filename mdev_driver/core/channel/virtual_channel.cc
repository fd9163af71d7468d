// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Channels of a vGPU and PCCSR.
#include <utility>

#include "core/channel/virtual_fifo.h"
#include "core/log.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace pccsr = ts104::pccsr;
using Control = pccsr::Channel;
using Inst = pccsr::ChannelInst;

// A disabled channel is saved out at the next preemption point; one that its engine cannot let go
// is dropped by the context-switch timeout (500 ms).
constexpr uint32_t kOffTimeoutUs = 1000 * 1000;
// Before a shadow block is made anew: the guest has waited for BUSY itself, or it is not ready.
constexpr uint32_t kRebuildTimeoutUs = 5 * 1000;
constexpr uint64_t kUserdBytes = NV_USERD_SIZE;
constexpr uint64_t kUserdLimit = uint64_t{1} << 40;  // bits of a USERD address

constexpr uint32_t kPassedControl =
    Control::Next::kMask | Control::ForceCtxReload::kMask | Control::ForcePbdmaFaulted::kMask |
    Control::ForceEngFaulted::kMask | Control::PbdmaFaulted::kMask | Control::EngFaulted::kMask;
constexpr uint32_t kShownControl = Control::Next::kMask | Control::PbdmaFaulted::kMask |
                                   Control::EngFaulted::kMask | Control::Status::kMask |
                                   Control::Busy::kMask;

}  // namespace

VirtualChannel* VirtualFifo::Find(uint32_t chid) {
  base::UniquePtr<VirtualChannel>* channel = channels_.Find(chid);
  return channel == nullptr ? nullptr : channel->get();
}

// Null: no memory; the guest's write is then lost, and the log says so.
VirtualChannel* VirtualFifo::FindOrMake(uint32_t chid) {
  if (VirtualChannel* channel = Find(chid); channel != nullptr) return channel;
  auto made = base::MakeUnique<VirtualChannel>(context_.memory_counter);
  if (made.ok()) {
    (*made)->chid = chid;
    VirtualChannel* channel = made->get();
    if (channels_.TryInsert(chid, *std::move(made)) == Status::kOk) return channel;
  }
  LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_WARNING, TS_LOG_CHANNEL)
      << "no memory for channel " << chid;
  return nullptr;
}

VirtualChannel* VirtualFifo::LoadedChannel(uint32_t pbdma) {
  using Loaded = ts104::pbdma::Channel;
  const Loaded loaded(context_.gpu.host().Read32(Loaded::Offset(pbdma)));
  const uint32_t chid = loaded.Get<Loaded::Chid>();
  if (!loaded.Test<Loaded::Valid>() || !context_.Owns(chid)) return nullptr;
  return Find(context_.VirtualId(chid));
}

// ---- PCCSR
// ---------------------------------------------------------------------------------------

uint32_t VirtualFifo::ReadChannel(uint32_t offset) {
  context_.mutex.AssertHeld();
  const uint32_t chid = (offset - Inst::Offset(0)) / 8;
  if (chid >= context_.partition.channels) return 0;
  const VirtualChannel* channel = Find(chid);
  if (offset == Inst::Offset(chid)) return channel == nullptr ? 0 : channel->inst;
  Control shown(context_.gpu.ReadChannel(context_.PhysicalId(chid)) & kShownControl);
  if (channel == nullptr) return shown.raw();
  shown.Set<Control::Enable>(channel->enabled ? 1 : 0);
  if ((channel->holds & (VirtualChannel::kHoldError | VirtualChannel::kHoldMemOp)) != 0) {
    shown.Set<Control::Status>(Control::kStatusOnPbdma).Set<Control::Busy>(1);
  }
  return shown.raw();
}

void VirtualFifo::WriteChannel(uint32_t offset, uint32_t value) {
  context_.mutex.AssertHeld();
  const uint32_t chid = (offset - Inst::Offset(0)) / 8;
  if (chid >= context_.partition.channels) return;
  if (offset == Inst::Offset(chid)) {
    WriteInst(chid, value);
  } else {
    WriteControl(chid, value);
  }
}

void VirtualFifo::BindError(uint32_t code) {
  bind_error_ = code;
  intr_0_ |= ts104::pfifo::Intr0::BindError::kMask;
  UpdateInterrupts();
}

void VirtualFifo::WriteInst(uint32_t chid, uint32_t value) {
  using Code = ts104::pfifo::BindError;
  constexpr uint32_t kTargetUndefined = 1;
  const Inst inst(value);
  VirtualChannel* channel = Find(chid);
  const bool bound = channel != nullptr && channel->bound;
  if (!inst.Test<Inst::Bind>()) {
    if (bound && context_.gpu.ChannelLoaded(context_.PhysicalId(chid))) {
      BindError(Code::kCodeUnbindWhileRunning);
      return;
    }
    if (bound) Unbind(*channel);
    if (channel != nullptr) channel->inst = value & (Inst::Ptr::kMask | Inst::Target::kMask);
    return;
  }
  if (bound) {
    BindError(Code::kCodeBindNotUnbound);
  } else if (inst.Get<Inst::Target>() == kTargetUndefined) {
    BindError(Code::kCodeInvalidCtxTgt);
  } else if (channel = FindOrMake(chid); channel != nullptr) {
    if (const Status status = Bind(*channel, value); status != Status::kOk) {
      LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_WARNING, TS_LOG_CHANNEL)
          << "channel " << chid << " not bound: " << base::StatusName(status);
    }
  }
}

void VirtualFifo::WriteControl(uint32_t chid, uint32_t value) {
  const Control control(value);
  const uint32_t physical = context_.PhysicalId(chid);
  const bool set = control.Test<Control::EnableSet>();
  VirtualChannel* channel = set ? FindOrMake(chid) : Find(chid);
  if (channel == nullptr) return;
  if (channel->bound && (value & kPassedControl) != 0) {
    context_.gpu.WriteChannel(physical, value & kPassedControl);
    context_.gpu.NoteWork(context_.partition.function);  // a fault may have been cleared
  }
  if (control.Test<Control::EnableClr>()) {
    channel->enabled = false;
    Disable(*channel);
  } else if (set) {
    if (!channel->enabled && channel->bound) Revalidate(*channel);
    channel->enabled = true;
    EnableIfFree(*channel);
  }
}

void VirtualFifo::Disable(const VirtualChannel& channel) {
  context_.gpu.WriteChannel(context_.PhysicalId(channel.chid),
                            Control().Set<Control::EnableClr>(1).raw());
}

void VirtualFifo::EnableIfFree(VirtualChannel& channel) {
  if (!channel.enabled || !channel.bound || channel.holds != 0) return;
  context_.gpu.WriteChannel(context_.PhysicalId(channel.chid),
                            Control().Set<Control::EnableSet>(1).raw());
  context_.gpu.NoteWork(context_.partition.function);
}

// ---- binding
// -------------------------------------------------------------------------------------

// A block that cannot be read is all zeros: loading it is a SIGNATURE interrupt, as for garbage.
void VirtualFifo::ReadInstance(uint32_t inst, InstanceBlock* block) const {
  const Inst value(inst);
  const GuestAddress at = {
      value.Get<Inst::Target>() == Inst::kTargetVid ? Aperture::kVid : Aperture::kSys,
      uint64_t{value.Get<Inst::Ptr>()} << 12};
  if (context_.memory.Read(at, block->words.data(), kInstanceBytes) != Status::kOk) {
    *block = InstanceBlock();
  }
}

Status VirtualFifo::Bind(VirtualChannel& channel, uint32_t value) {
  TS_TRY(channel.shadow,
         DmaBuffer::Create(context_.gpu.host(), kPageSize, &context_.memory_counter));
  InstanceBlock block;
  ReadInstance(value, &block);
  const Status status = BuildShadow(channel, block);
  if (status != Status::kOk) {
    channel.shadow = DmaBuffer();
    return status;
  }
  if (const Status bound =
          context_.gpu.BindChannel(context_.PhysicalId(channel.chid), PointersOf(channel));
      bound != Status::kOk) {
    ReleaseParts(channel);
    mmu_.Flush();
    return bound;
  }
  channel.inst = value;
  channel.bound = true;
  channel.listed = false;
  EnableIfFree(channel);
  return Status::kOk;
}

void VirtualFifo::Unbind(VirtualChannel& channel) {
  Disable(channel);
  context_.gpu.UnbindChannel(context_.PhysicalId(channel.chid));
  ReleaseParts(channel);
  mmu_.Flush();
  channel.bound = false;
  channel.holds = 0;
  // An error it had is over, and the next one of that PBDMA can be shown.
  for (Pbdma& pbdma : pbdmas_) {
    if (!pbdma.occupied || context_.VirtualId(pbdma.shown.chid) != channel.chid) continue;
    pbdma.intr_0 = pbdma.intr_1 = 0;
    Resolve(pbdma);
  }
}

// Gives back what the shadow block refers to. The channel is not on the device.
void VirtualFifo::ReleaseParts(VirtualChannel& channel) {
  if (channel.space != nullptr) mmu_.ReleaseSpace(channel.space);
  channel.space = nullptr;
  if (channel.userd.valid && channel.userd.system) mmu_.UnpinPage(channel.userd_page);
  channel.userd = UserdPlace();
  channel.shadow = DmaBuffer();
  channel.guest = InstanceBlock();
}

ChannelPointers VirtualFifo::PointersOf(const VirtualChannel& channel) const {
  ChannelPointers pointers;
  pointers.instance = channel.shadow.address().value();
  pointers.userd = channel.userd.address;
  pointers.userd_system = channel.userd.system;
  return pointers;
}

UserdPlace VirtualFifo::PlaceUserd(const InstanceBlock& block, base::Gpa* page) {
  UserdPlace place;
  GuestAddress userd;
  if (!UserdOf(block, &userd)) return place;
  if (userd.aperture == Aperture::kVid) {
    const auto offset =
        context_.memory.TranslateVram(base::GuestVramOffset(userd.value), kUserdBytes);
    if (!offset.ok()) return place;
    place.valid = true;
    place.address = offset->value();
    return place;
  }
  *page = base::Gpa(base::AlignDown(userd.value, kPageSize));
  const base::Result<base::Hpa> pinned = mmu_.PinPage(*page);
  if (!pinned.ok()) return place;
  if (pinned->value() >= kUserdLimit) {
    mmu_.UnpinPage(*page);
    return place;
  }
  place.valid = true;
  place.system = true;
  place.address = pinned->value() + (userd.value & kPageMask);
  return place;
}

// Translates the block and writes the shadow. The channel is not on the device. On an error it is
// left without references.
Status VirtualFifo::BuildShadow(VirtualChannel& channel, const InstanceBlock& block) {
  InstanceTranslation translation;
  translation.chid = context_.PhysicalId(channel.chid);
  GuestAddress root;
  ShadowSpace* space = nullptr;
  if (PageDirectoryOf(block, &root)) {
    TS_TRY(space, mmu_.AcquireSpace(root));
    translation.has_root = true;
    translation.root = space->shadow_root();
  }
  base::Gpa page;
  translation.userd = PlaceUserd(block, &page);
  // New references are taken, the old ones may go.
  if (channel.space != nullptr) mmu_.ReleaseSpace(channel.space);
  if (channel.userd.valid && channel.userd.system) mmu_.UnpinPage(channel.userd_page);
  channel.space = space;
  channel.userd = translation.userd;
  channel.userd_page = page;
  channel.guest = block;
  channel.stale = false;
  const bool syncing = space != nullptr && space->syncing();
  channel.holds = static_cast<uint8_t>((channel.holds & ~VirtualChannel::kHoldSync) |
                                       (syncing ? VirtualChannel::kHoldSync : 0));
  mmu_waited_for_ = mmu_waited_for_ || syncing;
  const InstanceBlock shadow =
      MakeShadowInstance(block, translation, context_.partition, context_.gpu.ctx_size());
  for (size_t i = 0; i < kInstanceWords; ++i) channel.shadow.Store32(i, shadow.words[i]);
  return Status::kOk;
}

// Has the guest written its block since it was read? Then the channel starts from it: else the
// state that the device saved into the shadow goes on.
void VirtualFifo::Revalidate(VirtualChannel& channel) {
  InstanceBlock block;
  ReadInstance(channel.inst, &block);
  if (block == channel.guest && !channel.stale) return;
  const uint32_t physical = context_.PhysicalId(channel.chid);
  if (context_.gpu.ChannelLoaded(physical)) {
    if (channel.enabled) return;  // it runs: the hardware has read its block
    if (context_.gpu.WaitChannelOff(physical, kRebuildTimeoutUs) != Status::kOk) return;
  }
  // Off the device while its words change, also if it was enabled and only waiting.
  Disable(channel);
  if (const Status status = BuildShadow(channel, block); status != Status::kOk) {
    LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_WARNING, TS_LOG_CHANNEL)
        << "channel " << channel.chid
        << " keeps its old instance block: " << base::StatusName(status);
    return;
  }
  context_.gpu.SetChannelPointers(physical, PointersOf(channel));
  mmu_.Flush();
}

void VirtualFifo::Check(VirtualChannel& channel) {
  channel.holds = static_cast<uint8_t>(channel.holds & ~VirtualChannel::kHoldCheck);
  Revalidate(channel);
  EnableIfFree(channel);
}

bool VirtualFifo::CheckSome() {
  context_.mutex.AssertHeld();
  if (!checks_wanted_) return false;
  checks_wanted_ = false;
  uint32_t checks = 0;
  channels_.ForEach([&](uint64_t, base::UniquePtr<VirtualChannel>& channel) {
    context_.mutex.AssertHeld();
    if ((channel->holds & VirtualChannel::kHoldCheck) == 0) return;
    if (++checks <= kChecksPerSlice) {
      Check(*channel);
    } else {
      checks_wanted_ = true;
    }
  });
  return checks_wanted_;
}

void VirtualFifo::Unmap(uint64_t start, uint64_t length) {
  context_.mutex.AssertHeld();
  channels_.ForEach([&](uint64_t, base::UniquePtr<VirtualChannel>& owned) {
    context_.mutex.AssertHeld();
    VirtualChannel& channel = *owned;
    if (!channel.userd.valid || !channel.userd.system) return;
    const uint64_t page = channel.userd_page.value();
    if (page < base::AlignDown(start, kPageSize) || page > start + (length - 1)) return;
    Disable(channel);
    if (context_.gpu.WaitChannelOff(context_.PhysicalId(channel.chid), kOffTimeoutUs) !=
        Status::kOk) {
      LogLine(context_.gpu.host().handle(), context_.host, TS_LOG_WARNING, TS_LOG_CHANNEL)
          << "channel " << channel.chid << " did not stop before its USERD went away";
    }
    mmu_.UnpinPage(channel.userd_page);
    channel.userd = UserdPlace();
    channel.stale = true;
    // What the device would find is no USERD at all: loading the channel is an MMU fault.
    InstanceTranslation none;
    const InstanceBlock shadow = MakeShadowInstance(InstanceBlock(), none, context_.partition, 0);
    channel.shadow.Store32(ts104::ram::RamfcUserd::Offset() / 4,
                           shadow.At(ts104::ram::RamfcUserd::Offset()));
    channel.shadow.Store32(ts104::ram::RamfcUserdHi::Offset() / 4,
                           shadow.At(ts104::ram::RamfcUserdHi::Offset()));
    EnableIfFree(channel);
  });
}

void VirtualFifo::MmuIdle() {
  context_.mutex.AssertHeld();
  if (!mmu_waited_for_) return;
  mmu_waited_for_ = false;
  channels_.ForEach([this](uint64_t, base::UniquePtr<VirtualChannel>& owned) {
    context_.mutex.AssertHeld();
    VirtualChannel& channel = *owned;
    if ((channel.holds & VirtualChannel::kHoldSync) != 0) {
      channel.holds = static_cast<uint8_t>(channel.holds & ~VirtualChannel::kHoldSync);
      EnableIfFree(channel);
    }
    if ((channel.holds & VirtualChannel::kHoldMemOp) != 0) {
      channel.holds = static_cast<uint8_t>(channel.holds & ~VirtualChannel::kHoldMemOp);
      PatchMethod(channel, 0, 0);
      Resume(channel);
    }
  });
}

uint64_t VirtualFifo::bound_channels() const {
  context_.mutex.AssertHeld();
  uint64_t bound = 0;
  channels_.ForEach([&](uint64_t, const base::UniquePtr<VirtualChannel>& channel) {
    bound += channel->bound ? 1u : 0u;
  });
  return bound;
}

}  // namespace turnstile
