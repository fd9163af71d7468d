// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/weighted.h"

namespace turnstile {

// Weighted, and: a vGPU with a latency bound that wakes, and has not used more than its share,
// takes over from whoever has the turn. That one keeps what is half the bound, so that a vGPU which
// wakes again and again cannot make the GPU do nothing but switch.
class Latency final : public Weighted {
 public:
  using Weighted::Weighted;
  static constexpr const char* kName = "latency";
  const char* name() const override { return kName; }

 protected:
  void OnWake(Lane& lane, uint32_t function, uint64_t now) override;
};

}  // namespace turnstile
