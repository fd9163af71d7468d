// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/sched/best_effort.h"

#include "core/channel/runlist.h"

namespace turnstile {

void BestEffort::Start() {
  for (uint32_t runlist = 0; runlist < kNumRunlists; ++runlist) {
    ListChanged(base::RunlistId(runlist), base::FunctionId(0));
  }
}

void BestEffort::ListChanged(base::RunlistId runlist, base::FunctionId function) {
  host_.Submit(runlist, host_.Runnable(runlist), function);
}

}  // namespace turnstile
