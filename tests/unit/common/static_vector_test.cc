// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/static_vector.h"

#include <gtest/gtest.h>

#include "base/unique_ptr.h"
#include "fakes/allocation_limit.h"

namespace base {
namespace {

TEST(StaticVectorTest, NoSpaceAtCapacity) {
  StaticVector<int, 2> vector;
  EXPECT_EQ(vector.TryPushBack(1), Status::kOk);
  EXPECT_EQ(vector.TryPushBack(2), Status::kOk);
  EXPECT_TRUE(vector.full());
  EXPECT_EQ(vector.TryPushBack(3), Status::kNoSpace);
  EXPECT_EQ(vector.size(), 2u);
  EXPECT_EQ(vector.back(), 2);
}

TEST(StaticVectorTest, NeedsNoMemory) {
  const fakes::AllocationLimit limit(0);
  StaticVector<int, 4> vector;
  EXPECT_EQ(vector.TryPushBack(1), Status::kOk);
}

TEST(StaticVectorTest, EraseKeepsOrder) {
  StaticVector<int, 4> vector;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(vector.TryPushBack(i), Status::kOk);
  vector.Erase(1);
  ASSERT_EQ(vector.size(), 3u);
  EXPECT_EQ(vector[0], 0);
  EXPECT_EQ(vector[1], 2);
  EXPECT_EQ(vector[2], 3);
}

TEST(StaticVectorTest, DestroysItsElements) {
  const size_t live = fakes::LiveAllocations();
  {
    StaticVector<UniquePtr<int>, 3> boxes;
    ASSERT_EQ(boxes.TryPushBack(*MakeUnique<int>(1)), Status::kOk);
    ASSERT_EQ(boxes.TryPushBack(*MakeUnique<int>(2)), Status::kOk);
    boxes.Erase(0);
    EXPECT_EQ(*boxes[0], 2);
  }
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

TEST(StaticVectorTest, IteratesOverItsElementsOnly) {
  StaticVector<int, 8> vector;
  ASSERT_EQ(vector.TryPushBack(5), Status::kOk);
  ASSERT_EQ(vector.TryPushBack(6), Status::kOk);
  int sum = 0;
  for (int element : vector) sum += element;
  EXPECT_EQ(sum, 11);
  EXPECT_EQ(vector.span().size(), 2u);
}

TEST(StaticVectorDeathTest, IndexBeyondTheEndTraps) {
  StaticVector<int, 2> vector;
  EXPECT_DEATH(static_cast<void>(vector[0]), "index < size_");
}

TEST(StaticVectorDeathTest, PopBackOfEmptyTraps) {
  StaticVector<int, 2> vector;
  EXPECT_DEATH(vector.PopBack(), "size_ > 0");
}

}  // namespace
}  // namespace base
