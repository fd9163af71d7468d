// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What the policy orders, and what was measured.
#pragma once

#include "model.h"

namespace turnstile_smi {

// Sets share_ordered and share_measured of the GPU's vGPUs, and the GPU's sums.
//
// Ordered, by policy (docs/scheduling.md), each as a part of the GPU's GR time while all that take
// part have work: equal_share: one over their number; fixed_share: one over the instances of the
// type; weighted and latency: the weight over the sum of weights, but never more than cap_percent,
// and what a cap leaves over goes to the others by their weights; best_effort orders none. Who
// takes part: who has channels; where that is not known, who is open; where that is not known, all.
void SetShares(Gpu& gpu);

// Sets `usage` of each vGPU in `now` that is in `before` too, from how much it ran in between, and
// each GPU's utilisation.
void SetUsage(const Host& before, Host& now);

// Of one of its engines; nullopt without two readings.
std::optional<double> Utilisation(const Gpu& gpu, size_t engine);
std::optional<double> Utilisation(const Vgpu& vgpu, size_t engine);
// The vGPU's part between two readings; with one, that since all were made.
std::optional<double> ShareMeasured(const Vgpu& vgpu);

}  // namespace turnstile_smi
