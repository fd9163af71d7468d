// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/hash_map.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/unique_ptr.h"
#include "fakes/allocation_limit.h"

namespace base {
namespace {

TEST(HashMapTest, FindsWhatWasInserted) {
  HashMap<int> map;
  ASSERT_EQ(map.TryInsert(7, 70), Status::kOk);
  ASSERT_NE(map.Find(7), nullptr);
  EXPECT_EQ(*map.Find(7), 70);
  EXPECT_EQ(map.Find(8), nullptr);
  EXPECT_EQ(map.size(), 1u);
}

TEST(HashMapTest, EmptyMapNeedsNoMemory) {
  const fakes::AllocationLimit limit(0);
  HashMap<int> map;
  EXPECT_EQ(map.Find(0), nullptr);
  EXPECT_FALSE(map.Erase(0));
  EXPECT_EQ(map.EraseIf([](uint64_t, int) { return true; }), 0u);
}

TEST(HashMapTest, SecondInsertOfAKeyIsExistsAndKeepsTheFirst) {
  HashMap<int> map;
  ASSERT_EQ(map.TryInsert(7, 70), Status::kOk);
  EXPECT_EQ(map.TryInsert(7, 71), Status::kExists);
  EXPECT_EQ(*map.Find(7), 70);
  EXPECT_EQ(map.size(), 1u);
}

TEST(HashMapTest, AllKeysAreLegal) {
  HashMap<int> map;
  ASSERT_EQ(map.TryInsert(0, 1), Status::kOk);
  ASSERT_EQ(map.TryInsert(UINT64_MAX, 2), Status::kOk);
  EXPECT_EQ(*map.Find(0), 1);
  EXPECT_EQ(*map.Find(UINT64_MAX), 2);
}

TEST(HashMapTest, EraseRemovesOneKey) {
  HashMap<int> map;
  ASSERT_EQ(map.TryInsert(1, 10), Status::kOk);
  ASSERT_EQ(map.TryInsert(2, 20), Status::kOk);
  EXPECT_TRUE(map.Erase(1));
  EXPECT_FALSE(map.Erase(1));
  EXPECT_EQ(map.Find(1), nullptr);
  EXPECT_EQ(*map.Find(2), 20);
}

TEST(HashMapTest, TakeMovesTheValueOut) {
  HashMap<UniquePtr<int>> map;
  ASSERT_EQ(map.TryInsert(1, *MakeUnique<int>(10)), Status::kOk);
  std::optional<UniquePtr<int>> taken = map.Take(1);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(**taken, 10);
  EXPECT_TRUE(map.empty());
  EXPECT_FALSE(map.Take(1).has_value());
}

TEST(HashMapTest, FailedInsertLeavesMapUnchanged) {
  HashMap<int> map;
  int inserted = 0;
  {
    const fakes::AllocationLimit limit(1);
    while (map.TryInsert(static_cast<uint64_t>(inserted), inserted) == Status::kOk) ++inserted;
  }
  EXPECT_EQ(map.size(), static_cast<size_t>(inserted));
  for (int i = 0; i < inserted; ++i) EXPECT_EQ(*map.Find(static_cast<uint64_t>(i)), i);
  EXPECT_EQ(map.TryInsert(1000, 1), Status::kOk);
}

TEST(HashMapTest, ReservedInsertsNeedNoMemory) {
  HashMap<uint64_t> map;
  ASSERT_EQ(map.TryReserve(100), Status::kOk);
  const fakes::AllocationLimit limit(0);
  for (uint64_t key = 0; key < 100; ++key) EXPECT_EQ(map.TryInsert(key, key), Status::kOk);
}

TEST(HashMapTest, ForEachVisitsEachEntryOnce) {
  HashMap<uint64_t> map;
  for (uint64_t key = 0; key < 50; ++key) ASSERT_EQ(map.TryInsert(key * 4096, key), Status::kOk);
  std::map<uint64_t, int> visits;
  map.ForEach([&](uint64_t key, uint64_t& value) {
    EXPECT_EQ(key, value * 4096);
    ++visits[key];
  });
  EXPECT_EQ(visits.size(), 50u);
  for (const auto& [key, count] : visits) EXPECT_EQ(count, 1) << key;
}

TEST(HashMapTest, EraseIfAsksEachEntryOnceAndKeepsTheRest) {
  HashMap<uint64_t> map;
  for (uint64_t key = 0; key < 1000; ++key) ASSERT_EQ(map.TryInsert(key, key), Status::kOk);
  std::map<uint64_t, int> asked;
  EXPECT_EQ(map.EraseIf([&](uint64_t key, uint64_t&) {
    ++asked[key];
    return key % 3 != 0;
  }),
            666u);
  EXPECT_EQ(asked.size(), 1000u);
  for (const auto& [key, count] : asked) EXPECT_EQ(count, 1) << key;
  for (uint64_t key = 0; key < 1000; ++key) EXPECT_EQ(map.Contains(key), key % 3 == 0) << key;
}

TEST(HashMapTest, ClearKeepsTheMemory) {
  HashMap<int> map;
  ASSERT_EQ(map.TryInsert(1, 1), Status::kOk);
  map.Clear();
  EXPECT_TRUE(map.empty());
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(map.TryInsert(2, 2), Status::kOk);
}

TEST(HashMapTest, MoveLeavesSourceEmptyAndUsable) {
  HashMap<int> first;
  ASSERT_EQ(first.TryInsert(1, 1), Status::kOk);
  HashMap<int> second = std::move(first);
  EXPECT_EQ(first.Find(1), nullptr);  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(*second.Find(1), 1);
  EXPECT_EQ(first.TryInsert(3, 3), Status::kOk);
}

TEST(HashMapTest, SeedDoesNotChangeWhatIsFound) {
  HashMap<int> map(0x1234567890abcdefu);
  ASSERT_EQ(map.TryInsert(5, 50), Status::kOk);
  EXPECT_EQ(*map.Find(5), 50);
}

// Random inserts and erases of few keys, so that clusters form and wrap round the table's end.
TEST(HashMapTest, AgreesWithStdMapUnderChurn) {
  std::mt19937_64 random(1);
  HashMap<uint64_t> map;
  std::map<uint64_t, uint64_t> model;
  for (int step = 0; step < 200000; ++step) {
    const uint64_t key = random() % 64;
    if (random() % 2 == 0) {
      const bool fresh = model.emplace(key, static_cast<uint64_t>(step)).second;
      ASSERT_EQ(map.TryInsert(key, static_cast<uint64_t>(step)),
                fresh ? Status::kOk : Status::kExists);
    } else {
      ASSERT_EQ(map.Erase(key), model.erase(key) == 1);
    }
    ASSERT_EQ(map.size(), model.size());
    if (step % 1000 == 0) {
      for (uint64_t probe = 0; probe < 64; ++probe) {
        const auto expected = model.find(probe);
        const uint64_t* found = map.Find(probe);
        ASSERT_EQ(found != nullptr, expected != model.end());
        if (found != nullptr) {
          ASSERT_EQ(*found, expected->second);
        }
      }
    }
  }
}

TEST(HashMapTest, FreesEverything) {
  const size_t live = fakes::LiveAllocations();
  {
    HashMap<UniquePtr<uint64_t>> map;
    for (uint64_t key = 0; key < 100; ++key) {
      ASSERT_EQ(map.TryInsert(key, *MakeUnique<uint64_t>(key)), Status::kOk);
    }
    for (uint64_t key = 0; key < 100; key += 2) ASSERT_TRUE(map.Erase(key));
  }
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

}  // namespace
}  // namespace base
