// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/bitmap.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "fakes/allocation_limit.h"

namespace base {
namespace {

TEST(BitmapTest, StartsFree) {
  const Bitmap bitmap = *Bitmap::Create(100);
  EXPECT_EQ(bitmap.size(), 100u);
  EXPECT_EQ(bitmap.available(), 100u);
  EXPECT_FALSE(bitmap.Test(99));
}

TEST(BitmapTest, BeyondTheEndCountsAsAllocated) {
  const Bitmap bitmap = *Bitmap::Create(100);
  EXPECT_TRUE(bitmap.Test(100));
  EXPECT_TRUE(bitmap.Test(127));
  EXPECT_TRUE(bitmap.Test(SIZE_MAX));
}

TEST(BitmapTest, AllocatesFromTheLowestAddress) {
  Bitmap bitmap = *Bitmap::Create(10);
  EXPECT_EQ(*bitmap.AllocRange(3), 0u);
  EXPECT_EQ(*bitmap.AllocRange(2), 3u);
  EXPECT_EQ(bitmap.used(), 5u);
}

TEST(BitmapTest, FillsTheFirstHoleThatFits) {
  Bitmap bitmap = *Bitmap::Create(10);
  ASSERT_TRUE(bitmap.AllocRange(10).ok());
  ASSERT_EQ(bitmap.Free(1, 2), Status::kOk);
  ASSERT_EQ(bitmap.Free(5, 3), Status::kOk);
  EXPECT_EQ(*bitmap.AllocRange(3), 5u);
  EXPECT_EQ(*bitmap.AllocRange(2), 1u);
  EXPECT_EQ(bitmap.AllocRange(1).status(), Status::kNoSpace);
}

TEST(BitmapTest, RespectsAlignment) {
  Bitmap bitmap = *Bitmap::Create(64);
  ASSERT_EQ(*bitmap.AllocRange(1), 0u);
  EXPECT_EQ(*bitmap.AllocRange(4, 16), 16u);
  EXPECT_EQ(*bitmap.AllocRange(16, 16), 32u);
  EXPECT_EQ(*bitmap.AllocRange(4, 2), 2u);
}

TEST(BitmapTest, RangeAcrossWords) {
  Bitmap bitmap = *Bitmap::Create(256);
  ASSERT_EQ(bitmap.Reserve(0, 60), Status::kOk);
  EXPECT_EQ(*bitmap.AllocRange(140), 60u);
  EXPECT_TRUE(bitmap.Test(199));
  EXPECT_FALSE(bitmap.Test(200));
}

TEST(BitmapTest, WholeBitmap) {
  Bitmap bitmap = *Bitmap::Create(130);
  EXPECT_EQ(*bitmap.AllocRange(130), 0u);
  EXPECT_EQ(bitmap.available(), 0u);
  EXPECT_EQ(bitmap.Free(0, 130), Status::kOk);
  EXPECT_EQ(bitmap.used(), 0u);
}

TEST(BitmapTest, LastBitsOfAPartialWordAreNotHandedOut) {
  Bitmap bitmap = *Bitmap::Create(65);
  EXPECT_EQ(*bitmap.AllocRange(65), 0u);
  EXPECT_EQ(bitmap.AllocRange(1).status(), Status::kNoSpace);
}

TEST(BitmapTest, ImpossibleRequests) {
  Bitmap bitmap = *Bitmap::Create(8);
  EXPECT_EQ(bitmap.AllocRange(0).status(), Status::kInvalidArgument);
  EXPECT_EQ(bitmap.AllocRange(1, 3).status(), Status::kInvalidArgument);
  EXPECT_EQ(bitmap.AllocRange(1, 0).status(), Status::kInvalidArgument);
  EXPECT_EQ(bitmap.AllocRange(9).status(), Status::kNoSpace);
  EXPECT_EQ(bitmap.AllocRange(SIZE_MAX).status(), Status::kNoSpace);
}

TEST(BitmapTest, HugeAlignmentFindsOnlyZero) {
  Bitmap bitmap = *Bitmap::Create(8);
  EXPECT_EQ(*bitmap.AllocRange(1, size_t{1} << 63), 0u);
  EXPECT_EQ(bitmap.AllocRange(1, size_t{1} << 63).status(), Status::kNoSpace);
}

TEST(BitmapTest, ReserveTakesExactlyTheRange) {
  Bitmap bitmap = *Bitmap::Create(8);
  EXPECT_EQ(bitmap.Reserve(2, 3), Status::kOk);
  EXPECT_EQ(bitmap.Reserve(4, 1), Status::kBusy);
  EXPECT_EQ(bitmap.Reserve(6, 3), Status::kOutOfRange);
  EXPECT_EQ(bitmap.Reserve(SIZE_MAX, 2), Status::kOutOfRange);
  EXPECT_EQ(bitmap.Reserve(0, 0), Status::kInvalidArgument);
  EXPECT_EQ(bitmap.used(), 3u);
}

TEST(BitmapTest, DoubleFreeIsReportedAndChangesNothing) {
  Bitmap bitmap = *Bitmap::Create(8);
  ASSERT_EQ(bitmap.Reserve(0, 2), Status::kOk);
  EXPECT_EQ(bitmap.Free(1, 2), Status::kNotFound);
  EXPECT_TRUE(bitmap.Test(1));
  EXPECT_EQ(bitmap.used(), 2u);
}

TEST(BitmapTest, FreeOutsideIsOutOfRange) {
  Bitmap bitmap = *Bitmap::Create(8);
  EXPECT_EQ(bitmap.Free(8, 1), Status::kOutOfRange);
  EXPECT_EQ(bitmap.Free(0, SIZE_MAX), Status::kOutOfRange);
  EXPECT_EQ(bitmap.Free(0, 0), Status::kInvalidArgument);
}

TEST(BitmapTest, EmptyBitmapHasNoSpace) {
  Bitmap bitmap = *Bitmap::Create(0);
  EXPECT_EQ(bitmap.AllocRange(1).status(), Status::kNoSpace);
}

TEST(BitmapTest, ReportsNoMemory) {
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(Bitmap::Create(8).status(), Status::kNoMemory);
}

TEST(BitmapTest, AgreesWithABoolVectorUnderChurn) {
  constexpr size_t kBits = 200;
  std::mt19937 random(1);
  Bitmap bitmap = *Bitmap::Create(kBits);
  std::vector<bool> model(kBits);
  const auto first_fit = [&](size_t count, size_t alignment) {
    for (size_t first = 0; first + count <= kBits; first += alignment) {
      size_t free = 0;
      while (free < count && !model[first + free]) ++free;
      if (free == count) return first;
    }
    return SIZE_MAX;
  };
  for (int step = 0; step < 20000; ++step) {
    const size_t count = 1 + random() % 90;
    if (random() % 2 == 0) {
      const size_t alignment = size_t{1} << random() % 5;
      const size_t expected = first_fit(count, alignment);
      ASSERT_EQ(bitmap.AllocRange(count, alignment).value_or(SIZE_MAX), expected);
      for (size_t i = 0; expected != SIZE_MAX && i < count; ++i) model[expected + i] = true;
    } else {
      const size_t first = random() % kBits;
      bool all = first + count <= kBits;
      for (size_t i = 0; all && i < count; ++i) all = model[first + i];
      ASSERT_EQ(bitmap.Free(first, count) == Status::kOk, all);
      for (size_t i = 0; all && i < count; ++i) model[first + i] = false;
    }
    for (size_t bit = 0; bit < kBits; ++bit) ASSERT_EQ(bitmap.Test(bit), model[bit]);
  }
}

}  // namespace
}  // namespace base
