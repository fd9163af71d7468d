// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Host methods, class C46F: what the PBDMA executes itself.
#include <algorithm>

#include "gpu_semaphore.h"
#include "pbdma.h"

namespace ts104 {
namespace {

constexpr uint64_t kTickNs = 1024;
constexpr uint64_t kMinRetryNs = 2000;

int64_t SignExtend(uint64_t value, bool wide) {
  return wide ? static_cast<int64_t>(value) : static_cast<int32_t>(static_cast<uint32_t>(value));
}

// ACQUIRE_DEADLINE holds the low 32 bits of a time in ticks; 0: none.
uint32_t PackDeadline(uint64_t deadline) {
  return std::max(static_cast<uint32_t>(deadline / kTickNs), 1u);
}
uint64_t UnpackDeadline(uint32_t word, uint64_t now) {
  const auto ticks = static_cast<int64_t>(now / kTickNs);
  const auto ahead = static_cast<int32_t>(word - static_cast<uint32_t>(ticks));
  return static_cast<uint64_t>(std::max<int64_t>(ticks + ahead, 0)) * kTickNs;
}

}  // namespace

bool AcquireMatches(uint32_t operation, uint64_t memory, uint64_t payload, bool wide) {
  const uint64_t mask = wide ? ~uint64_t{0} : 0xffffffffu;
  memory &= mask;
  payload &= mask;
  switch (operation) {
    case NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE: return memory == payload;
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_STRICT_GEQ: return memory >= payload;
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_CIRC_GEQ: return SignExtend(memory - payload, wide) >= 0;
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_AND: return (memory & payload) != 0;
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_NOR: return (~(memory | payload) & mask) != 0;
    default: return false;
  }
}

bool AcquireTest::Succeeds(Mmu& mmu) const {
  uint64_t value = 0;
  if (wide) {
    if (mmu.ReadValue(space, va, value)) return true;
  } else {
    uint32_t narrow = 0;
    if (mmu.ReadValue(space, va, narrow)) return true;
    value = narrow;
  }
  return AcquireMatches(operation, value, payload, wide);
}

uint32_t Pbdma::PrimaryVector() const { return engines_[0]->info().pmc_bit; }

void Pbdma::NonStallInterrupt() {
  const std::lock_guard lock(machine_.state.mutex);
  machine_.state.RaisePfifo(TS104_FIELD(NV_PFIFO_INTR_0_CHANNEL_INTR));
  machine_.state.RaiseVector(channel_->gfid, PrimaryVector());
}

Pbdma::Outcome Pbdma::ExecuteHost(const Method& method, uint64_t now) {
  const uint32_t data = method.data;
  switch (method.address) {
    case NVC46F_NOP:
    case NVC46F_FB_FLUSH: return Outcome::kContinue;
    case NVC46F_NON_STALL_INTERRUPT: NonStallInterrupt(); return Outcome::kContinue;
    case NVC46F_MEM_OP_A: Word(NV_RAMFC_MEM_OP_A) = data; return Outcome::kContinue;
    case NVC46F_MEM_OP_B: Word(NV_RAMFC_MEM_OP_B) = data; return Outcome::kContinue;
    case NVC46F_MEM_OP_C: Word(NV_RAMFC_MEM_OP_C) = data; return Outcome::kContinue;
    case NVC46F_MEM_OP_D: return MemOpD(data);
    case NVC46F_SET_REFERENCE:
      if (EngineBusy()) return Outcome::kBlocked;
      Word(NV_RAMFC_REF) = data;
      return Outcome::kContinue;
    case NVC46F_SEM_ADDR_LO: Word(NV_RAMFC_SEM_ADDR_LO) = data; return Outcome::kContinue;
    case NVC46F_SEM_ADDR_HI: Word(NV_RAMFC_SEM_ADDR_HI) = data; return Outcome::kContinue;
    case NVC46F_SEM_PAYLOAD_LO: Word(NV_RAMFC_SEM_PAYLOAD_LO) = data; return Outcome::kContinue;
    case NVC46F_SEM_PAYLOAD_HI: Word(NV_RAMFC_SEM_PAYLOAD_HI) = data; return Outcome::kContinue;
    case NVC46F_SEM_EXECUTE: return SemExecute(data, now);
    case NVC46F_WFI: return EngineBusy() ? Outcome::kBlocked : Outcome::kContinue;
    case NVC46F_CRC_CHECK:
      return data == 0 ? Outcome::kContinue : Raise(TS104_FIELD(NV_PPBDMA_INTR_0_METHODCRC));
    case NVC46F_YIELD:
      switch (TS104_GET(NVC46F_YIELD_OP, data)) {
        case NVC46F_YIELD_OP_NOP: return Outcome::kContinue;
        case NVC46F_YIELD_OP_RUNLIST_TIMESLICE: return Outcome::kYieldTimeslice;
        case NVC46F_YIELD_OP_TSG: return Outcome::kYieldChannel;
        default: return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_METHOD));
      }
    case NVC46F_CLEAR_FAULTED: return ClearFaulted(data, now);
    default: return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_METHOD));
  }
}

Pbdma::Outcome Pbdma::SemExecute(uint32_t data, uint64_t now) {
  Word(NV_RAMFC_SEM_EXECUTE) = data;
  switch (TS104_GET(NVC46F_SEM_EXECUTE_OPERATION, data)) {
    case NVC46F_SEM_EXECUTE_OPERATION_RELEASE:
    case NVC46F_SEM_EXECUTE_OPERATION_REDUCTION: return Release(data, now);
    case NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE:
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_STRICT_GEQ:
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_CIRC_GEQ:
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_AND:
    case NVC46F_SEM_EXECUTE_OPERATION_ACQ_NOR: return Acquire(data, now);
    default: return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_SEMAPHORE));
  }
}

Pbdma::Outcome Pbdma::Release(uint32_t data, uint64_t now) {
  SemaphoreRelease release;
  release.va =
      (uint64_t{Word(NV_RAMFC_SEM_ADDR_HI) & 0xff} << 32) | (Word(NV_RAMFC_SEM_ADDR_LO) & ~3u);
  release.wide = TS104_GET(NVC46F_SEM_EXECUTE_PAYLOAD_SIZE, data) != 0;
  release.timestamp = TS104_GET(NVC46F_SEM_EXECUTE_RELEASE_TIMESTAMP, data) != 0;
  release.payload = (uint64_t{Word(NV_RAMFC_SEM_PAYLOAD_HI)} << 32) | Word(NV_RAMFC_SEM_PAYLOAD_LO);
  const uint64_t alignment = release.timestamp ? 16 : release.wide ? 8 : 4;
  bool valid = release.va % alignment == 0;
  if (TS104_GET(NVC46F_SEM_EXECUTE_OPERATION, data) == NVC46F_SEM_EXECUTE_OPERATION_REDUCTION) {
    const uint32_t code = TS104_GET(NVC46F_SEM_EXECUTE_REDUCTION, data);
    const bool is_signed = TS104_GET(NVC46F_SEM_EXECUTE_REDUCTION_FORMAT, data) ==
                           NVC46F_SEM_EXECUTE_REDUCTION_FORMAT_SIGNED;
    valid = valid && code <= NVC46F_SEM_EXECUTE_REDUCTION_DEC;
    if (release.wide) {
      valid = valid && code < NVC46F_SEM_EXECUTE_REDUCTION_INC &&
              !(code == NVC46F_SEM_EXECUTE_REDUCTION_IADD && is_signed);
    }
    release.reduction = Reduction{static_cast<ReduceOp>(code), is_signed};
  }
  if (!valid) return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_SEMAPHORE));
  if (TS104_GET(NVC46F_SEM_EXECUTE_RELEASE_WFI, data) == NVC46F_SEM_EXECUTE_RELEASE_WFI_EN &&
      EngineBusy()) {
    return Outcome::kBlocked;
  }
  if (auto fault = ReleaseSemaphore(machine_.mmu, channel_->space, release, now)) {
    return HostFault(*fault, now);
  }
  ++machine_.semaphore_releases;
  return Outcome::kContinue;
}

Pbdma::Outcome Pbdma::Acquire(uint32_t data, uint64_t now) {
  AcquireTest test;
  test.space = channel_->space;
  test.operation = TS104_GET(NVC46F_SEM_EXECUTE_OPERATION, data);
  test.wide = TS104_GET(NVC46F_SEM_EXECUTE_PAYLOAD_SIZE, data) != 0;
  test.va =
      (uint64_t{Word(NV_RAMFC_SEM_ADDR_HI) & 0xff} << 32) | (Word(NV_RAMFC_SEM_ADDR_LO) & ~3u);
  test.payload = (uint64_t{Word(NV_RAMFC_SEM_PAYLOAD_HI)} << 32) | Word(NV_RAMFC_SEM_PAYLOAD_LO);
  if (test.va % (test.wide ? 8 : 4) != 0) return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_SEMAPHORE));

  uint64_t value = 0;
  uint32_t narrow = 0;
  const auto fault = test.wide ? machine_.mmu.ReadValue(test.space, test.va, value)
                               : machine_.mmu.ReadValue(test.space, test.va, narrow);
  if (fault.has_value()) return HostFault(*fault, now);
  if (!test.wide) value = narrow;
  uint32_t& deadline = Word(NV_RAMFC_ACQUIRE_DEADLINE);
  if (AcquireMatches(test.operation, value, test.payload, test.wide)) {
    deadline = 0;
    return Outcome::kContinue;
  }

  const uint32_t timing = Word(NV_RAMFC_ACQUIRE);
  acquire_ = AcquireWait();
  acquire_.test = test;
  acquire_.switch_tsg = TS104_GET(NVC46F_SEM_EXECUTE_ACQUIRE_SWITCH_TSG, data) != 0;
  acquire_.retry_ns =
      std::max<uint64_t>(kMinRetryNs, (uint64_t{TS104_GET(NV_RAMFC_ACQUIRE_RETRY_MAN, timing)}
                                       << TS104_GET(NV_RAMFC_ACQUIRE_RETRY_EXP, timing)) *
                                          kTickNs);
  if (TS104_GET(NV_RAMFC_ACQUIRE_TIMEOUT_EN, timing) == 0) {
    deadline = 0;
    return Outcome::kAcquireFailed;
  }
  if (deadline == 0) {
    const uint64_t timeout = (uint64_t{TS104_GET(NV_RAMFC_ACQUIRE_TIMEOUT_MAN, timing)}
                              << TS104_GET(NV_RAMFC_ACQUIRE_TIMEOUT_EXP, timing)) *
                             kTickNs;
    // Kept in whole ticks, as the RAMFC word is.
    deadline = PackDeadline(now + timeout + kTickNs - 1);
  }
  acquire_.deadline = UnpackDeadline(deadline, now);
  if (now < acquire_.deadline) return Outcome::kAcquireFailed;
  deadline = 0;  // what is tried again after the interrupt has a new one
  return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_ACQUIRE));
}

void Pbdma::InvalidateTlb(uint32_t data, bool targeted) {
  const uint32_t a = Word(NV_RAMFC_MEM_OP_A);
  const uint32_t c = Word(NV_RAMFC_MEM_OP_C);
  TlbInvalidate what;
  what.all_directories =
      TS104_GET(NVC46F_MEM_OP_C_TLB_INVALIDATE_PDB, c) == NVC46F_MEM_OP_C_TLB_INVALIDATE_PDB_ALL;
  what.hub_only = TS104_GET(NVC46F_MEM_OP_C_TLB_INVALIDATE_GPC, c) != 0;
  const uint32_t aperture = TS104_GET(NVC46F_MEM_OP_C_TLB_INVALIDATE_PDB_APERTURE, c);
  const uint64_t hi = TS104_GET(NVC46F_MEM_OP_D_TLB_INVALIDATE_PDB_ADDR_HI, data);
  what.directory = {aperture == NVC46F_MEM_OP_C_TLB_INVALIDATE_PDB_APERTURE_VID_MEM
                        ? Aperture::kVid
                        : Aperture::kSys,
                    (hi << 32) | (c & TS104_FIELD(NVC46F_MEM_OP_C_TLB_INVALIDATE_PDB_ADDR_LO))};
  if (targeted) {
    const uint32_t log2_pages = TS104_GET(NVC46F_MEM_OP_A_TLB_INVALIDATE_INVALIDATION_SIZE, a);
    const uint64_t va = (uint64_t{Word(NV_RAMFC_MEM_OP_B)} << 32) |
                        (a & TS104_FIELD(NVC46F_MEM_OP_A_TLB_INVALIDATE_TARGET_ADDR_LO));
    what.SetRange(va, log2_pages);
  }
  machine_.mmu.Invalidate(what);
}

Pbdma::Outcome Pbdma::MemOpD(uint32_t data) {
  switch (TS104_GET(NVC46F_MEM_OP_D_OPERATION, data)) {
    case NVC46F_MEM_OP_D_OPERATION_MMU_TLB_INVALIDATE:
      if (!privileged()) break;
      InvalidateTlb(data, false);
      return Outcome::kContinue;
    case NVC46F_MEM_OP_D_OPERATION_MMU_TLB_INVALIDATE_TARGETED:
      if (!privileged()) break;
      InvalidateTlb(data, true);
      return Outcome::kContinue;
    case NVC46F_MEM_OP_D_OPERATION_ACCESS_COUNTER_CLR:
      if (!privileged()) break;
      return Outcome::kContinue;
    case NVC46F_MEM_OP_D_OPERATION_MEMBAR:
    case NVC46F_MEM_OP_D_OPERATION_L2_PEERMEM_INVALIDATE:
    case NVC46F_MEM_OP_D_OPERATION_L2_SYSMEM_INVALIDATE:
    case NVC46F_MEM_OP_D_OPERATION_L2_CLEAN_COMPTAGS:
    case NVC46F_MEM_OP_D_OPERATION_L2_FLUSH_DIRTY:
    case NVC46F_MEM_OP_D_OPERATION_L2_WAIT_FOR_SYS_PENDING_READS: return Outcome::kContinue;
    default: break;
  }
  return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_METHOD));
}

Pbdma::Outcome Pbdma::ClearFaulted(uint32_t data, uint64_t now) {
  const uint32_t chid = TS104_GET(NVC46F_CLEAR_FAULTED_CHID, data);
  if (!privileged() || chid >= ChannelRam::kChannels) {
    return Raise(TS104_FIELD(NV_PPBDMA_INTR_0_METHOD));
  }
  const std::lock_guard lock(machine_.state.mutex);
  Channel& channel = machine_.state.channels[chid];
  if (TS104_GET(NVC46F_CLEAR_FAULTED_TYPE, data) == NVC46F_CLEAR_FAULTED_TYPE_ENG_FAULTED) {
    channel.eng_faulted = false;
  } else {
    channel.pbdma_faulted = false;
  }
  machine_.state.PostWake(channel.runlist, now);
  return Outcome::kContinue;
}

}  // namespace ts104
