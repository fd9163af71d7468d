// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Turns: what all policies with shares have in common.
#pragma once

#include <cstdint>
#include <optional>

#include "base/vector.h"
#include "core/channel/runlist.h"
#include "core/sched/function_heap.h"
#include "core/sched/policy.h"

namespace turnstile {

// Every runlist is a lane in which one function at a time has its turn. Who is next: the least
// virtual time (start-time fair queueing): what a function used, divided by its weight. What it
// used is what it ran by the GPU's own clock, and long gaps in its turn while others waited; a
// context switch is nobody's. A context that leaves late is charged for it when its successor's
// turn ends.
//
// Lanes that conserve work know who is idle: a function that runs out of work keeps its turn for
// the hold time, then loses it; the doorbell notify tells when it is back. Others give turns to
// everybody with a list, work or not.
class TimeShare : public Policy {
 public:
  using Policy::Policy;

  base::Status Init() override;
  void Start() override;
  void ListChanged(base::RunlistId runlist, base::FunctionId function) override;
  void Doorbell(base::FunctionId function) override;
  void Idle(base::RunlistId runlist) override;
  void Timer() override;
  void ParamsChanged() override;
  bool wants_doorbells() const override { return true; }

 protected:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint64_t kScale = 4096;  // virtual time of 1 ns at weight 1
  static constexpr uint32_t kNobody = 0;    // has turns where shares are not given away

  struct Tenant {
    bool present = false;  // has a list
    bool ready = false;    // wants turns
    uint8_t cap = 100;     // percent
    uint32_t weight = 1;
    uint64_t vtime = 0;
    uint64_t remainder = 0;      // of the division by the weight
    int64_t debt = 0;            // adaptive round robin: ns to pay back; negative: to get
    uint64_t run = 0;            // FUNCTION_TIME when looked at last
    uint64_t eligible_at = 0;    // its cap forbids turns before
    uint64_t waiting_since = 0;  // 0: does not wait
  };
  struct Lane {
    uint32_t runlist = 0;
    base::DynArray<Tenant> tenants;
    FunctionHeap queue;   // ready, not current, by vtime
    FunctionHeap capped;  // ready, not current, by eligible_at
    FunctionHeap urgent;  // some of the queue, by deadline
    uint32_t present = 0;
    bool small_types = false;  // one of them is of a type of which a GPU has more than 8
    uint32_t current = kNobody;
    bool occupied = false;        // current has a turn (kNobody can)
    uint32_t previous = kNobody;  // may still be leaving
    uint32_t warm = kNobody;      // ran last and went idle: its context comes back for nothing
    uint64_t turn_begin = 0;      // when it was given
    uint64_t turn_start = 0;      // from when its length counts
    uint64_t turn_used = 0;
    uint64_t turn_run = 0;
    uint64_t target = 0;
    uint64_t marked_at = 0;        // used is known up to here
    uint32_t clock_ahead = 0;      // the host's clock less the runlist's, as read last
    uint64_t idle_since = 0;       // 0: is busy, as far as is known
    uint64_t preempt_at = kNever;  // somebody urgent takes over then
    uint64_t due = kNever;
    uint64_t vnow = 0;         // virtual time of the lane: of the last turn given
    uint64_t switch_left = 0;  // of the cost of the last switch, charged to nobody
    bool contended = false;    // somebody waited since marked_at
    bool watching = false;
    bool known_idle = false;  // State() has just said so
  };

  // ---- what makes a policy ----
  virtual bool conserving() const = 0;
  virtual uint32_t WeightOf(uint32_t function) const = 0;
  // What kNobody gets, 0: nothing.
  virtual uint32_t WeightOfNobody(const Lane&) const { return 0; }
  // Length of the function's next turn.
  virtual uint64_t TargetOf(const Lane& lane, Tenant& tenant);
  // `ns` were used in a turn.
  virtual void OnUsed(Lane& lane, uint32_t function, uint64_t ns) { Charge(lane, function, ns); }
  // `ns` were used after its end.
  virtual void OnLate(Lane& lane, uint32_t function, uint64_t ns) { OnUsed(lane, function, ns); }
  virtual void OnTurnEnd(Lane&, uint32_t /*function*/) {}
  virtual uint32_t CapOf(uint32_t) const { return 100; }
  // It was idle, has work now and is in the queue.
  virtual void OnWake(Lane&, uint32_t /*function*/, uint64_t /*now*/) {}

  void Charge(Lane& lane, uint32_t function, uint64_t ns);
  // Strict slices and those of weighted and latency.
  uint64_t DefaultSlice(const Lane& lane) const;
  // Whether defaults are those for types of which a GPU has more than 8 (GRID, "vGPUs per GPU").
  static bool Many(const Lane& lane) { return lane.small_types; }

 private:
  void Join(Lane& lane, uint32_t function, uint64_t now);
  void Leave(Lane& lane, uint32_t function, uint64_t now);
  void UpdateWeights(Lane& lane);
  void WakeUp(Lane& lane, uint32_t function, uint64_t now);
  void Enqueue(Lane& lane, uint32_t function, uint64_t now);
  void Dequeue(Lane& lane, uint32_t function);
  uint64_t Standstill(Lane& lane, uint64_t now);
  void Settle(Lane& lane, uint64_t now);
  bool EndTurn(Lane& lane);
  void RecordTurn(Lane& lane, bool busy, uint32_t next, uint64_t now);
  std::optional<uint32_t> Choose(Lane& lane, uint64_t now);
  void NextTurn(Lane& lane, uint64_t now);
  void BeginTurn(Lane& lane, uint32_t function, uint64_t now);
  void Vacate(Lane& lane, uint64_t now);
  bool MustEnd(Lane& lane, uint64_t now);
  void Reconsider(Lane& lane, uint64_t now);
  void HandleDue(Lane& lane, uint64_t now);
  void ReleaseCapped(Lane& lane, uint64_t now);
  uint64_t SliceEnd(const Lane& lane) const;
  void Watch(Lane& lane, bool on);
  void SetTimer(uint64_t now);
  void Rebase(Lane& lane);
  uint64_t HoldNs() const { return uint64_t{host_.params().hold_us} * 1000; }
  base::RunlistId Id(const Lane& lane) const { return base::RunlistId(lane.runlist); }

  Lane lanes_[kNumRunlists];
};

}  // namespace turnstile
