// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <algorithm>

#include "register_alias.h"
#include "registers.h"

namespace ts104 {
namespace {

bool In(uint32_t offset, uint32_t first, uint32_t count, uint32_t stride = 4) {
  return offset >= first && offset < first + count * stride;
}

}  // namespace

void Registers::Write(uint32_t offset, uint32_t value) {
  offset = ResolveAlias(offset);
  if (In(offset, NV_FUNC_BAR0_USERMODE_BASE, NV_FUNC_USERMODE_SIZE, 1)) {
    return WriteUsermode(0, offset - NV_FUNC_BAR0_USERMODE_BASE, value);
  }
  if (In(offset, NV_FUNC_USERMODE_BASE, NV_FUNC_USERMODE_SIZE, 1)) {
    return WriteUsermode(0, offset - NV_FUNC_USERMODE_BASE, value);
  }
  if (In(offset, NV_PCCSR_CHANNEL_INST(0), ChannelRam::kChannels, 8)) {
    return WriteChannel(offset, value);
  }
  if (WriteInterruptTree(offset, value)) return;
  (void)state_.regs.Write32(
      offset, value,
      [this, value](const hwreg::RegisterInfo& info, uint32_t index, uint32_t old_value,
                    uint32_t now) { OnWritten(info, index, old_value, value, now); });
}

bool Registers::WriteInterruptTree(uint32_t offset, uint32_t value) {
  InterruptTree& tree = state_.tree;
  const auto index = [offset](uint32_t first) { return (offset - first) / 4; };
  constexpr uint32_t kFunctions = InterruptTree::kFunctions;
  constexpr uint32_t kLeafRegisters = 1024;
  if (In(offset, NV_CTRL_LEAF(0), kLeafRegisters)) {
    const uint32_t i = index(NV_CTRL_LEAF(0));
    tree.ClearLeaf(i / 16, i % 16, value);
  } else if (In(offset, NV_CTRL_LEAF_EN_SET(0), kLeafRegisters)) {
    const uint32_t i = index(NV_CTRL_LEAF_EN_SET(0));
    tree.SetLeafEnable(i / 16, i % 16, value);
  } else if (In(offset, NV_CTRL_LEAF_EN_CLEAR(0), kLeafRegisters)) {
    const uint32_t i = index(NV_CTRL_LEAF_EN_CLEAR(0));
    tree.ClearLeafEnable(i / 16, i % 16, value);
  } else if (In(offset, NV_CTRL_TOP_EN_SET(0), kFunctions)) {
    tree.SetTopEnable(index(NV_CTRL_TOP_EN_SET(0)), value);
  } else if (In(offset, NV_CTRL_TOP_EN_CLEAR(0), kFunctions)) {
    tree.ClearTopEnable(index(NV_CTRL_TOP_EN_CLEAR(0)), value);
  } else if (In(offset, NV_CTRL_LEAF_TRIGGER(0), kFunctions)) {
    tree.Raise(index(NV_CTRL_LEAF_TRIGGER(0)), value & TS104_FIELD(NV_CTRL_LEAF_TRIGGER_VECTOR));
  } else if (In(offset, NV_CTRL_VIRTUAL_INTR_LEAF(0), 2)) {
    tree.ClearVirtualLeaf(index(NV_CTRL_VIRTUAL_INTR_LEAF(0)), value);
  } else if (In(offset, NV_CTRL_VIRTUAL_INTR_LEAF_EN_SET(0), 2)) {
    tree.SetVirtualEnable(index(NV_CTRL_VIRTUAL_INTR_LEAF_EN_SET(0)), value);
  } else if (In(offset, NV_CTRL_VIRTUAL_INTR_LEAF_EN_CLEAR(0), 2)) {
    tree.ClearVirtualEnable(index(NV_CTRL_VIRTUAL_INTR_LEAF_EN_CLEAR(0)), value);
  } else if (offset == NV_CTRL_VIRTUAL_INTR_RETRIGGER) {
    if (TS104_GET(NV_CTRL_VIRTUAL_INTR_RETRIGGER_TRIGGER, value) != 0) tree.RetriggerVirtual();
  } else {
    return false;
  }
  // Level sources set their bit again; and messages have to go out.
  state_.UpdateInterrupts();
  return true;
}

void Registers::WriteChannel(uint32_t offset, uint32_t value) {
  const uint32_t chid = (offset - NV_PCCSR_CHANNEL_INST(0)) / 8;
  const uint32_t runlist = state_.channels[chid].runlist;
  if (offset % 8 == 0) {
    const BindError error = state_.channels.WriteInst(chid, value);
    if (error != BindError::kNone) {
      state_.Set(NV_PFIFO_BIND_ERROR, static_cast<uint32_t>(error));
      state_.RaisePfifo(TS104_FIELD(NV_PFIFO_INTR_0_BIND_ERROR));
    }
  } else {
    state_.channels.WriteChannel(chid, value);
  }
  state_.PostWake(runlist, state_.Now());
}

void Registers::WakeAll() {
  for (uint32_t r = 0; r < kRunlists; ++r) state_.PostWake(r, state_.Now());
}

void Registers::OnWritten(const hwreg::RegisterInfo& info, uint32_t index, uint32_t old_value,
                          uint32_t value, uint32_t now) {
  const uint32_t base = info.offset;
  if (base >= 0x2000 && base < 0x4000) return OnPfifoWritten(base, index, old_value, value);
  switch (base) {
    case NV_PMC_INTR_EN_SET(0): state_.SetBits(NV_PMC_INTR_EN(index), value); break;
    case NV_PMC_INTR_EN_CLEAR(0):
      state_.Set(NV_PMC_INTR_EN(index), state_.Get(NV_PMC_INTR_EN(index)) & ~value);
      break;
    case NV_PMC_ENABLE: OnEngineEnable(old_value, now); return;
    case NV_PPBDMA_INTR_0(0):
    case NV_PPBDMA_INTR_1(0):
      if (!state_.PbdmaFrozen(index)) state_.PostWake(index, state_.Now());
      break;
    case NV_PTIMER_ALARM_0: OnAlarm(now); return;
    case NV_PFB_PRI_MMU_INVALIDATE: OnInvalidate(value); return;
    case NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0): faults_.OnGetWritten(index, old_value, value); return;
    case NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0): faults_.OnSizeWritten(index, old_value); return;
    case NV_PMC_INTR_SW(0):
    case NV_PPBDMA_INTR_EN_0(0):
    case NV_PPBDMA_INTR_EN_1(0):
    case NV_PTIMER_INTR_0:
    case NV_PTIMER_INTR_EN_0:
    case NV_PBUS_INTR:
    case NV_PBUS_INTR_EN:
    case NV_CE_LCE_INTR_STATUS(0):
    case NV_CE_LCE_INTR_EN(0): break;
    default: return;
  }
  state_.UpdateInterrupts();
}

void Registers::OnPfifoWritten(uint32_t base, uint32_t index, uint32_t old_value, uint32_t value) {
  const uint64_t now = state_.Now();
  switch (base) {
    case NV_PFIFO_INTR_0_MASK_SET:
      if ((value & TS104_FIELD(NV_PFIFO_INTR_0_MASK_SET_TSG_PREEMPT_COMPLETE)) != 0) {
        state_.tsg_preempt_reported = true;
      }
      return;
    case NV_PFIFO_INTR_0_MASK_CLEAR:
      if ((value & TS104_FIELD(NV_PFIFO_INTR_0_MASK_CLEAR_TSG_PREEMPT_COMPLETE)) != 0) {
        state_.tsg_preempt_reported = false;
      }
      return;
    case NV_PFIFO_SCHED_DISABLE: return WakeAll();
    case NV_PFIFO_PREEMPT:
      if (TS104_GET(NV_PFIFO_PREEMPT_TYPE, value) != NV_PFIFO_PREEMPT_TYPE_TSG) return;
      state_.tsg_preempt_pending = true;
      state_.requests.preempt_tsg = TS104_GET(NV_PFIFO_PREEMPT_ID, value);
      return state_.Post(now);
    case NV_PFIFO_RUNLIST_PREEMPT:
      for (uint32_t r = 0; r < kRunlists; ++r) {
        if ((value >> r & 1) == 0) continue;
        state_.preempt_pending[r] = true;
        state_.requests.runlist[r].preempt = true;
        state_.Post(now);
      }
      return;
    case NV_PFIFO_RUNLIST_SUBMIT(0):
      ++state_.submit_sequence[index];
      state_.submit_pending[index] = true;
      state_.requests.runlist[index].submit = true;
      return state_.Post(now);
    case NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET:
    case NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_SET:
    case NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_SET:
    case NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_SET: state_.SetBits(base, old_value); return;
    case NV_PFIFO_INTR_RUNLIST_IDLE_EN_CLEAR:
    case NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_CLEAR:
    case NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_CLEAR:
    case NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_CLEAR: {
      // The mask is the register before.
      constexpr uint32_t kDistance =
          NV_PFIFO_INTR_RUNLIST_IDLE_EN_CLEAR - NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET;
      state_.Set(base - kDistance, state_.Get(base - kDistance) & ~value);
      return;
    }
    default: state_.UpdateInterrupts();
  }
}

void Registers::OnEngineEnable(uint32_t old_value, uint32_t value) {
  state_.pfifo_enabled = (value >> NV_PMC_INTR_BIT_PFIFO & 1) != 0;
  for (uint32_t e = 0; e < kEngines; ++e) {
    const uint32_t bit = kEngineTable[e].pmc_bit;
    if ((value >> bit & 1) != 0) {
      state_.engines_enabled |= 1u << e;
      continue;
    }
    state_.engines_enabled &= ~(1u << e);
    if ((old_value >> bit & 1) != 0) state_.requests.engine_resets |= 1u << e;
  }
  state_.Post(state_.Now());
  WakeAll();
}

void Registers::OnInvalidate(uint32_t value) {
  if (TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_TRIGGER, value) == 0) return;
  TlbInvalidate what;
  what.all_directories = TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_ALL_PDB, value) != 0;
  what.hub_only = TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_HUBTLB_ONLY, value) != 0;
  const uint32_t pdb = state_.Get(NV_PFB_PRI_MMU_INVALIDATE_PDB);
  const uint64_t upper_pdb = state_.Get(NV_PFB_PRI_MMU_INVALIDATE_UPPER_PDB);
  what.directory = {
      TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_PDB_APERTURE, pdb) ==
              NV_PFB_PRI_MMU_INVALIDATE_PDB_APERTURE_VID
          ? Aperture::kVid
          : Aperture::kSys,
      (uint64_t{TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_PDB_ADDR, pdb)} << 12) | (upper_pdb << 40)};
  if (TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_ALL_VA, value) == 0) {
    const uint64_t va = (uint64_t{TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_VADDR_BITS,
                                            state_.Get(NV_PFB_PRI_MMU_INVALIDATE_VADDR))}
                         << 12) |
                        (uint64_t{state_.Get(NV_PFB_PRI_MMU_INVALIDATE_UPPER_VADDR)} << 40);
    const bool use_size = TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_USE_SIZE, value) != 0;
    what.SetRange(va, use_size ? TS104_GET(NV_PFB_PRI_MMU_INVALIDATE_SIZE_VAL,
                                           state_.Get(NV_PFB_PRI_MMU_INVALIDATE_SIZE))
                               : 0);
  }
  // One that is still waiting and this one become one that covers both.
  if (state_.requests.invalidate.has_value()) {
    what = TlbInvalidate();
    what.all_directories = true;
  }
  state_.requests.invalidate = what;
  state_.invalidate_pending = true;
  state_.Post(state_.Now());
}

void Registers::OnAlarm(uint32_t value) {
  const uint64_t now = state_.Now();
  const auto now_lo = static_cast<uint32_t>(now) & ~31u;
  state_.SetAlarm((now & ~uint64_t{31}) + static_cast<uint32_t>(value - now_lo));
}

void Registers::WriteUsermode(uint32_t function, uint32_t offset, uint32_t value) {
  if (offset == NV_USERMODE_NOTIFY_CHANNEL_PENDING) Doorbell(function, value);
}

// behaviour.md §3, "Doorbell window f".
void Registers::Doorbell(uint32_t function, uint32_t token) {
  constexpr uint32_t kTokenBits = TS104_FIELD(NV_USERMODE_NOTIFY_CHANNEL_PENDING_CHID) |
                                  TS104_FIELD(NV_USERMODE_NOTIFY_CHANNEL_PENDING_RUNLIST_ID);
  constexpr uint32_t kAnyRunlist = 15;
  if ((token & ~kTokenBits) != 0 || function >= InterruptTree::kFunctions) return;
  const uint32_t runlist = TS104_GET(NV_USERMODE_NOTIFY_CHANNEL_PENDING_RUNLIST_ID, token);
  if (runlist >= kRunlists && runlist != kAnyRunlist) return;
  const uint32_t config = state_.Get(NV_CTRL_VIRTUAL_CHANNEL_CFG(function));
  if (TS104_GET(NV_CTRL_VIRTUAL_CHANNEL_CFG_PENDING_ENABLE, config) == 0) return;
  const uint32_t chid = TS104_GET(NV_USERMODE_NOTIFY_CHANNEL_PENDING_CHID, token);
  if ((chid & ~TS104_GET(NV_CTRL_VIRTUAL_CHANNEL_CFG_MASK, config)) != 0) return;
  const uint32_t system_chid = chid | TS104_GET(NV_CTRL_VIRTUAL_CHANNEL_CFG_SET, config);
  Channel& channel = state_.channels[system_chid];
  if (runlist != kAnyRunlist && channel.runlist != kNoRunlist && channel.runlist != runlist) return;
  channel.pending = true;
  channel.rang = true;
  const uint32_t notify_offset = NV_CTRL_VIRTUAL_DOORBELL_NOTIFY(function);
  const uint32_t notify = state_.Get(notify_offset);
  const uint32_t runlists = TS104_GET(NV_CTRL_VIRTUAL_DOORBELL_NOTIFY_RUNLISTS, notify);
  const bool counts =
      runlists == 0 || channel.runlist == kNoRunlist || (runlists >> channel.runlist & 1) != 0;
  if (TS104_GET(NV_CTRL_VIRTUAL_DOORBELL_NOTIFY_ARM, notify) != 0 && counts) {
    state_.Set(notify_offset, TS104_FIELD(NV_CTRL_VIRTUAL_DOORBELL_NOTIFY_PENDING));
    state_.RaiseVector(0, NV_CTRL_VECTOR_CPU_DOORBELL);
  }
  state_.PostWake(channel.runlist, state_.Now());
}

}  // namespace ts104
