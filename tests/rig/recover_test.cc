// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The device is reset behind the driver's back.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "rig/rig.h"
#include "ts104/regs.h"
#include "ts104_programs.h"
#include "workloads.h"

namespace rig {
namespace {

using ts104_run::Options;

bool Computes(libts104::Device& device) {
  Options options;
  options.elements = 1000;
  options.iterations = 1;
  return ts104_run::RunProgram(device, options, "vecadd").verified;
}

TEST(RecoverTest, NewVgpuComputesAfterAReset) {
  ModelGpu gpu;
  {
    VgpuMachine machine(gpu, VgpuMachine::kV4);
    EXPECT_TRUE(Computes(*fakes::OpenOn(machine)));
  }
  gpu.ResetFromOutside();
  ASSERT_EQ(ts_gpu_recover(gpu.core), 0);
  VgpuMachine machine(gpu, VgpuMachine::kV4);
  EXPECT_TRUE(Computes(*fakes::OpenOn(machine)));
}

TEST(RecoverTest, TwoComputeUnderAPolicyWithTurnsAfterAReset) {
  ModelGpu gpu;
  ASSERT_EQ(ts_gpu_set_policy(gpu.core, "equal_share"), 0);
  gpu.ResetFromOutside();
  ASSERT_EQ(ts_gpu_recover(gpu.core), 0);
  EXPECT_STREQ(ts_gpu_policy(gpu.core), "equal_share");
  VgpuMachine first(gpu, VgpuMachine::kV4);
  VgpuMachine second(gpu, VgpuMachine::kV4);
  const auto first_device = fakes::OpenOn(first);
  const auto second_device = fakes::OpenOn(second);
  EXPECT_TRUE(Computes(*first_device));
  EXPECT_TRUE(Computes(*second_device));
}

TEST(RecoverTest, FaultsReachTheirGuestAfterAReset) {
  ModelGpu gpu;
  gpu.ResetFromOutside();
  ASSERT_EQ(ts_gpu_recover(gpu.core), 0);
  VgpuMachine machine(gpu, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  Options options;
  options.elements = 1000;
  options.iterations = 1;
  options.address = 0xdead0000;
  const auto result = ts104_run::RunProgram(*device, options, "fault-store");
  ASSERT_TRUE(result.fault.has_value()) << result.error;
  EXPECT_EQ(result.fault->va, 0xdead0000u);
}

TEST(RecoverTest, NeverWhileAVgpuExists) {
  ModelGpu gpu;
  VgpuMachine machine(gpu, VgpuMachine::kV4);
  const auto device = fakes::OpenOn(machine);
  EXPECT_EQ(ts_gpu_recover(gpu.core), -EBUSY);
  EXPECT_TRUE(Computes(*device));
}

TEST(RecoverTest, SettingsStay) {
  ModelGpu gpu;
  ASSERT_EQ(ts_gpu_set_sched_param(gpu.core, TS_SCHED_CTXSW_TIMEOUT_MS, 250), 0);
  const uint32_t before = gpu.Read32(NV_PFIFO_ENG_CTXSW_TIMEOUT);
  gpu.ResetFromOutside();
  EXPECT_NE(gpu.Read32(NV_PFIFO_ENG_CTXSW_TIMEOUT), before);
  ASSERT_EQ(ts_gpu_recover(gpu.core), 0);
  EXPECT_EQ(gpu.Read32(NV_PFIFO_ENG_CTXSW_TIMEOUT), before);
  EXPECT_EQ(ts_gpu_get_sched_param(gpu.core, TS_SCHED_CTXSW_TIMEOUT_MS), 250u);
}

class SilentDevice : public testing::Test {
 protected:
  SilentDevice() {
    host_.registers[NV_TS104_ID] = 0x34305354;
    host_.registers[NV_TS104_VRAM_SIZE] = 64;
    host_.registers[NV_TS104_NUM_CHIDS] = 4096;
    const ts_gpu_params params = {64u << 20, nullptr, 0};
    EXPECT_EQ(ts_gpu_create(&host_, &params, &host_.core), 0);
    host_.writes.clear();
  }
  ~SilentDevice() override { ts_gpu_destroy(host_.core); }

  ts_host_gpu host_;
};

// What a device reads that was pulled out.
TEST_F(SilentDevice, IsLeftAlone) {
  host_.registers[NV_TS104_ID] = 0xffffffff;
  EXPECT_EQ(ts_gpu_recover(host_.core), -ENOENT);
  EXPECT_TRUE(host_.writes.empty());
  EXPECT_TRUE(host_.Logged("register ID is 0xffffffff, that of a TS104 is 0x34305354"));
}

TEST_F(SilentDevice, WhoseMmuDoesNotEndIsLeftAlone) {
  host_.registers[NV_PFB_PRI_MMU_INVALIDATE] = 1u << 31;  // TRIGGER
  EXPECT_EQ(ts_gpu_recover(host_.core), -ETIMEDOUT);
  EXPECT_TRUE(host_.writes.empty());
}

}  // namespace
}  // namespace rig
