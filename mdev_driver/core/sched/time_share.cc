// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/time_share.h"

namespace turnstile {

namespace {

constexpr uint32_t kManyUnits = 2;  // sixteenths of a GPU: with less there are more than 8
constexpr uint64_t kGapPart = 256;  // of the time in which it is: a gap that matters
constexpr uint64_t kShortPart = 8;  // of a turn: what may be missing at its end
constexpr uint64_t kRebaseAt = uint64_t{1} << 50;
constexpr uint64_t kMaxGapFactor = 64;  // late work that a turn makes up for, in targets

uint64_t Min(uint64_t a, uint64_t b) { return a < b ? a : b; }
uint64_t Max(uint64_t a, uint64_t b) { return a < b ? b : a; }
uint64_t Minus(uint64_t a, uint64_t b) { return a < b ? 0 : a - b; }

}  // namespace

base::Status TimeShare::Init() {
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    Lane& lane = lanes_[r];
    lane.runlist = r;
    TS_TRY(lane.tenants, base::DynArray<Tenant>::Create(host_.functions()));
    TS_TRY_STATUS(lane.queue.Init(host_.functions()));
    TS_TRY_STATUS(lane.capped.Init(host_.functions()));
    TS_TRY_STATUS(lane.urgent.Init(host_.functions()));
  }
  return base::Status::kOk;
}

void TimeShare::Start() {
  const uint64_t now = host_.Now().value();
  for (Lane& lane : lanes_) {
    for (uint32_t f = 1; f < host_.functions(); ++f) {
      const base::FunctionId function(f);
      if (host_.HasList(Id(lane), function)) Join(lane, f, now);
      host_.CompleteSubmit(Id(lane), function);
    }
    Reconsider(lane, now);
  }
  SetTimer(now);
}

// ---- who takes part ----

void TimeShare::ListChanged(base::RunlistId runlist, base::FunctionId function) {
  const uint64_t now = host_.Now().value();
  Lane& lane = lanes_[runlist.value()];
  const uint32_t f = function.value();
  Tenant& tenant = lane.tenants[f];
  const bool has = host_.HasList(runlist, function);
  if (has && tenant.present) {
    if (lane.occupied && lane.current == f) {
      host_.Refresh(runlist, function);
    } else if (!tenant.ready) {
      host_.ArmDoorbell(runlist, function);
      if (host_.HasWork(runlist, function)) WakeUp(lane, f, now);
    }
  } else if (has) {
    Join(lane, f, now);
  } else if (tenant.present) {
    Leave(lane, f, now);
  }
  host_.CompleteSubmit(runlist, function);
  Reconsider(lane, now);
  SetTimer(now);
}

void TimeShare::Join(Lane& lane, uint32_t f, uint64_t now) {
  Tenant& tenant = lane.tenants[f];
  tenant.present = true;
  tenant.ready = false;
  tenant.debt = 0;
  tenant.eligible_at = 0;
  tenant.run = host_.RunTime(Id(lane), base::FunctionId(f)).value();
  ++lane.present;
  UpdateWeights(lane);
  if (conserving()) {
    // First armed, then looked: a doorbell in between is seen at least once.
    host_.ArmDoorbell(Id(lane), base::FunctionId(f));
    if (!host_.HasWork(Id(lane), base::FunctionId(f))) return;
  }
  WakeUp(lane, f, now);
}

void TimeShare::Leave(Lane& lane, uint32_t f, uint64_t now) {
  Tenant& tenant = lane.tenants[f];
  Settle(lane, now);  // it may also be the one that is still leaving
  if (lane.occupied && lane.current == f) {
    RecordTurn(lane, false, kNobody, now);
    Vacate(lane, now);
  }
  if (lane.previous == f) lane.previous = kNobody;
  if (lane.warm == f) lane.warm = kNobody;
  Dequeue(lane, f);
  tenant.present = false;
  tenant.ready = false;
  tenant.waiting_since = 0;
  --lane.present;
  UpdateWeights(lane);
}

// The hardware gets an empty list.
void TimeShare::Vacate(Lane& lane, uint64_t now) {
  Settle(lane, now);
  lane.occupied = false;
  lane.current = kNobody;
  host_.Switch(Id(lane), base::FunctionId(0));
}

void TimeShare::UpdateWeights(Lane& lane) {
  lane.small_types = false;
  for (uint32_t f = 1; f < host_.functions(); ++f) {
    Tenant& tenant = lane.tenants[f];
    if (!tenant.present) continue;
    tenant.weight = WeightOf(f);
    tenant.cap = static_cast<uint8_t>(CapOf(f));
    if (host_.units(base::FunctionId(f)) < kManyUnits) lane.small_types = true;
  }
  Tenant& nobody = lane.tenants[kNobody];
  const uint32_t weight = lane.present == 0 ? 0 : WeightOfNobody(lane);
  if (weight != 0) nobody.weight = weight;
  if (weight != 0 && !nobody.present) {
    nobody.present = nobody.ready = true;
    nobody.vtime = Max(nobody.vtime, lane.vnow);
    lane.queue.Push(kNobody, nobody.vtime);
  } else if (weight == 0 && nobody.present) {
    nobody.present = nobody.ready = false;
    lane.queue.Remove(kNobody);
    if (lane.occupied && lane.current == kNobody) lane.occupied = false;
  }
}

void TimeShare::Enqueue(Lane& lane, uint32_t f, uint64_t now) {
  Tenant& tenant = lane.tenants[f];
  if (tenant.eligible_at > now) {
    lane.capped.Push(f, tenant.eligible_at);
  } else {
    lane.queue.Push(f, tenant.vtime);
  }
}

void TimeShare::Dequeue(Lane& lane, uint32_t f) {
  lane.queue.Remove(f);
  lane.capped.Remove(f);
  lane.urgent.Remove(f);
}

void TimeShare::WakeUp(Lane& lane, uint32_t f, uint64_t now) {
  Tenant& tenant = lane.tenants[f];
  if (tenant.ready || !tenant.present) return;
  // Known before anybody is charged for gaps that nobody waited in.
  Settle(lane, now);
  if (lane.occupied && lane.queue.empty()) {
    lane.vnow = Max(lane.vnow, lane.tenants[lane.current].vtime);
  }
  tenant.ready = true;
  tenant.vtime = Max(tenant.vtime, lane.vnow);  // sleeping earns nothing
  tenant.waiting_since = now;
  Enqueue(lane, f, now);
  if (lane.queue.Contains(f)) OnWake(lane, f, now);
}

void TimeShare::Doorbell(base::FunctionId function) {
  if (!conserving()) return;
  const uint64_t now = host_.Now().value();
  for (Lane& lane : lanes_) {
    const Tenant& tenant = lane.tenants[function.value()];
    if (!tenant.present || tenant.ready) continue;
    host_.ArmDoorbell(Id(lane), function);
    if (!host_.HasWork(Id(lane), function)) continue;
    WakeUp(lane, function.value(), now);
    Reconsider(lane, now);
  }
  SetTimer(now);
}

// ---- what was used ----

void TimeShare::Charge(Lane& lane, uint32_t f, uint64_t ns) {
  Tenant& tenant = lane.tenants[f];
  const uint64_t scaled = ns * kScale + tenant.remainder;
  tenant.vtime += scaled / tenant.weight;
  tenant.remainder = scaled % tenant.weight;
  if (tenant.cap < 100) {
    tenant.eligible_at = Max(tenant.eligible_at, lane.turn_start) + ns * 100 / tenant.cap;
  }
  if (lane.queue.Contains(f)) lane.queue.Push(f, tenant.vtime);
}

// By how much the host's clock has gained on the runlist's since this was asked last, or since the
// latter gained: in that time nobody had the GPU. A card's clock does not stand still; that of a
// model that is late does, and gains when the model catches up.
uint64_t TimeShare::Standstill(Lane& lane, uint64_t now) {
  const uint32_t ahead = static_cast<uint32_t>(now) - host_.Clock(Id(lane));
  const auto gained = static_cast<int32_t>(ahead - lane.clock_ahead);
  lane.clock_ahead = ahead;
  return gained > 0 ? static_cast<uint64_t>(gained) : 0;
}

// Charges everything up to now: two FUNCTION_TIMEs, one when the predecessor has left. A gap that
// matters is looked at by the runlist's clock too.
void TimeShare::Settle(Lane& lane, uint64_t now) {
  const uint64_t wall = now - lane.marked_at;
  lane.marked_at = now;
  if (!lane.occupied || wall == 0) return;
  uint64_t run = 0;
  if (lane.current != kNobody) {
    Tenant& tenant = lane.tenants[lane.current];
    const uint64_t total = host_.RunTime(Id(lane), base::FunctionId(lane.current)).value();
    run = Minus(total, tenant.run);
    tenant.run = total;
  }
  uint64_t late = 0;
  if (lane.previous != kNobody) {
    const base::FunctionId previous(lane.previous);
    Tenant& tenant = lane.tenants[lane.previous];
    const uint64_t total = host_.RunTime(Id(lane), previous).value();
    late = Minus(total, tenant.run);
    tenant.run = total;
    if (late != 0) {
      OnLate(lane, lane.previous, late);
      SchedAccount* account = host_.account(Id(lane), previous);
      if (account != nullptr) account->overshoot_ns += late;
    }
    // Nobody ran: the GPU may stand still with it.
    if (run != 0 || (late == 0 && lane.current == kNobody)) lane.previous = kNobody;
  }
  // More was run than the host's clock has counted: the runlist's has gained, its switch included.
  if (run + late > wall) {
    lane.clock_ahead -= static_cast<uint32_t>(run + late + lane.switch_left - wall);
  }
  uint64_t gap = Minus(wall, run + late);
  // Where work is conserved a gap is charged when somebody waited in it, and as far as it is longer
  // than the work before it: small gaps are nobody's fault, holding the GPU idle is.
  const uint64_t forgiven = !conserving() ? 0 : lane.contended ? run : gap;
  if (Minus(gap, lane.switch_left) > Max(forgiven, wall / kGapPart)) {
    gap = Minus(gap, Standstill(lane, now));
  }
  // Not all of it at once: it comes when the predecessor has left.
  const uint64_t switching = Min(gap, lane.switch_left);
  lane.switch_left -= switching;
  gap -= switching;
  const uint64_t used = run + Minus(gap, forgiven);
  lane.turn_run += run;
  lane.turn_used += used;
  if (used != 0) OnUsed(lane, lane.current, used);
}

// ---- turns ----

uint64_t TimeShare::SliceEnd(const Lane& lane) const { return lane.turn_start + lane.target; }

uint64_t TimeShare::TargetOf(const Lane& lane, Tenant&) { return DefaultSlice(lane); }

uint64_t TimeShare::DefaultSlice(const Lane& lane) const {
  const uint32_t us = host_.params().timeslice_us;
  if (us != 0) return uint64_t{us} * 1000;
  return Many(lane) ? 1'000'000 : 2'000'000;
}

// Whether the function has work left.
bool TimeShare::EndTurn(Lane& lane) {
  const uint32_t f = lane.current;
  Tenant& tenant = lane.tenants[f];
  OnTurnEnd(lane, f);
  bool busy = false;
  if (f != kNobody) {
    busy = !lane.known_idle && host_.State(Id(lane)) != RunlistState::kIdle;
    // A slice that ends in a gap shorter than the hold time ends nothing else: the function keeps
    // its claim, and what it is owed.
    if (conserving() && lane.known_idle) {
      // First armed, then looked at its channels: whoever rings after this look is noticed.
      host_.ArmDoorbell(Id(lane), base::FunctionId(f));
      busy = tenant.ready = host_.HasWork(Id(lane), base::FunctionId(f));
    }
  }
  return busy;
}

// The turn of the current function, which has ended, goes to its account and to the log.
void TimeShare::RecordTurn(Lane& lane, bool busy, uint32_t next, uint64_t now) {
  const uint32_t f = lane.current;
  ts_slice slice = {};
  slice.start_ns = lane.turn_begin;
  slice.timestamp_ns = now;
  slice.run_ns = lane.turn_run;
  slice.target_ns = lane.target;
  slice.function = f;
  SchedAccount* account = host_.account(Id(lane), base::FunctionId(f));
  if (f != kNobody && account != nullptr) {
    const bool preempted = busy && next != f;
    ++account->slices;
    account->run_ns = slice.total_run_ns = lane.tenants[f].run;
    if (preempted) ++account->preemptions;
    slice.preemptions = account->preemptions;
    slice.overshoot_ns = account->overshoot_ns;
    if (preempted) host_.Preempted(Id(lane), base::FunctionId(f), base::FunctionId(next));
  }
  host_.SliceEnded(Id(lane), slice);
}

// Who is next, the current function included if it wants another turn; nobody waits: nothing.
std::optional<uint32_t> TimeShare::Choose(Lane& lane, uint64_t now) {
  Tenant& tenant = lane.tenants[lane.current];
  bool again = lane.occupied && tenant.ready;
  if (again && tenant.eligible_at > now) {
    lane.capped.Push(lane.current, tenant.eligible_at);
    again = false;
  }
  if (!lane.urgent.empty()) {
    if (again) lane.queue.Push(lane.current, tenant.vtime);
    const uint32_t next = lane.urgent.Pop();
    lane.queue.Remove(next);
    return next;
  }
  if (again) return lane.queue.Exchange(lane.current, tenant.vtime);
  if (lane.queue.empty()) return std::nullopt;
  return lane.queue.Pop();
}

// The turn of the current function is over, and all is settled.
void TimeShare::NextTurn(Lane& lane, uint64_t now) {
  const uint32_t old = lane.current;
  const bool was_occupied = lane.occupied;
  const bool busy = was_occupied && EndTurn(lane);
  if (busy) {
    lane.warm = kNobody;
  } else if (was_occupied && lane.turn_run != 0) {
    lane.warm = old;
  }
  lane.known_idle = false;
  lane.preempt_at = kNever;
  const std::optional<uint32_t> next = Choose(lane, now);
  const bool found = next.has_value();
  if (was_occupied) {
    RecordTurn(lane, busy, next.value_or(kNobody), now);
    if (old != kNobody && busy && next != old) lane.tenants[old].waiting_since = now;
  }
  if (found) {
    const uint64_t idle_since = lane.idle_since;
    BeginTurn(lane, *next, now);
    if (!busy && next != old) lane.previous = kNobody;  // it has left already
    // Nothing ran when the list came: there may be no change to tell that it is idle.
    if (conserving() && !busy) {
      lane.idle_since = next == old ? idle_since : now + host_.switch_cost().value();
    }
  } else if (was_occupied) {
    Vacate(lane, now);
  }
}

void TimeShare::BeginTurn(Lane& lane, uint32_t f, uint64_t now) {
  Tenant& tenant = lane.tenants[f];
  if (lane.occupied && lane.current == f) {
    lane.turn_start = now;
  } else {
    if (lane.occupied && lane.current != kNobody) lane.previous = lane.current;
    if (lane.previous == f) lane.previous = kNobody;
    host_.Switch(Id(lane), base::FunctionId(f));
    const bool free = f == kNobody || f == lane.warm;
    lane.switch_left = free ? 0 : host_.switch_cost().value();
    lane.turn_start = now + lane.switch_left;
  }
  lane.occupied = true;
  lane.current = f;
  lane.turn_begin = lane.marked_at = now;
  lane.turn_used = lane.turn_run = 0;
  lane.idle_since = 0;
  lane.vnow = Max(lane.vnow, tenant.vtime);
  lane.target = TargetOf(lane, tenant);
  if (tenant.waiting_since != 0 && f != kNobody) {
    const uint64_t waited = now - tenant.waiting_since;
    tenant.waiting_since = 0;
    if (SchedAccount* account = host_.account(Id(lane), base::FunctionId(f)); account != nullptr) {
      account->wait_ns += waited;
      account->longest_wait_ns = Max(account->longest_wait_ns, waited);
    }
  }
  if (lane.vnow > kRebaseAt) Rebase(lane);
}

void TimeShare::Rebase(Lane& lane) {
  const uint64_t by = lane.vnow;
  for (Tenant& tenant : lane.tenants.span()) tenant.vtime = Minus(tenant.vtime, by);
  lane.queue.Rebase(by);
  lane.vnow = 0;
}

void TimeShare::ReleaseCapped(Lane& lane, uint64_t now) {
  while (!lane.capped.empty() && lane.capped.min_key() <= now) {
    const uint32_t f = lane.capped.Pop();
    lane.queue.Push(f, lane.tenants[f].vtime);
  }
}

// Looks at the lane after something has changed, and sets when to look again.
void TimeShare::Reconsider(Lane& lane, uint64_t now) {
  ReleaseCapped(lane, now);
  if (!lane.occupied && !lane.queue.empty()) NextTurn(lane, now);
  const uint64_t release = lane.capped.empty() ? kNever : lane.capped.min_key();
  if (!lane.occupied) {
    lane.due = release;
    return;
  }
  if (lane.queue.empty()) {
    // Alone: no slice, no switch; but a cap is one.
    Watch(lane, false);
    lane.contended = false;
    lane.due =
        Min(release, lane.tenants[lane.current].cap < 100 ? Max(SliceEnd(lane), now) : kNever);
    return;
  }
  lane.contended = true;
  if (conserving() && !lane.watching) {
    Watch(lane, true);
    // It has been idle for an unknown time: the hold time is over.
    if (lane.turn_start >= now) {
      lane.idle_since = lane.turn_start;  // its list may not even have been fetched
    } else if (host_.State(Id(lane)) == RunlistState::kIdle) {
      lane.known_idle = true;
      Settle(lane, now);
      NextTurn(lane, now);
    }
  }
  lane.due = Min(Max(SliceEnd(lane), now + 1), lane.preempt_at);
  if (lane.idle_since != 0) lane.due = Min(lane.due, lane.idle_since + HoldNs());
  lane.due = Min(lane.due, release);
}

bool TimeShare::MustEnd(Lane& lane, uint64_t now) {
  if (!lane.occupied) return false;
  if (lane.preempt_at <= now && !lane.urgent.empty()) return true;
  if (now >= SliceEnd(lane)) {
    Settle(lane, now);
    // Its predecessor left late, or the GPU stood still.
    const uint64_t missing = Minus(lane.target, lane.turn_used);
    if (missing <= lane.target / kShortPart ||
        now - lane.turn_start > kMaxGapFactor * lane.target) {
      return true;
    }
    lane.turn_start = now + missing - lane.target;
    return false;
  }
  if (!conserving() || lane.idle_since == 0 || now < lane.idle_since + HoldNs()) return false;
  const RunlistState state = host_.State(Id(lane));
  lane.known_idle = state == RunlistState::kIdle;
  if (state != RunlistState::kBusy) return true;
  lane.idle_since = 0;
  return false;
}

void TimeShare::HandleDue(Lane& lane, uint64_t now) {
  ReleaseCapped(lane, now);
  const bool alone =
      lane.queue.empty() && (!lane.occupied || lane.tenants[lane.current].cap == 100);
  if (!alone && MustEnd(lane, now)) {
    Settle(lane, now);
    NextTurn(lane, now);
  }
  Reconsider(lane, now);
}

void TimeShare::Timer() {
  const uint64_t now = host_.Now().value();
  for (Lane& lane : lanes_) {
    if (lane.due <= now) HandleDue(lane, now);
  }
  SetTimer(now);
}

void TimeShare::Idle(base::RunlistId runlist) {
  Lane& lane = lanes_[runlist.value()];
  if (!conserving() || !lane.occupied || !lane.watching) return;
  const uint64_t now = host_.Now().value();
  lane.idle_since = now;
  if (HoldNs() == 0) {
    HandleDue(lane, now);
  } else {
    Reconsider(lane, now);
  }
  SetTimer(now);
}

void TimeShare::ParamsChanged() {
  const uint64_t now = host_.Now().value();
  for (Lane& lane : lanes_) {
    Settle(lane, now);
    UpdateWeights(lane);
    for (uint32_t f = 1; f < host_.functions(); ++f) {
      Tenant& tenant = lane.tenants[f];
      if (!tenant.present) continue;
      if (tenant.cap == 100) tenant.eligible_at = 0;
      if (lane.capped.Contains(f)) {
        lane.capped.Remove(f);
        Enqueue(lane, f, now);
      }
      // A policy that gives turns to everybody has become one that does not, or the other way.
      if (!conserving()) WakeUp(lane, f, now);
    }
    if (lane.occupied && lane.current != kNobody) {
      lane.target = Min(lane.target, TargetOf(lane, lane.tenants[lane.current]));
    }
    Reconsider(lane, now);
  }
  SetTimer(now);
}

void TimeShare::Watch(Lane& lane, bool on) {
  if (lane.watching == on) return;
  lane.watching = on;
  host_.WatchIdle(Id(lane), on);
}

void TimeShare::SetTimer(uint64_t now) {
  uint64_t due = kNever;
  for (const Lane& lane : lanes_) due = Min(due, lane.due);
  host_.ArmTimer(base::Nanoseconds(due == kNever ? 0 : due > now ? due - now : 1));
}

}  // namespace turnstile
