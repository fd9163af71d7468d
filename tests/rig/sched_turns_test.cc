// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// How turns are given: what a switch costs, who gets what when guests are idle, come, go, fault or
// do not let go. On the model.
#include <gtest/gtest.h>

#include <numeric>

#include "rig/sched_rig.h"

namespace rig {
namespace {

constexpr Load kSmall = {128 * kUs, 1, 0, 0};
constexpr Load kSaturated = {256 * kUs, 8, 0, 0};
constexpr Load kIdle = {128 * kUs, 0, 0, 0};  // no copy in flight

double Ratio(uint64_t a, uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

TEST(SchedTurnsTest, SharesOfEqualShareWithTinyAndSaturatedWork) {
  for (const uint32_t arr : {1u, 0u}) {
    SchedRig rig("equal_share");
    rig.Set(TS_SCHED_ARR, arr);
    rig.Add(kSaturated);
    rig.Add(kSaturated);
    rig.Add(kSaturated);
    rig.Run(50 * kMs);
    const auto run = rig.Measure(10'000 * kMs);
    EXPECT_NEAR(Ratio(run[0], run[1]), 1, 0.005) << "arr " << arr;
    EXPECT_NEAR(Ratio(run[0], run[2]), 1, 0.005) << "arr " << arr;
  }
}

TEST(SchedTurnsTest, OvershootIsPaidBack) {
  for (const uint32_t arr : {1u, 0u}) {
    SchedRig rig("equal_share");
    rig.Set(TS_SCHED_ARR, arr);
    // A copy of 2 ms is not preempted in its middle: 128 bytes per us, 256 KiB.
    rig.Add({480 * kUs, 8, 0, 0});
    rig.Add({16 * kUs, 32, 0, 0});
    rig.Run(200 * kMs);
    const auto run = rig.Measure(10'000 * kMs);
    EXPECT_NEAR(Ratio(run[0], run[1]), 1, 0.005) << "arr " << arr;
    EXPECT_GT(rig.tenant(0).Figures().overshoot_ns, 0u);
  }
}

TEST(SchedTurnsTest, EqualShareLeavesTheSlotOfAnIdleVgpuIdle) {
  SchedRig rig("equal_share");
  rig.Add(kSaturated);
  rig.Add(kIdle);
  rig.Run(50 * kMs);
  const auto run = rig.Measure(2'000 * kMs);
  EXPECT_NEAR(Ratio(run[0], 2'000 * kMs), 0.5, 0.05);
  EXPECT_EQ(run[1], 0u);
}

TEST(SchedTurnsTest, FixedShareIsThatOfTheType) {
  SchedRig rig("fixed_share");
  rig.Add(kSaturated, VgpuMachine::kV4);
  rig.Add(kSaturated, VgpuMachine::kV2);
  rig.Run(100 * kMs);
  const auto run = rig.Measure(10'000 * kMs);
  EXPECT_NEAR(Ratio(run[1], run[0]), 2, 0.01);
  EXPECT_NEAR(Ratio(run[0], 10'000 * kMs), 0.25, 0.02);  // the last quarter stays idle
}

TEST(SchedTurnsTest, WeightedGivesWhatIdleVgpusLeaveToOthers) {
  SchedRig rig("weighted");
  rig.AddWeighted(kSaturated, 1);
  rig.AddWeighted(kIdle, 100);
  rig.Run(50 * kMs);
  EXPECT_GE(rig.Measure(1'000 * kMs)[0], 999 * kMs);
}

TEST(SchedTurnsTest, WeightedStrictDoesNot) {
  SchedRig rig("weighted");
  rig.Set(TS_SCHED_STRICT, 1);
  rig.AddWeighted(kSaturated, 1);
  rig.AddWeighted(kIdle, 3);
  rig.Run(50 * kMs);
  EXPECT_NEAR(Ratio(rig.Measure(2'000 * kMs)[0], 2'000 * kMs), 0.25, 0.02);
}

TEST(SchedTurnsTest, CapHoldsAloneAndBesideOthers) {
  SchedRig rig("weighted");
  rig.Add(kSaturated).Set(TS_VGPU_SCHED_CAP_PERCENT, 30);
  rig.Run(50 * kMs);
  EXPECT_NEAR(Ratio(rig.Measure(2'000 * kMs)[0], 2'000 * kMs), 0.29, 0.01);  // never above
  rig.Add(kSaturated);
  rig.Run(50 * kMs);
  const auto run = rig.Measure(2'000 * kMs);
  EXPECT_LE(Ratio(run[0], 2'000 * kMs), 0.305);
  EXPECT_GE(Ratio(run[1], 2'000 * kMs), 0.62);
}

TEST(SchedTurnsTest, AloneIsAsFastAsBare) {
  for (const char* policy : {"equal_share", "weighted", "latency"}) {
    SchedRig rig(policy);
    Tenant& alone = rig.Add(kSaturated);
    rig.Run(50 * kMs);
    EXPECT_GE(rig.Measure(1'000 * kMs)[0], 990 * kMs) << policy;
    EXPECT_LE(alone.Figures().preemptions, 1u) << policy;
  }
}

TEST(SchedTurnsTest, SmallWorkKeepsTheCardBusy) {
  const auto throughput = [](const char* policy, uint32_t tenants, const Load& load) {
    SchedRig rig(policy);
    for (uint32_t i = 0; i < tenants; ++i) rig.Add(load);
    rig.Run(50 * kMs);
    uint64_t before = 0;
    for (uint32_t i = 0; i < tenants; ++i) before += rig.tenant(i).done();
    rig.Run(4'000 * kMs);
    uint64_t after = 0;
    for (uint32_t i = 0; i < tenants; ++i) after += rig.tenant(i).done();
    return after - before;
  };
  const uint64_t solo_small = throughput("best_effort", 1, kSmall);
  const uint64_t solo_saturated = throughput("best_effort", 1, kSaturated);
  for (const char* policy : {"equal_share", "weighted", "latency"}) {
    EXPECT_GE(Ratio(throughput(policy, 2, kSmall), solo_small), 0.90) << policy;
    EXPECT_GE(Ratio(throughput(policy, 2, kSaturated), solo_saturated), 0.94) << policy;
  }
}

TEST(SchedTurnsTest, LightTenantIsServedWithinItsBound) {
  constexpr Load kLight = {448 * kUs, 1, 20 * kMs, 0};
  uint64_t solo = 0;
  {
    SchedRig rig("latency");
    Tenant& light = rig.Add(kLight);
    rig.Run(1'000 * kMs);
    solo = light.Percentile(99);
  }
  SchedRig rig("latency");
  Tenant& light = rig.Add(kLight);
  light.Set(TS_VGPU_SCHED_LATENCY_US, 500);
  rig.Add(kSaturated);
  rig.Run(10'000 * kMs);
  EXPECT_GT(light.latencies().size(), 400u);
  EXPECT_LE(light.Percentile(99), solo + 500 * kUs + 125 * kUs);
  RecordProperty("p99_us", std::to_string(light.Percentile(99) / kUs));
  RecordProperty("solo_p99_us", std::to_string(solo / kUs));
}

TEST(SchedTurnsTest, LatencyPolicyKeepsLongRunShares) {
  SchedRig rig("latency");
  rig.Add(kSaturated);
  rig.Add(kSaturated).Set(TS_VGPU_SCHED_LATENCY_US, 500);
  rig.Add({128 * kUs, 1, 300 * kUs, 0}).Set(TS_VGPU_SCHED_LATENCY_US, 500);
  rig.Run(50 * kMs);
  const auto run = rig.Measure(10'000 * kMs);
  EXPECT_NEAR(Ratio(run[0], run[1]), 1, 0.01);
}

TEST(SchedTurnsTest, PolicyChangesInFlight) {
  SchedRig rig("best_effort");
  rig.AddWeighted(kSaturated, 3);
  rig.AddWeighted(kSaturated, 1);
  for (const char* policy :
       {"weighted", "best_effort", "equal_share", "latency", "fixed_share", "weighted"}) {
    ASSERT_EQ(ts_gpu_set_policy(rig.gpu().core, policy), 0);
    rig.Run(10 * kMs);
    const auto run = rig.Measure(200 * kMs);
    EXPECT_GT(run[0], 10 * kMs) << policy;
    EXPECT_GT(run[1], 10 * kMs) << policy;
  }
  const auto run = rig.Measure(4'000 * kMs);
  EXPECT_NEAR(Ratio(run[0], run[1]), 3, 0.03);
  ASSERT_EQ(rig.tenant(1).Set(TS_VGPU_SCHED_WEIGHT, 3), 0);
  const auto equal = rig.Measure(4'000 * kMs);
  EXPECT_NEAR(Ratio(equal[0], equal[1]), 1, 0.01);
}

TEST(SchedTurnsTest, VgpusComeAndGoInMidSlice) {
  for (const char* policy : {"equal_share", "fixed_share", "weighted", "latency"}) {
    SchedRig rig(policy);
    rig.Add(kSaturated);
    rig.Run(7 * kMs);
    rig.Add(kSaturated);
    rig.Run(7 * kMs + 300 * kUs);
    rig.Add(kSmall);
    rig.Run(20 * kMs);
    ASSERT_EQ(ts_vgpu_reset(rig.tenant(1).machine().core()), 0);
    rig.tenant(1).Stop();
    const auto run = rig.Measure(500 * kMs);
    EXPECT_GT(run[0], 20 * kMs) << policy;
    EXPECT_EQ(run[1], 0u) << policy;
    rig.Remove(1);
    rig.Add(kSaturated);
    rig.Run(20 * kMs);
    const auto again = rig.Measure(1'000 * kMs);
    EXPECT_NEAR(Ratio(again[0], again[2]), 1, 0.05) << policy;
    EXPECT_EQ(rig.gpu().stray_accesses(), 0u);
  }
}

TEST(SchedTurnsTest, FaultCostsOnlyTheFaultingVgpu) {
  for (const char* policy : {"equal_share", "weighted", "latency"}) {
    SchedRig rig(policy);
    rig.Add(kSaturated);
    Tenant& bad = rig.Add(kIdle);
    rig.Run(20 * kMs);
    bad.guest().Push(0, Tenant::kRunlist,
                     RawGuest::Copy(0x1f0000, RawGuest::kData, 4, RawGuest::kData, 1));
    rig.Run(50 * kMs);
    EXPECT_EQ(bad.guest().TakeFaults().size(), 1u) << policy;
    EXPECT_TRUE(rig.tenant(0).guest().TakeFaults().empty());
    EXPECT_GT(rig.Measure(200 * kMs)[0], 80 * kMs) << policy;
  }
}

// GRID's rule: the type says how many vGPUs there can be, not how many there are.
TEST(SchedTurnsTest, DefaultSliceIsThatOfTheType) {
  const auto target = [](const char* policy, VgpuMachine::Type type, uint32_t arr) {
    SchedRig rig(policy);
    rig.Set(TS_SCHED_ARR, arr);
    rig.Add(kSaturated, type);
    rig.Add(kSaturated, type);
    rig.Run(20 * kMs);
    ts_slice slice = {};
    EXPECT_EQ(ts_gpu_slices(rig.gpu().core, Tenant::kRunlist, &slice, 1), 1u);
    return slice.target_ns;
  };
  EXPECT_EQ(target("weighted", VgpuMachine::kV8, 1), 2'000'000u);
  EXPECT_EQ(target("weighted", VgpuMachine::kV16, 1), 1'000'000u);
  EXPECT_EQ(target("equal_share", VgpuMachine::kV8, 0), 2'000'000u);
  EXPECT_EQ(target("equal_share", VgpuMachine::kV16, 0), 1'000'000u);
  // 480 and 960 Hz, less what is owed.
  EXPECT_NEAR(static_cast<double>(target("equal_share", VgpuMachine::kV8, 1)), 2'083'333, 200'000);
  EXPECT_NEAR(static_cast<double>(target("equal_share", VgpuMachine::kV16, 1)), 1'041'667, 200'000);
}

// Everything is counted: accounting, and interrupts too.
TEST(SchedTurnsTest, RegisterAccessesOfASwitch) {
  for (const char* policy : {"equal_share", "fixed_share", "weighted", "latency"}) {
    SchedRig rig(policy);
    rig.Add(kSaturated, VgpuMachine::kV2);
    rig.Add(kSaturated, VgpuMachine::kV2);
    rig.Run(100 * kMs);
    const auto [accesses, switches] = rig.CountSwitches(1'000 * kMs);
    ASSERT_GT(switches, 400u) << policy;
    EXPECT_LE(Ratio(accesses, switches), 6.0) << policy;
    RecordProperty(policy, std::to_string(Ratio(accesses, switches)));
  }
}

TEST(SchedTurnsTest, RegisterAccessesOfASwitchFromAnIdleVgpu) {
  SchedRig rig("weighted");
  rig.Add(kSaturated);
  rig.Add({128 * kUs, 1, 10 * kMs, 0});
  rig.Run(100 * kMs);
  const uint64_t kernels = rig.tenant(1).done();
  rig.gpu().reads = rig.gpu().writes = 0;
  rig.Run(2'000 * kMs);
  const uint64_t accesses = rig.gpu().reads + rig.gpu().writes;
  // To the light vGPU and back, with its doorbell's and its idle interrupt.
  EXPECT_LE(Ratio(accesses, rig.tenant(1).done() - kernels), 60.0);
  RecordProperty("weighted", std::to_string(Ratio(accesses, rig.tenant(1).done() - kernels)));
}

TEST(SchedTurnsTest, RangesAreCheckedAndNamed) {
  SchedRig rig("weighted");
  Tenant& tenant = rig.Add(kIdle);
  EXPECT_EQ(rig.Set(TS_SCHED_FREQUENCY_HZ, 62), -22);
  EXPECT_TRUE(rig.gpu().Logged("frequency_hz 62 is out of range: 63 to 960, or 0"));
  EXPECT_EQ(tenant.Set(TS_VGPU_SCHED_WEIGHT, 10001), -22);
  EXPECT_TRUE(rig.gpu().Logged("weight 10001 is out of range: 1 to 10000"));
  EXPECT_EQ(rig.Set(static_cast<ts_sched_param>(TS_SCHED_PARAMS), 1), -22);
  EXPECT_EQ(ts_gpu_get_sched_param(rig.gpu().core, TS_SCHED_AVERAGING_FACTOR), 33u);
  EXPECT_EQ(tenant.Set(TS_VGPU_SCHED_LATENCY_US, 0), 0);
}

TEST(SchedTurnsTest, AccountingAddsUp) {
  SchedRig rig("weighted");
  rig.AddWeighted(kSaturated, 3);
  rig.AddWeighted(kSaturated, 1);
  rig.Run(1'000 * kMs);
  const ts_sched_figures a = rig.tenant(0).Figures();
  const ts_sched_figures b = rig.tenant(1).Figures();
  const uint64_t switches = a.preemptions + b.preemptions;
  // Always somebody runs, or a context switch is going on.
  EXPECT_NEAR(static_cast<double>(a.run_ns + b.run_ns + switches * 125 * kUs),
              static_cast<double>(1'000 * kMs), static_cast<double>(5 * kMs));
  EXPECT_GE(b.longest_wait_ns, 5 * kMs);
  EXPECT_LE(b.longest_wait_ns, 10 * kMs);
  ts_slice slices[TS_SLICES_MAX];
  const uint32_t count = ts_gpu_slices(rig.gpu().core, Tenant::kRunlist, slices, 500);
  EXPECT_EQ(count, 200u);
  for (uint32_t i = 1; i < count; ++i) {
    EXPECT_GE(slices[i].timestamp_ns, slices[i - 1].timestamp_ns);
    EXPECT_EQ(slices[i].target_ns, 2 * kMs);
  }
}

}  // namespace
}  // namespace rig
