// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include "core/sched/policy.h"

namespace turnstile {

// All vGPUs in one hardware list per runlist; the hardware's round robin over TSGs does the rest.
// No share is promised: who has more TSGs gets more. Nothing is ever idle while somebody has work.
class BestEffort final : public Policy {
 public:
  using Policy::Policy;
  static constexpr const char* kName = "best_effort";

  const char* name() const override { return kName; }
  void Start() override;
  void ListChanged(base::RunlistId runlist, base::FunctionId function) override;
};

}  // namespace turnstile
