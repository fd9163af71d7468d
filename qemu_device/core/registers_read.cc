// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <algorithm>
#include <array>

#include "register_alias.h"
#include "registers.h"

namespace ts104 {
namespace {

constexpr uint32_t kTimeLoMask = 0xffffffe0;  // 32 ns steps
constexpr uint32_t kTimeHiMask = 0x1fffffff;

bool In(uint32_t offset, uint32_t first, uint32_t count, uint32_t stride = 4) {
  return offset >= first && offset < first + count * stride;
}

uint32_t InstWord(uint32_t inst, bool valid) {
  if (!valid) return 0;
  return TS104_SET(NV_PFIFO_PBDMA_STATUS_INST_PTR, TS104_GET(NV_PCCSR_CHANNEL_INST_PTR, inst)) |
         TS104_SET(NV_PFIFO_PBDMA_STATUS_INST_TARGET,
                   TS104_GET(NV_PCCSR_CHANNEL_INST_TARGET, inst)) |
         TS104_SET(NV_PFIFO_PBDMA_STATUS_INST_VALID, 1);
}

// Position of an engine among those of its runlist.
uint32_t SlotOf(uint32_t engine) {
  uint32_t slot = 0;
  for (uint32_t e = 0; e < engine; ++e) {
    if (kEngineTable[e].runlist == kEngineTable[engine].runlist) ++slot;
  }
  return slot;
}

}  // namespace

uint32_t Registers::Read(uint32_t offset) {
  offset = ResolveAlias(offset);
  if (In(offset, NV_FUNC_BAR0_USERMODE_BASE, NV_FUNC_USERMODE_SIZE, 1)) {
    return ReadUsermode(offset - NV_FUNC_BAR0_USERMODE_BASE);
  }
  if (In(offset, NV_FUNC_USERMODE_BASE, NV_FUNC_USERMODE_SIZE, 1)) {
    return ReadUsermode(offset - NV_FUNC_USERMODE_BASE);
  }
  if (In(offset, NV_PCCSR_CHANNEL_INST(0), ChannelRam::kChannels, 8)) {
    const uint32_t chid = (offset - NV_PCCSR_CHANNEL_INST(0)) / 8;
    return offset % 8 == 0 ? state_.channels.ReadInst(chid) : state_.channels.ReadChannel(chid);
  }
  if (In(offset, NV_CTRL_TOP(0), NV_CTRL_LEAF_EN_CLEAR(1024) - NV_CTRL_TOP(0), 1)) {
    return ReadInterruptTree(offset);
  }
  const auto at = state_.regs.map().Find(offset);
  if (at.info == nullptr || (at.info->flags & hwreg::kWriteOnly) != 0) return 0;
  return ReadDynamic(*at.info, at.index, state_.Get(offset));
}

uint32_t Registers::ReadInterruptTree(uint32_t offset) const {
  const auto index = [offset](uint32_t first) { return (offset - first) / 4; };
  constexpr uint32_t kFunctions = InterruptTree::kFunctions;
  if (In(offset, NV_CTRL_TOP(0), kFunctions)) return state_.tree.Top(index(NV_CTRL_TOP(0)));
  if (In(offset, NV_CTRL_TOP_EN_SET(0), kFunctions)) {
    return state_.tree.TopEnable(index(NV_CTRL_TOP_EN_SET(0)));
  }
  if (In(offset, NV_CTRL_TOP_EN_CLEAR(0), kFunctions)) {
    return state_.tree.TopEnable(index(NV_CTRL_TOP_EN_CLEAR(0)));
  }
  if (In(offset, NV_CTRL_LEAF(0), 1024)) {
    const uint32_t i = index(NV_CTRL_LEAF(0));
    return state_.tree.Leaf(i / 16, i % 16);
  }
  for (const uint32_t first : {NV_CTRL_LEAF_EN_SET(0), NV_CTRL_LEAF_EN_CLEAR(0)}) {
    if (!In(offset, first, 1024)) continue;
    const uint32_t i = index(first);
    return state_.tree.LeafEnable(i / 16, i % 16);
  }
  return 0;
}

uint32_t Registers::ReadUsermode(uint32_t offset) const {
  const uint64_t now = state_.Now();
  switch (offset) {
    case NV_USERMODE_CFG0: return 0xc461;
    case NV_USERMODE_TIME_0: return static_cast<uint32_t>(now) & kTimeLoMask;
    case NV_USERMODE_TIME_1: return static_cast<uint32_t>(now >> 32) & kTimeHiMask;
    default: return 0;
  }
}

uint32_t Registers::ReadDynamic(const hwreg::RegisterInfo& info, uint32_t index, uint32_t stored) {
  const uint32_t base = info.offset;
  if (base >= 0x2000 && base < 0x4000) return ReadPfifo(base, index, stored);
  if (base >= 0x40000 && base < 0x60000) return ReadPbdma(base, index, stored);
  if (base >= NV_TS104_ID && base < NV_TS104_ID + 0x1000) return ReadTs104(base, index, stored);
  switch (base) {
    case NV_PMC_INTR(0): return state_.PmcIntr(index);
    case NV_PTIMER_TIME_0: return ReadUsermode(NV_USERMODE_TIME_0);
    case NV_PTIMER_TIME_1: return ReadUsermode(NV_USERMODE_TIME_1);
    case NV_PTOP_DEVICE_INFO(0): return DeviceInfo(index);
    case NV_PFB_PRI_MMU_INVALIDATE:
      return (stored & ~TS104_FIELD(NV_PFB_PRI_MMU_INVALIDATE_TRIGGER)) |
             TS104_SET(NV_PFB_PRI_MMU_INVALIDATE_TRIGGER, state_.invalidate_pending);
    case NV_PFB_PRI_MMU_FAULT_STATUS: return faults_.ReadStatus();
    case NV_CTRL_VIRTUAL_INTR_LEAF(0): return state_.tree.VirtualLeaf(index);
    case NV_CTRL_VIRTUAL_INTR_LEAF_EN_SET(0):
    case NV_CTRL_VIRTUAL_INTR_LEAF_EN_CLEAR(0): return state_.tree.VirtualEnable(index);
    default: return stored;
  }
}

uint32_t Registers::EngineStatus(uint32_t engine) const {
  const RunlistStatus& status = state_.status[kEngineTable[engine].runlist];
  if (status.ctx_status == NV_PFIFO_ENGINE_STATUS_CTX_STATUS_INVALID) return 0;
  return TS104_SET(NV_PFIFO_ENGINE_STATUS_ID, status.tsgid) |
         TS104_SET(NV_PFIFO_ENGINE_STATUS_ID_TYPE, NV_PFIFO_ENGINE_STATUS_ID_TYPE_TSGID) |
         TS104_SET(NV_PFIFO_ENGINE_STATUS_CTX_STATUS, status.ctx_status) |
         TS104_SET(NV_PFIFO_ENGINE_STATUS_NEXT_ID, status.next_tsgid) |
         TS104_SET(NV_PFIFO_ENGINE_STATUS_NEXT_ID_TYPE, 1) |
         TS104_SET(NV_PFIFO_ENGINE_STATUS_ENGINE, status.engine_busy[SlotOf(engine)]);
}

uint32_t Registers::SchedStatus() const {
  bool switching = false;
  bool fetching = false;
  for (uint32_t r = 0; r < kRunlists; ++r) {
    switching = switching || state_.status[r].ctx_status >= NV_PFIFO_ENGINE_STATUS_CTX_STATUS_LOAD;
    fetching = fetching || state_.submit_pending[r];
  }
  return TS104_SET(NV_PFIFO_SCHED_STATUS_CHSW, switching) |
         TS104_SET(NV_PFIFO_SCHED_STATUS_RUNLIST_FETCH, fetching);
}

uint32_t Registers::RunlistInfo(uint32_t runlist) const {
  const RunlistStatus& status = state_.status[runlist];
  const auto armed = [this, runlist](uint32_t offset) { return state_.Get(offset) >> runlist & 1; };
  return TS104_SET(NV_PFIFO_RUNLIST_INFO_RUNLIST_IDLE_ARM,
                   armed(NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET)) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_RUNLIST_ACQUIRE_ARM,
                   armed(NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_SET)) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_RL_AND_ENG_IDLE_ARM,
                   armed(NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_SET)) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_RL_ACQUIRE_AND_ENG_IDLE_ARM,
                   armed(NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_SET)) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_ENG_IDLE, status.engines_idle) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_RUNLIST_IDLE, status.runlist_idle) |
         TS104_SET(NV_PFIFO_RUNLIST_INFO_ACQUIRE_STILL_PENDING, status.acquire_pending);
}

uint32_t Registers::ReadPfifo(uint32_t base, uint32_t index, uint32_t stored) const {
  const auto flags = [](const std::array<bool, kRunlists>& bits) {
    uint32_t value = 0;
    for (uint32_t r = 0; r < kRunlists; ++r) value |= uint32_t{bits[r]} << r;
    return value;
  };
  switch (base) {
    case NV_PFIFO_INTR_0: return state_.PfifoIntr0();
    case NV_PFIFO_INTR_PBDMA_ID: return state_.PbdmaIntrPending();
    case NV_PFIFO_PREEMPT:
      return stored | TS104_SET(NV_PFIFO_PREEMPT_PENDING, state_.tsg_preempt_pending);
    case NV_PFIFO_RUNLIST_PREEMPT: return flags(state_.preempt_pending);
    case NV_PFIFO_RUNLIST_SUBMIT_INFO(0):
      return stored | TS104_SET(NV_PFIFO_RUNLIST_SUBMIT_INFO_PENDING, state_.submit_pending[index]);
    case NV_PFIFO_SCHED_STATUS: return SchedStatus();
    case NV_PFIFO_ENGINE_STATUS(0): return EngineStatus(index);
    case NV_PFIFO_ENGINE_STATUS_INST(0): {
      const RunlistStatus& status = state_.status[kEngineTable[index].runlist];
      const uint32_t inst = status.engine_inst[SlotOf(index)];
      return InstWord(inst, inst != 0);
    }
    case NV_PFIFO_PBDMA_STATUS(0): {
      // The same shape as ENGINE_STATUS, without the engine's own bits.
      constexpr uint32_t kBits = TS104_FIELD(NV_PFIFO_PBDMA_STATUS_ID) |
                                 TS104_FIELD(NV_PFIFO_PBDMA_STATUS_ID_TYPE) |
                                 TS104_FIELD(NV_PFIFO_PBDMA_STATUS_CHAN_STATUS) |
                                 TS104_FIELD(NV_PFIFO_PBDMA_STATUS_NEXT_ID) |
                                 TS104_FIELD(NV_PFIFO_PBDMA_STATUS_NEXT_ID_TYPE);
      const uint32_t engine = index == 0 ? 0 : index + 1;
      return EngineStatus(engine) & kBits;
    }
    case NV_PFIFO_PBDMA_STATUS_INST(0):
      return InstWord(state_.status[index].inst, state_.status[index].channel_loaded);
    case NV_PFIFO_PBDMA_STATUS_USERD(0):
    case NV_PFIFO_PBDMA_STATUS_USERD_HI(0): {
      if (!state_.status[index].channel_loaded) return 0;
      const uint32_t word =
          base == NV_PFIFO_PBDMA_STATUS_USERD(0) ? NV_RAMFC_USERD : NV_RAMFC_USERD_HI;
      return state_.status[index].ramfc[word / 4];
    }
    case NV_PFIFO_RUNLIST_INFO(0): return RunlistInfo(index);
    default: return stored;
  }
}

uint32_t Registers::ReadPbdma(uint32_t base, uint32_t index, uint32_t stored) const {
  const RunlistStatus& status = state_.status[index];
  const uint32_t word = base - NV_PPBDMA_GP_PUT(0);
  if (base == NV_PPBDMA_CHANNEL(0)) {
    if (!status.channel_loaded) return 0;
    return TS104_SET(NV_PPBDMA_CHANNEL_CHID, status.chid) | TS104_SET(NV_PPBDMA_CHANNEL_VALID, 1);
  }
  // The words of RAMFC that are also registers. METHOD0 and DATA0 belong to software while the
  // PBDMA is frozen, and are kept in the bank.
  if (word >= 0x100) return stored;
  const bool is_method = base == NV_PPBDMA_METHOD0(0) || base == NV_PPBDMA_DATA0(0);
  if (is_method && state_.PbdmaFrozen(index)) return stored;
  return status.channel_loaded ? status.ramfc[word / 4] : 0;
}

uint32_t Registers::FunctionTime(uint32_t index) {
  const uint32_t runlist = index / InterruptTree::kFunctions;
  const uint32_t function = index % InterruptTree::kFunctions;
  uint64_t now = state_.function_ns[runlist][function];
  const RunlistStatus& status = state_.status[runlist];
  if (status.active && status.function == function) {
    const uint64_t until = std::min(state_.Now(), status.until);
    if (until > status.since) now += until - status.since;
  }
  // Who unloads the context may have looked at the clock before this reader did.
  uint64_t& time = state_.function_ns_read[runlist][function];
  time = std::max(time, now);
  state_.Set(NV_TS104_FUNCTION_TIME_HI(index), static_cast<uint32_t>(time >> 32));
  return static_cast<uint32_t>(time);
}

// What is due before `until` is not yet worked out: the runlist's clock waits for it.
uint32_t Registers::RunlistTime(uint32_t runlist) {
  const uint64_t until = state_.status[runlist].until;
  uint64_t& time = state_.runlist_time_read[runlist];
  time = std::max(time, std::min(state_.Now(), until) - state_.runlist_lag_ns[runlist]);
  state_.Set(NV_TS104_RUNLIST_TIME_HI(runlist), static_cast<uint32_t>(time >> 32));
  return static_cast<uint32_t>(time);
}

uint32_t Registers::ReadTs104(uint32_t base, uint32_t index, uint32_t stored) {
  switch (base) {
    case NV_TS104_LAG_NS_LO:
      state_.Set(NV_TS104_LAG_NS_HI, static_cast<uint32_t>(state_.lag_ns >> 32));
      return static_cast<uint32_t>(state_.lag_ns);
    case NV_TS104_INSTRUCTIONS_LO:
      state_.Set(NV_TS104_INSTRUCTIONS_HI, static_cast<uint32_t>(state_.instructions >> 32));
      return static_cast<uint32_t>(state_.instructions);
    case NV_TS104_RUNLIST_TIME_LO(0): return RunlistTime(index);
    case NV_TS104_FUNCTION_TIME_LO(0): return FunctionTime(index);
    default: return stored;
  }
}

uint32_t Registers::DeviceInfo(uint32_t index) const {
  constexpr uint32_t kWords = 3;
  if (index >= kEngines * kWords) return 0;
  const uint32_t e = index / kWords;
  const EngineInfo& engine = kEngineTable[e];
  const uint32_t pri_base = engine.is_graphics ? 0x400000 : 0x104000;
  switch (index % kWords) {
    case 0:
      return TS104_SET(NV_PTOP_DEVICE_INFO_ENTRY, NV_PTOP_DEVICE_INFO_ENTRY_DATA) |
             TS104_SET(NV_PTOP_DEVICE_INFO_CHAIN, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_DATA_FAULT_ID_VALID, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_DATA_FAULT_ID, engine.fault_id) |
             TS104_SET(NV_PTOP_DEVICE_INFO_DATA_PRI_BASE, pri_base >> 12) |
             TS104_SET(NV_PTOP_DEVICE_INFO_DATA_INST_ID, engine.instance);
    case 1:
      return TS104_SET(NV_PTOP_DEVICE_INFO_ENTRY, NV_PTOP_DEVICE_INFO_ENTRY_ENUM) |
             TS104_SET(NV_PTOP_DEVICE_INFO_CHAIN, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_RESET_VALID, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_INTR_VALID, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_RUNLIST_VALID, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_ENGINE_VALID, 1) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_RESET, engine.pmc_bit) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_INTR, engine.pmc_bit) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_RUNLIST, engine.runlist) |
             TS104_SET(NV_PTOP_DEVICE_INFO_ENUM_ENGINE, e);
    default:
      return TS104_SET(NV_PTOP_DEVICE_INFO_ENTRY, NV_PTOP_DEVICE_INFO_ENTRY_ENGINE_TYPE) |
             TS104_SET(NV_PTOP_DEVICE_INFO_TYPE_ENUM, engine.is_graphics
                                                          ? NV_PTOP_DEVICE_INFO_TYPE_ENUM_GRAPHICS
                                                          : NV_PTOP_DEVICE_INFO_TYPE_ENUM_LCE);
  }
}

}  // namespace ts104
