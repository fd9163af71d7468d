// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/unique_ptr.h"

#include <gtest/gtest.h>

#include <utility>

#include "fakes/allocation_limit.h"

namespace base {
namespace {

struct Animal {
  explicit Animal(int& destroyed_count) : destroyed(destroyed_count) {}
  virtual ~Animal() { ++destroyed; }
  virtual int Legs() const = 0;
  int& destroyed;
};

struct Spider : Animal {
  using Animal::Animal;
  int Legs() const override { return 8; }
};

TEST(UniquePtrTest, DestroysItsObjectOnce) {
  int destroyed = 0;
  {
    UniquePtr<Spider> spider = *MakeUnique<Spider>(destroyed);
    EXPECT_EQ(spider->Legs(), 8);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(UniquePtrTest, MoveLeavesSourceEmpty) {
  int destroyed = 0;
  UniquePtr<Spider> first = *MakeUnique<Spider>(destroyed);
  UniquePtr<Spider> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_TRUE(second);
  EXPECT_EQ(destroyed, 0);
}

TEST(UniquePtrTest, MoveAssignmentDestroysTheOldObject) {
  int old_destroyed = 0;
  int new_destroyed = 0;
  UniquePtr<Spider> pointer = *MakeUnique<Spider>(old_destroyed);
  pointer = *MakeUnique<Spider>(new_destroyed);
  EXPECT_EQ(old_destroyed, 1);
  EXPECT_EQ(new_destroyed, 0);
}

TEST(UniquePtrTest, ConvertsToBaseClass) {
  int destroyed = 0;
  {
    const UniquePtr<Animal> animal = *MakeUnique<Spider>(destroyed);
    EXPECT_EQ(animal->Legs(), 8);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(UniquePtrTest, ReleaseGivesOwnershipUp) {
  int destroyed = 0;
  UniquePtr<Spider> pointer = *MakeUnique<Spider>(destroyed);
  Spider* raw = pointer.release();
  pointer.reset();
  EXPECT_EQ(destroyed, 0);
  delete raw;
}

TEST(UniquePtrTest, ResetToTheSameObjectKeepsIt) {
  int destroyed = 0;
  UniquePtr<Spider> pointer = *MakeUnique<Spider>(destroyed);
  pointer.reset(pointer.get());
  EXPECT_EQ(destroyed, 0);
}

TEST(UniquePtrTest, MakeUniqueReportsNoMemory) {
  int destroyed = 0;
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(MakeUnique<Spider>(destroyed).status(), Status::kNoMemory);
  EXPECT_EQ(destroyed, 0);
}

TEST(UniquePtrTest, AdoptUniqueOfNullIsNoMemory) {
  EXPECT_EQ(AdoptUnique<int>(nullptr).status(), Status::kNoMemory);
}

TEST(UniquePtrTest, ComparesWithNull) {
  const UniquePtr<int> empty;
  EXPECT_TRUE(empty == nullptr);
  EXPECT_TRUE(*MakeUnique<int>(1) != nullptr);
}

}  // namespace
}  // namespace base
