// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/latency.h"

namespace turnstile {

void Latency::OnWake(Lane& lane, uint32_t function, uint64_t now) {
  const uint64_t bound = uint64_t{host_.vgpu_params(base::FunctionId(function)).latency_us} * 1000;
  if (bound == 0) return;
  const Tenant& tenant = lane.tenants[function];
  const bool current = lane.occupied && lane.current != kNobody;
  // In debt to the others it waits for its turn, or waking often would be worth more than weight.
  if (current && tenant.vtime > lane.tenants[lane.current].vtime) return;
  lane.urgent.Push(function, now + bound);
  const uint64_t kept = lane.turn_start + bound / 2;
  const uint64_t at = kept > now ? kept : now;
  const uint64_t latest = now + bound / 2;
  const uint64_t due = at < latest ? at : latest;
  if (due < lane.preempt_at) lane.preempt_at = due;
}

}  // namespace turnstile
