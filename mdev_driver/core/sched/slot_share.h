// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/time_share.h"

namespace turnstile {

// Equal and fixed share: a turn for everybody with a list, whether or not it has work. What an idle
// vGPU leaves stays idle, so nobody's speed depends on what the others do.
//
// Adaptive round robin (the default): slices of 1/frequency in turn; what a slice takes too long is
// paid back, 1/averaging_factor of the debt in every slice to come. Strict: slices of timeslice_us,
// least accumulated time first.
class SlotShare : public TimeShare {
 public:
  using TimeShare::TimeShare;

 protected:
  bool conserving() const override { return false; }
  uint64_t TargetOf(const Lane& lane, Tenant& tenant) override;
  void OnUsed(Lane& lane, uint32_t function, uint64_t ns) override;
  void OnLate(Lane& lane, uint32_t function, uint64_t ns) override;
  void OnTurnEnd(Lane& lane, uint32_t function) override;

 private:
  bool arr() const { return host_.params().arr != 0; }
  uint64_t ArrSlice(const Lane& lane) const;
};

}  // namespace turnstile
