// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What the registers show of a runlist.
#include <algorithm>

#include "runlist.h"

namespace ts104 {

// With the lock held: the four idle conditions and their interrupts, which come on the change.
void Runlist::UpdateIdle() {
  bool runnable = pbdma_.loaded() || phase_ == Phase::kLoading || phase_ == Phase::kLeaving;
  bool acquiring = false;
  if (!runnable) {
    for (const Tsg& tsg : list_) {
      runnable = runnable || TsgRunnable(tsg);
      for (const uint32_t chid : tsg.chids) {
        const Channel& channel = machine_.state.channels[chid];
        acquiring = acquiring || (channel.acquiring && channel.enabled);
      }
    }
  }
  const bool engines_idle = !EnginesBusy();
  const bool idle = !runnable && !acquiring;
  acquiring = acquiring && !runnable;

  struct Condition {
    bool before;
    bool after;
    uint32_t enable;
    uint32_t detail;
  };
  const Condition conditions[] = {
      {was_idle_, idle, NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET, NV_PFIFO_INTR_RUNLIST_IDLE},
      {was_idle_ && engines_were_idle_, idle && engines_idle,
       NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_SET, NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE},
      {was_acquiring_, acquiring, NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_SET,
       NV_PFIFO_INTR_RUNLIST_ACQUIRE},
      {was_acquiring_ && engines_were_idle_, acquiring && engines_idle,
       NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_SET,
       NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE},
  };
  bool raised = false;
  for (const Condition& condition : conditions) {
    if (condition.before || !condition.after) continue;
    if ((machine_.state.Get(condition.enable) >> id_ & 1) == 0) continue;
    machine_.state.SetBits(condition.detail, 1u << id_);
    raised = true;
  }
  if (raised) machine_.state.UpdateInterrupts();
  was_idle_ = idle;
  was_acquiring_ = acquiring;
  engines_were_idle_ = engines_idle;
}

void Runlist::Publish(uint64_t delay) {
  const uint64_t next = NextEvent();
  const std::lock_guard lock(machine_.state.mutex);
  UpdateIdle();
  RunlistStatus& status = machine_.state.status[id_];
  status.tsgid = phase_ == Phase::kIdle ? 0 : loaded_.tsgid;
  status.next_tsgid = 0;
  switch (phase_) {
    case Phase::kIdle: status.ctx_status = NV_PFIFO_ENGINE_STATUS_CTX_STATUS_INVALID; break;
    case Phase::kLoading:
      status.ctx_status = switched_from_.has_value() ? NV_PFIFO_ENGINE_STATUS_CTX_STATUS_SWITCH
                                                     : NV_PFIFO_ENGINE_STATUS_CTX_STATUS_LOAD;
      status.tsgid = switched_from_.value_or(0);
      status.next_tsgid = loaded_.tsgid;
      break;
    case Phase::kActive: status.ctx_status = NV_PFIFO_ENGINE_STATUS_CTX_STATUS_VALID; break;
    case Phase::kLeaving: status.ctx_status = NV_PFIFO_ENGINE_STATUS_CTX_STATUS_SAVE; break;
  }
  status.channel_loaded = pbdma_.loaded();
  if (pbdma_.loaded()) {
    status.chid = pbdma_.channel().chid;
    status.inst = pbdma_.channel().inst;
    status.ramfc = pbdma_.ramfc();
  }
  for (size_t i = 0; i < engines_.size(); ++i) {
    const auto& owner = engines_[i]->owner();
    status.engine_busy[i] = engines_[i]->busy();
    status.engine_inst[i] = owner.has_value() ? owner->inst : 0;
    if (engines_[i]->busy()) {
      Channel& channel = machine_.state.channels[owner->chid];
      channel.on_engine = true;
      channel.loaded_on = id_;
    }
  }
  status.runlist_idle = was_idle_;
  status.acquire_pending = was_acquiring_;
  status.engines_idle = engines_were_idle_;
  status.active = phase_ == Phase::kActive || phase_ == Phase::kLeaving;
  status.function = loaded_.gfid;
  status.since = active_since_;
  status.until = next;
  machine_.state.runlist_lag_ns[id_] += delay;
}

}  // namespace ts104
