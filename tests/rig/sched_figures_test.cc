// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The figures of docs/scheduling.md with guests that compute: shares at every load, copies against
// compute, a light tenant in a crowd. On the model, in shorter runs than `./lab bench share`.
#include <gtest/gtest.h>

#include <string>

#include "rig/compute_rig.h"

namespace rig {
namespace {

Work Copies(Work::Kind kind, uint32_t bytes, uint32_t depth) {
  Work work;
  work.kind = kind;
  work.copy_bytes = bytes;
  work.depth = depth;
  return work;
}

double Ratio(uint64_t a, uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

class ShareOfGridsTest : public testing::TestWithParam<std::tuple<Order, uint32_t>> {};

// The bound of the whole run, and of every second in it: at most one slice beyond.
TEST_P(ShareOfGridsTest, HoldsInEverySecond) {
  constexpr uint64_t kStep = 100 * kMs;
  constexpr size_t kWindow = 10;  // steps in a second
  constexpr uint64_t kSlice = 1'000'000'000 / 480;
  const auto& [order, blocks] = GetParam();
  ComputeRig rig(order.policy);
  rig.Add(Blocks(blocks), order.first).Set(TS_VGPU_SCHED_WEIGHT, 2);
  rig.Add(Blocks(blocks), order.second).Set(TS_VGPU_SCHED_WEIGHT, 1);
  rig.Run(50 * kMs);
  std::vector<std::vector<uint64_t>> at = {{rig.tenant(0).RunNs(), rig.tenant(1).RunNs()}};
  double worst = 0;
  while (at.size() <= 3 * kWindow) {
    rig.Run(kStep);
    at.push_back({rig.tenant(0).RunNs(), rig.tenant(1).RunNs()});
    if (at.size() <= kWindow) continue;
    const std::vector<uint64_t>& before = at[at.size() - 1 - kWindow];
    worst = std::max(worst, BeyondHalfPercent({at.back()[0] - before[0], at.back()[1] - before[1]},
                                              {order.ratio, 1}));
  }
  EXPECT_LE(worst, kSlice);
  const double ratio = Ratio(at.back()[0] - at[0][0], at.back()[1] - at[0][1]);
  EXPECT_NEAR(ratio / order.ratio, 1, 0.005);
  RecordProperty("ratio", std::to_string(ratio));
  RecordProperty("worst_second_beyond_ns", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Loads, ShareOfGridsTest,
                         testing::Combine(testing::ValuesIn(kOrders),
                                          testing::Values(16u, 132u, 1056u)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).policy) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Slots lie between each other so that each begins alike, also for types that differ eightfold.
TEST(SchedFiguresTest, FixedShareOfMixedTypesWithTinyKernels) {
  ComputeRig rig("fixed_share");
  rig.Add(Blocks(16), VgpuMachine::kV2);
  rig.Add(Blocks(16), VgpuMachine::kV8);
  rig.Add(Blocks(16), VgpuMachine::kV8);
  rig.Run(50 * kMs);
  const auto run = rig.Measure(10'000 * kMs);
  EXPECT_NEAR(Ratio(run[0], run[1]), 4, 0.02);
  EXPECT_NEAR(Ratio(run[2], run[1]), 1, 0.005);
}

// An idle vGPU's slots stay idle, and what comes back to a warm context pays no switch.
TEST(SchedFiguresTest, FixedShareBesideIdleVgpuIsWhatItWasBeside) {
  ComputeRig rig("fixed_share");
  rig.Add(Blocks(132), VgpuMachine::kV4);
  rig.Add(Blocks(132), VgpuMachine::kV4);
  rig.Run(50 * kMs);
  const uint64_t together = rig.Measure(1'000 * kMs)[0];
  rig.tenant(1).Stop();
  rig.Run(20 * kMs);
  const auto alone = rig.Measure(1'000 * kMs);
  EXPECT_EQ(alone[1], 0u);
  EXPECT_NEAR(Ratio(alone[0], together), 1, 0.01);
}

// Two engines, two runlists: who copies takes nothing from who computes.
TEST(SchedFiguresTest, CopiesOnTheirOwnRunlistTakeNothingFromCompute) {
  for (const char* policy : {"best_effort", "equal_share", "weighted", "latency"}) {
    ComputeRig rig(policy);
    rig.Add(Blocks(132, 4), VgpuMachine::kV4);
    rig.Add(Copies(Work::Kind::kCopy, 256u << 10, 4), VgpuMachine::kV4);
    rig.Run(20 * kMs);
    const auto run = rig.Measure(200 * kMs);
    EXPECT_GE(Ratio(run[0], 200 * kMs), 0.99) << policy;
    EXPECT_GE(Ratio(run[1], 200 * kMs), 0.99) << policy;
  }
}

// GRCE is on the runlist of GR: copies and grids share it by weight, whatever they are made of.
TEST(SchedFiguresTest, CopiesOnTheRunlistOfComputeShareItByWeight) {
  for (const char* policy : {"weighted", "equal_share"}) {
    const double ordered = std::string(policy) == "equal_share" ? 1 : 2;
    for (const uint32_t bytes : {32u << 10, 512u << 10}) {
      ComputeRig rig(policy);
      rig.Add(Blocks(132, 4), VgpuMachine::kV4).Set(TS_VGPU_SCHED_WEIGHT, 2);
      rig.Add(Copies(Work::Kind::kGrCopy, bytes, 8), VgpuMachine::kV4).Set(TS_VGPU_SCHED_WEIGHT, 1);
      rig.Run(50 * kMs);
      const auto run = rig.Measure(2'000 * kMs);
      EXPECT_NEAR(Ratio(run[0], run[1]) / ordered, 1, 0.005) << policy << ", " << bytes;
    }
  }
}

// Launch to notice of the light tenant, 99 of 100, beside `others` that saturate the GPU.
uint64_t LightP99(const char* policy, uint32_t others) {
  ComputeRig rig(policy);
  ComputeTenant& light = rig.Add(LightWork(), VgpuMachine::kV8);
  light.Set(TS_VGPU_SCHED_LATENCY_US, 500);
  for (uint32_t i = 0; i < others; ++i) rig.Add(Blocks(264, 4), VgpuMachine::kV8);
  rig.Run(2'500 * kMs);
  EXPECT_GT(light.latencies().size(), 100u);
  return light.Percentile(99);
}

// Alone against one that saturates, weighted serves it as soon; in a crowd the bound tells.
TEST(SchedFiguresTest, LatencyBoundHoldsInACrowd) {
  const uint64_t solo = LightP99("latency", 0);
  const uint64_t bound = solo + 500 * kUs + 125 * kUs;
  const uint64_t latency = LightP99("latency", 4);
  const uint64_t weighted = LightP99("weighted", 4);
  EXPECT_LE(LightP99("latency", 1), bound);
  EXPECT_LE(latency, bound);
  EXPECT_GT(weighted, bound);
  RecordProperty("solo_p99_us", std::to_string(solo / kUs));
  RecordProperty("latency_p99_us", std::to_string(latency / kUs));
  RecordProperty("weighted_p99_us", std::to_string(weighted / kUs));
}

TEST(SchedFiguresTest, LatencyKeepsLongRunSharesInACrowd) {
  ComputeRig rig("latency");
  rig.Add(LightWork(), VgpuMachine::kV8).Set(TS_VGPU_SCHED_LATENCY_US, 500);
  for (uint32_t i = 0; i < 3; ++i) {
    rig.Add(Blocks(264, 4), VgpuMachine::kV8).Set(TS_VGPU_SCHED_WEIGHT, 100 * (i + 1));
  }
  rig.Run(50 * kMs);
  const auto run = rig.Measure(4'000 * kMs);
  EXPECT_NEAR(Ratio(run[2], run[1]), 2, 0.02);
  EXPECT_NEAR(Ratio(run[3], run[1]), 3, 0.03);
}

}  // namespace
}  // namespace rig
