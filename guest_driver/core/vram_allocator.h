// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>

#include "base/bitmap.h"
#include "base/lock.h"
#include "base/result.h"
#include "guest_driver/core/guest_abi.h"

namespace guest {

// Ranges of VRAM, in pages of 4 KiB, first fit. Any thread; may sleep.
class VramAllocator {
 public:
  VramAllocator() = default;

  // Once, before anything else. kNoMemory.
  base::Status Init(uint64_t vram_bytes);

  // `align`: power of two. kInvalidArgument (size 0, align), kNoSpace.
  base::Result<uint64_t> Alloc(uint64_t size, uint64_t align = TSG_PAGE_SIZE) TS_EXCLUDES(mutex_);
  // The arguments of an earlier Alloc. kNotFound, kOutOfRange, kInvalidArgument: a caller's bug;
  // nothing is freed then.
  base::Status Free(uint64_t offset, uint64_t size) TS_EXCLUDES(mutex_);
  uint64_t Available() const TS_EXCLUDES(mutex_);

 private:
  mutable base::Mutex mutex_;
  base::Bitmap pages_ TS_GUARDED_BY(mutex_);
};

}  // namespace guest
