// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One runlist with its PBDMA and engines: which TSG is loaded, which channel fetches, when they
// change. behaviour.md §4.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_H_
#define TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine.h"
#include "pbdma.h"
#include "runlist_format.h"

namespace ts104 {

// A discrete-event machine: NextEvent says when something happens next, Run makes it happen. All
// times are of the modelled clock and only grow. Thread context: the worker. Takes the state's lock
// for decisions about channels and to publish results, never across memory accesses or work.
//
// A TSG whose channels have all become idle is saved at once, so memory holds everything; but it
// stays "warm": loading it next, with no other TSG loaded in between, costs no context switch.
class Runlist {
 public:
  Runlist(uint32_t id, Machine& machine, std::vector<std::unique_ptr<Engine>> engines);
  Runlist(const Runlist&) = delete;
  Runlist& operator=(const Runlist&) = delete;

  uint64_t NextEvent() const;
  // Everything that is due at `now`, and PBDMA work on to `horizon` as long as nobody else has
  // anything to do before.
  void Run(uint64_t now, uint64_t horizon);

  // Requests of software, already ordered by time.
  void Submit(uint64_t now);
  void PreemptRunlist(uint64_t now);
  // True: the TSG is loaded here and will leave; Machine::tsg_preempts is counted down then.
  bool PreemptTsg(uint32_t tsgid, uint64_t now);
  void Wake(uint64_t now);
  void ResetEngine(uint32_t engine, uint64_t now);

  // PFIFO or the device is reset: forgets everything, writes nothing back.
  void Reset();
  // Moves all times: the model could not keep up. False: nothing is running, nothing is late.
  bool Delay(uint64_t ns);

 private:
  enum class Phase : uint8_t {
    kIdle,     // no TSG is loaded
    kLoading,  // context switch to loaded_, until load_done_
    kActive,
    kLeaving,  // loaded_ shall be saved out; engines go on to their next preemption point
  };
  enum LeaveReason : uint32_t {
    kLeaveSlice = 1,
    kLeavePreempt = 2,     // RUNLIST_PREEMPT
    kLeaveTsgPreempt = 4,  // PREEMPT
    kLeaveEvict = 8,       // not in the list that was submitted
    kLeaveFault = 16,      // a channel of it is faulted
  };
  struct Waiter {
    AcquireWait wait;
    uint64_t retry_at = 0;  // kNever: its channel cannot run anyhow
  };
  static constexpr uint32_t kBatch = 256;  // PBDMA units in one Run

  // Scheduling (runlist.cc).
  void Schedule(uint64_t now);
  void FinishLoad(uint64_t now);
  void StartActive(uint64_t now);
  void StepActive(uint64_t now, uint64_t horizon);
  bool ShouldLeave(uint64_t now);
  void Reschedule(uint64_t now);
  void StartLeaving(uint64_t now);
  void StepLeaving(uint64_t now);
  void CheckSwitchTimeout(uint64_t now);
  void FinishLeaving(uint64_t now);
  void Unload(uint64_t now);
  void StopAccounting(uint64_t now);
  void SetSubmitInfo(bool valid, uint32_t tsgid, uint32_t offset);
  void CompletePreempt(bool was_loaded);
  void TakeRequest(uint64_t now);
  void Adopt(ParsedRunlist list, uint32_t offset);
  std::vector<RunlistEntry> FetchList(uint32_t base_lo, uint32_t base_hi, uint32_t length,
                                      bool& readable) const;
  // With the lock held:
  bool TsgRunnable(const Tsg& tsg) const;
  bool SchedulingAllowed() const;
  bool OtherRunnable() const;
  std::optional<size_t> NextRunnable() const;  // from cursor_ on
  uint64_t SwitchDeadline() const { return leave_since_ + switch_period_ns_; }

  // Channels and engines (runlist_channels.cc).
  void Recheck(uint64_t now);
  void Thaw(uint64_t now);
  bool InLoadedTsg(uint32_t chid) const;
  bool PickChannel(uint64_t now);
  void LoadChannel(uint32_t chid, uint32_t inst, uint64_t now);
  void ResumeEngines(uint64_t now);
  void TakeOff(uint64_t now);
  void RunPbdma(uint64_t now, uint64_t horizon);
  void OnPbdmaOutcome(Pbdma::Outcome outcome, uint64_t now);
  void OnChannelIdle(uint64_t now);
  void OnAcquireFailed(uint64_t now);
  void OnHostFault();
  void RunEngine(Engine& engine, uint64_t now);
  void OnEngineFault(Engine* engine, const FaultRecord& record, uint64_t now);
  void OnEngineIdle(Engine& engine, uint64_t now);
  void EvictEngines(uint64_t now);
  void SaveEngine(Engine& engine);
  void ReleaseChannel(uint32_t chid, bool from_pbdma);
  bool EnginesBusy() const;
  uint64_t PbdmaLimit(uint64_t horizon) const;
  void RetryWaiters(uint64_t now);
  bool HasHoldingWaiter() const;

  // What registers show (runlist_status.cc).
  // `delay`: by which all its times have just been shifted.
  void Publish(uint64_t delay = 0);
  void UpdateIdle();

  const uint32_t id_;
  Machine& machine_;
  std::vector<std::unique_ptr<Engine>> engines_;
  Pbdma pbdma_;

  Phase phase_ = Phase::kIdle;
  uint64_t now_ = 0;  // of the last Run or request
  std::vector<Tsg> list_;
  size_t cursor_ = 0;  // where the next search begins
  Tsg loaded_;         // unless kIdle
  std::optional<Tsg> warm_;
  std::optional<uint32_t> switched_from_;  // while kLoading
  uint64_t load_done_ = 0;
  uint64_t wake_at_ = kNever;
  uint64_t active_since_ = 0;

  uint64_t slice_end_ = 0;
  bool slice_armed_ = false;  // another TSG could run
  bool reschedule_ = false;   // a new list: take the TSG at the cursor
  uint32_t leave_reasons_ = 0;
  uint64_t leave_since_ = 0;
  uint64_t switch_period_ns_ = 0;  // ENG_CTXSW_TIMEOUT, kNever: no detection
  bool preempt_pending_ = false;

  size_t current_ = 0;    // index in loaded_.chids: the channel on the PBDMA, or the next one
  bool frozen_ = false;   // PBDMA interrupt
  bool blocked_ = false;  // PBDMA waits for an engine
  bool recheck_ = false;
  uint32_t evict_engines_ = 0;  // bit = position: work of a channel that was disabled
  uint64_t writeback_at_ = kNever;
  uint64_t writeback_period_ns_ = 0;

  std::map<uint32_t, Waiter> waiters_;  // by CHID
  uint64_t seen_releases_ = 0;
  bool was_idle_ = true;
  bool was_acquiring_ = false;
  bool engines_were_idle_ = true;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_H_
