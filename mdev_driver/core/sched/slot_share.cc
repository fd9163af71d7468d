// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/slot_share.h"

namespace turnstile {

namespace {

constexpr int64_t kMaxDebt = 1'000'000'000;  // a hung kernel is not held against it for ever

int64_t Clamp(int64_t value, int64_t limit) {
  return value > limit ? limit : value < -limit ? -limit : value;
}

}  // namespace

uint64_t SlotShare::ArrSlice(const Lane& lane) const {
  const uint32_t hz = host_.params().frequency_hz;
  return uint64_t{1'000'000'000} / (hz != 0 ? hz : Many(lane) ? 960 : 480);
}

uint64_t SlotShare::TargetOf(const Lane& lane, Tenant& tenant) {
  if (!arr()) return DefaultSlice(lane);
  const auto slice = static_cast<int64_t>(ArrSlice(lane));
  const int64_t factor = host_.params().averaging_factor;
  const int64_t paid = Clamp(tenant.debt / factor, slice / 2);
  tenant.debt -= paid;
  return static_cast<uint64_t>(slice - paid);
}

void SlotShare::OnUsed(Lane& lane, uint32_t function, uint64_t ns) {
  if (!arr()) Charge(lane, function, ns);
}

void SlotShare::OnLate(Lane& lane, uint32_t function, uint64_t ns) {
  if (!arr()) return Charge(lane, function, ns);
  Tenant& tenant = lane.tenants[function];
  tenant.debt = Clamp(tenant.debt + static_cast<int64_t>(ns), kMaxDebt);
}

// All slices count alike, so it goes round; the difference is debt. What grows faster than slices
// can be shortened costs whole turns: on a host that answers late nobody's slice may be short
// enough.
void SlotShare::OnTurnEnd(Lane& lane, uint32_t function) {
  if (!arr()) return;
  Tenant& tenant = lane.tenants[function];
  const int64_t over = static_cast<int64_t>(lane.turn_used) - static_cast<int64_t>(lane.target);
  tenant.debt = Clamp(tenant.debt + over, kMaxDebt);
  const uint64_t slice = ArrSlice(lane);
  const auto payable = static_cast<int64_t>(slice / 2 * host_.params().averaging_factor);
  uint64_t slices = 1;
  if (tenant.debt > payable) {
    const uint64_t missed = static_cast<uint64_t>(tenant.debt - payable) / slice;
    tenant.debt -= static_cast<int64_t>(missed * slice);
    slices += missed;
  }
  Charge(lane, function, slices * slice);
}

}  // namespace turnstile
