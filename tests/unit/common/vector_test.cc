// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "base/unique_ptr.h"
#include "fakes/allocation_limit.h"

namespace base {
namespace {

Vector<int> Numbers(int count) {
  Vector<int> numbers;
  for (int i = 0; i < count; ++i) EXPECT_EQ(numbers.TryPushBack(i), Status::kOk);
  return numbers;
}

TEST(VectorTest, StartsEmptyWithoutMemory) {
  const size_t live = fakes::LiveAllocations();
  const Vector<int> vector;
  EXPECT_TRUE(vector.empty());
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

TEST(VectorTest, KeepsOrderWhileGrowing) {
  const Vector<int> numbers = Numbers(100);
  ASSERT_EQ(numbers.size(), 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 4950);
}

TEST(VectorTest, HoldsMoveOnlyElements) {
  Vector<UniquePtr<int>> boxes;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(boxes.TryPushBack(*MakeUnique<int>(i)), Status::kOk);
  EXPECT_EQ(*boxes[9], 9);
}

TEST(VectorTest, PushBackOfOwnElementDuringGrowth) {
  Vector<int> numbers = Numbers(4);
  ASSERT_EQ(numbers.capacity(), 4u);
  ASSERT_EQ(numbers.TryPushBack(numbers[0]), Status::kOk);
  EXPECT_EQ(numbers[4], 0);
}

TEST(VectorTest, FailedPushLeavesVectorUnchanged) {
  Vector<int> numbers = Numbers(4);
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(numbers.TryPushBack(4), Status::kNoMemory);
  EXPECT_EQ(numbers.size(), 4u);
  EXPECT_EQ(numbers[3], 3);
}

TEST(VectorTest, ReservedPushNeedsNoMemory) {
  Vector<int> numbers;
  ASSERT_EQ(numbers.TryReserve(3), Status::kOk);
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(numbers.TryPushBack(1), Status::kOk);
  EXPECT_EQ(numbers.TryPushBack(2), Status::kOk);
  EXPECT_EQ(numbers.TryPushBack(3), Status::kOk);
  EXPECT_EQ(numbers.TryPushBack(4), Status::kNoMemory);
}

TEST(VectorTest, ImpossibleSizeIsNoMemory) {
  Vector<uint64_t> numbers;
  EXPECT_EQ(numbers.TryReserve(SIZE_MAX / 4), Status::kNoMemory);
}

TEST(VectorTest, ResizeAddsZeros) {
  Vector<int> numbers = Numbers(2);
  ASSERT_EQ(numbers.TryResize(4), Status::kOk);
  EXPECT_EQ(numbers[1], 1);
  EXPECT_EQ(numbers[2], 0);
  EXPECT_EQ(numbers[3], 0);
}

TEST(VectorTest, ResizeDropsFromTheEnd) {
  Vector<int> numbers = Numbers(5);
  ASSERT_EQ(numbers.TryResize(2), Status::kOk);
  EXPECT_EQ(numbers.size(), 2u);
  EXPECT_EQ(numbers.back(), 1);
}

TEST(VectorTest, EraseKeepsOrder) {
  Vector<int> numbers = Numbers(4);
  numbers.Erase(1);
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[1], 2);
  EXPECT_EQ(numbers[2], 3);
}

TEST(VectorTest, EraseUnorderedMovesTheLastIn) {
  Vector<int> numbers = Numbers(4);
  numbers.EraseUnordered(0);
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[0], 3);
}

TEST(VectorTest, EraseUnorderedOfTheLast) {
  Vector<UniquePtr<int>> boxes;
  ASSERT_EQ(boxes.TryPushBack(*MakeUnique<int>(1)), Status::kOk);
  boxes.EraseUnordered(0);
  EXPECT_TRUE(boxes.empty());
}

TEST(VectorTest, FreesEverything) {
  const size_t live = fakes::LiveAllocations();
  {
    Vector<UniquePtr<int>> boxes;
    for (int i = 0; i < 10; ++i) ASSERT_EQ(boxes.TryPushBack(*MakeUnique<int>(i)), Status::kOk);
    Vector<UniquePtr<int>> moved = std::move(boxes);
    moved.PopBack();
    boxes = std::move(moved);
  }
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

TEST(VectorTest, MoveLeavesSourceEmptyAndUsable) {
  Vector<int> first = Numbers(3);
  const Vector<int> second = std::move(first);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(first.TryPushBack(7), Status::kOk);
  EXPECT_EQ(second.size(), 3u);
}

TEST(VectorTest, IsASpan) {
  Vector<int> numbers = Numbers(3);
  const std::span<int> span(numbers);
  EXPECT_EQ(span.size(), 3u);
  EXPECT_EQ(numbers.span().data(), span.data());
}

TEST(VectorDeathTest, IndexBeyondTheEndTraps) {
  Vector<int> numbers = Numbers(3);
  EXPECT_DEATH(numbers[3] = 1, "index < size_");
}

TEST(VectorDeathTest, BackOfEmptyTraps) {
  const Vector<int> numbers;
  EXPECT_DEATH(static_cast<void>(numbers.back()), "index < size_");
}

TEST(DynArrayTest, StartsAsZeros) {
  const DynArray<uint32_t> array = *DynArray<uint32_t>::Create(5);
  ASSERT_EQ(array.size(), 5u);
  for (uint32_t element : array) EXPECT_EQ(element, 0u);
}

TEST(DynArrayTest, ZeroElementsNeedNoMemory) {
  const fakes::AllocationLimit limit(0);
  EXPECT_TRUE(DynArray<int>::Create(0).ok());
}

TEST(DynArrayTest, ReportsNoMemory) {
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(DynArray<int>::Create(1).status(), Status::kNoMemory);
}

TEST(DynArrayTest, ImpossibleSizeIsNoMemory) {
  EXPECT_EQ(DynArray<uint64_t>::Create(SIZE_MAX / 2).status(), Status::kNoMemory);
}

TEST(DynArrayTest, HoldsElementsThatCannotMove) {
  struct Pinned {
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    int value = 3;
  };
  const DynArray<Pinned> array = *DynArray<Pinned>::Create(2);
  EXPECT_EQ(array[1].value, 3);
}

TEST(DynArrayTest, FreesEverything) {
  const size_t live = fakes::LiveAllocations();
  {
    DynArray<UniquePtr<int>> array = *DynArray<UniquePtr<int>>::Create(3);
    array[1] = *MakeUnique<int>(1);
    array = *DynArray<UniquePtr<int>>::Create(1);
  }
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

TEST(DynArrayDeathTest, IndexBeyondTheEndTraps) {
  const DynArray<int> array = *DynArray<int>::Create(2);
  EXPECT_DEATH(static_cast<void>(array[2]), "index < size_");
}

}  // namespace
}  // namespace base
