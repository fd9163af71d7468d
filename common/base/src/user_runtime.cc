// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// User space's side of base: where broken invariants are reported and what a lock is. The kernel's
// side is common/base/linux/ts_runtime.c.
//
// Locks check their rank at every acquisition, so that every test is also a test of the lock order.

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

#include "base/check.h"
#include "base/runtime_abi.h"

namespace {

// How many locks of each rank this thread holds.
thread_local uint8_t held_ranks[TS_LOCK_RANKS];

void CheckRankBeforeLock(uint32_t rank) {
  for (uint32_t held = rank; held < TS_LOCK_RANKS; ++held) {
    if (held_ranks[held] == 0) continue;
    std::fprintf(stderr, "lock order: taking rank %u while holding rank %u\n", rank, held);
    TS_CHECK(false && "lock order violated");
  }
}

struct RankedLock {
  explicit RankedLock(uint32_t lock_rank) : rank(lock_rank) {}

  void Lock() {
    CheckRankBeforeLock(rank);
    mutex.lock();
    ++held_ranks[rank];
  }
  void Unlock() {
    TS_CHECK(held_ranks[rank] > 0);
    --held_ranks[rank];
    mutex.unlock();
  }

  std::mutex mutex;
  const uint32_t rank;
};

}  // namespace

struct ts_mutex : RankedLock {
  using RankedLock::RankedLock;
};
struct ts_spinlock : RankedLock {
  using RankedLock::RankedLock;
};

extern "C" {

void ts_report_bug(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: bug: %s\n", file, line, expression);
}

ts_mutex* ts_mutex_create(uint32_t rank) { return new (std::nothrow) ts_mutex(rank); }
void ts_mutex_destroy(ts_mutex* mutex) { delete mutex; }
void ts_mutex_lock(ts_mutex* mutex) { mutex->Lock(); }
void ts_mutex_unlock(ts_mutex* mutex) { mutex->Unlock(); }

ts_spinlock* ts_spinlock_create(uint32_t rank) { return new (std::nothrow) ts_spinlock(rank); }
void ts_spinlock_destroy(ts_spinlock* lock) { delete lock; }
void ts_spinlock_lock(ts_spinlock* lock) { lock->Lock(); }
void ts_spinlock_unlock(ts_spinlock* lock) { lock->Unlock(); }

}  // extern "C"
