// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/slot_share.h"

namespace turnstile {

// What the vGPU's type is of the GPU, whoever else there is: 1/4 for ts104_v4. Types may be mixed.
class FixedShare final : public SlotShare {
 public:
  using SlotShare::SlotShare;
  static constexpr const char* kName = "fixed_share";
  const char* name() const override { return kName; }

 protected:
  uint32_t WeightOf(uint32_t function) const override;
  uint32_t WeightOfNobody(const Lane& lane) const override;
};

}  // namespace turnstile
