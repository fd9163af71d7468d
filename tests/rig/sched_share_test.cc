// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Shares that were ordered against shares that were measured, on the model.
#include <gtest/gtest.h>

#include <numeric>

#include "rig/sched_rig.h"

namespace rig {
namespace {

constexpr Load kTiny = {16 * kUs, 1, 0, 0};
constexpr Load kSmall = {128 * kUs, 1, 0, 0};
constexpr Load kSaturated = {256 * kUs, 8, 0, 0};

uint64_t Sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// Largest error of a share against `weights`, in percent of the share.
double ErrorPercent(const std::vector<uint64_t>& run, const std::vector<uint32_t>& weights) {
  const double weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto sum = static_cast<double>(Sum(run));
  double worst = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    const double ordered = weights[i] / weight_sum;
    worst = std::max(worst, std::abs(static_cast<double>(run[i]) / sum / ordered - 1) * 100);
  }
  return worst;
}

struct Case {
  const char* name;
  std::vector<uint32_t> weights;
  Load load;
};

class WeightedShareTest : public testing::TestWithParam<Case> {};

TEST_P(WeightedShareTest, HoldsOverTenSeconds) {
  SchedRig rig("weighted");
  const bool many = GetParam().weights.size() > 8;
  for (const uint32_t weight : GetParam().weights) {
    rig.AddWeighted(GetParam().load, weight, many ? VgpuMachine::kV16 : VgpuMachine::kV8);
  }
  rig.Run(50 * kMs);
  const auto run = rig.Measure(10'000 * kMs);
  EXPECT_LE(ErrorPercent(run, GetParam().weights), 0.5) << testing::PrintToString(run);
  RecordProperty("error_percent", std::to_string(ErrorPercent(run, GetParam().weights)));
}

const Case kCases[] = {
    {"TinyOneToOne", {1, 1}, kTiny},
    {"TinyTwoToOne", {2, 1}, kTiny},
    {"SmallTwoToOne", {2, 1}, kSmall},
    {"SmallThreeToOne", {3, 1}, kSmall},
    {"SaturatedOneToOne", {100, 100}, kSaturated},
    {"SaturatedTwoToOne", {2, 1}, kSaturated},
    {"SaturatedThreeToOne", {3, 1}, kSaturated},
    {"SaturatedSevenFiveThreeOne", {7, 5, 3, 1}, kSaturated},
    {"SmallSevenFiveThreeOne", {7, 5, 3, 1}, kSmall},
    // Slices that end in a gap: the phase of kernels and slices is the same in every turn.
    {"FourMicrosecondsTwoToOne", {2, 1}, {4 * kUs, 1, 0, 0}},
    {"ThirtyTwoMicrosecondsTwoToOne", {2, 1}, {32 * kUs, 1, 0, 0}},
    {"QuarterMillisecondTwoToOne", {2, 1}, {254 * kUs, 1, 0, 0}},
    {"SixteenEqual", std::vector<uint32_t>(16, 5), kSmall},
};
INSTANTIATE_TEST_SUITE_P(Ratios, WeightedShareTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rig
