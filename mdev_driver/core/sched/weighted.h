// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/time_share.h"

namespace turnstile {

// Time in proportion to weights (1 to 10000) among those who have work; with `strict` among all who
// have channels. Nobody gets more than its cap, however idle the rest is.
class Weighted : public TimeShare {
 public:
  using TimeShare::TimeShare;
  static constexpr const char* kName = "weighted";
  const char* name() const override { return kName; }

 protected:
  bool conserving() const override { return host_.params().strict == 0; }
  uint32_t WeightOf(uint32_t function) const override {
    return host_.vgpu_params(base::FunctionId(function)).weight;
  }
  uint32_t CapOf(uint32_t function) const override {
    if (function == kNobody) return 100;
    return host_.vgpu_params(base::FunctionId(function)).cap_percent;
  }
};

}  // namespace turnstile
