// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/slot_share.h"

namespace turnstile {

// 1 / number of vGPUs that have channels on the engine; changes as they come and go.
class EqualShare final : public SlotShare {
 public:
  using SlotShare::SlotShare;
  static constexpr const char* kName = "equal_share";
  const char* name() const override { return kName; }

 protected:
  uint32_t WeightOf(uint32_t) const override { return 1; }
};

}  // namespace turnstile
