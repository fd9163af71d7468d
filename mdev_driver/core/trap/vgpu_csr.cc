// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// BAR0 registers of a vGPU that are no part's own: identity, PMC, interrupt tree, copy engine
// interrupts, time, PRAMIN.
#include "core/vgpu.h"
#include "ts104/regs.h"
#include "ts104/typed.h"

namespace turnstile {

namespace {

namespace pmc = ts104::pmc;
namespace ctrl = ts104::ctrl;
namespace ce = ts104::ce;

constexpr uint32_t kLceStride = ce::LceStatus::Offset(1) - ce::LceStatus::Offset(0);
constexpr uint32_t kPraminOutside = 0xffffffff;  // register map §1
// PMC bit, which is also stall vector - 192, of each LCE; 0: TS104 does not have it.
constexpr uint32_t kLceBit[] = {NV_PMC_INTR_BIT_CE0, 0, NV_PMC_INTR_BIT_CE2, NV_PMC_INTR_BIT_CE3,
                                0};
constexpr uint32_t kStallBase = 192;

}  // namespace

uint32_t Vgpu::ReadCsr(uint32_t offset) {
  offset = CanonicalCsr(offset);
  const CsrRange* range = FindCsr(offset);
  if (range == nullptr) return 0;
  switch (range->kind) {
    case CsrKind::kDenied: return 0;
    case CsrKind::kMirrored: return context_.gpu.host().Read32(offset);
    case CsrKind::kStored: return stored_[range->slot + (offset - range->first) / 4];
    case CsrKind::kHandled: return ReadPart(range->part, offset);
  }
  return 0;
}

void Vgpu::WriteCsr(uint32_t offset, uint32_t value) {
  offset = CanonicalCsr(offset);
  const CsrRange* range = FindCsr(offset);
  if (range == nullptr) return;
  if (range->kind == CsrKind::kStored) {
    stored_[range->slot + (offset - range->first) / 4] = value & range->write_mask;
  } else if (range->kind == CsrKind::kHandled) {
    WritePart(range->part, offset, value);
  }
}

uint32_t Vgpu::ReadPart(CsrPart part, uint32_t offset) {
  switch (part) {
    case CsrPart::kNone: return 0;
    case CsrPart::kIdentity: return ReadIdentity(offset);
    case CsrPart::kPmc: return ReadPmc(offset);
    case CsrPart::kTree: ++context_.figures.tree_accesses; return ReadTree(offset);
    case CsrPart::kFifo: return fifo_.ReadFifo(offset);
    case CsrPart::kChannel: return fifo_.ReadChannel(offset);
    case CsrPart::kPbdma: return fifo_.ReadPbdma(offset);
    case CsrPart::kMmu: return mmu_.Read(offset);
    case CsrPart::kCopy: return ReadLce(offset);
    case CsrPart::kDoorbell: return ReadUsermode(offset);
    case CsrPart::kTime: return ReadTime(offset);
    case CsrPart::kConfig:
      return static_cast<uint32_t>(config_.Read(offset - NV_FUNC_CONFIG_MIRROR_BASE, 4));
    case CsrPart::kPramin: return ReadPramin(offset);
    case CsrPart::kMsix: return msix_[(offset - NV_FUNC_MSIX_TABLE) / 4];
  }
  return 0;
}

void Vgpu::WritePart(CsrPart part, uint32_t offset, uint32_t value) {
  switch (part) {
    case CsrPart::kNone:
    case CsrPart::kIdentity:
    case CsrPart::kTime:
    case CsrPart::kConfig: return;
    case CsrPart::kPmc: WritePmc(offset, value); return;
    case CsrPart::kTree:
      ++context_.figures.tree_accesses;
      WriteTree(offset, value);
      return;
    case CsrPart::kFifo: fifo_.WriteFifo(offset, value); return;
    case CsrPart::kChannel: fifo_.WriteChannel(offset, value); return;
    case CsrPart::kPbdma: fifo_.WritePbdma(offset, value); return;
    case CsrPart::kMmu: mmu_.Write(offset, value); return;
    case CsrPart::kCopy: WriteLce(offset, value); return;
    case CsrPart::kDoorbell:
      if (offset % NV_FUNC_USERMODE_SIZE % 0x1000 ==
              ts104::usermode::NotifyChannelPending::Offset() &&
          ctrl::VirtualChannelCfg(channel_cfg_).Test<ctrl::VirtualChannelCfg::PendingEnable>()) {
        fifo_.RingDoorbell(value);
      }
      return;
    case CsrPart::kPramin: WritePramin(offset, value); return;
    case CsrPart::kMsix: msix_[(offset - NV_FUNC_MSIX_TABLE) / 4] = value; return;
  }
}

// ---- identity
// ------------------------------------------------------------------------------------

uint32_t Vgpu::ReadIdentity(uint32_t offset) const {
  switch (offset) {
    case pmc::Boot1::Offset(): return pmc::Boot1().Set<pmc::Boot1::Vgpu>(pmc::Boot1::kVgpuPv).raw();
    case ts104::ts104::VramSize::Offset():
      return static_cast<uint32_t>(context_.partition.vram_bytes / base::kMiB);
    case ts104::pfifo::Cfg1::Offset():
    case ts104::ts104::NumChids::Offset(): return context_.partition.channels;
    default: return 0;
  }
}

// ---- PMC
// -----------------------------------------------------------------------------------------

uint32_t Vgpu::ReadPmc(uint32_t offset) const {
  switch (offset) {
    case pmc::Intr::Offset(0): return context_.tree.ReadPmc(0);
    case pmc::Intr::Offset(1): return context_.tree.ReadPmc(1);
    case pmc::IntrMode::Offset(1): return ~0u;  // the non-stalling tree is all edges
    case pmc::IntrEn::Offset(0): return context_.tree.ReadPmcEnable(0);
    case pmc::IntrEn::Offset(1): return context_.tree.ReadPmcEnable(1);
    case pmc::IntrSw::Offset(0): return pmc_software_[0];
    case pmc::IntrSw::Offset(1): return pmc_software_[1];
    case pmc::Enable::Offset(): return pmc_enable_;
    default: return 0;
  }
}

void Vgpu::WritePmc(uint32_t offset, uint32_t value) {
  if (offset == pmc::Enable::Offset()) {
    WritePmcEnable(value);
    return;
  }
  for (uint32_t tree = 0; tree < pmc::IntrSw::kCount; ++tree) {
    if (offset == pmc::IntrEnSet::Offset(tree)) {
      context_.tree.SetPmcEnable(tree, value);
    } else if (offset == pmc::IntrEnClear::Offset(tree)) {
      context_.tree.ClearPmcEnable(tree, value);
    } else if (offset == pmc::IntrSw::Offset(tree)) {
      pmc_software_[tree] = value & pmc::IntrSw::Software::kMask;
      context_.tree.SetPmcBit(tree, NV_PMC_INTR_BIT_SOFTWARE, pmc_software_[tree] != 0);
    }
  }
}

// Units go off on a falling bit: PFIFO with all channels, an engine with what the guest has on it.
void Vgpu::WritePmcEnable(uint32_t value) {
  const uint32_t falling = pmc_enable_ & ~value;
  pmc_enable_ = value;
  if ((falling >> pmc::Enable::kBitPfifo & 1) != 0) {
    context_.gpu.Drain(context_.partition);
    fifo_.Reset();
    mmu_.Flush();
  }
  for (const uint32_t engine : {uint32_t{pmc::Enable::kBitGraphics}, uint32_t{pmc::Enable::kBitCe0},
                                uint32_t{pmc::Enable::kBitCe2}, uint32_t{pmc::Enable::kBitCe3}}) {
    if ((falling >> engine & 1) != 0) fifo_.ResetEngine(engine);
  }
}

// ---- interrupt tree
// ------------------------------------------------------------------------------

uint32_t Vgpu::ReadTree(uint32_t offset) const {
  switch (offset) {
    case ctrl::Top::Offset(0): return context_.tree.ReadTop();
    case ctrl::TopEnSet::Offset(0):
    case ctrl::TopEnClear::Offset(0): return context_.tree.ReadTopEnable();
    case ctrl::VirtualChannelCfg::Offset(0): return channel_cfg_;
    default: break;
  }
  const uint32_t leaf = (offset / 4) % VirtualTree::kLeaves;  // every array starts at a multiple
  if (offset >= ctrl::LeafEnSet::Offset(0)) return context_.tree.ReadLeafEnable(leaf);
  return offset >= ctrl::Leaf::Offset(0) ? context_.tree.ReadLeaf(leaf) : 0;
}

void Vgpu::WriteTree(uint32_t offset, uint32_t value) {
  using Config = ctrl::VirtualChannelCfg;
  switch (offset) {
    case ctrl::Top::Offset(0): return;
    case ctrl::TopEnSet::Offset(0): context_.tree.SetTopEnable(value); return;
    case ctrl::TopEnClear::Offset(0): context_.tree.ClearTopEnable(value); return;
    case ctrl::LeafTrigger::Offset(0):
      context_.tree.Latch(value & ctrl::LeafTrigger::Vector::kMask);
      return;
    case Config::Offset(0):
      channel_cfg_ =
          value & (Config::Mask::kMask | Config::SetBits::kMask | Config::PendingEnable::kMask);
      context_.gpu.SetPendingEnable(context_.partition,
                                    Config(value).Test<Config::PendingEnable>());
      return;
    default: break;
  }
  const uint32_t leaf = (offset / 4) % VirtualTree::kLeaves;
  if (offset >= ctrl::LeafEnClear::Offset(0)) {
    context_.tree.ClearLeafEnable(leaf, value);
  } else if (offset >= ctrl::LeafEnSet::Offset(0)) {
    context_.tree.SetLeafEnable(leaf, value);
  } else {
    context_.tree.ClearLeaf(leaf, value);
  }
}

// ---- copy engine interrupts
// ----------------------------------------------------------------------

uint32_t Vgpu::ReadLce(uint32_t offset) const {
  const uint32_t index = (offset - ce::LceStatus::Offset(0)) / kLceStride;
  switch (offset - index * kLceStride) {
    case ce::LceIntrEn::Offset(0): return lces_[index].enable;
    case ce::LceIntrStatus::Offset(0): return lces_[index].status;
    case ce::LceLauncherr::Offset(0): return lces_[index].launch_error;
    default: return 0;
  }
}

void Vgpu::WriteLce(uint32_t offset, uint32_t value) {
  const uint32_t index = (offset - ce::LceStatus::Offset(0)) / kLceStride;
  switch (offset - index * kLceStride) {
    case ce::LceIntrEn::Offset(0): lces_[index].enable = value & base::LowMask(5); break;
    case ce::LceIntrStatus::Offset(0): lces_[index].status &= ~value; break;
    default: return;
  }
  UpdateLce(index);
}

void Vgpu::UpdateLce(uint32_t index) {
  const uint32_t bit = kLceBit[index];
  if (bit == 0) return;
  const bool level = (lces_[index].status & lces_[index].enable) != 0;
  context_.tree.SetLevel(kStallBase + bit, level);
  context_.tree.SetPmcBit(0, bit, level);
}

// ---- time
// ----------------------------------------------------------------------------------------

uint32_t Vgpu::ReadUsermode(uint32_t offset) const {
  const uint32_t in_window = offset % NV_FUNC_USERMODE_SIZE;
  return context_.gpu.host().Read32(NV_FUNC_BAR0_USERMODE_BASE + in_window);
}

// Function 0 of the guest is this function, counted since it was opened. LO latches HI.
uint32_t Vgpu::ReadTime(uint32_t offset) {
  using Low = ts104::ts104::FunctionTimeLo;
  const uint32_t index = (offset - Low::Offset(0)) / 8;
  if (index % kNumFunctions != 0) return 0;
  if (offset != Low::Offset(index)) return time_high_;
  const uint32_t runlist = index / kNumFunctions;
  const uint64_t time =
      context_.gpu.FunctionTime(context_.partition.function, runlist) - time_base_[runlist];
  time_high_ = static_cast<uint32_t>(time >> 32);
  return static_cast<uint32_t>(time);
}

// ---- PRAMIN
// --------------------------------------------------------------------------------------

bool Vgpu::PraminAddress(uint32_t offset, GuestAddress* at) const {
  using Window = ts104::pbus::Bar0Window;
  const Window window(stored_[kSlotBar0Window]);
  const uint32_t target = window.Get<Window::Target>();
  constexpr uint32_t kTargetUndefined = 1;
  if (target == kTargetUndefined) return false;
  *at = {target == Window::kTargetVid ? Aperture::kVid : Aperture::kSys,
         (uint64_t{window.Get<Window::Base>()} << 16) + (offset - NV_FUNC_PRAMIN_BASE)};
  return true;
}

uint32_t Vgpu::ReadPramin(uint32_t offset) const {
  GuestAddress at;
  uint32_t value = 0;
  if (!PraminAddress(offset, &at) ||
      context_.memory.Read(at, &value, sizeof(value)) != Status::kOk) {
    return kPraminOutside;
  }
  return value;
}

void Vgpu::WritePramin(uint32_t offset, uint32_t value) {
  GuestAddress at;
  if (!PraminAddress(offset, &at)) return;
  // Writes to nowhere are dropped.
  static_cast<void>(context_.memory.Write(at, &value, sizeof(value)));
}

}  // namespace turnstile
