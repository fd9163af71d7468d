// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "copy_engine.h"
#include "gr_engine.h"

namespace ts104 {

Worker::Worker(DeviceState& state, const MemoryPort& memory, FaultBuffer& faults)
    : state_(state), mmu_(memory), machine_{state, memory, mmu_, faults} {
  for (uint32_t r = 0; r < kRunlists; ++r) {
    std::vector<std::unique_ptr<Engine>> engines;
    for (uint32_t e = 0; e < kEngines; ++e) {
      if (kEngineTable[e].runlist != r) continue;
      if (kEngineTable[e].is_graphics) {
        engines.push_back(std::make_unique<GrEngine>(e, machine_));
      } else {
        engines.push_back(std::make_unique<CopyEngine>(e, machine_));
      }
    }
    runlists_[r] = std::make_unique<Runlist>(r, machine_, std::move(engines));
  }
}

uint64_t Worker::EventsExcept(uint32_t runlist) const {
  uint64_t next = state_.request_time();
  for (uint32_t r = 0; r < kRunlists; ++r) {
    if (r != runlist) next = std::min(next, runlists_[r]->NextEvent());
  }
  return next;
}

uint64_t Worker::NextEvent() const { return EventsExcept(kRunlists); }

uint64_t Worker::CatchUp(Runlist& runlist, uint64_t due) {
  const uint64_t now = state_.Now();
  if (now <= due + kLagToleranceNs || !runlist.Delay(now - due)) return due;
  const std::lock_guard lock(state_.mutex);
  state_.lag_ns += now - due;
  return now;
}

void Worker::RunUntil(uint64_t end, bool paced) {
  while (!interrupted_.load(std::memory_order_acquire)) {
    const uint64_t request = state_.request_time();
    uint64_t due = request;
    uint32_t which = kRunlists;
    for (uint32_t r = 0; r < kRunlists; ++r) {
      const uint64_t event = runlists_[r]->NextEvent();
      if (event >= due) continue;
      due = event;
      which = r;
    }
    if (due > end || due == kNever) return;
    // Software does not wait until a runlist that is behind has caught up: with the clock at its
    // heels requests come first. Else all is done in order of time.
    if (which == kRunlists || (paced && request <= end)) {
      HandleRequests(paced ? NoticedAt(request) : request);
      continue;
    }
    Runlist& runlist = *runlists_[which];
    if (paced) due = CatchUp(runlist, due);
    machine_.time = std::max(machine_.time, due);
    const uint64_t horizon = std::min(end, EventsExcept(which));
    runlist.Run(machine_.time, std::max(horizon, machine_.time));
  }
}

// A request that is noticed late counts from now: the host was slow, not the model.
uint64_t Worker::NoticedAt(uint64_t request) const {
  const uint64_t now = state_.Now();
  return now > request + kLagToleranceNs ? now : request;
}

void Worker::FireAlarm() {
  state_.SetAlarm(kNever);
  state_.SetBits(NV_PTIMER_INTR_0, TS104_FIELD(NV_PTIMER_INTR_0_ALARM));
  if ((state_.Get(NV_PTIMER_INTR_EN_0) & TS104_FIELD(NV_PTIMER_INTR_EN_0_ALARM)) != 0) {
    state_.tree.Raise(0, NV_CTRL_VECTOR_PTIMER);
  }
  state_.UpdateInterrupts();
}

void Worker::HandleInvalidate(const TlbInvalidate& what) {
  mmu_.Invalidate(what);
  const std::lock_guard lock(state_.mutex);
  // A trigger that has come meanwhile has a request of its own.
  if (!state_.requests.invalidate.has_value()) state_.invalidate_pending = false;
}

void Worker::HandleRequests(uint64_t now) {
  Requests requests;
  {
    const std::lock_guard lock(state_.mutex);
    if (state_.alarm <= now) FireAlarm();
    requests = state_.TakeRequests();
  }
  if (requests.invalidate.has_value()) HandleInvalidate(*requests.invalidate);
  for (uint32_t e = 0; e < kEngines; ++e) {
    if ((requests.engine_resets >> e & 1) != 0) {
      runlists_[kEngineTable[e].runlist]->ResetEngine(e, now);
    }
  }
  for (uint32_t r = 0; r < kRunlists; ++r) {
    const RunlistRequest& request = requests.runlist[r];
    if (request.submit) runlists_[r]->Submit(now);
    if (request.preempt) runlists_[r]->PreemptRunlist(now);
    if (request.wake) runlists_[r]->Wake(now);
  }
  if (!requests.preempt_tsg.has_value()) return;
  bool loaded = false;
  for (const auto& runlist : runlists_) {
    loaded = runlist->PreemptTsg(*requests.preempt_tsg, now) || loaded;
  }
  if (loaded) return;
  const std::lock_guard lock(state_.mutex);
  state_.CompleteTsgPreempt();
}

void Worker::Reset(bool everything) {
  for (const auto& runlist : runlists_) runlist->Reset();
  machine_.tsg_preempts = 0;
  if (everything) mmu_.Reset();
}

}  // namespace ts104
