// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Device, address space and channel from creation to the end, on registers that are only memory:
// the order of register writes, failures at every allocation, hardware that does not obey.
#include <gtest/gtest.h>

#include <algorithm>

#include "fakes/allocation_limit.h"
#include "fakes/fake_guest_os.h"
#include "guest_driver/core/guest_abi.h"

namespace guest {
namespace {

using Write = std::pair<uint32_t, uint32_t>;

constexpr uint32_t kChannel0 = 0x800004;
constexpr uint32_t kBusy = 1u << 28;

class LifecycleTest : public testing::Test {
 protected:
  void SetUp() override {
    auto& registers = machine_.registers;
    registers[0xa00] = 0x16400000;
    registers[0xf000] = 0x34305354;
    registers[0xf004] = 16;  // MiB
    registers[0xf008] = 2;
    registers[0xf014] = 65536;
    registers[0xf018] = 16;
    registers[0x200] = 0xffffffff;
    FillEngine(0, 0, 0, 12);
    FillEngine(1, 19, 1, 7);
    machine_.on_write = [this](uint32_t offset, uint32_t value) {
      if (offset == 0x100cbc) machine_.registers[offset] = value & 0x7fffffff;  // done at once
      if (offset == kChannel0 && (value & 0x800) != 0) machine_.registers[offset] = on_disable_;
    };
  }

  void FillEngine(uint32_t index, uint32_t type, uint32_t runlist, uint32_t vector) {
    const uint32_t offset = 0x22700 + index * 12;
    machine_.registers[offset] = 0x80000001;
    machine_.registers[offset + 4] =
        0x80000002 | 0x3c | vector << 9 | vector << 15 | runlist << 21 | index << 26;
    machine_.registers[offset + 8] = 3 | type << 2;
  }

  int Create() { return tsg_device_create(&fakes::FakeGuestOs::Ops(), &machine_, 0, &device_); }

  tsg_channel_params Params(uint32_t runlist) {
    tsg_channel_params params = {};
    params.runlist = runlist;
    params.ring_va = 0x10000;
    params.ring_order = 4;
    params.userd_address = 0x200;
    params.userd_aperture = TSG_APERTURE_SYSMEM;
    return params;
  }

  fakes::FakeGuestOs machine_;
  uint32_t on_disable_ = 0;  // what PCCSR reads after ENABLE_CLR
  tsg_device* device_ = nullptr;
};

TEST_F(LifecycleTest, InfoComesFromTheRegisters) {
  ASSERT_EQ(Create(), 0);
  tsg_device_info info = {};
  tsg_device_get_info(device_, &info);
  EXPECT_EQ(info.vram_bytes, 16u << 20);
  EXPECT_EQ(info.chip_id, 0x164u);
  EXPECT_EQ(info.is_vgpu, 0u);
  EXPECT_EQ(info.num_chids, 16u);
  EXPECT_EQ(info.engine_runlist_mask, 3u);
  EXPECT_EQ(info.copy_runlist_mask, 2u);
  EXPECT_EQ(info.doorbell_offset, 0x810000u);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, PendingEnableIsTheLastWriteOfBringUpAndGoesAtTheEnd) {
  ASSERT_EQ(Create(), 0);
  EXPECT_EQ(machine_.writes.back(), Write(0xb65000, 0x80000fff));
  tsg_device_destroy(device_);
  EXPECT_EQ(machine_.writes.back(), Write(0xb65000, 0xfff));
}

TEST_F(LifecycleTest, EnginesAreResetBeforeUse) {
  ASSERT_EQ(Create(), 0);
  const auto first = std::find(machine_.writes.begin(), machine_.writes.end(),
                               Write(0x200, 0xffffffff & ~0x1180u));
  ASSERT_NE(first, machine_.writes.end());
  EXPECT_EQ(*(first + 1), Write(0x200, 0xffffffff));
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, ChannelIsBoundEnabledThenSubmitted) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  machine_.writes.clear();
  tsg_channel* channel = nullptr;
  const tsg_channel_params params = Params(1);
  ASSERT_EQ(tsg_channel_create(vm, &params, &channel), 0);
  EXPECT_EQ(tsg_channel_chid(channel), 0u);
  EXPECT_EQ(tsg_channel_token(channel), 0x10000u);
  ASSERT_EQ(machine_.writes.size(), 6u);
  EXPECT_EQ(machine_.writes[0], Write(kChannel0, 0x00c00000)) << "old FAULTED bits";
  EXPECT_EQ(machine_.writes[1].first, 0x800000u);
  EXPECT_EQ(machine_.writes[1].second >> 28, 8u) << "BIND, VID";
  EXPECT_EQ(machine_.writes[2], Write(kChannel0, 0x400)) << "ENABLE_SET";
  EXPECT_EQ(machine_.writes[5], Write(0x2b18, 2)) << "SUBMIT of two entries";

  machine_.writes.clear();
  tsg_channel_destroy(channel);
  EXPECT_EQ(machine_.writes.front(), Write(kChannel0, 0x800)) << "ENABLE_CLR";
  EXPECT_EQ(machine_.writes.back(), Write(0x800000, 0)) << "unbound last";
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, ChannelParametersAreChecked) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  const auto refused = [&](auto&& change) {
    tsg_channel_params params = Params(0);
    change(params);
    tsg_channel* channel = nullptr;
    return tsg_channel_create(vm, &params, &channel) == -22;
  };
  EXPECT_TRUE(refused([](auto& p) { p.runlist = 2; })) << "no such engine";
  EXPECT_TRUE(refused([](auto& p) { p.runlist = 3; }));
  EXPECT_TRUE(refused([](auto& p) { p.ring_order = 0; }));
  EXPECT_TRUE(refused([](auto& p) { p.ring_order = 17; }));
  EXPECT_TRUE(refused([](auto& p) { p.ring_va = 4; }));
  EXPECT_TRUE(refused([](auto& p) { p.ring_va = TSG_RING_VA_LIMIT - 64; }));
  EXPECT_TRUE(refused([](auto& p) { p.userd_address = 0x100; }));
  EXPECT_TRUE(refused([](auto& p) { p.userd_address = 1ull << 40; }));
  EXPECT_TRUE(refused([](auto& p) { p.userd_aperture = 2; }));
  EXPECT_TRUE(refused([](auto& p) { p.flags = 1; }));
  EXPECT_TRUE(refused([](auto& p) {
    p.userd_aperture = TSG_APERTURE_VRAM;
    p.userd_address = 16u << 20;
  }));
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, ChidsRunOut) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  std::vector<tsg_channel*> channels(16);
  tsg_channel_params params = Params(1);
  for (tsg_channel*& channel : channels) ASSERT_EQ(tsg_channel_create(vm, &params, &channel), 0);
  tsg_channel* more = nullptr;
  EXPECT_EQ(tsg_channel_create(vm, &params, &more), -28);
  for (tsg_channel* channel : channels) tsg_channel_destroy(channel);
  EXPECT_EQ(tsg_channel_create(vm, &params, &more), 0);
  tsg_channel_destroy(more);
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, ChannelThatDoesNotStopKeepsItsNumberAndMemory) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  const tsg_channel_params params = Params(1);
  tsg_channel* channel = nullptr;
  ASSERT_EQ(tsg_channel_create(vm, &params, &channel), 0);
  const uint64_t free = tsg_vram_available(device_);
  on_disable_ = kBusy;
  EXPECT_EQ(tsg_channel_stop(channel), -110);
  EXPECT_EQ(tsg_channel_restart(channel), -110);
  EXPECT_LT(machine_.now_ns, 5'000'000'000u) << "bounded";
  tsg_channel_destroy(channel);
  EXPECT_EQ(tsg_vram_available(device_), free);
  tsg_channel* next = nullptr;
  ASSERT_EQ(tsg_channel_create(vm, &params, &next), 0);
  EXPECT_EQ(tsg_channel_chid(next), 1u);
  tsg_channel_destroy(next);
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, LostDeviceLetsEverythingEnd) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  const tsg_channel_params params = Params(0);
  tsg_channel* channel = nullptr;
  ASSERT_EQ(tsg_channel_create(vm, &params, &channel), 0);
  on_disable_ = kBusy;
  tsg_device_mark_lost(device_);
  machine_.writes.clear();
  tsg_channel_status status = {};
  EXPECT_EQ(tsg_channel_get_status(channel, &status), -5);
  EXPECT_EQ(status.first.kind, static_cast<uint32_t>(TSG_ERROR_DEVICE_LOST));
  tsg_channel* more = nullptr;
  EXPECT_EQ(tsg_channel_create(vm, &params, &more), -5);
  EXPECT_EQ(tsg_vm_flush(vm), 0);
  EXPECT_EQ(tsg_irq(device_, -1), 0u);
  tsg_channel_destroy(channel);
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
  EXPECT_TRUE(machine_.writes.empty());
}

TEST_F(LifecycleTest, HangingInvalidateKeepsRetiredTables) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  const tsg_extent extent = {0x100000, 0x1000, TSG_APERTURE_VRAM, 0};
  ASSERT_EQ(tsg_vm_map(vm, 0, &extent, 1, 0), 0);
  ASSERT_EQ(tsg_vm_flush(vm), 0);
  const uint64_t free = tsg_vram_available(device_);
  ASSERT_EQ(tsg_vm_unmap(vm, 0, 0x1000), 0);
  machine_.on_write = nullptr;  // TRIGGER stays
  EXPECT_EQ(tsg_vm_flush(vm), -110);
  EXPECT_EQ(tsg_vram_available(device_), free);
  tsg_device_mark_lost(device_);
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

TEST_F(LifecycleTest, PbdmaErrorFoundWhileAnotherChannelStopsIsReported) {
  ASSERT_EQ(Create(), 0);
  tsg_vm* vm = nullptr;
  ASSERT_EQ(tsg_vm_create(device_, &vm), 0);
  const tsg_channel_params params = Params(1);
  tsg_channel* stopping = nullptr;
  tsg_channel* guilty = nullptr;
  ASSERT_EQ(tsg_channel_create(vm, &params, &stopping), 0);
  ASSERT_EQ(tsg_channel_create(vm, &params, &guilty), 0);
  // PBDMA 1 is frozen by channel 1; channel 0 leaves only after the PBDMA was thawed.
  machine_.registers[0x42108] = 1u << 21;
  machine_.registers[0x42120] = 0x2001;
  on_disable_ = kBusy;
  const auto before = machine_.on_write;
  machine_.on_write = [&](uint32_t offset, uint32_t value) {
    before(offset, value);
    if (offset != 0x42108) return;
    machine_.registers[offset] = 0;
    machine_.registers[kChannel0] = 0;
  };
  tsg_channel_destroy(stopping);
  tsg_error error = {};
  ASSERT_EQ(tsg_service_errors(device_, &error, 1), 1u);
  EXPECT_EQ(error.chid, 1u);
  EXPECT_EQ(error.kind, static_cast<uint32_t>(TSG_ERROR_PBDMA));
  EXPECT_EQ(error.type, 1u << 21);
  EXPECT_EQ(tsg_service_errors(device_, &error, 1), 0u) << "once";
  tsg_channel_destroy(guilty);
  tsg_vm_destroy(vm);
  tsg_device_destroy(device_);
}

// Returns the first error, or 0 when all of it worked; leaves nothing behind either way.
int LiveOnce(fakes::FakeGuestOs& machine, const tsg_channel_params& params) {
  tsg_device* device = nullptr;
  int result = tsg_device_create(&fakes::FakeGuestOs::Ops(), &machine, 0, &device);
  if (result != 0) return result;
  tsg_vm* vm = nullptr;
  tsg_channel* channel = nullptr;
  const tsg_extent extent = {0x100000, 0x211000, TSG_APERTURE_VRAM, 0};
  result = tsg_vm_create(device, &vm);
  if (result == 0) result = tsg_vm_map(vm, 0x1000, &extent, 1, 0);
  if (result == 0) result = tsg_channel_create(vm, &params, &channel);
  if (result == 0) result = tsg_vm_unmap(vm, 0x5000, 0x1000);
  if (result == 0) result = tsg_vm_flush(vm);
  tsg_channel_destroy(channel);
  if (vm != nullptr) tsg_vm_destroy(vm);
  tsg_device_destroy(device);
  return result;
}

TEST_F(LifecycleTest, EveryFailedAllocationIsAnErrorAndLeaksNothing) {
  const tsg_channel_params params = Params(0);
  machine_.writes.reserve(1 << 20);
  ASSERT_EQ(LiveOnce(machine_, params), 0);
  for (size_t allowed = 0;; ++allowed) {
    ASSERT_LT(allowed, 1000u);
    machine_.writes.clear();
    machine_.log.clear();
    machine_.log.shrink_to_fit();
    const size_t before = fakes::LiveAllocations();
    int result = 0;
    {
      const fakes::AllocationLimit limit(allowed);
      result = LiveOnce(machine_, params);
    }
    machine_.log.clear();
    machine_.log.shrink_to_fit();
    EXPECT_EQ(fakes::LiveAllocations(), before) << allowed;
    if (result == 0) break;
    EXPECT_EQ(result, -12) << allowed;
  }
}

}  // namespace
}  // namespace guest
