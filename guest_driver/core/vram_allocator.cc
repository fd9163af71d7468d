// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/vram_allocator.h"

#include "base/units.h"

namespace guest {

base::Status VramAllocator::Init(uint64_t vram_bytes) {
  TS_TRY_STATUS(mutex_.Init(TSG_RANK_VRAM));
  base::MutexGuard guard(mutex_);
  TS_TRY(pages_, base::Bitmap::Create(vram_bytes / TSG_PAGE_SIZE));
  return base::Status::kOk;
}

base::Result<uint64_t> VramAllocator::Alloc(uint64_t size, uint64_t align) {
  if (size == 0 || !base::IsPowerOfTwo(align)) return base::Status::kInvalidArgument;
  if (size > UINT64_MAX - (TSG_PAGE_SIZE - 1)) return base::Status::kNoSpace;
  const uint64_t count = (size + TSG_PAGE_SIZE - 1) / TSG_PAGE_SIZE;
  const uint64_t page_align = align <= TSG_PAGE_SIZE ? 1 : align / TSG_PAGE_SIZE;
  base::MutexGuard guard(mutex_);
  if (count > pages_.size() || page_align > pages_.size()) return base::Status::kNoSpace;
  TS_TRY(const size_t first, pages_.AllocRange(count, page_align));
  return uint64_t{first} * TSG_PAGE_SIZE;
}

base::Status VramAllocator::Free(uint64_t offset, uint64_t size) {
  if (offset % TSG_PAGE_SIZE != 0) return base::Status::kInvalidArgument;
  const uint64_t count = size / TSG_PAGE_SIZE + (size % TSG_PAGE_SIZE != 0 ? 1 : 0);
  base::MutexGuard guard(mutex_);
  return pages_.Free(offset / TSG_PAGE_SIZE, count);
}

uint64_t VramAllocator::Available() const {
  base::MutexGuard guard(mutex_);
  return uint64_t{pages_.available()} * TSG_PAGE_SIZE;
}

}  // namespace guest
