// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/lock.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "fakes/allocation_limit.h"

namespace base {
namespace {

template <typename L>
class Counter {
 public:
  Status Init(uint32_t rank) { return lock_.Init(rank); }
  void Add() TS_EXCLUDES(lock_) {
    const LockGuard<L> guard(lock_);
    ++value_;
  }
  int Get() TS_EXCLUDES(lock_) {
    const LockGuard<L> guard(lock_);
    return value_;
  }

 private:
  L lock_;
  int value_ TS_GUARDED_BY(lock_) = 0;
};

template <typename L>
int CountWithFourThreads() {
  Counter<L> counter;
  EXPECT_EQ(counter.Init(0), Status::kOk);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 10000; ++i) counter.Add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return counter.Get();
}

TEST(LockTest, MutexExcludesOtherThreads) { EXPECT_EQ(CountWithFourThreads<Mutex>(), 40000); }

TEST(LockTest, SpinLockExcludesOtherThreads) { EXPECT_EQ(CountWithFourThreads<SpinLock>(), 40000); }

TEST(LockTest, WrapsAnotherMechanism) {
  struct StdMutex {
    void Lock() { mutex.lock(); }
    void Unlock() { mutex.unlock(); }
    std::mutex mutex;
  };
  Lock<StdMutex> lock;
  const LockGuard<Lock<StdMutex>> guard(lock);
}

TEST(LockTest, InitReportsNoMemory) {
  Mutex mutex;
  const fakes::AllocationLimit limit(0);
  EXPECT_EQ(mutex.Init(0), Status::kNoMemory);
}

TEST(LockTest, InitChecksTheRank) {
  Mutex mutex;
  EXPECT_EQ(mutex.Init(32), Status::kInvalidArgument);
  EXPECT_EQ(mutex.Init(31), Status::kOk);
}

TEST(LockTest, SecondInitIsExists) {
  Mutex mutex;
  ASSERT_EQ(mutex.Init(1), Status::kOk);
  EXPECT_EQ(mutex.Init(1), Status::kExists);
}

TEST(LockTest, RisingRanksNest) {
  Mutex outer;
  SpinLock inner;
  ASSERT_EQ(outer.Init(1), Status::kOk);
  ASSERT_EQ(inner.Init(2), Status::kOk);
  const MutexGuard outer_guard(outer);
  const SpinLockGuard inner_guard(inner);
}

TEST(LockTest, ReleasedRankMayBeTakenAgain) {
  Mutex low;
  Mutex high;
  ASSERT_EQ(low.Init(1), Status::kOk);
  ASSERT_EQ(high.Init(2), Status::kOk);
  high.Acquire();
  high.Release();
  const MutexGuard guard(low);
}

TEST(LockDeathTest, FallingRankTraps) {
  Mutex low;
  Mutex high;
  ASSERT_EQ(low.Init(1), Status::kOk);
  ASSERT_EQ(high.Init(2), Status::kOk);
  const MutexGuard guard(high);
  EXPECT_DEATH({ const MutexGuard wrong(low); }, "taking rank 1 while holding rank 2");
}

TEST(LockDeathTest, EqualRankTraps) {
  Mutex first;
  Mutex second;
  ASSERT_EQ(first.Init(3), Status::kOk);
  ASSERT_EQ(second.Init(3), Status::kOk);
  const MutexGuard guard(first);
  EXPECT_DEATH({ const MutexGuard wrong(second); }, "taking rank 3 while holding rank 3");
}

TEST(LockDeathTest, UseWithoutInitTraps) {
  Mutex mutex;
  EXPECT_DEATH({ const MutexGuard guard(mutex); }, "handle_ != nullptr");
}

}  // namespace
}  // namespace base
