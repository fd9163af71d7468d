// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Inside the loaded TSG: channels on and off the PBDMA, engines, failing acquires.
#include <algorithm>

#include "runlist.h"

namespace ts104 {

bool Runlist::InLoadedTsg(uint32_t chid) const {
  return std::find(loaded_.chids.begin(), loaded_.chids.end(), chid) != loaded_.chids.end();
}

bool Runlist::EnginesBusy() const {
  return std::any_of(engines_.begin(), engines_.end(),
                     [](const auto& engine) { return engine->busy(); });
}

// Something outside has changed: looks at everything a decision may depend on.
void Runlist::Recheck(uint64_t now) {
  recheck_ = false;
  bool thaw = false;
  bool take_off = false;
  {
    const std::lock_guard lock(machine_.state.mutex);
    thaw = frozen_ && !machine_.state.PbdmaFrozen(id_);
    for (auto& [chid, waiter] : waiters_) {
      const Channel& channel = machine_.state.channels[chid];
      const bool can_run = channel.enabled && channel.runlist == id_ && !channel.faulted();
      waiter.retry_at = !can_run ? kNever : waiter.retry_at == kNever ? now : waiter.retry_at;
    }
    if (phase_ == Phase::kActive || phase_ == Phase::kLeaving) {
      for (const uint32_t chid : loaded_.chids) {
        if (machine_.state.channels[chid].faulted()) leave_reasons_ |= kLeaveFault;
      }
      slice_armed_ = OtherRunnable();
      if (pbdma_.loaded()) {
        const uint32_t chid = pbdma_.channel().chid;
        const Channel& channel = machine_.state.channels[chid];
        take_off = !channel.enabled || channel.faulted() || !InLoadedTsg(chid);
      }
      for (size_t i = 0; i < engines_.size(); ++i) {
        const auto& owner = engines_[i]->owner();
        const bool evict = engines_[i]->busy() && (!machine_.state.channels[owner->chid].enabled ||
                                                   !InLoadedTsg(owner->chid));
        if (evict) evict_engines_ |= 1u << i;
      }
      for (const auto& engine : engines_) {
        const bool enabled = (machine_.state.engines_enabled >> engine->index() & 1) != 0;
        if (enabled && !engine->enabled()) blocked_ = false;
      }
    }
    for (const auto& engine : engines_) {
      engine->set_enabled((machine_.state.engines_enabled >> engine->index() & 1) != 0);
    }
  }
  if (thaw) Thaw(now);
  if (take_off && pbdma_.loaded() && !frozen_) TakeOff(now);
}

void Runlist::Thaw(uint64_t now) {
  frozen_ = false;
  if (!pbdma_.loaded()) return;
  if (pbdma_.bad_signature()) {
    const uint32_t chid = pbdma_.channel().chid;
    pbdma_.Drop();
    const std::lock_guard lock(machine_.state.mutex);
    ReleaseChannel(chid, true);
    leave_reasons_ |= kLeaveFault;
    return;
  }
  pbdma_.Thaw();
  pbdma_.DelayUntil(now);
  blocked_ = false;
}

// With the lock held: `chid` is off the PBDMA, or an engine has let go of it.
void Runlist::ReleaseChannel(uint32_t chid, bool from_pbdma) {
  Channel& channel = machine_.state.channels[chid];
  if (from_pbdma) {
    channel.on_pbdma = false;
  } else {
    channel.on_engine = false;
  }
  if (!channel.busy()) channel.loaded_on = kNoRunlist;
}

bool Runlist::PickChannel(uint64_t now) {
  uint32_t chid = 0;
  uint32_t inst = 0;
  {
    const std::lock_guard lock(machine_.state.mutex);
    const size_t count = loaded_.chids.size();
    size_t i = 0;
    while (i < count &&
           !machine_.state.channels[loaded_.chids[(current_ + i) % count]].Runnable(id_)) {
      ++i;
    }
    if (i == count) return false;
    current_ = (current_ + i) % count;
    chid = loaded_.chids[current_];
    Channel& channel = machine_.state.channels[chid];
    channel.on_pbdma = true;
    channel.loaded_on = id_;
    channel.rang = false;
    inst = channel.inst;
    const uint32_t period = machine_.state.Get(NV_PFIFO_USERD_WRITEBACK);
    writeback_period_ns_ = (uint64_t{TS104_GET(NV_PFIFO_USERD_WRITEBACK_TIMER, period)}
                            << TS104_GET(NV_PFIFO_USERD_WRITEBACK_TIMESCALE, period)) *
                           1000;
  }
  LoadChannel(chid, inst, now);
  return true;
}

void Runlist::LoadChannel(uint32_t chid, uint32_t inst, uint64_t now) {
  const Pbdma::Outcome outcome = pbdma_.Load(chid, inst, loaded_.gfid, now);
  blocked_ = false;
  writeback_at_ = kNever;
  if (outcome == Pbdma::Outcome::kHostFault) {
    const std::lock_guard lock(machine_.state.mutex);
    ReleaseChannel(chid, true);
    machine_.state.channels[chid].pbdma_faulted = true;
    leave_reasons_ |= kLeaveFault;
    return;
  }
  if (outcome == Pbdma::Outcome::kInterrupt) {
    frozen_ = true;
    if (pbdma_.bad_signature()) {
      const std::lock_guard lock(machine_.state.mutex);
      machine_.state.channels[chid].pbdma_faulted = true;
      return;
    }
  }
  if (pbdma_.wants_userd_writeback() && writeback_period_ns_ != 0) {
    writeback_at_ = now + writeback_period_ns_;
  }
  ResumeEngines(now);
}

void Runlist::ResumeEngines(uint64_t now) {
  for (const auto& engine : engines_) {
    if (engine->busy()) continue;
    if (engine->owner().has_value()) SaveEngine(*engine);
    const EngineResult result = engine->Resume(pbdma_.channel(), pbdma_.engine_words(), now);
    if (result.kind == EngineResult::Kind::kFault) {
      OnEngineFault(engine.get(), result.fault, now);
      if (!pbdma_.loaded()) return;
    }
  }
}

// Saves what an engine holds; its channel must be loaded again if work is left.
void Runlist::SaveEngine(Engine& engine) {
  if (!engine.owner().has_value()) return;
  const uint32_t chid = engine.owner()->chid;
  const bool unfinished = engine.Save();
  const std::lock_guard lock(machine_.state.mutex);
  if (unfinished) machine_.state.channels[chid].pending = true;
  ReleaseChannel(chid, false);
}

// The channel on the PBDMA is saved and leaves it.
void Runlist::TakeOff(uint64_t /*now*/) {
  const uint32_t chid = pbdma_.channel().chid;
  for (const auto& engine : engines_) {
    if (!engine->busy() && engine->HoldsContextOf(chid)) SaveEngine(*engine);
  }
  pbdma_.Save();
  blocked_ = false;
  const std::lock_guard lock(machine_.state.mutex);
  ReleaseChannel(chid, true);
}

void Runlist::EvictEngines(uint64_t now) {
  for (size_t i = 0; i < engines_.size(); ++i) {
    Engine& engine = *engines_[i];
    if ((evict_engines_ >> i & 1) == 0) continue;
    if (engine.busy() && !engine.CanSave(now)) continue;
    evict_engines_ &= ~(1u << i);
    SaveEngine(engine);
    blocked_ = false;
    if (pbdma_.loaded()) pbdma_.DelayUntil(now);
  }
}

uint64_t Runlist::PbdmaLimit(uint64_t horizon) const {
  uint64_t limit = std::min(horizon, writeback_at_);
  for (const auto& engine : engines_) limit = std::min(limit, engine->due());
  if (slice_armed_) limit = std::min(limit, slice_end_);
  for (const auto& [chid, waiter] : waiters_) limit = std::min(limit, waiter.retry_at);
  return limit;
}

void Runlist::RunPbdma(uint64_t now, uint64_t horizon) {
  uint64_t time = now;
  for (uint32_t i = 0; i < kBatch; ++i) {
    if (phase_ != Phase::kActive || frozen_ || blocked_ || leave_reasons_ != 0) return;
    if (!pbdma_.loaded()) {
      if (PickChannel(time)) continue;
      if (!EnginesBusy() && !HasHoldingWaiter()) Unload(time);
      return;
    }
    // At `now` itself work is due whatever the others have; beyond it they come first.
    if (pbdma_.due() > now && pbdma_.due() >= PbdmaLimit(horizon)) return;
    if (pbdma_.due() > horizon) return;
    time = std::max(now, pbdma_.due());
    now_ = time;
    machine_.time = time;
    const uint64_t releases = machine_.semaphore_releases;
    OnPbdmaOutcome(pbdma_.Step(time), time);
    if (releases != machine_.semaphore_releases) return;  // others may have waited for it
  }
}

void Runlist::OnPbdmaOutcome(Pbdma::Outcome outcome, uint64_t now) {
  switch (outcome) {
    case Pbdma::Outcome::kContinue: break;
    case Pbdma::Outcome::kIdle: OnChannelIdle(now); break;
    case Pbdma::Outcome::kBlocked: blocked_ = true; break;
    case Pbdma::Outcome::kAcquireFailed: OnAcquireFailed(now); break;
    case Pbdma::Outcome::kYieldChannel:
      if (loaded_.chids.size() > 1) {
        TakeOff(now);
        current_ = (current_ + 1) % loaded_.chids.size();
      }
      break;
    case Pbdma::Outcome::kYieldTimeslice: {
      const std::lock_guard lock(machine_.state.mutex);
      if (OtherRunnable()) leave_reasons_ |= kLeaveSlice;
      break;
    }
    case Pbdma::Outcome::kInterrupt: frozen_ = true; break;
    case Pbdma::Outcome::kHostFault: OnHostFault(); break;
    case Pbdma::Outcome::kEngineFault: OnEngineFault(nullptr, pbdma_.engine_fault(), now); break;
  }
}

void Runlist::OnChannelIdle(uint64_t now) {
  bool rang = false;
  {
    const std::lock_guard lock(machine_.state.mutex);
    Channel& channel = machine_.state.channels[pbdma_.channel().chid];
    rang = channel.rang;
    channel.rang = false;
    if (!rang) channel.pending = false;
  }
  if (rang) return OnPbdmaOutcome(pbdma_.ReadGpPut(now), now);
  TakeOff(now);
  current_ = (current_ + 1) % loaded_.chids.size();
}

void Runlist::OnAcquireFailed(uint64_t now) {
  const uint32_t chid = pbdma_.channel().chid;
  const AcquireWait& wait = pbdma_.acquire_wait();
  waiters_[chid] = {wait, now + wait.retry_ns};
  seen_releases_ = machine_.semaphore_releases;
  {
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.channels[chid].acquiring = true;
  }
  TakeOff(now);
  current_ = (current_ + 1) % loaded_.chids.size();
}

void Runlist::OnHostFault() {
  const uint32_t chid = pbdma_.channel().chid;
  {
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.channels[chid].pbdma_faulted = true;
  }
  TakeOff(now_);
  leave_reasons_ |= kLeaveFault;
}

// `engine` has done with its work (by its end, a fault or a reset).
void Runlist::OnEngineIdle(Engine& engine, uint64_t now) {
  blocked_ = false;
  if (pbdma_.loaded()) pbdma_.DelayUntil(now);
  if (!engine.owner().has_value()) return;
  const uint32_t chid = engine.owner()->chid;
  if (!pbdma_.loaded() || pbdma_.channel().chid != chid) return SaveEngine(engine);
  const std::lock_guard lock(machine_.state.mutex);
  ReleaseChannel(chid, false);
}

void Runlist::OnEngineFault(Engine* engine, const FaultRecord& record, uint64_t now) {
  if (engine == nullptr) {
    for (const auto& candidate : engines_) {
      if (candidate->info().fault_id == record.engine_id) engine = candidate.get();
    }
  }
  const uint32_t chid = engine->owner().has_value() ? engine->owner()->chid : pbdma_.channel().chid;
  {
    const std::lock_guard lock(machine_.state.mutex);
    machine_.state.channels[chid].eng_faulted = true;
  }
  machine_.faults.Push(record);
  OnEngineIdle(*engine, now);
  leave_reasons_ |= kLeaveFault;
  if (phase_ == Phase::kActive && !frozen_ && pbdma_.loaded() && pbdma_.channel().chid == chid) {
    TakeOff(now);
  }
}

void Runlist::RunEngine(Engine& engine, uint64_t now) {
  const bool leaving = phase_ == Phase::kLeaving;
  const uint64_t limit = slice_armed_ && !leaving ? slice_end_ : kNever;
  machine_.time = now;
  const EngineResult result = engine.Run(now, leaving, limit);
  if (result.kind == EngineResult::Kind::kDone) OnEngineIdle(engine, now);
  if (result.kind == EngineResult::Kind::kFault) OnEngineFault(&engine, result.fault, now);
  // Without its PBDMA's channel nothing else would look at the TSG again.
  if (!engine.busy() && phase_ == Phase::kActive) wake_at_ = now;
}

bool Runlist::HasHoldingWaiter() const {
  return std::any_of(waiters_.begin(), waiters_.end(), [this](const auto& entry) {
    return !entry.second.wait.switch_tsg && InLoadedTsg(entry.first);
  });
}

void Runlist::RetryWaiters(uint64_t now) {
  if (waiters_.empty()) return;
  const bool released = seen_releases_ != machine_.semaphore_releases;
  seen_releases_ = machine_.semaphore_releases;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    auto& [chid, waiter] = *it;
    const bool due = waiter.retry_at != kNever &&
                     (released || waiter.retry_at <= now || waiter.wait.deadline <= now);
    bool ready = false;
    if (due) {
      ready = waiter.wait.deadline <= now || waiter.wait.test.Succeeds(machine_.mmu);
      waiter.retry_at = now + waiter.wait.retry_ns;
    }
    const std::lock_guard lock(machine_.state.mutex);
    Channel& channel = machine_.state.channels[chid];
    // Unbound meanwhile: PCCSR has forgotten that it waits.
    if (!channel.acquiring || ready) {
      channel.acquiring = false;
      recheck_ = true;
      it = waiters_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace ts104
