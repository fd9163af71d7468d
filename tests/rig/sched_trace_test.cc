// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What is traced and accounted of turns, slice by slice, on the model.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "rig/sched_rig.h"

namespace rig {
namespace {

constexpr Load kSaturated = {256 * kUs, 8, 0, 0};
constexpr Load kLight = {128 * kUs, 1, 10 * kMs, 0};
constexpr const char* kPolicies[] = {"equal_share", "fixed_share", "weighted", "latency"};

// Slices of the copy engine's runlist as they are traced.
class SliceRecorder {
 public:
  explicit SliceRecorder(SchedRig& rig) : rig_(rig) {
    rig_.gpu().on_slice = [this](uint32_t runlist, const ts_slice& slice) {
      if (runlist == Tenant::kRunlist) slices.push_back(slice);
    };
  }
  // The rig outlives its recorders, and its vGPUs' last slices end when they close.
  ~SliceRecorder() { rig_.gpu().on_slice = nullptr; }

  std::vector<ts_slice> slices;

 private:
  SchedRig& rig_;
};

TEST(SchedTraceTest, SlicesNeverOverlapAndAddUpToTheAccount) {
  for (const char* policy : kPolicies) {
    SchedRig rig(policy);
    rig.Add(kSaturated);
    rig.Add(kLight);
    rig.Add(kSaturated);
    rig.Run(50 * kMs);
    const SliceRecorder recorder(rig);
    rig.Run(500 * kMs);
    ASSERT_GT(recorder.slices.size(), 150u) << policy;
    uint64_t end = 0;
    std::map<uint32_t, ts_slice> last;
    for (const ts_slice& slice : recorder.slices) {
      EXPECT_GE(slice.start_ns, end) << policy;
      EXPECT_GE(slice.timestamp_ns - slice.start_ns, slice.run_ns) << policy;
      end = slice.timestamp_ns;
      if (slice.function == 0) continue;
      const auto before = last.find(slice.function);
      if (before != last.end()) {
        const uint64_t late = slice.overshoot_ns - before->second.overshoot_ns;
        EXPECT_EQ(slice.total_run_ns - before->second.total_run_ns, slice.run_ns + late) << policy;
      }
      last[slice.function] = slice;
    }
    // The last slice of each and what its account has: no more than a turn may be missing.
    for (uint32_t i = 0; i < 3; ++i) {
      Tenant& tenant = rig.tenant(i);
      const ts_slice& slice = last.at(ts_vgpu_function(tenant.machine().core()));
      EXPECT_GE(tenant.RunNs(), slice.total_run_ns) << policy;
      EXPECT_LE(tenant.RunNs() - slice.total_run_ns, 20 * kMs) << policy;
      EXPECT_EQ(tenant.Figures().preemptions, slice.preemptions) << policy;
    }
  }
}

TEST(SchedTraceTest, TurnThatEndsWithItsListIsASliceToo) {
  SchedRig rig("weighted");
  rig.Add(kSaturated);
  rig.Run(20 * kMs);
  const SliceRecorder recorder(rig);
  EXPECT_EQ(rig.tenant(0).Figures().slices, 0u);  // alone it is not interrupted
  const uint64_t run = rig.tenant(0).RunNs();
  rig.tenant(0).machine().Close();
  ASSERT_EQ(recorder.slices.size(), 1u);
  EXPECT_GE(recorder.slices[0].total_run_ns, run);
  EXPECT_EQ(rig.tenant(0).Figures().slices, 1u);
}

TEST(SchedTraceTest, EventsAreCountedAsTheAccountCountsThem) {
  SchedRig rig("weighted");
  rig.Add(kSaturated);
  rig.Add(kLight);
  rig.Run(200 * kMs);
  auto& traced = rig.gpu().traced;
  const ts_host_vgpu* busy = &rig.tenant(0).machine().host();
  const ts_host_vgpu* light = &rig.tenant(1).machine().host();
  const uint64_t preemptions = rig.tenant(0).Figures().preemptions;
  EXPECT_GT(preemptions, 15u);
  EXPECT_EQ((traced[{"preempt", busy}]), preemptions);
  // One doorbell and two switches for each of its kernels.
  const uint64_t kernels = rig.tenant(1).done();
  EXPECT_NEAR(static_cast<double>(traced[{"wake", light}]), static_cast<double>(kernels), 2);
  EXPECT_NEAR(static_cast<double>(traced[{"switch", light}]), static_cast<double>(kernels), 3);
  ts_vgpu_reset(rig.tenant(1).machine().core());
  EXPECT_EQ((traced[{"reset", light}]), 1u);
  EXPECT_EQ((traced[{"reset", busy}]), 0u);
}

// Idle on one runlist, busy on another: what rings all the time is not waited for.
TEST(SchedTraceTest, DoorbellsOfABusyRunlistWakeNobody) {
  SchedRig rig("weighted");
  Tenant& both = rig.Add({128 * kUs, 4, 0, 0});
  rig.Add(kSaturated);
  constexpr uint32_t kIdleRunlist = 2;
  both.guest().StartChannel(1, kIdleRunlist);
  rig.Run(20 * kMs);
  const ts_host_vgpu* host = &both.machine().host();
  const uint64_t done = both.done();
  const uint64_t wakes = rig.gpu().traced[{"wake", host}];
  rig.Run(100 * kMs);
  EXPECT_GT(both.done() - done, 200u);
  EXPECT_LE((rig.gpu().traced[{"wake", host}]) - wakes, 2u);
  // And the first doorbell there is noticed.
  both.guest().Push(1, kIdleRunlist, RawGuest::Release(RawGuest::kData + 64, 0x1d1e));
  EXPECT_TRUE(both.guest().WaitVram32(RawGuest::kData + 64, 0x1d1e));
  EXPECT_GE((rig.gpu().traced[{"wake", host}]) - wakes, 1u);
}

TEST(SchedTraceTest, AccountIsMonotonicFromCreateToDestroy) {
  SchedRig rig("weighted");
  Tenant& tenant = rig.Add(kSaturated);
  rig.Add(kSaturated);
  rig.Run(50 * kMs);
  const uint32_t function = ts_vgpu_function(tenant.machine().core());
  const ts_sched_figures before = tenant.Figures();
  EXPECT_GT(before.run_ns, 15 * kMs);
  tenant.Stop();
  tenant.machine().Close();
  const ts_sched_figures closed = tenant.Figures();
  EXPECT_GE(closed.run_ns, before.run_ns);
  EXPECT_GE(closed.slices, before.slices);
  ASSERT_EQ(ts_vgpu_open(tenant.machine().core()), 0);
  EXPECT_EQ(tenant.Figures().run_ns, closed.run_ns);
  ts_vgpu_close(tenant.machine().core());
  rig.Remove(0);
  // Whoever gets the function next starts at 0.
  Tenant& next = rig.Add({128 * kUs, 1, 0, 1'000 * kMs});
  ASSERT_EQ(ts_vgpu_function(next.machine().core()), function);
  EXPECT_EQ(next.RunNs(), 0u);
  EXPECT_EQ(next.Figures().slices, 0u);
}

}  // namespace
}  // namespace rig
