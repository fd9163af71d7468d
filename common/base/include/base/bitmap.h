// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Allocator of ranges out of N units (channel ids, pages of VRAM), one bit each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/result.h"
#include "base/units.h"
#include "base/vector.h"

namespace base {

// N bits, set = allocated. First fit from the lowest address, so results are repeatable. Not
// synchronized. Cost of AllocRange: O(N / 64).
class Bitmap {
 public:
  Bitmap() = default;
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
  Bitmap(Bitmap&& other) noexcept
      : words_(std::move(other.words_)),
        bits_(std::exchange(other.bits_, 0)),
        used_(std::exchange(other.used_, 0)) {}
  Bitmap& operator=(Bitmap&& other) noexcept {
    words_ = std::move(other.words_);
    bits_ = std::exchange(other.bits_, 0);
    used_ = std::exchange(other.used_, 0);
    return *this;
  }

  // All bits free. kNoMemory.
  static Result<Bitmap> Create(size_t bits) {
    Bitmap bitmap;
    TS_TRY(bitmap.words_, DynArray<uint64_t>::Create(bits / 64 + (bits % 64 != 0 ? 1 : 0)));
    bitmap.bits_ = bits;
    return Result<Bitmap>(std::move(bitmap));
  }

  size_t size() const { return bits_; }
  size_t used() const { return used_; }
  size_t available() const { return bits_ - used_; }

  // Beyond the end: counts as allocated.
  bool Test(size_t bit) const {
    return bit >= bits_ || ((words_[bit / 64] >> (bit % 64)) & 1) != 0;
  }

  // First free range of `count` bits whose first index is a multiple of `alignment` (a power of
  // two). kInvalidArgument: count 0 or a wrong alignment. kNoSpace: no such range.
  Result<size_t> AllocRange(size_t count, size_t alignment = 1) {
    if (count == 0 || !IsPowerOfTwo(alignment)) return Status::kInvalidArgument;
    size_t first = 0;
    while (RangeFits(first, count, bits_)) {
      const size_t taken = LastSet(first, count);
      if (taken == kNone) {
        Fill(first, count, true);
        return first;
      }
      if (taken + 1 > SIZE_MAX - (alignment - 1)) break;
      first = static_cast<size_t>(AlignUp(taken + 1, alignment));
    }
    return Status::kNoSpace;
  }

  // Takes exactly this range. kOutOfRange, kInvalidArgument (count 0), kBusy (a bit is taken).
  Status Reserve(size_t first, size_t count) {
    if (count == 0) return Status::kInvalidArgument;
    if (!RangeFits(first, count, bits_)) return Status::kOutOfRange;
    if (LastSet(first, count) != kNone) return Status::kBusy;
    Fill(first, count, true);
    return Status::kOk;
  }

  // Gives a range back. kOutOfRange, kInvalidArgument (count 0), kNotFound (a bit was free already;
  // nothing is changed).
  Status Free(size_t first, size_t count) {
    if (count == 0) return Status::kInvalidArgument;
    if (!RangeFits(first, count, bits_)) return Status::kOutOfRange;
    if (CountSet(first, count) != count) return Status::kNotFound;
    Fill(first, count, false);
    return Status::kOk;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // The part of word `index` that lies in [first, first + count).
  static uint64_t WordMask(size_t index, size_t first, size_t count) {
    const size_t begin = index * 64;
    uint64_t mask = ~uint64_t{0};
    if (first > begin) mask &= ~LowMask(static_cast<unsigned>(first - begin));
    if (first + count - begin < 64) mask &= LowMask(static_cast<unsigned>(first + count - begin));
    return mask;
  }

  // Index of the last allocated bit of the range, or kNone.
  size_t LastSet(size_t first, size_t count) const {
    for (size_t index = (first + count - 1) / 64 + 1; index-- > first / 64;) {
      const uint64_t set = words_[index] & WordMask(index, first, count);
      if (set != 0) return index * 64 + Log2(set);
    }
    return kNone;
  }

  size_t CountSet(size_t first, size_t count) const {
    size_t set = 0;
    for (size_t index = first / 64; index <= (first + count - 1) / 64; ++index) {
      set += PopCount(words_[index] & WordMask(index, first, count));
    }
    return set;
  }

  void Fill(size_t first, size_t count, bool allocated) {
    for (size_t index = first / 64; index <= (first + count - 1) / 64; ++index) {
      const uint64_t mask = WordMask(index, first, count);
      words_[index] = allocated ? words_[index] | mask : words_[index] & ~mask;
    }
    used_ = allocated ? used_ + count : used_ - count;
  }

  DynArray<uint64_t> words_;
  size_t bits_ = 0;
  size_t used_ = 0;
};

}  // namespace base
