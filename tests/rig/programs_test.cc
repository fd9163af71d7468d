// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Two vGPUs with the ordinary guest driver on them run real programs on one modelled TS104.
#include <gtest/gtest.h>

#include "libts104/stream.h"
#include "rig/rig.h"
#include "workloads.h"

namespace rig {
namespace {

using ts104_run::Options;
using ts104_run::PlacementMode;
using ts104_run::Result;

class ProgramsTest : public testing::Test {
 protected:
  static Options Small(PlacementMode placement) {
    Options options;
    options.placement = placement;
    options.elements = 4096;
    options.matrix = 32;
    options.leaf_bytes = 1000;
    options.iterations = 2;
    return options;
  }
  static void ExpectVerified(libts104::Device& device, const char* program,
                             PlacementMode placement) {
    const Result result = ts104_run::RunProgram(device, Small(placement), program);
    EXPECT_TRUE(result.verified) << program << ": " << result.error << " " << result.detail;
  }

  ModelGpu gpu_;
};

TEST_F(ProgramsTest, OneGuestComputesInVram) {
  VgpuMachine machine(gpu_, VgpuMachine::kV2);
  const auto device = fakes::OpenOn(machine);
  ExpectVerified(*device, "vecadd", PlacementMode::kVram);
  EXPECT_EQ(gpu_.stray_accesses(), 0u);
}

TEST_F(ProgramsTest, OneGuestComputesInScatteredSystemMemory) {
  VgpuMachine machine(gpu_, VgpuMachine::kV2);
  const auto device = fakes::OpenOn(machine);
  ExpectVerified(*device, "vecadd", PlacementMode::kSysmem);
  EXPECT_GT(machine.Counters().pages_pinned_total, 0u);
  EXPECT_EQ(gpu_.stray_accesses(), 0u);
}

TEST_F(ProgramsTest, TwoGuestsComputeSideBySide) {
  VgpuMachine first(gpu_, VgpuMachine::kV2);
  VgpuMachine second(gpu_, VgpuMachine::kV4);
  const auto first_device = fakes::OpenOn(first);
  const auto second_device = fakes::OpenOn(second);
  for (const char* program : {"vecadd", "saxpy", "reduce", "histogram"}) {
    ExpectVerified(*first_device, program, PlacementMode::kMixed);
    ExpectVerified(*second_device, program, PlacementMode::kMixed);
  }
  EXPECT_GT(first.Counters().gpu_time_ns, 0u);
  EXPECT_GT(second.Counters().gpu_time_ns, 0u);
  EXPECT_EQ(gpu_.stray_accesses(), 0u);
}

TEST_F(ProgramsTest, PinsDropToZeroOnClose) {
  VgpuMachine machine(gpu_, VgpuMachine::kV2);
  {
    const auto device = fakes::OpenOn(machine);
    ExpectVerified(*device, "vecadd", PlacementMode::kSysmem);
  }
  machine.Close();
  EXPECT_EQ(machine.Counters().pages_pinned, 0u);
  EXPECT_TRUE(machine.host().pinned.empty());
}

}  // namespace
}  // namespace rig
