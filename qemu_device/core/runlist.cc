// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "runlist.h"

#include <algorithm>
#include <utility>

namespace ts104 {
namespace {

constexpr uint64_t kTickNs = 1024;

bool SameTsg(const Tsg& a, const Tsg& b) { return a.tsgid == b.tsgid && a.gfid == b.gfid; }

}  // namespace

Runlist::Runlist(uint32_t id, Machine& machine, std::vector<std::unique_ptr<Engine>> engines)
    : id_(id), machine_(machine), engines_(std::move(engines)), pbdma_(id, machine, engines_) {}

uint64_t Runlist::NextEvent() const {
  uint64_t next = wake_at_;
  if (!waiters_.empty() && seen_releases_ != machine_.semaphore_releases) {
    next = std::min(next, machine_.time);
  }
  for (const auto& [chid, waiter] : waiters_) {
    next = std::min(
        {next, waiter.retry_at, waiter.retry_at == kNever ? kNever : waiter.wait.deadline});
  }
  switch (phase_) {
    case Phase::kIdle: break;
    case Phase::kLoading: next = std::min(next, load_done_); break;
    case Phase::kActive:
      for (const auto& engine : engines_) next = std::min(next, engine->due());
      if (pbdma_.loaded() && !frozen_) {
        if (!blocked_) next = std::min(next, pbdma_.due());
        next = std::min(next, writeback_at_);
      }
      if (slice_armed_ && !frozen_) next = std::min(next, slice_end_);
      break;
    case Phase::kLeaving:
      for (const auto& engine : engines_) {
        if (!engine->busy() || engine->CanSave(now_)) continue;
        next = std::min(next, engine->due());
        if (!engine->PreemptsPromptly()) next = std::min(next, SwitchDeadline());
      }
      break;
  }
  return next == kNever ? kNever : std::max(next, now_);
}

void Runlist::Run(uint64_t now, uint64_t horizon) {
  now_ = now;
  wake_at_ = kNever;
  if (phase_ == Phase::kIdle) switched_from_.reset();
  RetryWaiters(now);
  if (recheck_) Recheck(now);
  if (phase_ == Phase::kLoading && now >= load_done_) FinishLoad(now);
  if (phase_ == Phase::kActive) StepActive(now, horizon);
  if (phase_ == Phase::kLeaving) StepLeaving(now_);
  if (phase_ == Phase::kIdle) Schedule(now_);
  Publish();
}

bool Runlist::TsgRunnable(const Tsg& tsg) const {
  bool runnable = false;
  for (const uint32_t chid : tsg.chids) {
    const Channel& channel = machine_.state.channels[chid];
    if (channel.faulted()) return false;
    runnable = runnable || channel.Runnable(id_);
  }
  return runnable;
}

bool Runlist::SchedulingAllowed() const {
  return machine_.state.pfifo_enabled &&
         (machine_.state.Get(NV_PFIFO_SCHED_DISABLE) >> id_ & 1) == 0;
}

bool Runlist::OtherRunnable() const {
  if (!SchedulingAllowed()) return false;
  return std::any_of(list_.begin(), list_.end(),
                     [this](const Tsg& tsg) { return !SameTsg(tsg, loaded_) && TsgRunnable(tsg); });
}

std::optional<size_t> Runlist::NextRunnable() const {
  for (size_t i = 0; i < list_.size(); ++i) {
    const size_t index = (cursor_ + i) % list_.size();
    if (TsgRunnable(list_[index])) return index;
  }
  return std::nullopt;
}

void Runlist::Schedule(uint64_t now) {
  {
    const std::lock_guard lock(machine_.state.mutex);
    if (frozen_) return;
    if (preempt_pending_) CompletePreempt(false);
    if (!SchedulingAllowed()) return;
    const auto next = NextRunnable();
    if (!next.has_value()) return;
    loaded_ = list_[*next];
    cursor_ = (*next + 1) % list_.size();
  }
  leave_reasons_ = 0;
  reschedule_ = false;
  current_ = 0;
  blocked_ = false;
  if (warm_.has_value() && SameTsg(*warm_, loaded_)) {
    switched_from_.reset();
    StartActive(now);
    return;
  }
  warm_.reset();
  phase_ = Phase::kLoading;
  load_done_ = now + uint64_t{machine_.state.config().ctxsw_us} * 1000;
}

void Runlist::FinishLoad(uint64_t now) {
  switched_from_.reset();
  StartActive(now);
}

void Runlist::StartActive(uint64_t now) {
  phase_ = Phase::kActive;
  active_since_ = now;
  slice_end_ = now + loaded_.timeslice_ns;
  wake_at_ = now;
  recheck_ = true;
}

void Runlist::StepActive(uint64_t now, uint64_t horizon) {
  if (recheck_) Recheck(now);
  // First what ends work, at the preemption point that an engine has reached; then more work.
  if (evict_engines_ != 0) EvictEngines(now);
  if (!frozen_) {
    if (reschedule_) Reschedule(now);
    if (ShouldLeave(now)) return StartLeaving(now);
  }
  for (const auto& engine : engines_) {
    if (engine->due() <= now) RunEngine(*engine, now);
  }
  if (frozen_) return;
  if (pbdma_.loaded() && now >= writeback_at_) {
    pbdma_.WriteBackUserd();
    writeback_at_ = now + writeback_period_ns_;
  }
  RunPbdma(now, horizon);
  if (phase_ == Phase::kActive && leave_reasons_ != 0 && !frozen_) StartLeaving(now_);
}

bool Runlist::ShouldLeave(uint64_t now) {
  if (leave_reasons_ != 0) return true;
  if (now < slice_end_) return false;
  if (slice_armed_) {
    const std::lock_guard lock(machine_.state.mutex);
    slice_armed_ = OtherRunnable();
  }
  if (!slice_armed_) {
    // Alone: on with a new slice.
    slice_end_ += ((now - slice_end_) / loaded_.timeslice_ns + 1) * loaded_.timeslice_ns;
    return false;
  }
  leave_reasons_ |= kLeaveSlice;
  return true;
}

// After a submit the slice of what runs has expired, and the cursor says who is next.
void Runlist::Reschedule(uint64_t now) {
  reschedule_ = false;
  if (leave_reasons_ != 0) return;
  const std::lock_guard lock(machine_.state.mutex);
  if (!SchedulingAllowed()) return;
  for (size_t i = 0; i < list_.size(); ++i) {
    const size_t index = (cursor_ + i) % list_.size();
    const bool is_loaded = SameTsg(list_[index], loaded_);
    if (is_loaded || TsgRunnable(list_[index])) {
      if (!is_loaded) {
        leave_reasons_ |= kLeaveSlice;
        return;
      }
      cursor_ = (index + 1) % list_.size();
      slice_end_ = now + loaded_.timeslice_ns;
      return;
    }
  }
}

void Runlist::StartLeaving(uint64_t now) {
  phase_ = Phase::kLeaving;
  leave_since_ = now;
  const std::lock_guard lock(machine_.state.mutex);
  const uint32_t timeout = machine_.state.Get(NV_PFIFO_ENG_CTXSW_TIMEOUT);
  const bool detect = TS104_GET(NV_PFIFO_ENG_CTXSW_TIMEOUT_DETECTION, timeout) != 0;
  switch_period_ns_ =
      detect ? TS104_GET(NV_PFIFO_ENG_CTXSW_TIMEOUT_PERIOD, timeout) * kTickNs : kNever - now;
}

void Runlist::StepLeaving(uint64_t now) {
  for (const auto& engine : engines_) {
    if (engine->busy() && !engine->CanSave(now) && engine->due() <= now) RunEngine(*engine, now);
  }
  CheckSwitchTimeout(now);
  for (const auto& engine : engines_) {
    if (!engine->CanSave(now)) return;
  }
  if (!frozen_) FinishLeaving(now);
}

void Runlist::CheckSwitchTimeout(uint64_t now) {
  if (now < SwitchDeadline()) return;
  for (const auto& engine : engines_) {
    if (!engine->busy() || engine->PreemptsPromptly()) continue;
    {
      const std::lock_guard lock(machine_.state.mutex);
      const uint32_t e = engine->index();
      machine_.state.Set(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO(e),
                         TS104_SET(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO_PREV_TSGID, loaded_.tsgid) |
                             TS104_SET(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO_CTXSW_STATE,
                                       NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO_CTXSW_STATE_SAVE) |
                             TS104_SET(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO_STATUS, 3));
      machine_.state.SetBits(NV_PFIFO_INTR_CTXSW_TIMEOUT, 1u << e);
      machine_.state.UpdateInterrupts();
    }
    FaultRecord record = MakeFaultRecord(*engine->owner(), engine->info().fault_id, now);
    record.type = FaultType::kCtxswTimeout;
    record.client = kClientContext;
    engine->DropWork();
    OnEngineFault(engine.get(), record, now);
  }
}

void Runlist::StopAccounting(uint64_t now) {
  machine_.state.function_ns[id_][loaded_.gfid] += now - active_since_;
  machine_.state.status[id_].active = false;
}

void Runlist::SetSubmitInfo(bool valid, uint32_t tsgid, uint32_t offset) {
  machine_.state.Set(NV_PFIFO_RUNLIST_SUBMIT_INFO(id_),
                     TS104_SET(NV_PFIFO_RUNLIST_SUBMIT_INFO_PREEMPTED_TSGID, tsgid) |
                         TS104_SET(NV_PFIFO_RUNLIST_SUBMIT_INFO_PREEMPTED_TSGID_VALID, valid) |
                         TS104_SET(NV_PFIFO_RUNLIST_SUBMIT_INFO_PREEMPTED_OFFSET, offset));
}

void Runlist::CompletePreempt(bool was_loaded) {
  preempt_pending_ = false;
  machine_.state.preempt_pending[id_] = false;
  if (was_loaded) {
    SetSubmitInfo(true, loaded_.tsgid, loaded_.header_index);
    for (size_t i = 0; i < list_.size(); ++i) {
      if (SameTsg(list_[i], loaded_)) cursor_ = i;
    }
  } else {
    SetSubmitInfo(false, 0, cursor_ < list_.size() ? list_[cursor_].header_index : 0);
  }
}

void Runlist::FinishLeaving(uint64_t now) {
  if (pbdma_.loaded()) TakeOff(now);
  for (const auto& engine : engines_) SaveEngine(*engine);
  {
    const std::lock_guard lock(machine_.state.mutex);
    StopAccounting(now);
    if ((leave_reasons_ & kLeaveEvict) != 0) {
      SetSubmitInfo(true, loaded_.tsgid, loaded_.header_index);
    }
    if (preempt_pending_) CompletePreempt(true);
    if ((leave_reasons_ & kLeaveTsgPreempt) != 0 && machine_.tsg_preempts != 0) {
      if (--machine_.tsg_preempts == 0) machine_.state.CompleteTsgPreempt();
    }
  }
  switched_from_ = loaded_.tsgid;
  leave_reasons_ = 0;
  evict_engines_ = 0;
  slice_armed_ = false;
  blocked_ = false;
  warm_.reset();
  phase_ = Phase::kIdle;
}

// Nothing is left to do for the loaded TSG, and all of it is saved.
void Runlist::Unload(uint64_t now) {
  {
    const std::lock_guard lock(machine_.state.mutex);
    StopAccounting(now);
  }
  warm_ = loaded_;
  switched_from_.reset();
  slice_armed_ = false;
  evict_engines_ = 0;
  phase_ = Phase::kIdle;
  wake_at_ = now;
}

std::vector<RunlistEntry> Runlist::FetchList(uint32_t base_lo, uint32_t base_hi, uint32_t length,
                                             bool& readable) const {
  std::vector<RunlistEntry> entries(std::min(length, kMaxRunlistEntries));
  const auto aperture = ApertureOfTarget(TS104_GET(NV_PFIFO_RUNLIST_BASE_LO_TARGET, base_lo));
  const uint64_t address = (uint64_t{TS104_GET(NV_PFIFO_RUNLIST_BASE_HI_PTR_HI, base_hi)} << 32) |
                           (base_lo & TS104_FIELD(NV_PFIFO_RUNLIST_BASE_LO_PTR_LO));
  const auto bytes = std::as_writable_bytes(std::span(entries));
  readable = bytes.empty() || (aperture.has_value() &&
                               machine_.memory.Read({*aperture, address}, bytes) == BusStatus::kOk);
  if (!readable) entries.clear();
  return entries;
}

// A request of `now` takes effect at the next event of a runlist that is behind the clock.
void Runlist::TakeRequest(uint64_t now) {
  const uint64_t at = phase_ == Phase::kIdle ? now : std::min(now, NextEvent());
  now_ = std::max(now_, at);
  wake_at_ = std::min(wake_at_, now_);
}

void Runlist::Submit(uint64_t now) {
  uint32_t sequence = 0;
  uint32_t submit = 0;
  uint32_t base_lo = 0;
  uint32_t base_hi = 0;
  {
    const std::lock_guard lock(machine_.state.mutex);
    sequence = machine_.state.submit_sequence[id_];
    submit = machine_.state.Get(NV_PFIFO_RUNLIST_SUBMIT(id_));
    base_lo = machine_.state.Get(NV_PFIFO_RUNLIST_BASE_LO(id_));
    base_hi = machine_.state.Get(NV_PFIFO_RUNLIST_BASE_HI(id_));
  }
  bool readable = false;
  const auto entries =
      FetchList(base_lo, base_hi, TS104_GET(NV_PFIFO_RUNLIST_SUBMIT_LENGTH, submit), readable);
  ParsedRunlist list = ParseRunlist(entries);
  const bool bad = list.bad || !readable;

  const std::lock_guard lock(machine_.state.mutex);
  // Written again meanwhile: that submit replaces this one, and its request is on the way.
  if (sequence != machine_.state.submit_sequence[id_]) return;
  TakeRequest(now);
  Adopt(std::move(list), TS104_GET(NV_PFIFO_RUNLIST_SUBMIT_OFFSET, submit));
  machine_.state.submit_pending[id_] = false;
  machine_.state.SetBits(NV_PFIFO_INTR_RUNLIST_EVENT, 1u << id_);
  if (bad) {
    machine_.state.Set(NV_PFIFO_SCHED_ERROR, NV_PFIFO_SCHED_ERROR_CODE_BAD_TSG);
    machine_.state.SetBits(NV_PFIFO_INTR_0, TS104_FIELD(NV_PFIFO_INTR_0_SCHED_ERROR));
  }
  machine_.state.UpdateInterrupts();
}

void Runlist::Adopt(ParsedRunlist list, uint32_t offset) {
  list_ = std::move(list.tsgs);
  cursor_ = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].header_index >= offset) {
      cursor_ = i;
      break;
    }
  }
  for (const Tsg& tsg : list_) {
    for (const uint32_t chid : tsg.chids) machine_.state.channels[chid].runlist = id_;
  }
  recheck_ = true;
  if (phase_ == Phase::kIdle) return;
  const auto found = std::find_if(list_.begin(), list_.end(),
                                  [this](const Tsg& tsg) { return SameTsg(tsg, loaded_); });
  if (found == list_.end()) {
    leave_reasons_ |= kLeaveEvict;
    return;
  }
  leave_reasons_ &= ~uint32_t{kLeaveEvict};
  loaded_ = *found;
  current_ = std::min(current_, loaded_.chids.size() - 1);
  reschedule_ = true;
}

void Runlist::PreemptRunlist(uint64_t now) {
  TakeRequest(now);
  preempt_pending_ = true;
  if (phase_ != Phase::kIdle) leave_reasons_ |= kLeavePreempt;
}

bool Runlist::PreemptTsg(uint32_t tsgid, uint64_t now) {
  if (phase_ == Phase::kIdle || loaded_.tsgid != tsgid) return false;
  TakeRequest(now);
  const bool first = (leave_reasons_ & kLeaveTsgPreempt) == 0;
  leave_reasons_ |= kLeaveTsgPreempt;
  if (first) ++machine_.tsg_preempts;
  return true;
}

void Runlist::Wake(uint64_t now) {
  TakeRequest(now);
  recheck_ = true;
}

void Runlist::ResetEngine(uint32_t engine_index, uint64_t now) {
  for (const auto& engine : engines_) {
    if (engine->index() != engine_index) continue;
    const auto owner = engine->owner();
    engine->Reset();
    const std::lock_guard lock(machine_.state.mutex);
    if (owner.has_value()) ReleaseChannel(owner->chid, false);
    if (!pbdma_.loaded()) continue;
    machine_.state.RaisePbdma(id_, TS104_FIELD(NV_PPBDMA_INTR_0_ENG_RESET), 0);
    machine_.state.Set(NV_PPBDMA_METHOD0(id_), pbdma_.ramfc()[NV_RAMFC_METHOD0 / 4]);
    machine_.state.Set(NV_PPBDMA_DATA0(id_), pbdma_.ramfc()[NV_RAMFC_DATA0 / 4]);
    frozen_ = true;
  }
  blocked_ = false;
  Wake(now);
}

void Runlist::Reset() {
  for (const auto& engine : engines_) engine->Reset();
  pbdma_.Drop();
  phase_ = Phase::kIdle;
  list_.clear();
  cursor_ = 0;
  warm_.reset();
  switched_from_.reset();
  wake_at_ = kNever;
  slice_armed_ = reschedule_ = frozen_ = blocked_ = recheck_ = preempt_pending_ = false;
  leave_reasons_ = evict_engines_ = 0;
  waiters_.clear();
  was_idle_ = engines_were_idle_ = true;
  was_acquiring_ = false;
}

bool Runlist::Delay(uint64_t ns) {
  if (phase_ == Phase::kIdle) return false;
  for (const auto& engine : engines_) engine->Delay(ns);
  pbdma_.Delay(ns);
  load_done_ += ns;
  active_since_ += ns;
  slice_end_ += ns;
  leave_since_ += ns;
  if (wake_at_ != kNever) wake_at_ += ns;
  if (writeback_at_ != kNever) writeback_at_ += ns;
  for (auto& [chid, waiter] : waiters_) {
    if (waiter.retry_at != kNever) waiter.retry_at += ns;
  }
  Publish(ns);
  return true;
}

}  // namespace ts104
