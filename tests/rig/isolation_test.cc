// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What guests can get wrong, or try: each case behaves as the register map says, for that guest
// alone. Every test has a neighbour that goes on working.
#include <gtest/gtest.h>

#include <cstring>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

constexpr uint32_t kCopyRunlist = 1;
constexpr uint64_t kSystemVa = 0x100000;  // mapped to guest memory
constexpr uint64_t kGpa = 0x5000;

class IsolationTest : public testing::Test {
 protected:
  IsolationTest() {
    guest_.StartChannel(0, kCopyRunlist);
    neighbour_.StartChannel(0, kCopyRunlist);
  }

  // Both channels have the same number, both guests the same addresses.
  void ExpectNeighbourWorks() {
    ++round_;
    neighbour_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 0x1000 + round_));
    EXPECT_TRUE(neighbour_.WaitVram32(RawGuest::kData, 0x1000 + round_));
    EXPECT_TRUE(neighbour_.TakeFaults().empty());
    EXPECT_EQ(neighbour_.Read(NV_PFIFO_INTR_PBDMA_ID), 0u);
    EXPECT_EQ(gpu_.stray_accesses(), 0u);
  }

  ModelGpu gpu_;
  VgpuMachine machine_{gpu_, VgpuMachine::kV4, 4096};
  VgpuMachine other_{gpu_, VgpuMachine::kV4, 4096};
  RawGuest guest_{machine_};
  RawGuest neighbour_{other_};
  uint32_t round_ = 0;
};

TEST_F(IsolationTest, BothGuestsReleaseSemaphoresInTheirOwnVram) {
  guest_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 0x55));
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 0x55));
  EXPECT_EQ(neighbour_.Vram32(RawGuest::kData), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, CopyBetweenScatteredGuestPages) {
  for (uint64_t page = 0; page < 4; ++page) {
    guest_.MapSystem(kSystemVa + page * 4096, kGpa + page * 4096);
    guest_.MapSystem(kSystemVa + 0x10000 + page * 4096, kGpa + 0x8000 + page * 4096);
  }
  guest_.Invalidate();
  for (uint32_t i = 0; i < 4096; ++i) machine_.host().Store32(kGpa + i * 4, i * 3);
  guest_.Push(0, kCopyRunlist,
              RawGuest::Copy(kSystemVa, kSystemVa + 0x10000, 0x4000, RawGuest::kData, 1));
  ASSERT_TRUE(guest_.WaitVram32(RawGuest::kData, 1));
  for (uint32_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(machine_.host().Load32(kGpa + 0x8000 + i * 4), i * 3);
  }
  EXPECT_EQ(machine_.Counters().pages_pinned, 8u);
  EXPECT_NE(machine_.host().TakeMsix() & 1, 0u);  // the copy's non-stalling interrupt
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, ChangedEntryWithoutInvalidateIsNotSeen) {
  guest_.MapVram(kSystemVa, 0x90000);
  guest_.Invalidate();
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 1));
  ASSERT_TRUE(guest_.WaitVram32(0x90000, 1));
  guest_.MapVram(kSystemVa, 0x91000);
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 2));
  EXPECT_TRUE(guest_.WaitVram32(0x90000, 2));
  EXPECT_EQ(guest_.Vram32(0x91000), 0u);
  guest_.Invalidate();
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 3));
  EXPECT_TRUE(guest_.WaitVram32(0x91000, 3));
  EXPECT_EQ(guest_.Vram32(0x90000), 2u);
}

TEST_F(IsolationTest, DoorbellReachesOwnChannelsOnly) {
  neighbour_.SetVram32(RawGuest::kData, 0);
  // 1024 channels per vGPU: CHID 1024 of the first would be CHID 0 of the second.
  guest_.Ring(1024, kCopyRunlist);
  guest_.Ring(0x3fff, kCopyRunlist);
  guest_.Ring(0, 7);
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.TakeFaults().size(), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, MemOpOfAnUnprivilegedChannelRaisesMethod) {
  const uint32_t root = RawGuest::kRoot;
  guest_.Push(0, kCopyRunlist, {RawGuest::Inc(NVC46F_MEM_OP_A, 4), 0, 0, root, 0x9u << 27});
  guest_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 7));
  machine_.Advance(2'000'000);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kCopyRunlist)), 1u << 21);  // METHOD
  EXPECT_EQ(guest_.Read(NV_PPBDMA_METHOD0(kCopyRunlist)), 0x80000034u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_DATA0(kCopyRunlist)), 0x9u << 27);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_CHANNEL(kCopyRunlist)), 0x2000u);  // CHID 0, VALID
  EXPECT_EQ(guest_.Read(NV_PFIFO_INTR_PBDMA_ID), 1u << kCopyRunlist);
  EXPECT_EQ(guest_.Vram32(RawGuest::kData), 0u);
  ExpectNeighbourWorks();
  // Software drops the method and clears: the channel goes on behind it.
  guest_.Write(NV_PPBDMA_METHOD0(kCopyRunlist), 0);
  guest_.Write(NV_PPBDMA_INTR_0(kCopyRunlist), 1u << 21);
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 7));
}

TEST_F(IsolationTest, MemOpOfAPrivilegedChannelIsCarriedOut) {
  guest_.StartChannel(1, 2, 1u << 8);  // AUTH_LEVEL
  guest_.MapVram(kSystemVa, 0x92000);
  const uint32_t root = RawGuest::kRoot;
  guest_.Push(1, 2, {RawGuest::Inc(NVC46F_MEM_OP_A, 4), 0, 0, root, 0x9u << 27});
  guest_.Push(1, 2, RawGuest::Release(kSystemVa, 9));
  EXPECT_TRUE(guest_.WaitVram32(0x92000, 9));
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(2)), 0u);
  EXPECT_EQ(machine_.Counters().mem_ops, 1u);
  ExpectNeighbourWorks();
}

// Filling the shadow takes many slices. The channel starts when it is done, whether the work item
// or an invalidate of the guest did the last one.
TEST_F(IsolationTest, BigAddressSpaceIsFilledInSlices) {
  const uint64_t pd1 = RawGuest::kRoot + 0x2000;
  for (uint64_t i = 1; i < 200; ++i) {
    guest_.SetVram64(pd1 + i * 8, 0x2 | (RawGuest::kRoot + 0x3000) >> 12 << 8);
  }
  // Another root with the same tables: a new space, filled at bind.
  guest_.SetVram64(0x1f000, guest_.Vram32(RawGuest::kRoot));
  guest_.WriteInstance(1);
  guest_.SetVram32(RawGuest::kInstance + 0x1000 + NV_RAMIN_PAGE_DIR_BASE, 0x1f000 | 0xc00);
  uint32_t bind = 1u << 31 | (RawGuest::kInstance + 0x1000) >> 12;
  ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, NV_PCCSR_CHANNEL_INST(1), &bind, 4, true);
  uint32_t enable = 1u << 10;
  ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, NV_PCCSR_CHANNEL(1), &enable, 4, true);
  EXPECT_EQ(gpu_.Read32(NV_PCCSR_CHANNEL(1)) & 1, 0u) << "still held back";
  uint32_t invalidate = 1u << 31 | 0x1;
  for (int i = 0; i < 100; ++i) {
    ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, NV_PFB_PRI_MMU_INVALIDATE, &invalidate, 4,
                      true);
  }
  guest_.Submit(2, {1});
  guest_.Push(1, 2, RawGuest::Release(RawGuest::kData, 0x77));
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 0x77));
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, UnmappedAddressIsAFaultOfThatGuest) {
  guest_.Push(0, kCopyRunlist, RawGuest::Copy(0x1f0000, RawGuest::kData, 4, RawGuest::kData, 1));
  machine_.Advance(2'000'000);
  const auto faults = guest_.TakeFaults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0][0], RawGuest::kInstance);  // INST: the guest's own, VID
  EXPECT_EQ(faults[0][2] & 0xfffff000, 0x1f0000u);
  EXPECT_EQ(faults[0][6], 17u);                                // CE2, GFID 0
  EXPECT_EQ(faults[0][7] & 0x1f, 2u);                          // PTE
  EXPECT_NE(guest_.Read(NV_PCCSR_CHANNEL(0)) & 1u << 23, 0u);  // ENG_FAULTED
  EXPECT_NE(guest_.Read(NV_CTRL_LEAF(4)) & 1u << 4, 0u);       // vector 132
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, FullFaultBufferOverflowsAsOnABareGpu) {
  guest_.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0), 0);
  guest_.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0), 1u << 31 | 2);  // room for one
  guest_.StartChannel(1, 2);
  guest_.Push(0, kCopyRunlist, RawGuest::Release(0x1f0000, 1));
  guest_.Push(1, 2, RawGuest::Release(0x1f1000, 1));
  machine_.Advance(2'000'000);
  EXPECT_EQ(guest_.Read(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0)), 1u << 31 | 1u);
  EXPECT_EQ(guest_.Read(NV_PFB_PRI_MMU_FAULT_STATUS), 1u << 9 | 1u << 11 | 1u << 13);
  EXPECT_NE(guest_.Read(NV_CTRL_LEAF(4)) & 1u << 5, 0u);  // vector 133
  guest_.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0), 1);
  guest_.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0), 1u << 31 | 1u);
  EXPECT_EQ(guest_.Read(NV_PFB_PRI_MMU_FAULT_STATUS), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, PreemptAndSchedDisableAreTheGuestsOwn) {
  guest_.Write(NV_PFIFO_INTR_0_MASK_SET, 1u << 28);
  guest_.Write(NV_PFIFO_PREEMPT, 1u << 24 | 0);
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PFIFO_PREEMPT) & 1u << 20, 0u);
  EXPECT_NE(guest_.Read(NV_PFIFO_INTR_0) & 1u << 28, 0u);
  EXPECT_EQ(neighbour_.Read(NV_PFIFO_INTR_0) & 1u << 28, 0u);
  guest_.Write(NV_PFIFO_SCHED_DISABLE, 1u << kCopyRunlist);
  guest_.Write(NV_PFIFO_RUNLIST_PREEMPT, 1u << kCopyRunlist);
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  guest_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 5));
  ExpectNeighbourWorks();
  EXPECT_EQ(guest_.Vram32(RawGuest::kData), 0u);
  guest_.Write(NV_PFIFO_SCHED_DISABLE, 0);
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 5));
}

TEST_F(IsolationTest, VramBeyondThePartitionIsARegionViolation) {
  guest_.MapVram(kSystemVa, machine_.vram_bytes());  // the neighbour's first page
  guest_.Invalidate();
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 0xbad));
  machine_.Advance(2'000'000);
  const auto faults = guest_.TakeFaults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0][7] & 0x1f, 0xdu);
  EXPECT_EQ(neighbour_.Vram32(0), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, GuestMemoryThatDoesNotExistIsAnUnsupportedAperture) {
  guest_.MapSystem(kSystemVa, uint64_t{1} << 40);
  guest_.Invalidate();
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 0xbad));
  machine_.Advance(2'000'000);
  const auto faults = guest_.TakeFaults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0][7] & 0x1f, 0xau);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, DmaUnmapInUseFaultsThatGuestOnly) {
  guest_.MapSystem(kSystemVa, kGpa);
  guest_.Invalidate();
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 1));
  ASSERT_TRUE(machine_.WaitSystem32(kGpa, 1));
  ts_vgpu_dma_unmap(machine_.core(), 0, 0x100000);
  EXPECT_TRUE(machine_.host().pinned.empty());
  guest_.Push(0, kCopyRunlist, RawGuest::Release(kSystemVa, 2));
  machine_.Advance(2'000'000);
  EXPECT_EQ(guest_.TakeFaults().size(), 1u);
  EXPECT_EQ(machine_.host().Load32(kGpa), 1u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, DmaUnmapOfUserdStopsTheChannel) {
  guest_.WriteInstance(1);
  guest_.SetVram32(RawGuest::kInstance + 0x1000 + NV_RAMFC_USERD, 0x7000 | 2);  // guest memory
  guest_.Bind(1);
  guest_.Enable(1);
  guest_.Submit(2, {1});
  EXPECT_EQ(machine_.host().pinned.count(7), 1u);
  ts_vgpu_dma_unmap(machine_.core(), 0x7000, 0x1000);
  EXPECT_TRUE(machine_.host().pinned.empty());
  guest_.Ring(1, 2);
  machine_.Advance(2'000'000);
  const auto faults = guest_.TakeFaults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0][6], 34u);  // HOST2
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, BadRunlistIsASchedErrorOfThatGuest) {
  guest_.SetVram32(RawGuest::kList, 0x80030001);
  guest_.SetVram32(RawGuest::kList + 4, 0);  // LENGTH 0
  guest_.Write(NV_PFIFO_RUNLIST_BASE_LO(0), RawGuest::kList);
  guest_.Write(NV_PFIFO_RUNLIST_SUBMIT(0), 1);
  EXPECT_EQ(guest_.Read(NV_PFIFO_SCHED_ERROR), 0x20u);
  EXPECT_NE(guest_.Read(NV_PFIFO_INTR_0) & 1u << 8, 0u);
  EXPECT_EQ(neighbour_.Read(NV_PFIFO_SCHED_ERROR), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, BindErrorsAreTheGuestsOwn) {
  guest_.Bind(0);
  EXPECT_EQ(guest_.Read(NV_PFIFO_BIND_ERROR), 1u);  // BIND_NOT_UNBOUND
  guest_.Write(NV_PCCSR_CHANNEL_INST(5), 1u << 31 | 1u << 28 | 0x20);
  EXPECT_EQ(guest_.Read(NV_PFIFO_BIND_ERROR), 6u);  // INVALID_CTX_TGT
  EXPECT_EQ(neighbour_.Read(NV_PFIFO_BIND_ERROR), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, ResetTouchesOneVgpu) {
  guest_.MapSystem(kSystemVa, kGpa);
  guest_.Invalidate();
  EXPECT_EQ(ts_vgpu_reset(machine_.core()), 0);
  EXPECT_TRUE(machine_.host().pinned.empty());
  EXPECT_EQ(guest_.Vram32(RawGuest::kPageTable + RawGuest::kData / 4096 * 8), 0u);
  EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL_INST(0)), 0u);
  EXPECT_EQ(guest_.Read(NV_PFIFO_INTR_EN_0), 0u);
  ExpectNeighbourWorks();
  RawGuest again(machine_);
  again.StartChannel(0, kCopyRunlist);
  again.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 3));
  EXPECT_TRUE(again.WaitVram32(RawGuest::kData, 3));
}

TEST_F(IsolationTest, CloseLeavesNoChannelAndNoData) {
  guest_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, 0x77));
  ASSERT_TRUE(guest_.WaitVram32(RawGuest::kData, 0x77));
  machine_.Close();
  EXPECT_EQ(guest_.Vram32(RawGuest::kData), 0u);
  ExpectNeighbourWorks();
}

TEST_F(IsolationTest, SteadyWorkDoesNotTrap) {
  const uint64_t before = machine_.Counters().csr_exits_total;
  for (uint32_t i = 1; i <= 20; ++i) {
    guest_.Push(0, kCopyRunlist, RawGuest::Release(RawGuest::kData, i));
    ASSERT_TRUE(guest_.WaitVram32(RawGuest::kData, i));
  }
  EXPECT_EQ(machine_.Counters().csr_exits_total, before);
}

TEST_F(IsolationTest, IdleVgpuIsSmall) {
  VgpuMachine idle(gpu_, VgpuMachine::kV4, 16);
  EXPECT_LE(idle.Counters().memory_bytes, 256u * 1024);
}

}  // namespace
}  // namespace rig
