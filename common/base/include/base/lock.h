// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Locks of the freestanding code. Mutex and SpinLock are made by the operating system through the C
// functions of runtime_abi.h; Lock<Impl> adds the annotations, so user space may wrap std::mutex
// the same way.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/result.h"
#include "base/runtime_abi.h"
#include "base/thread_annotations.h"

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
  // Only for an Impl that has Init.
  Status Init(uint32_t rank) { return impl_.Init(rank); }

  void Acquire() TS_ACQUIRE() { impl_.Lock(); }
  void Release() TS_RELEASE() { impl_.Unlock(); }

  // Tells the analysis, without any check, that the caller holds it. For callbacks.
  void AssertHeld() const TS_ASSERT_CAPABILITY(this) {}

 private:
  Impl impl_;
};

namespace internal {

template <typename Handle, Handle* (*kCreate)(unsigned), void (*kDestroy)(Handle*),
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
