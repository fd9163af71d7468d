// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/memory/pin_table.h"

#include <gtest/gtest.h>

#include <array>

#include "fakes/fake_host.h"

namespace turnstile {
namespace {

class PinTableTest : public testing::Test {
 protected:
  std::array<uint64_t, 512> Acquire(uint64_t page, uint32_t count, uint32_t batch = 512) {
    std::array<uint64_t, 512> dma{};
    pins_.Acquire(base::Gpa(page << 12), count, dma.data(), batch);
    return dma;
  }
  void Release(uint64_t page) { pins_.Release(base::Gpa(page << 12)); }

  ts_host_gpu gpu_;
  ts_host_vgpu guest_{gpu_, 4096};
  PinTable pins_{&guest_, 42};
};

TEST_F(PinTableTest, GivesTheAddressOfEveryPage) {
  const auto dma = Acquire(10, 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(dma[i], guest_.DmaOf(10 + i));
  EXPECT_EQ(pins_.pinned(), 4u);
}

TEST_F(PinTableTest, OnlyWhatIsMissingIsPinned) {
  Acquire(12, 1);
  guest_.pin_calls.clear();
  Acquire(10, 5);
  ASSERT_EQ(guest_.pin_calls.size(), 2u);
  EXPECT_EQ(guest_.pin_calls[0], std::make_pair(uint64_t{10 << 12}, 2u));
  EXPECT_EQ(guest_.pin_calls[1], std::make_pair(uint64_t{13 << 12}, 2u));
}

TEST_F(PinTableTest, ReleasedPageStaysUntilFlush) {
  Acquire(10, 1);
  Release(10);
  EXPECT_EQ(guest_.pinned.size(), 1u);
  pins_.Flush();
  EXPECT_TRUE(guest_.pinned.empty());
}

TEST_F(PinTableTest, PageTakenAgainBeforeFlushStays) {
  Acquire(10, 1);
  Release(10);
  Acquire(10, 1);
  pins_.Flush();
  EXPECT_EQ(guest_.pinned.size(), 1u);
  EXPECT_EQ(guest_.pin_calls.size(), 1u);
}

TEST_F(PinTableTest, NeighboursAreUnpinnedTogether) {
  Acquire(10, 32);
  for (uint64_t page = 41; page >= 10; --page) Release(page);
  pins_.Flush();
  ASSERT_EQ(guest_.unpin_calls.size(), 1u);
  EXPECT_EQ(guest_.unpin_calls[0], std::make_pair(uint64_t{10 << 12}, 32u));
}

TEST_F(PinTableTest, RunOfBadPagesCostsOneCallEach) {
  for (uint64_t page = 100; page < 164; ++page) guest_.unpinnable.insert(page);
  const auto dma = Acquire(96, 128);
  EXPECT_EQ(dma[3], guest_.DmaOf(99));
  for (uint64_t i = 4; i < 68; ++i) EXPECT_EQ(dma[i], PinTable::kNoDma);
  EXPECT_EQ(dma[68], guest_.DmaOf(164));
  EXPECT_LE(guest_.pin_calls.size(), 80u);
}

TEST_F(PinTableTest, FailureAfterNPagesIsReportedPerPage) {
  guest_.max_pinned = 3;
  const auto dma = Acquire(10, 5);
  EXPECT_EQ(dma[2], guest_.DmaOf(12));
  EXPECT_EQ(dma[3], PinTable::kNoDma);
  EXPECT_EQ(dma[4], PinTable::kNoDma);
}

TEST_F(PinTableTest, AnyPinnedLooksAtPages) {
  Acquire(10, 2);
  EXPECT_TRUE(pins_.AnyPinned(11 << 12, 1));
  EXPECT_TRUE(pins_.AnyPinned(0, uint64_t{1} << 40));
  EXPECT_FALSE(pins_.AnyPinned(12 << 12, 4096));
  EXPECT_FALSE(pins_.AnyPinned(0, 10 << 12));
  EXPECT_FALSE(pins_.AnyPinned(10 << 12, 0));
}

TEST_F(PinTableTest, DestructionUnpinsEverything) {
  {
    PinTable pins(&guest_, 7);
    uint64_t dma[2];
    pins.Acquire(base::Gpa(5 << 12), 2, dma, 512);
  }
  EXPECT_TRUE(guest_.pinned.empty());
}

}  // namespace
}  // namespace turnstile
