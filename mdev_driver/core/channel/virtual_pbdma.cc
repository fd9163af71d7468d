// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PBDMA errors of a vGPU's channels, shown in its own PBDMA registers, and MEM_OP.
//
// The physical PBDMA has been thawed long since (PhysicalGpu::ServicePbdma). What the guest sees
// frozen is its channel, which the host keeps disabled until the guest clears the interrupt.
#include "core/channel/virtual_fifo.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace pb = ts104::pbdma;
namespace ram = ts104::ram;
using Intr = pb::Intr0;

// Interrupts that leave a method in METHOD0, to be tried again or skipped (register map §5).
constexpr uint32_t kMethodErrors =
    Intr::Method::kMask | Intr::Device::kMask | Intr::Semaphore::kMask | Intr::Methodcrc::kMask;
// Saving a channel out takes a context switch.
constexpr uint32_t kSaveTimeoutUs = 50 * 1000;

constexpr uint32_t kWindow = pb::GpPut::Offset(1) - pb::GpPut::Offset(0);

}  // namespace

void VirtualFifo::HandlePbdmaError(const PbdmaError& error) {
  VirtualChannel* channel = Find(context_.VirtualId(error.chid));
  if (channel == nullptr || !channel->bound) return;
  channel->error = error;
  if (Emulate(*channel)) return;
  ++context_.figures.pbdma_errors;
  channel->holds |= VirtualChannel::kHoldError;
  Pbdma& pbdma = pbdmas_[error.pbdma];
  if (!pbdma.occupied) Show(pbdma, error);
}

// MEM_OP and CLEAR_FAULTED of a channel that the guest made privileged. Hardware refuses them,
// because the shadow never grants the privilege: they name addresses and channels of the whole
// chip. True: taken care of.
bool VirtualFifo::Emulate(VirtualChannel& channel) {
  const PbdmaError& error = channel.error;
  if (error.intr_0 != Intr::Method::kMask || error.intr_1 != 0) return false;
  if (!IsPrivileged(channel.guest)) return false;
  const uint32_t method = error.method0 & pb::Method0::Addr::kMask;
  const bool mem_op = method == NVC46F_MEM_OP_D;
  if (!mem_op && method != NVC46F_CLEAR_FAULTED) return false;
  if (context_.gpu.WaitChannelOff(error.chid, kSaveTimeoutUs) != Status::kOk) return false;
  channel.holds |= VirtualChannel::kHoldMemOp;
  if (mem_op) {
    mmu_.MemOp(channel.shadow.Load32(ram::RamfcMemOpA::Offset() / 4),
               channel.shadow.Load32(ram::RamfcMemOpB::Offset() / 4),
               channel.shadow.Load32(ram::RamfcMemOpC::Offset() / 4), error.data0);
  } else {
    ClearFaulted(error.data0);
  }
  if (mmu_.busy()) {
    mmu_waited_for_ = true;  // MmuIdle goes on with the channel
    return true;
  }
  channel.holds = static_cast<uint8_t>(channel.holds & ~VirtualChannel::kHoldMemOp);
  PatchMethod(channel, 0, 0);
  Resume(channel);
  return true;
}

void VirtualFifo::ClearFaulted(uint32_t data) {
  using Method = ts104::host_methods::ClearFaulted;
  using Control = ts104::pccsr::Channel;
  const Method method(data);
  if (method.Get<Method::Chid>() >= context_.partition.channels) return;
  const bool engine = method.Get<Method::Type>() == Method::kTypeEngFaulted;
  context_.gpu.WriteChannel(context_.PhysicalId(method.Get<Method::Chid>()),
                            engine ? Control::EngFaulted::kMask : Control::PbdmaFaulted::kMask);
  context_.gpu.NoteWork(context_.partition.function);
}

void VirtualFifo::Show(Pbdma& pbdma, const PbdmaError& error) {
  pbdma.occupied = true;
  pbdma.shown = error;
  pbdma.intr_0 = error.intr_0;
  pbdma.intr_1 = error.intr_1;
}

// The next channel of this PBDMA that waits for its error to be seen.
void VirtualFifo::ShowNext(uint32_t index) {
  Pbdma& pbdma = pbdmas_[index];
  channels_.ForEach([&](uint64_t, base::UniquePtr<VirtualChannel>& channel) {
    context_.mutex.AssertHeld();
    const bool waits = (channel->holds & VirtualChannel::kHoldError) != 0;
    if (!pbdma.occupied && waits && channel->error.pbdma == index) Show(pbdma, channel->error);
  });
}

// The guest has cleared the last bit: its channel goes on.
void VirtualFifo::Resolve(Pbdma& pbdma) {
  pbdma.occupied = false;
  const PbdmaError shown = pbdma.shown;
  pbdma.shown = PbdmaError();
  VirtualChannel* channel = Find(context_.VirtualId(shown.chid));
  if (channel != nullptr && (channel->holds & VirtualChannel::kHoldError) != 0) {
    channel->holds = static_cast<uint8_t>(channel->holds & ~VirtualChannel::kHoldError);
    if ((shown.intr_0 & kMethodErrors) != 0) PatchMethod(*channel, shown.method0, shown.data0);
    Resume(*channel);
  }
  ShowNext(shown.pbdma);
}

// What the channel will find pending when it is loaded. VALID 0: it goes on behind the method.
void VirtualFifo::PatchMethod(VirtualChannel& channel, uint32_t method0, uint32_t data0) {
  const uint32_t physical = context_.PhysicalId(channel.chid);
  if (!channel.shadow || context_.gpu.WaitChannelOff(physical, kSaveTimeoutUs) != Status::kOk) {
    return;
  }
  channel.shadow.Store32(ram::RamfcMethod0::Offset() / 4, method0);
  channel.shadow.Store32(ram::RamfcData0::Offset() / 4, data0);
}

// Its doorbell is rung for it: the work it had is still there.
void VirtualFifo::Resume(VirtualChannel& channel) {
  EnableIfFree(channel);
  if (channel.bound && channel.enabled) {
    context_.gpu.RingDoorbell(context_.PhysicalId(channel.chid));
    context_.gpu.NoteWork(context_.partition.function);
  }
}

void VirtualFifo::ResetEngine(uint32_t engine) {
  context_.mutex.AssertHeld();
  using Enable = ts104::pmc::Enable;
  uint32_t runlist = 0;
  switch (engine) {
    case Enable::kBitGraphics:
    case Enable::kBitCe0: runlist = 0; break;
    case Enable::kBitCe2: runlist = 1; break;
    case Enable::kBitCe3: runlist = 2; break;
    default: return;
  }
  VirtualChannel* channel = LoadedChannel(runlist);
  if (channel == nullptr) return;
  Disable(*channel);
  PbdmaError error;
  error.pbdma = runlist;
  error.chid = context_.PhysicalId(channel->chid);
  error.intr_0 = Intr::EngReset::kMask;
  HandlePbdmaError(error);
  UpdateInterrupts();
}

void VirtualFifo::RingDoorbell(uint32_t token) {
  context_.mutex.AssertHeld();
  using Doorbell = ts104::usermode::NotifyChannelPending;
  const Doorbell bell(token);
  constexpr uint32_t kDefined = Doorbell::Chid::kMask | Doorbell::RunlistId::kMask;
  const uint32_t runlist = bell.Get<Doorbell::RunlistId>();
  if ((token & ~kDefined) != 0 || bell.Get<Doorbell::Chid>() >= context_.partition.channels) return;
  if (runlist >= kNumRunlists && runlist != kAnyRunlist) return;
  context_.gpu.RingDoorbell(context_.PhysicalId(bell.Get<Doorbell::Chid>()), runlist);
  context_.gpu.NoteWork(context_.partition.function);
}

// ---- registers
// -----------------------------------------------------------------------------------

uint32_t VirtualFifo::ReadPbdma(uint32_t offset) {
  context_.mutex.AssertHeld();
  const uint32_t index = (offset - pb::GpPut::Offset(0)) / kWindow;
  const uint32_t name = offset - index * kWindow;  // as in window 0
  const Pbdma& pbdma = pbdmas_[index];
  switch (name) {
    case pb::Method0::Offset(0): return pbdma.shown.method0;
    case pb::Data0::Offset(0): return pbdma.shown.data0;
    case pb::Intr0::Offset(0): return pbdma.intr_0;
    case pb::IntrEn0::Offset(0): return pbdma.enable_0;
    case pb::GpShadow0::Offset(0): return pbdma.shown.gp_shadow_0;
    case pb::GpShadow1::Offset(0): return pbdma.shown.gp_shadow_1;
    case pb::HdrShadow::Offset(0): return pbdma.shown.hdr_shadow;
    case pb::Timeout::Offset(0): return pbdma.timeout;
    case pb::IntrStall::Offset(0): return pbdma.stall_0;
    case pb::IntrStall1::Offset(0): return pbdma.stall_1;
    case pb::Intr1::Offset(0): return pbdma.intr_1;
    case pb::IntrEn1::Offset(0): return pbdma.enable_1;
    case pb::HceDbg0::Offset(0): return pbdma.shown.hce_dbg0;
    case pb::HceDbg1::Offset(0): return pbdma.shown.hce_dbg1;
    default: return ReadPbdmaState(index, name);
  }
}

// The RAMFC words of the channel on the PBDMA: of the one whose error is shown, else of what is
// loaded, if it is the guest's.
uint32_t VirtualFifo::ReadPbdmaState(uint32_t index, uint32_t name) {
  const Pbdma& pbdma = pbdmas_[index];
  const VirtualChannel* channel =
      pbdma.occupied ? Find(context_.VirtualId(pbdma.shown.chid)) : LoadedChannel(index);
  if (channel == nullptr) return 0;
  switch (name) {
    case pb::Channel::Offset(0):
      return pb::Channel().Set<pb::Channel::Chid>(channel->chid).Set<pb::Channel::Valid>(1).raw();
    case pb::Userd::Offset(0): return channel->guest.At(ram::RamfcUserd::Offset());
    case pb::UserdHi::Offset(0): return channel->guest.At(ram::RamfcUserdHi::Offset());
    case pb::GpPut::Offset(0):
    case pb::Signature::Offset(0):
    case pb::GpGet::Offset(0):
    case pb::Get::Offset(0):
    case pb::GetHi::Offset(0):
    case pb::GpBase::Offset(0):
    case pb::GpBaseHi::Offset(0):
    case pb::GpFetch::Offset(0):
    case pb::PbHeader::Offset(0):
    case pb::PbCount::Offset(0): break;
    default: return 0;
  }
  if (!pbdma.occupied) return context_.gpu.host().Read32(name + index * kWindow);
  return channel->shadow ? channel->shadow.Load32((name - pb::GpPut::Offset(0)) / 4) : 0;
}

void VirtualFifo::WritePbdma(uint32_t offset, uint32_t value) {
  context_.mutex.AssertHeld();
  const uint32_t index = (offset - pb::GpPut::Offset(0)) / kWindow;
  Pbdma& pbdma = pbdmas_[index];
  switch (offset - index * kWindow) {
    case pb::Method0::Offset(0): pbdma.shown.method0 = value; return;
    case pb::Data0::Offset(0): pbdma.shown.data0 = value; return;
    case pb::Intr0::Offset(0): pbdma.intr_0 &= ~value; break;
    case pb::Intr1::Offset(0): pbdma.intr_1 &= ~value; break;
    case pb::IntrEn0::Offset(0): pbdma.enable_0 = value; break;
    case pb::IntrEn1::Offset(0): pbdma.enable_1 = value; break;
    case pb::Timeout::Offset(0): pbdma.timeout = value; return;
    case pb::IntrStall::Offset(0): pbdma.stall_0 = value; return;
    case pb::IntrStall1::Offset(0): pbdma.stall_1 = value; return;
    default: return;
  }
  if (pbdma.occupied && pbdma.intr_0 == 0 && pbdma.intr_1 == 0) Resolve(pbdma);
  UpdateInterrupts();
}

}  // namespace turnstile
