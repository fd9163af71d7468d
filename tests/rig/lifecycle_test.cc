// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// vGPUs come and go while their neighbours compute: faults, endless programs, reset, close, reuse.
#include <gtest/gtest.h>

#include <string>

#include "hostile/storms.h"
#include "libts104/stream.h"
#include "rig/rig.h"
#include "ts104_programs.h"
#include "workloads.h"

namespace rig {
namespace {

using libts104::Buffer;
using libts104::Engine;
using libts104::Placement;
using libts104::Program;
using libts104::Stream;
using ts104_run::Options;
using ts104_run::Result;

class LifecycleTest : public testing::Test {
 protected:
  static Options Small() {
    Options options;
    options.elements = 1000;
    options.iterations = 1;
    return options;
  }
  static bool Computes(libts104::Device& device) {
    return ts104_run::RunProgram(device, Small(), "vecadd").verified;
  }
  // Leaves a kernel running that never ends.
  struct Endless {
    explicit Endless(libts104::Device& device)
        : program(Program::Embedded(device, "endless_loop", Placement::kVram)),
          counter(device.Alloc(4096, Placement::kVram)),
          stream(device, Engine::kCompute) {
      stream.Launch(program, {1, 1, 1}, {1, 1, 1}, ts104_endless_loop_args{counter.va()});
      stream.Submit();
    }
    Program program;
    Buffer counter;
    Stream stream;
  };

  ModelGpu gpu_;
  VgpuMachine other_{gpu_, VgpuMachine::kV4};
  std::unique_ptr<libts104::Device> neighbour_ = fakes::OpenOn(other_);
};

TEST_F(LifecycleTest, FaultIsReportedToItsGuestAlone) {
  VgpuMachine machine(gpu_, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  Stream healthy(*neighbour_, Engine::kCompute);
  Options options = Small();
  options.address = 0xdead0000;
  const Result result = ts104_run::RunProgram(*device, options, "fault-store");
  ASSERT_TRUE(result.fault.has_value()) << result.error;
  EXPECT_EQ(result.fault->va, 0xdead0000u);
  EXPECT_EQ(result.fault->access, 1u);
  EXPECT_EQ(result.fault->engine, 0x40u);
  EXPECT_EQ(healthy.fault().kind, libts104::ChannelFault::Kind::kNone);
  EXPECT_TRUE(Computes(*neighbour_));
  EXPECT_TRUE(Computes(*device));
  EXPECT_EQ(other_.Counters().faults_forwarded, 0u);
}

TEST_F(LifecycleTest, EndlessProgramDoesNotStopTheNeighbour) {
  VgpuMachine machine(gpu_, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  Options options = Small();
  options.timeout_ms = 20;
  const Result result = ts104_run::RunProgram(*device, options, "endless");
  EXPECT_FALSE(result.verified);
  EXPECT_TRUE(Computes(*neighbour_));
  EXPECT_TRUE(Computes(*device));
}

TEST_F(LifecycleTest, CloseInTheMiddleOfAnEndlessProgram) {
  for (int round = 0; round < 3; ++round) {
    VgpuMachine machine(gpu_, VgpuMachine::kV4);
    const auto device = fakes::OpenOn(machine);
    Buffer pinned = device->Alloc(1 << 20, Placement::kSysmem);
    const Endless endless(*device);
    machine.Advance(1'000'000);
    const uint64_t before = gpu_.now_ns;
    machine.Close();  // as when QEMU is killed: the guest's driver never learns
    EXPECT_LT(gpu_.now_ns - before, 10'000'000u) << "a preemption point is near";
    EXPECT_TRUE(machine.host().pinned.empty());
    EXPECT_EQ(machine.Counters().pages_pinned, 0u);
    EXPECT_TRUE(Computes(*neighbour_));
    pinned = Buffer();
  }
  EXPECT_EQ(gpu_.stray_accesses(), 0u);
}

TEST_F(LifecycleTest, ResetInTheMiddleOfAnEndlessProgram) {
  VgpuMachine machine(gpu_, VgpuMachine::kV4);
  {
    const auto device = fakes::OpenOn(machine);
    const Endless endless(*device);
    machine.Advance(1'000'000);
    EXPECT_EQ(ts_vgpu_reset(machine.core()), 0);
  }
  EXPECT_TRUE(Computes(*neighbour_));
  const auto again = fakes::OpenOn(machine);
  EXPECT_TRUE(Computes(*again));
}

// PCI Express gives FLR 100 ms, whatever runs.
TEST_F(LifecycleTest, HungVgpuIsResetIn100Ms) {
  for (const char* name :
       {"EndlessKernels", "ContextsThatStay", "EndlessCopies", "NeverReleased"}) {
    VgpuMachine machine(gpu_, VgpuMachine::kV4, 64);
    hostile::Attacker attacker(machine, {});
    for (attacker.round = 1; attacker.round <= 20; ++attacker.round) {
      hostile::FindStorm(name)->tick(attacker);
    }
    machine.Advance(2'000'000);
    const uint64_t begin = gpu_.now_ns;
    EXPECT_EQ(ts_vgpu_reset(machine.core()), 0);
    EXPECT_LE(gpu_.now_ns - begin, 100'000'000u) << name;
    EXPECT_EQ(gpu_.Logged("would not leave it"), std::string(name) == "ContextsThatStay") << name;
    gpu_.log.clear();
    EXPECT_TRUE(Computes(*neighbour_)) << name;
    const auto again = fakes::OpenOn(machine);
    EXPECT_TRUE(Computes(*again)) << name;
  }
}

TEST_F(LifecycleTest, TwoGuestsShareTheGpuOneToOne) {
  VgpuMachine machine(gpu_, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  const Endless first(*device);
  const Endless second(*neighbour_);
  machine.Advance(5'000'000);
  const uint64_t first_before = machine.Counters().gpu_time_ns;
  const uint64_t second_before = other_.Counters().gpu_time_ns;
  machine.Advance(200'000'000);
  const double share = static_cast<double>(machine.Counters().gpu_time_ns - first_before) /
                       static_cast<double>(other_.Counters().gpu_time_ns - second_before);
  EXPECT_NEAR(share, 1.0, 0.05);
}

TEST_F(LifecycleTest, SteadyStateTrapsOnlyForInterrupts) {
  VgpuMachine machine(gpu_, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  const Program program = Program::Embedded(*device, "vecadd", Placement::kVram);
  const Buffer data = device->Alloc(4096, Placement::kSysmem);
  const ts104_vecadd_args args = {data.va(), data.va(), data.va(), 64};
  Stream stream(*device, Engine::kCompute);
  stream.Launch(program, {1, 1, 1}, {64, 1, 1}, args);
  stream.Synchronize();
  const ts_counters before = machine.Counters();
  for (int i = 0; i < 50; ++i) {
    stream.Launch(program, {1, 1, 1}, {64, 1, 1}, args);
    stream.Synchronize();
  }
  const ts_counters after = machine.Counters();
  EXPECT_EQ(after.csr_exits_total - before.csr_exits_total,
            after.interrupt_tree_accesses - before.interrupt_tree_accesses)
      << "the guest acknowledges its interrupts, nothing else";
  EXPECT_EQ(after.submissions, before.submissions);
  EXPECT_EQ(after.invalidates, before.invalidates);
}

TEST_F(LifecycleTest, NextTenantFindsNothing) {
  uint64_t secret_at = 0;
  {
    VgpuMachine machine(gpu_, VgpuMachine::kV4);
    const auto device = fakes::OpenOn(machine);
    secret_at = static_cast<uint64_t>(machine.vram() - gpu_.vram()) + machine.vram_bytes() / 2;
    gpu_.vram()[secret_at] = 0x5a;
  }
  EXPECT_EQ(gpu_.vram()[secret_at], 0);
  VgpuMachine tenant(gpu_, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(tenant);
  EXPECT_TRUE(Computes(*device));
}

TEST(ManyGuestsTest, SixteenGuestsWork) {
  ModelGpu gpu(RigConfig{.vram_bytes = 512u << 20});
  std::vector<std::unique_ptr<VgpuMachine>> machines;
  std::vector<std::unique_ptr<libts104::Device>> devices;
  for (int i = 0; i < 16; ++i) {
    machines.push_back(std::make_unique<VgpuMachine>(gpu, VgpuMachine::kV16, 2048));
    devices.push_back(fakes::OpenOn(*machines.back()));
  }
  for (auto& device : devices) {
    Options options;
    options.elements = 1000;
    options.iterations = 1;
    EXPECT_TRUE(ts104_run::RunProgram(*device, options, "vecadd").verified);
  }
  EXPECT_EQ(gpu.stray_accesses(), 0u);
}

}  // namespace
}  // namespace rig
