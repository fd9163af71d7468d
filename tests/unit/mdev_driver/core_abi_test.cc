// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The C door, on registers that are an array: no model behind them.
#include "core/core_abi.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fakes/fake_host.h"
#include "ts104/regs.h"

namespace {

constexpr uint64_t kMiB = 1 << 20;
enum Type : uint32_t { kV1, kV2, kV4, kV8, kV16 };

// A TS104 as far as its identity goes; invalidates and submits are done at once.
class QuietGpu : public ts_host_gpu {
 public:
  explicit QuietGpu(uint32_t mib = 64) : ts_host_gpu(mib * kMiB) {
    registers[NV_TS104_ID] = 0x34305354;
    registers[NV_TS104_VRAM_SIZE] = mib;
    registers[NV_TS104_NUM_CHIDS] = 4096;
    registers[NV_TS104_CTX_SIZE] = 0x10000;
    on_write = [this](uint32_t offset, uint32_t) {
      if (offset == NV_PFB_PRI_MMU_INVALIDATE) registers[offset] &= ~(1u << 31);
    };
  }
};

class CoreAbiTest : public testing::Test {
 protected:
  CoreAbiTest() {
    const ts_gpu_params params = {64 * kMiB, nullptr, 0};
    EXPECT_EQ(ts_gpu_create(&gpu_, &params, &gpu_.core), 0);
  }
  ~CoreAbiTest() override {
    if (vgpu_ != nullptr) {
      ts_vgpu_close(vgpu_);
      ts_vgpu_destroy(vgpu_);
    }
    ts_gpu_destroy(gpu_.core);
  }

  void Open(Type type) {
    ASSERT_EQ(ts_vgpu_create(gpu_.core, type, &guest_, &vgpu_), 0);
    guest_.core = vgpu_;
    ASSERT_EQ(ts_vgpu_open(vgpu_), 0);
  }
  uint32_t Read(uint32_t offset, uint32_t region = TS_REGION_BAR0) {
    uint32_t value = 0xdeadbeef;
    EXPECT_EQ(ts_vgpu_region_rw(vgpu_, region, offset, &value, 4, false), 0);
    return value;
  }
  void Write(uint32_t offset, uint32_t value, uint32_t region = TS_REGION_BAR0) {
    EXPECT_EQ(ts_vgpu_region_rw(vgpu_, region, offset, &value, 4, true), 0);
  }

  QuietGpu gpu_;
  ts_host_vgpu guest_{gpu_, 256};
  ts_vgpu* vgpu_ = nullptr;
};

TEST(CoreAbiCreateTest, WithoutTs104IsEnodev) {
  ts_host_gpu gpu;
  const ts_gpu_params params = {64 * kMiB, nullptr, 0};
  ts_gpu* core = nullptr;
  EXPECT_EQ(ts_gpu_create(&gpu, &params, &core), -ENODEV);
}

TEST(CoreAbiCreateTest, UnknownPolicyAndPinBatchAreEinval) {
  QuietGpu gpu;
  ts_gpu* core = nullptr;
  ts_gpu_params params = {64 * kMiB, "fair", 0};
  EXPECT_EQ(ts_gpu_create(&gpu, &params, &core), -EINVAL);
  params = {64 * kMiB, "best_effort", 513};
  EXPECT_EQ(ts_gpu_create(&gpu, &params, &core), -EINVAL);
  EXPECT_EQ(gpu.dma_bytes, 0u);
}

TEST(CoreAbiCreateTest, NoMemoryIsEnomemAndLeaksNothing) {
  for (int allowed = 0; allowed < 7; ++allowed) {
    QuietGpu gpu;
    gpu.dma_allocations_left = allowed;
    const ts_gpu_params params = {64 * kMiB, nullptr, 0};
    ts_gpu* core = nullptr;
    EXPECT_EQ(ts_gpu_create(&gpu, &params, &core), -ENOMEM) << allowed;
    EXPECT_EQ(gpu.dma_bytes, 0u);
  }
}

TEST_F(CoreAbiTest, TypesAreFractions) {
  ts_type_info info = {};
  ASSERT_EQ(ts_gpu_type_info(gpu_.core, kV4, &info), 0);
  EXPECT_STREQ(info.name, "ts104_v4");
  EXPECT_EQ(info.instances, 4u);
  EXPECT_EQ(info.vram_bytes, 16 * kMiB);
  EXPECT_EQ(info.channels, 1024u);
  EXPECT_EQ(ts_gpu_type_info(gpu_.core, 5, &info), -EINVAL);
}

TEST_F(CoreAbiTest, FullGpuIsEnospcWithFigures) {
  Open(kV1);
  ts_host_vgpu second(gpu_, 1);
  ts_vgpu* refused = nullptr;
  EXPECT_EQ(ts_vgpu_create(gpu_.core, kV16, &second, &refused), -ENOSPC);
  EXPECT_TRUE(gpu_.Logged("ts104_v16: it wants 4 MiB of VRAM in one aligned piece, 0 of 64 MiB"));
  EXPECT_EQ(ts_gpu_available(gpu_.core, kV16), 0u);
}

TEST_F(CoreAbiTest, DestroyGivesTheShareBack) {
  Open(kV2);
  EXPECT_EQ(ts_gpu_available(gpu_.core, kV2), 1u);
  ts_vgpu_close(vgpu_);
  ts_vgpu_destroy(vgpu_);
  vgpu_ = nullptr;
  EXPECT_EQ(ts_gpu_available(gpu_.core, kV2), 2u);
}

TEST_F(CoreAbiTest, SecondOpenIsEbusy) {
  Open(kV2);
  EXPECT_EQ(ts_vgpu_open(vgpu_), -EBUSY);
}

TEST_F(CoreAbiTest, IdentityIsThatOfAVgpu) {
  Open(kV2);
  EXPECT_EQ(Read(NV_PMC_BOOT_1), 1u << 16);
  EXPECT_EQ(Read(NV_TS104_VRAM_SIZE), 32u);
  EXPECT_EQ(Read(NV_TS104_NUM_CHIDS), 2048u);
  EXPECT_EQ(Read(NV_PFIFO_CFG1), 2048u);
  EXPECT_EQ(Read(0x2c, TS_REGION_CONFIG), 0x00021234u);
  EXPECT_EQ(Read(NV_FUNC_CONFIG_MIRROR_BASE), 0x75101234u);
}

TEST_F(CoreAbiTest, DoorbellWindowIsTheFunctions) {
  Open(kV2);
  EXPECT_EQ(ts_vgpu_function(vgpu_), 1u);
  Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0x80000fff);
  EXPECT_EQ(gpu_.registers[NV_CTRL_VIRTUAL_CHANNEL_CFG(1)], 0x800007ffu);
  EXPECT_EQ(Read(NV_CTRL_VIRTUAL_CHANNEL_CFG(0)), 0x80000fffu);
}

TEST_F(CoreAbiTest, MappingsLeadToTheShare) {
  ts_host_vgpu first(gpu_, 1);
  ts_vgpu* lower = nullptr;
  ASSERT_EQ(ts_vgpu_create(gpu_.core, kV2, &first, &lower), 0);
  Open(kV2);  // the upper half, function 2
  ts_mmap_target target = {};
  ASSERT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR1, 0x1000, 0x2000, &target), 0);
  EXPECT_EQ(target.bar, 1u);
  EXPECT_EQ(target.bar_offset, 32 * kMiB + 0x1000);
  EXPECT_TRUE(target.cached);
  ASSERT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR0, 0x810000, 0x1000, &target), 0);
  EXPECT_EQ(target.bar, 3u);
  EXPECT_EQ(target.bar_offset, 0x20000u);
  EXPECT_FALSE(target.cached);
  ASSERT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR0, 0xbb1000, 0x1000, &target), 0);
  EXPECT_EQ(target.bar_offset, 0x21000u);
  ASSERT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR3, 0, 0x10000, &target), 0);
  EXPECT_EQ(target.bar_offset, 0x20000u);
  ts_vgpu_destroy(lower);
}

TEST_F(CoreAbiTest, MappingOfTrappedRegistersIsRefused) {
  Open(kV2);
  ts_mmap_target target = {};
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR0, 0, 0x1000, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR0, 0x81f000, 0x2000, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR1, 32 * kMiB, 0x1000, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR1, ~uint64_t{0xfff}, 0x2000, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_BAR1, 0, 0, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, TS_REGION_CONFIG, 0, 0x1000, &target), -EINVAL);
  EXPECT_EQ(ts_vgpu_mmap(vgpu_, 99, 0, 0x1000, &target), -EINVAL);
}

TEST_F(CoreAbiTest, RegionSizesAreThoseOfTheType) {
  Open(kV8);
  ts_region_info info = {};
  ASSERT_EQ(ts_vgpu_region_info(vgpu_, TS_REGION_BAR0, &info), 0);
  EXPECT_EQ(info.size, 16 * kMiB);
  EXPECT_EQ(info.n_areas, 2u);
  ASSERT_EQ(ts_vgpu_region_info(vgpu_, TS_REGION_BAR1, &info), 0);
  EXPECT_EQ(info.size, 8 * kMiB);
  ASSERT_EQ(ts_vgpu_region_info(vgpu_, TS_REGION_BAR3, &info), 0);
  EXPECT_EQ(info.size, 0x10000u);
  ASSERT_EQ(ts_vgpu_region_info(vgpu_, 2, &info), 0);
  EXPECT_EQ(info.size, 0u);
  EXPECT_EQ(ts_vgpu_region_info(vgpu_, 9, &info), -EINVAL);
}

TEST_F(CoreAbiTest, AccessWidthsFollowTheRegisterMap) {
  Open(kV2);
  gpu_.registers[NV_PMC_BOOT_0] = 0x164000a1;
  uint8_t byte = 0;
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, 3, &byte, 1, false), 0);
  EXPECT_EQ(byte, 0x16);
  uint64_t both = 0;
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, 0, &both, 8, false), 0);
  EXPECT_EQ(both, 0x00010000'164000a1u);
  const uint16_t half = 0xffff;
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, NV_PMC_INTR_EN_SET(0),
                              const_cast<uint16_t*>(&half), 2, true),
            0);
  EXPECT_EQ(Read(NV_PMC_INTR_EN(0)), 0u);  // 16-bit writes are dropped
}

TEST_F(CoreAbiTest, BadAccessesAreEinval) {
  Open(kV2);
  uint64_t value = 0;
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, 2, &value, 4, false), -EINVAL);
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, 0, &value, 3, false), -EINVAL);
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR0, 16 * kMiB, &value, 4, false), -EINVAL);
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR1, 32 * kMiB - 2, &value, 4, false), -EINVAL);
  for (const uint32_t region : {TS_REGION_BAR0, TS_REGION_BAR1, TS_REGION_CONFIG}) {
    EXPECT_EQ(ts_vgpu_region_rw(vgpu_, region, 0, nullptr, 0, false), -EINVAL);
    EXPECT_EQ(ts_vgpu_region_rw(vgpu_, region, 0, nullptr, 0, true), -EINVAL);
  }
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, 6, 0, &value, 4, false), -EINVAL);
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, 42, 0, &value, 4, false), -EINVAL);
}

TEST_F(CoreAbiTest, VramRegionAndPraminShowTheShare) {
  Open(kV2);
  const char text[] = "turnstile";
  EXPECT_EQ(ts_vgpu_region_rw(vgpu_, TS_REGION_BAR1, 0x10003, const_cast<char*>(text), 9, true), 0);
  EXPECT_EQ(std::memcmp(gpu_.vram() + 0x10003, text, 9), 0);
  Write(NV_PBUS_BAR0_WINDOW, 0x1);
  EXPECT_EQ(Read(NV_FUNC_PRAMIN_BASE + 4), 0x736e7275u);  // "urns"
  Write(NV_PBUS_BAR0_WINDOW, 0x200);                      // 32 MiB: beyond the share
  EXPECT_EQ(Read(NV_FUNC_PRAMIN_BASE), 0xffffffffu);
  Write(NV_FUNC_PRAMIN_BASE, 0);
}

TEST_F(CoreAbiTest, CloseAndResetClearVram) {
  Open(kV2);
  gpu_.vram()[0x1234] = 1;
  EXPECT_EQ(ts_vgpu_reset(vgpu_), 0);
  EXPECT_EQ(gpu_.vram()[0x1234], 0);
  gpu_.vram()[0x1234] = 2;
  gpu_.vram()[32 * kMiB] = 3;  // another share
  ts_vgpu_close(vgpu_);
  EXPECT_EQ(gpu_.vram()[0x1234], 0);
  EXPECT_EQ(gpu_.vram()[32 * kMiB], 3);
}

TEST_F(CoreAbiTest, FlrInConfigSpaceResets) {
  Open(kV2);
  Write(NV_PFIFO_INTR_EN_0, 0xffffffff);
  Write(0x80, 0x8000, TS_REGION_CONFIG);
  EXPECT_EQ(Read(NV_PFIFO_INTR_EN_0), 0u);
  ts_counters counters = {};
  ts_vgpu_get_counters(vgpu_, &counters);
  EXPECT_EQ(counters.resets, 1u);
}

TEST_F(CoreAbiTest, SoftwareTriggerReachesTheGuest) {
  Open(kV2);
  ts_vgpu_set_irq_mode(vgpu_, TS_IRQ_MODE_MSIX);
  Write(NV_FUNC_PRIV_LEAF_EN_SET(0), 1u << 12);
  Write(NV_FUNC_PRIV_TOP_EN_SET, 0xf);
  Write(NV_FUNC_PRIV_LEAF_TRIGGER, 12);
  EXPECT_EQ(guest_.TakeMsix(), 1u);
  EXPECT_EQ(Read(NV_CTRL_LEAF(0)), 1u << 12);
}

TEST_F(CoreAbiTest, AccessesAreCounted) {
  Open(kV2);
  Read(0);
  Write(NV_PBUS_BAR0_WINDOW, 0);
  Read(0, TS_REGION_CONFIG);
  ts_counters counters = {};
  ts_vgpu_get_counters(vgpu_, &counters);
  EXPECT_EQ(counters.csr_reads, 1u);
  EXPECT_EQ(counters.csr_writes, 1u);
  EXPECT_EQ(counters.csr_exits_total, 2u);
  EXPECT_EQ(counters.config_accesses, 1u);
  EXPECT_LE(counters.memory_bytes, 256u * 1024);
}

TEST_F(CoreAbiTest, GpuSaysWhatItIs) {
  ts_gpu_info info = {};
  ts_gpu_get_info(gpu_.core, &info);
  EXPECT_EQ(info.vram_bytes, 64 * kMiB);
  EXPECT_EQ(info.channels, 4096u);
}

TEST_F(CoreAbiTest, PinBatchHasARange) {
  EXPECT_EQ(ts_gpu_set_pin_batch(gpu_.core, 0), -EINVAL);
  EXPECT_EQ(ts_gpu_set_pin_batch(gpu_.core, 513), -EINVAL);
  EXPECT_EQ(ts_gpu_set_pin_batch(gpu_.core, 1), 0);
  EXPECT_EQ(ts_gpu_set_pin_batch(gpu_.core, 512), 0);
}

TEST_F(CoreAbiTest, WeightIsWhatWasSetUntilTheVgpuGoes) {
  Open(kV4);
  EXPECT_EQ(ts_vgpu_get_sched_param(vgpu_, TS_VGPU_SCHED_WEIGHT), 100u);
  EXPECT_EQ(ts_vgpu_set_sched_param(vgpu_, TS_VGPU_SCHED_WEIGHT, 7), 0);
  EXPECT_LT(ts_vgpu_set_sched_param(vgpu_, TS_VGPU_SCHED_WEIGHT, 0), 0);
  EXPECT_EQ(ts_vgpu_get_sched_param(vgpu_, TS_VGPU_SCHED_WEIGHT), 7u);
  EXPECT_EQ(ts_vgpu_get_sched_param(vgpu_, static_cast<ts_vgpu_sched_param>(99)), 0u);
  ts_sched_figures figures = {};
  EXPECT_EQ(ts_vgpu_sched_figures(vgpu_, TS_RUNLISTS, &figures), -EINVAL);
}

TEST_F(CoreAbiTest, PoliciesHaveNames) {
  EXPECT_STREQ(ts_policy_name(0), "best_effort");
  EXPECT_STREQ(ts_policy_name(4), "latency");
  EXPECT_EQ(ts_policy_name(5), nullptr);
  EXPECT_STREQ(ts_gpu_policy(gpu_.core), "best_effort");
  EXPECT_EQ(ts_gpu_set_policy(gpu_.core, "best_effort"), 0);
  EXPECT_EQ(ts_gpu_set_policy(gpu_.core, "best"), -EINVAL);
}

// FLR must be over in 100 ms, however large the partition is.
TEST_F(CoreAbiTest, ResetReturnsBeforeVramIsClearedAndNobodySeesWhatWasThere) {
  guest_.clears_later = true;
  Open(kV4);
  for (const uint32_t toucher : {0u, 1u, 2u}) {
    Write(0x5000, 0x5ec4e7, TS_REGION_BAR1);
    ASSERT_EQ(ts_vgpu_reset(vgpu_), 0);
    EXPECT_EQ(guest_.clear_length, 16 * kMiB);
    // Registers answer meanwhile.
    EXPECT_EQ(Read(NV_TS104_VRAM_SIZE), 16u);
    EXPECT_NE(Read(0, TS_REGION_CONFIG), 0u);
    EXPECT_EQ(guest_.clear_length, 16 * kMiB);
    switch (toucher) {
      case 0: EXPECT_EQ(Read(0x5000, TS_REGION_BAR1), 0u); break;
      case 1: EXPECT_EQ(Read(NV_FUNC_PRAMIN_BASE + 0x5000), 0u); break;
      default: Write(NV_PFIFO_RUNLIST_SUBMIT(0), 0); break;
    }
    EXPECT_EQ(guest_.clear_length, 0u);
  }
  EXPECT_EQ(Read(0x5000, TS_REGION_BAR1), 0u);
}

TEST_F(CoreAbiTest, CloseWaitsUntilVramIsCleared) {
  guest_.clears_later = true;
  Open(kV4);
  Write(0x5000, 0x5ec4e7, TS_REGION_BAR1);
  ASSERT_EQ(ts_vgpu_reset(vgpu_), 0);
  ts_vgpu_close(vgpu_);
  EXPECT_EQ(guest_.clear_length, 0u);
  EXPECT_EQ(gpu_.vram()[0x5000], 0u);
}

}  // namespace
