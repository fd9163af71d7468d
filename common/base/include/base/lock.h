// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Locks of the freestanding code. Mutex and SpinLock are made by the operating system through six
// C functions; Lock<Impl> adds the annotations, so user space may wrap std::mutex the same way.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/result.h"
#include "base/thread_annotations.h"

extern "C" {

struct ts_mutex;
struct ts_spinlock;

// `rank` orders acquisition: a thread may take only locks of a higher rank than those it holds.
// 0 <= rank < TS_LOCK_RANKS; docs/locking.md lists the ranks. In the kernel every rank is a
// lockdep class, in user space base's runtime checks the order and traps.
#define TS_LOCK_RANKS 16u

// Create: null when there is no memory; may sleep. Destroy: not held by anyone; null is allowed.
struct ts_mutex* ts_mutex_create(uint32_t rank);
void ts_mutex_destroy(struct ts_mutex* mutex);
// Process context only: these sleep.
void ts_mutex_lock(struct ts_mutex* mutex);
void ts_mutex_unlock(struct ts_mutex* mutex);

struct ts_spinlock* ts_spinlock_create(uint32_t rank);
void ts_spinlock_destroy(struct ts_spinlock* lock);
// Any context. Interrupts of this CPU are off while it is held: no sleeping, no allocation.
void ts_spinlock_lock(struct ts_spinlock* lock);
void ts_spinlock_unlock(struct ts_spinlock* lock);

}  // extern "C"

namespace base {

// A lock whose mechanism is Impl: Lock(), Unlock() and, where making it can fail, Init(...).
// Neither copied nor moved: guarded members name it.
template <typename Impl>
class TS_CAPABILITY("mutex") Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // Once, before the first Acquire. kNoMemory, kInvalidArgument (rank), kExists (second call).
  Status Init(uint32_t rank) requires requires(Impl& impl) { impl.Init(rank); }
  { return impl_.Init(rank); }

  void Acquire() TS_ACQUIRE() { impl_.Lock(); }
  void Release() TS_RELEASE() { impl_.Unlock(); }

  // Tells the analysis, without any check, that the caller holds it. For callbacks.
  void AssertHeld() const TS_ASSERT_CAPABILITY(this) {}

 private:
  Impl impl_;
};

namespace internal {

template <typename Handle, Handle* (*kCreate)(uint32_t), void (*kDestroy)(Handle*),
          void (*kLock)(Handle*), void (*kUnlock)(Handle*)>
class SystemLock {
 public:
  SystemLock() = default;
  SystemLock(const SystemLock&) = delete;
  SystemLock& operator=(const SystemLock&) = delete;
  ~SystemLock() { kDestroy(handle_); }

  Status Init(uint32_t rank) {
    if (handle_ != nullptr) return Status::kExists;
    if (rank >= TS_LOCK_RANKS) return Status::kInvalidArgument;
    handle_ = kCreate(rank);
    return handle_ != nullptr ? Status::kOk : Status::kNoMemory;
  }
  void Lock() {
    TS_CHECK(handle_ != nullptr);
    kLock(handle_);
  }
  void Unlock() { kUnlock(handle_); }

 private:
  Handle* handle_ = nullptr;
};

}  // namespace internal

// Sleeping lock, process context.
using Mutex = Lock<internal::SystemLock<ts_mutex, ts_mutex_create, ts_mutex_destroy, ts_mutex_lock,
                                        ts_mutex_unlock>>;
// Spinning lock with interrupts off, any context, for short sections.
using SpinLock = Lock<internal::SystemLock<ts_spinlock, ts_spinlock_create, ts_spinlock_destroy,
                                           ts_spinlock_lock, ts_spinlock_unlock>>;

// Holds a lock from here to the end of the scope.
template <typename L>
class TS_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(L& lock) TS_ACQUIRE(lock) : lock_(lock) { lock_.Acquire(); }
  ~LockGuard() TS_RELEASE() { lock_.Release(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  L& lock_;
};

using MutexGuard = LockGuard<Mutex>;
using SpinLockGuard = LockGuard<SpinLock>;

}  // namespace base
