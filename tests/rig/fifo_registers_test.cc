// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Registers of PFIFO and of the PBDMAs as a guest's driver uses them when something is wrong: what
// is loaded, what failed, what can be done about it. All of it is the guest's own, with a neighbour
// on the same runlists.
#include <gtest/gtest.h>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

constexpr uint32_t kRunlist = 1;
constexpr uint32_t kOther = 2;
constexpr uint32_t kValid = 1u << 31;
constexpr uint32_t kEnableSet = 1u << 10;
constexpr uint32_t kEnableClear = 1u << 11;
constexpr uint32_t kPrivileged = 1u << 8;  // AUTH_LEVEL in RAMFC CONFIG
constexpr uint64_t kNowhere = 0x1f0000;    // mapped to nothing

class FifoRegistersTest : public testing::Test {
 protected:
  FifoRegistersTest() {
    neighbour_.StartChannel(0, kRunlist);
    guest_.StartChannel(0, kRunlist);
  }
  ~FifoRegistersTest() override { EXPECT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray(); }

  // Channel 0 copies for seconds from now on, with the next copy waiting in its PBDMA.
  void OccupyEngine() {
    auto words = RawGuest::Copy(RawGuest::kData, RawGuest::kData, 0x8000, RawGuest::kData, 1);
    words[7] = 0x100000;  // lines
    words.back() |= 1u << 9;
    for (int i = 0; i < 2; ++i) guest_.Push(0, kRunlist, words);
    machine_.Advance(500'000);
  }
  // An access that exits, where VgpuMachine takes the mapped page.
  uint32_t Trap(uint32_t offset, uint32_t value, bool write) {
    EXPECT_EQ(ts_vgpu_region_rw(machine_.core(), TS_REGION_BAR0, offset, &value, 4, write), 0);
    gpu_.Pump();
    return value;
  }

  ModelGpu gpu_;
  VgpuMachine machine_{gpu_, VgpuMachine::kV4, 64};
  VgpuMachine other_{gpu_, VgpuMachine::kV4, 64};
  RawGuest guest_{machine_};
  RawGuest neighbour_{other_};
};

TEST_F(FifoRegistersTest, LoadedChannelIsShownToItsGuestAlone) {
  OccupyEngine();
  EXPECT_EQ(guest_.Read(NV_PPBDMA_CHANNEL(kRunlist)), 0x2000u);  // CHID 0, VALID
  EXPECT_EQ(guest_.Read(NV_PPBDMA_USERD(kRunlist)), RawGuest::kUserd);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_USERD_HI(kRunlist)), 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_GP_BASE(kRunlist)), RawGuest::kRing);
  EXPECT_EQ(guest_.Read(NV_PFIFO_PBDMA_STATUS_INST(kRunlist)), kValid | RawGuest::kInstance >> 12);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_STATUS(kRunlist)), 0u);  // nothing of the kind for guests
  for (const uint32_t offset :
       {NV_PPBDMA_CHANNEL(kRunlist), NV_PPBDMA_USERD(kRunlist), NV_PPBDMA_GP_BASE(kRunlist),
        NV_PFIFO_PBDMA_STATUS_INST(kRunlist)}) {
    EXPECT_EQ(neighbour_.Read(offset), 0u) << offset;
  }
}

TEST_F(FifoRegistersTest, ErrorShowsTheChannelAsItWasSavedAndTheWordsThatFailed) {
  guest_.Push(0, kRunlist, {RawGuest::Inc(NVC46F_ILLEGAL, 1), 0x1234});
  machine_.Advance(1'000'000);
  ASSERT_NE(guest_.Read(NV_PPBDMA_INTR_0(kRunlist)), 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_CHANNEL(kRunlist)), 0x2000u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_DATA0(kRunlist)), 0x1234u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_GP_BASE(kRunlist)), RawGuest::kRing);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_SIGNATURE(kRunlist)), 0xfaceu);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_1(kRunlist)), 0u);
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_INTR_0(kRunlist)), 0u);
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_DATA0(kRunlist)), 0u);
}

TEST_F(FifoRegistersTest, BadHeaderAndBadRingEntryAreShown) {
  constexpr uint32_t kHeader = 6u << 29 | 1u << 16;
  guest_.Push(0, kRunlist, {kHeader, 0});
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_HDR_SHADOW(kRunlist)), kHeader);
  guest_.Write(NV_PPBDMA_INTR_0(kRunlist), ~0u);
  // A control entry with an operation that there is not.
  guest_.SetVram64(RawGuest::kRing + 8, uint64_t{0x7f} << 32 | 0x1230);
  guest_.SetVram32(RawGuest::kUserd + NV_USERD_GP_PUT, 2);
  guest_.Ring(0, kRunlist);
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_GP_SHADOW_0(kRunlist)), 0x1230u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_GP_SHADOW_1(kRunlist)), 0x7fu);
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_GP_SHADOW_0(kRunlist)), 0u);
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_HDR_SHADOW(kRunlist)), 0u);
}

TEST_F(FifoRegistersTest, ClassErrorNamesTheMethodInTheDebugRegisters) {
  guest_.Push(0, kRunlist, {RawGuest::Inc(NVC46F_SET_OBJECT, 1, 4), 0x1234});
  machine_.Advance(1'000'000);
  EXPECT_NE(guest_.Read(NV_PPBDMA_INTR_1(kRunlist)), 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kRunlist)), 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_HCE_DBG1(kRunlist)), 0x1234u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_HCE_DBG0(kRunlist)), 0u);  // address of SET_OBJECT
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_HCE_DBG1(kRunlist)), 0u);
}

TEST_F(FifoRegistersTest, WordsWithoutEffectHoldWhatIsWritten) {
  for (const uint32_t offset : {NV_PPBDMA_TIMEOUT(kRunlist), NV_PPBDMA_INTR_STALL(kRunlist),
                                NV_PPBDMA_INTR_STALL_1(kRunlist), NV_PPBDMA_INTR_EN_0(kRunlist),
                                NV_PPBDMA_INTR_EN_1(kRunlist)}) {
    guest_.Write(offset, 0xa5a5a5a5);
    EXPECT_EQ(guest_.Read(offset), 0xa5a5a5a5u) << offset;
    EXPECT_NE(neighbour_.Read(offset), 0xa5a5a5a5u) << offset;
  }
  guest_.Write(NV_PPBDMA_GP_GET(kRunlist), 7);  // the hardware's
  EXPECT_EQ(guest_.Read(NV_PPBDMA_GP_GET(kRunlist)), 0u);
}

TEST_F(FifoRegistersTest, PrivilegedChannelClearsTheFaultOfAnother) {
  guest_.StartChannel(1, kOther, kPrivileged);
  guest_.Push(0, kRunlist, RawGuest::Release(kNowhere, 1));
  machine_.Advance(1'000'000);
  ASSERT_NE(guest_.Read(NV_PCCSR_CHANNEL(0)) & 1u << 22, 0u);  // PBDMA_FAULTED
  // A channel of nobody's first: nothing happens.
  guest_.Push(1, kOther, {RawGuest::Inc(NVC46F_CLEAR_FAULTED, 1), 0xffff});
  guest_.Push(1, kOther, {RawGuest::Inc(NVC46F_CLEAR_FAULTED, 1), 1u << 31});  // ENG, channel 0
  machine_.Advance(1'000'000);
  EXPECT_NE(guest_.Read(NV_PCCSR_CHANNEL(0)) & 1u << 22, 0u);
  // Then the release is tried again, to memory that is there.
  guest_.MapVram(kNowhere, RawGuest::kData);
  guest_.Invalidate();
  guest_.Push(1, kOther, {RawGuest::Inc(NVC46F_CLEAR_FAULTED, 1), 0});  // PBDMA, channel 0
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 1));
  EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL(0)) & 1u << 22, 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kOther)), 0u);
}

TEST_F(FifoRegistersTest, OrdinaryChannelMayNotClearFaults) {
  guest_.StartChannel(1, kOther);
  guest_.Push(1, kOther, {RawGuest::Inc(NVC46F_CLEAR_FAULTED, 1), 0});
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kOther)), 1u << 21);  // METHOD
}

// The shadow of a big address space is made in slices; the method is done when the last one is.
TEST_F(FifoRegistersTest, MemOpOnABigAddressSpaceCompletesInOrder) {
  guest_.StartChannel(1, kOther, kPrivileged);
  const uint64_t pd1 = RawGuest::kRoot + 0x2000;
  for (uint64_t i = 1; i < 200; ++i) {
    guest_.SetVram64(pd1 + i * 8, 0x2 | (RawGuest::kRoot + 0x3000) >> 12 << 8);
  }
  guest_.Push(1, kOther, {RawGuest::Inc(NVC46F_MEM_OP_A, 4), 0, 0, RawGuest::kRoot, 0x9u << 27});
  // The far end of what is new, mapped like the first 2 MiB.
  const uint64_t far = uint64_t{199} << 29 | RawGuest::kData;
  guest_.Push(1, kOther, RawGuest::Release(far, 7));
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 7, 100));
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kOther)), 0u);
  EXPECT_TRUE(guest_.TakeFaults().empty());
}

TEST_F(FifoRegistersTest, EngineResetTakesTheGuestsOwnChannelOff) {
  OccupyEngine();
  guest_.Write(NV_PMC_ENABLE, ~(1u << NV_PMC_ENABLE_BIT_CE2));
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kRunlist)), 1u << 24);  // ENG_RESET
  EXPECT_EQ(neighbour_.Read(NV_PPBDMA_INTR_0(kRunlist)), 0u);
  neighbour_.Push(0, kRunlist, RawGuest::Release(RawGuest::kData, 3));
  EXPECT_TRUE(neighbour_.WaitVram32(RawGuest::kData, 3));
  // With nothing of this guest on the engine it is no operation, as for an engine that is none.
  guest_.Write(NV_PPBDMA_INTR_0(kRunlist), ~0u);
  guest_.Write(NV_PMC_ENABLE, ~(1u << NV_PMC_ENABLE_BIT_CE3));
  guest_.Write(NV_PMC_ENABLE, ~(1u << NV_PMC_ENABLE_BIT_GRAPHICS));
  guest_.Write(NV_PMC_ENABLE, ~1u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(kOther)), 0u);
  EXPECT_EQ(guest_.Read(NV_PPBDMA_INTR_0(0)), 0u);
}

TEST_F(FifoRegistersTest, TrappedDoorbellWorksLikeTheMappedOne) {
  constexpr uint32_t kDoorbell = NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING;
  const auto words = RawGuest::Release(RawGuest::kData, 9);
  for (size_t i = 0; i < words.size(); ++i) {
    guest_.SetVram32(RawGuest::kPush + i * 4, words[i]);
  }
  guest_.SetVram64(RawGuest::kRing, RawGuest::kPush | uint64_t{words.size()} << 42);
  guest_.SetVram32(RawGuest::kUserd + NV_USERD_GP_PUT, 1);
  for (const uint32_t wrong : {1u << 30, 0xfffu, 5u << 16}) Trap(kDoorbell, wrong, true);
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Vram32(RawGuest::kData), 0u);
  Trap(kDoorbell, 0 | kRunlist << 16, true);
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData, 9));
}

TEST_F(FifoRegistersTest, FunctionTimeIsTheGuestsOwnFromItsOpen) {
  const auto time = [](RawGuest& guest) {
    const uint64_t low = guest.Read(NV_TS104_FUNCTION_TIME_LO(64 * kRunlist));
    return low | uint64_t{guest.Read(NV_TS104_FUNCTION_TIME_HI(64 * kRunlist))} << 32;
  };
  const uint64_t before = time(guest_);
  const uint64_t neighbour = time(neighbour_);
  OccupyEngine();
  const uint64_t run = time(guest_) - before;
  EXPECT_EQ(run, 375'000u);  // a context switch is nobody's
  EXPECT_EQ(time(neighbour_), neighbour);
  // Nobody sees another's.
  for (uint32_t function = 1; function < 4; ++function) {
    EXPECT_EQ(guest_.Read(NV_TS104_FUNCTION_TIME_LO(64 * kRunlist + function)), 0u);
  }
}

TEST_F(FifoRegistersTest, ChannelThatRunsCannotBeUnbound) {
  OccupyEngine();
  guest_.Write(NV_PCCSR_CHANNEL_INST(0), 0);
  EXPECT_EQ(guest_.Read(NV_PFIFO_BIND_ERROR), 3u);  // UNBIND_WHILE_RUNNING
  EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL_INST(0)) & kValid, kValid);
  guest_.Write(NV_PCCSR_CHANNEL(0), kEnableClear);
  machine_.Advance(5'000'000);
  guest_.Write(NV_PCCSR_CHANNEL_INST(0), 0);
  EXPECT_EQ(guest_.Read(NV_PCCSR_CHANNEL_INST(0)) & kValid, 0u);
}

// A block that changes while its channel is on the way off the engine is read again when it is
// enabled: the new ring is used.
TEST_F(FifoRegistersTest, BlockChangedOnTheWayOffIsReadAgain) {
  OccupyEngine();
  guest_.Write(NV_PCCSR_CHANNEL(0), kEnableClear);
  guest_.WriteInstance(0);
  guest_.Write(NV_PCCSR_CHANNEL(0), kEnableSet);
  guest_.Push(0, kRunlist, RawGuest::Release(RawGuest::kData + 8, 0x44));
  EXPECT_TRUE(guest_.WaitVram32(RawGuest::kData + 8, 0x44, 100));
}

TEST_F(FifoRegistersTest, PreemptionsEndWhetherSomethingIsLoadedOrNot) {
  guest_.Write(NV_PFIFO_INTR_0_MASK_SET, 1u << 28);
  guest_.Write(NV_PFIFO_PREEMPT, 1u << 24 | 0xfff);  // a TSG beyond the guest's
  EXPECT_NE(guest_.Read(NV_PFIFO_INTR_0) & 1u << 28, 0u);
  OccupyEngine();
  guest_.Write(NV_PFIFO_RUNLIST_PREEMPT, 1u << kRunlist);
  EXPECT_EQ(guest_.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(kRunlist)) & 0xfff, 0u);  // TSG 0
  machine_.Advance(1'000'000);
  EXPECT_EQ(guest_.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  // With the runlist stopped it is over when nothing is loaded any more.
  guest_.Write(NV_PFIFO_SCHED_DISABLE, 1u << kRunlist);
  guest_.Write(NV_PFIFO_RUNLIST_PREEMPT, 1u << kRunlist);
  machine_.Advance(5'000'000);
  EXPECT_EQ(guest_.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
}

}  // namespace
}  // namespace rig
