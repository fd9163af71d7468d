// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What one exit costs the host, counted: docs/memory_virtualization.md, Bounded work. The guest
// prepares as much as its limits allow, then does the one thing.
#include <gtest/gtest.h>

#include <cstdio>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

constexpr uint64_t kPage = TS_PAGE_SIZE;
constexpr uint32_t kTables = 16384;  // of the core's limit

struct Caps {
  uint64_t allocations, frees, copied, pins, registers;
};
// 16384 units of work: 256 tables, and one more table's children beyond it.
constexpr Caps kCaps = {1600, 1600, 2u << 20, 16384 + 512, 4096};

class BoundedWorkTest : public testing::Test {
 protected:
  void Trap(const char* what, uint32_t offset, uint32_t value) {
    const HostWork before = gpu_.work;
    ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, offset, &value, sizeof(value), true);
    const HostWork& after = gpu_.work;
    const uint64_t copied =
        after.guest_bytes - before.guest_bytes + after.vram_bytes - before.vram_bytes;
    std::printf("%s: %lu allocations, %lu frees, %lu KiB read, %lu pins, %lu unpins\n", what,
                static_cast<unsigned long>(after.dma_allocations - before.dma_allocations),
                static_cast<unsigned long>(after.dma_frees - before.dma_frees),
                static_cast<unsigned long>(copied / 1024),
                static_cast<unsigned long>(after.pins - before.pins),
                static_cast<unsigned long>(after.unpins - before.unpins));
    EXPECT_LE(after.dma_allocations - before.dma_allocations, kCaps.allocations) << what;
    EXPECT_LE(after.dma_frees - before.dma_frees, kCaps.frees) << what;
    EXPECT_LE(copied, kCaps.copied) << what;
    EXPECT_LE(after.pins - before.pins, kCaps.pins) << what;
    EXPECT_LE(after.unpins - before.unpins, kCaps.pins) << what;
    EXPECT_LE(after.registers - before.registers, kCaps.registers) << what;
  }
  // Work items until there are none.
  void Settle() { gpu_.Pump(); }

  // A directory of which every entry is itself: 512 + 512 * 512 ... tables.
  void MakeCycle(uint64_t root) {
    for (uint64_t i = 0; i < 512; ++i) guest_.SetVram64(root + i * 8, 0x2 | root >> 12 << 8);
  }
  void SetRoot(uint32_t channel, uint64_t root) {
    guest_.WriteInstance(channel);
    guest_.SetVram32(RawGuest::kInstance + channel * kPage + NV_RAMIN_PAGE_DIR_BASE,
                     static_cast<uint32_t>(root) | 0xc00);
  }

  ModelGpu gpu_;
  VgpuMachine machine_{gpu_, VgpuMachine::kV4, 4096};
  RawGuest guest_{machine_};
};

TEST_F(BoundedWorkTest, DirectoryThatPointsToItself) {
  constexpr uint64_t kRoot = 0x100000;
  MakeCycle(kRoot);
  SetRoot(0, kRoot);
  const uint64_t before = gpu_.dma_bytes;
  Trap("bind", NV_PCCSR_CHANNEL_INST(0), 1u << 31 | RawGuest::kInstance >> 12);
  Settle();
  EXPECT_GT(gpu_.dma_bytes - before, kTables / 2 * kPage) << "the cycle is followed to the limit";
  Trap("invalidate", NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
  Settle();
  // Another root: the old tree goes, slice by slice.
  Trap("unbind", NV_PCCSR_CHANNEL_INST(0), 0);
  Settle();
  EXPECT_EQ(gpu_.dma_bytes, before);
  // The next space has room again.
  Trap("bind again", NV_PCCSR_CHANNEL_INST(0), 1u << 31 | RawGuest::kInstance >> 12);
}

TEST_F(BoundedWorkTest, SpaceIsReplacedAtTheLimitOfTables) {
  constexpr uint64_t kRoot = 0x100000;
  MakeCycle(kRoot);
  SetRoot(0, kRoot);
  SetRoot(1, kRoot + kPage);  // empty
  guest_.Bind(0);
  Settle();
  // No work item between the two: all tables still wait to be freed.
  uint32_t value = 0;
  ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, NV_PCCSR_CHANNEL_INST(0), &value, 4, true);
  value = 1u << 31 | static_cast<uint32_t>((RawGuest::kInstance + kPage) >> 12);
  ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, NV_PCCSR_CHANNEL_INST(1), &value, 4, true);
  EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL(1)) & 1, 0u);
  EXPECT_EQ(machine_.Counters().channels, 1u);
}

TEST_F(BoundedWorkTest, ManyPagesAreUnpinnedInSlices) {
  // 4096 pages in 8 tables.
  constexpr uint64_t kTable = 0x200000;
  for (uint64_t region = 0; region < 8; ++region) {
    guest_.SetVram64(RawGuest::kRoot + 0x3000 + (8 + region) * 16 + 8,
                     0x2 | (kTable + region * kPage) >> 12 << 8);
    for (uint64_t i = 0; i < 512; ++i) {
      guest_.SetVram64(kTable + region * kPage + i * 8, 0x5 | (region * 512 + i) << 8);
    }
  }
  guest_.WriteInstance(0);
  Trap("bind", NV_PCCSR_CHANNEL_INST(0), 1u << 31 | RawGuest::kInstance >> 12);
  Settle();
  EXPECT_EQ(machine_.Counters().pages_pinned, 4096u);
  Trap("unbind", NV_PCCSR_CHANNEL_INST(0), 0);
  Settle();
  EXPECT_EQ(machine_.Counters().pages_pinned, 0u);
  EXPECT_TRUE(machine_.host().pinned.empty());
}

TEST_F(BoundedWorkTest, ListOfManyChannelsIsReadInSlices) {
  constexpr uint32_t kChannels = 1024;
  constexpr uint64_t kBlocks = 0x800000;
  constexpr uint64_t kList = 0x600000;
  for (uint32_t c = 0; c < kChannels; ++c) {
    guest_.Write(NV_PCCSR_CHANNEL_INST(c),
                 1u << 31 | static_cast<uint32_t>((kBlocks + c * kPage) >> 12));
    guest_.Write(NV_PCCSR_CHANNEL(c), 1u << 10);
    // Only now is the block filled: the submit has to read it.
    guest_.SetVram32(kBlocks + c * kPage + NV_RAMFC_SIGNATURE, 0xface);
    guest_.SetVram32(kBlocks + c * kPage + NV_RAMFC_USERD, 0x700000 + c % 512 * 512);
    guest_.SetVram32(kBlocks + c * kPage + NV_RAMIN_PAGE_DIR_BASE, RawGuest::kRoot | 0xc00);
    guest_.SetVram32(kList + c * 32, 0x80030001);
    guest_.SetVram32(kList + c * 32 + 4, 1);
    guest_.SetVram32(kList + c * 32 + 8, c);
    guest_.SetVram32(kList + c * 32 + 24, c);
  }
  guest_.Write(NV_PFIFO_RUNLIST_BASE_LO(1), kList);
  const HostWork before = gpu_.work;
  Trap("submit", NV_PFIFO_RUNLIST_SUBMIT(1), kChannels * 2);
  // Of the blocks 16 were read, of the list all.
  EXPECT_LT(gpu_.work.vram_bytes - before.vram_bytes, 16 * 4096u + kChannels * 32);
  Settle();
  for (const uint32_t c : {0u, 15u, 16u, kChannels - 1}) {
    EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL(c)) & 1, 1u) << c;
    EXPECT_EQ(gpu_.Read32(NV_PCCSR_CHANNEL(c)) & 1, 1u) << c << " is enabled on the device";
  }
}

}  // namespace
}  // namespace rig
