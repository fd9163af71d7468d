// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Shares of guests that compute: the ordinary guest driver, programs that never end, contexts that
// will not leave.
#include <gtest/gtest.h>

#include <cstring>

#include "libts104/stream.h"
#include "rig/rig.h"
#include "ts104/regs.h"
#include "ts104_programs.h"
#include "workloads.h"

namespace rig {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kGr = 0;  // runlist

// A guest with one stream; `kernel` runs in it for ever.
class ComputeGuest {
 public:
  ComputeGuest(ModelGpu& gpu, uint32_t weight)
      : machine_(gpu, VgpuMachine::kV4, 2048),
        device_(fakes::OpenOn(machine_)),
        stream_(*device_, libts104::Engine::kCompute),
        program_(libts104::Program::Embedded(*device_, "endless_loop", libts104::Placement::kVram)),
        add_(libts104::Program::Embedded(*device_, "vecadd", libts104::Placement::kVram)),
        data_(device_->Alloc(4096, libts104::Placement::kVram)) {
    ts_vgpu_set_sched_param(machine_.core(), TS_VGPU_SCHED_WEIGHT, weight);
  }
  void LaunchEndless() {
    const ts104_endless_loop_args args = {data_.va()};
    stream_.Launch(program_, {1, 1, 1}, {1, 1, 1}, args);
    stream_.Submit();
  }
  // A kernel that ends; false: not within the time.
  bool Add() {
    const ts104_vecadd_args args = {data_.va(), data_.va() + 1024, data_.va() + 2048, 32};
    stream_.Launch(add_, {1, 1, 1}, {32, 1, 1}, args);
    try {
      stream_.Synchronize(400 * static_cast<int64_t>(kMs));
    } catch (const libts104::Error&) {
      return false;
    }
    return true;
  }
  // The saved context image asks for preemption between grids only from now on.
  void PreemptBetweenGridsOnly() {
    for (uint64_t page = 0; page + 4096 <= machine_.vram_bytes(); page += 4096) {
      uint32_t magic = 0;
      std::memcpy(&magic, machine_.vram() + page + 0xfc, 4);
      if (magic == 0x600dc0de) std::memset(machine_.vram() + page + 0x84, 0, 4);
    }
  }
  uint64_t RunNs() {
    ts_sched_figures figures = {};
    ts_vgpu_sched_figures(machine_.core(), kGr, &figures);
    return figures.run_ns;
  }
  ts_sched_figures Figures() {
    ts_sched_figures figures = {};
    ts_vgpu_sched_figures(machine_.core(), kGr, &figures);
    return figures;
  }
  // Whether what was launched last has ended with a fault.
  bool Faulted() {
    try {
      stream_.Synchronize(static_cast<int64_t>(kMs));
    } catch (const libts104::FaultError&) {
      return true;
    } catch (const libts104::Error&) {
    }
    return false;
  }
  VgpuMachine& machine() { return machine_; }
  libts104::Stream& stream() { return stream_; }

 private:
  VgpuMachine machine_;
  std::unique_ptr<libts104::Device> device_;
  libts104::Stream stream_;
  libts104::Program program_;
  libts104::Program add_;
  libts104::Buffer data_;
};

class SchedComputeTest : public testing::Test {
 protected:
  void Advance(uint64_t ns) { gpu_.AdvanceTo(gpu_.now_ns + ns, 10'000); }

  ModelGpu gpu_{{256u << 20, 10, 1, 125}};
};

TEST_F(SchedComputeTest, ProgramsAreVerifiedUnderEveryPolicy) {
  for (uint32_t i = 0; ts_policy_name(i) != nullptr; ++i) {
    ASSERT_EQ(ts_gpu_set_policy(gpu_.core, ts_policy_name(i)), 0);
    VgpuMachine first(gpu_, VgpuMachine::kV4);
    VgpuMachine second(gpu_, VgpuMachine::kV4);
    const auto first_device = fakes::OpenOn(first);
    const auto second_device = fakes::OpenOn(second);
    ts104_run::Options options;
    options.placement = ts104_run::PlacementMode::kMixed;
    options.elements = 1024;
    for (const char* program : {"vecadd", "reduce", "histogram"}) {
      EXPECT_TRUE(ts104_run::RunProgram(*first_device, options, program).verified)
          << program << " under " << ts_policy_name(i);
      EXPECT_TRUE(ts104_run::RunProgram(*second_device, options, program).verified)
          << program << " under " << ts_policy_name(i);
    }
    EXPECT_EQ(gpu_.stray_accesses(), 0u);
  }
}

TEST_F(SchedComputeTest, EndlessKernelsShareByWeight) {
  ASSERT_EQ(ts_gpu_set_policy(gpu_.core, "weighted"), 0);
  ComputeGuest first(gpu_, 2);
  ComputeGuest second(gpu_, 1);
  first.LaunchEndless();
  second.LaunchEndless();
  Advance(20 * kMs);
  const uint64_t before[] = {first.RunNs(), second.RunNs()};
  Advance(4'000 * kMs);
  const double ratio = static_cast<double>(first.RunNs() - before[0]) /
                       static_cast<double>(second.RunNs() - before[1]);
  EXPECT_NEAR(ratio, 2, 0.01);
  first.stream().Reset();
  second.stream().Reset();
}

TEST_F(SchedComputeTest, EndlessKernelDoesNotStopOthers) {
  for (const char* policy : {"equal_share", "fixed_share", "weighted", "latency"}) {
    ASSERT_EQ(ts_gpu_set_policy(gpu_.core, policy), 0);
    ComputeGuest bad(gpu_, 1);
    ComputeGuest good(gpu_, 1);
    bad.LaunchEndless();
    Advance(20 * kMs);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(good.Add()) << policy;
    bad.stream().Reset();
  }
}

TEST_F(SchedComputeTest, ContextThatWillNotLeaveIsTornDown) {
  for (const char* policy : {"equal_share", "weighted"}) {
    ASSERT_EQ(ts_gpu_set_policy(gpu_.core, policy), 0);
    ASSERT_EQ(ts_gpu_set_sched_param(gpu_.core, TS_SCHED_CTXSW_TIMEOUT_MS, 50), 0);
    ComputeGuest bad(gpu_, 1);
    ComputeGuest good(gpu_, 1);
    ASSERT_TRUE(bad.Add());
    bad.PreemptBetweenGridsOnly();
    bad.LaunchEndless();
    Advance(5 * kMs);
    const uint64_t begin = gpu_.now_ns;
    EXPECT_TRUE(good.Add()) << policy;
    // Once, by at most the timeout; and turns, switches.
    EXPECT_LE(gpu_.now_ns - begin, 60 * kMs) << policy;
    EXPECT_TRUE(bad.Faulted()) << policy;
    EXPECT_NEAR(static_cast<double>(bad.Figures().overshoot_ns), 50e6, 3e6) << policy;
    uint64_t traced = 0;
    for (const auto& [event, count] : gpu_.traced) {
      if (event.first == "ctxsw_timeout" && event.second != nullptr) traced += count;
    }
    EXPECT_GT(traced, 0u) << policy;
    const uint64_t again = gpu_.now_ns;
    EXPECT_TRUE(good.Add()) << policy;
    EXPECT_LE(gpu_.now_ns - again, 10 * kMs) << policy;
    bad.stream().Reset();
  }
}

}  // namespace
}  // namespace rig
