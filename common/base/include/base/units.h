// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Kinds of addresses, ids and times as types that do not convert into each other, so that an
// untranslated address can never reach the hardware by accident.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>

#include "base/result.h"

namespace base {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// `using namespace base::literals;` then 4_KiB, 2_MiB, 16_GiB are uint64_t bytes.
inline namespace literals {
consteval uint64_t operator""_KiB(unsigned long long n) { return n * kKiB; }
consteval uint64_t operator""_MiB(unsigned long long n) { return n * kMiB; }
consteval uint64_t operator""_GiB(unsigned long long n) { return n * kGiB; }
}  // namespace literals

// A comparable value of one kind. Made only explicitly, read with value().
template <typename Tag, std::unsigned_integral Rep>
class StrongId {
 public:
  using ValueType = Rep;

  constexpr StrongId() = default;
  template <std::integral I>
  constexpr explicit StrongId(I value) : value_(static_cast<Rep>(value)) {}

  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Rep value_ = 0;
};

// A byte address of one address space: plus and minus an offset, and the distance of two.
//
// The operators wrap like the machine does. For an offset that a guest chose use CheckedAdd, or
// RangeFits on the whole range first.
template <typename Tag>
class StrongAddress {
 public:
  using ValueType = uint64_t;

  constexpr StrongAddress() = default;
  constexpr explicit StrongAddress(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  friend constexpr auto operator<=>(StrongAddress, StrongAddress) = default;

  friend constexpr StrongAddress operator+(StrongAddress address, uint64_t offset) {
    return StrongAddress(address.value_ + offset);
  }
  friend constexpr StrongAddress operator-(StrongAddress address, uint64_t offset) {
    return StrongAddress(address.value_ - offset);
  }
  // Bytes from `low` to `high`.
  friend constexpr uint64_t operator-(StrongAddress high, StrongAddress low) {
    return high.value_ - low.value_;
  }
  constexpr StrongAddress& operator+=(uint64_t offset) {
    value_ += offset;
    return *this;
  }
  constexpr StrongAddress& operator-=(uint64_t offset) {
    value_ -= offset;
    return *this;
  }

 private:
  uint64_t value_ = 0;
};

// What the guest calls physical. Untrusted; means nothing to the device.
using Gpa = StrongAddress<struct GpaTag>;
// An address the device may put on the bus. Only translation of a pinned page produces one.
using Hpa = StrongAddress<struct HpaTag>;
// Virtual address in a GPU address space (49 bits, guest's or shadow's).
using GpuVa = StrongAddress<struct GpuVaTag>;
// Byte offset in the physical VRAM of the card.
using VramOffset = StrongAddress<struct VramOffsetTag>;
// Byte offset in the VRAM partition of one vGPU: what its guest takes for VRAM. Untrusted.
using GuestVramOffset = StrongAddress<struct GuestVramOffsetTag>;

// Ids on the hardware; the V forms are a guest's own numbering of the same things.
using ChId = StrongId<struct ChIdTag, uint32_t>;
using TsgId = StrongId<struct TsgIdTag, uint32_t>;
using VChId = StrongId<struct VChIdTag, uint32_t>;
using VTsgId = StrongId<struct VTsgIdTag, uint32_t>;
// PCI function of the card: 0 the PF, 1..63 the virtual functions.
using FunctionId = StrongId<struct FunctionIdTag, uint32_t>;
using RunlistId = StrongId<struct RunlistIdTag, uint32_t>;

// A time or a duration in nanoseconds, monotonic clock. Wraps after 584 years.
class Nanoseconds {
 public:
  using ValueType = uint64_t;

  constexpr Nanoseconds() = default;
  constexpr explicit Nanoseconds(uint64_t value) : value_(value) {}
  static constexpr Nanoseconds FromMicroseconds(uint64_t us) { return Nanoseconds(us * 1000); }
  static constexpr Nanoseconds FromMilliseconds(uint64_t ms) { return Nanoseconds(ms * 1000000); }
  static constexpr Nanoseconds FromSeconds(uint64_t s) { return Nanoseconds(s * 1000000000); }
  static constexpr Nanoseconds Max() { return Nanoseconds(std::numeric_limits<uint64_t>::max()); }

  constexpr uint64_t value() const { return value_; }
  friend constexpr auto operator<=>(Nanoseconds, Nanoseconds) = default;

  friend constexpr Nanoseconds operator+(Nanoseconds a, Nanoseconds b) {
    return Nanoseconds(a.value_ + b.value_);
  }
  friend constexpr Nanoseconds operator-(Nanoseconds a, Nanoseconds b) {
    return Nanoseconds(a.value_ - b.value_);
  }
  friend constexpr Nanoseconds operator*(Nanoseconds a, uint64_t n) {
    return Nanoseconds(a.value_ * n);
  }
  friend constexpr Nanoseconds operator/(Nanoseconds a, uint64_t n) {
    return Nanoseconds(a.value_ / n);
  }
  constexpr Nanoseconds& operator+=(Nanoseconds other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Nanoseconds& operator-=(Nanoseconds other) {
    value_ -= other.value_;
    return *this;
  }

 private:
  uint64_t value_ = 0;
};

// Alignment helpers; `alignment` is a power of two. AlignUp wraps to 0 past the last multiple, so
// bound untrusted values first.
constexpr bool IsAligned(uint64_t value, uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}
constexpr uint64_t AlignDown(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return AlignDown(value + (alignment - 1), alignment);
}
template <typename Tag>
constexpr bool IsAligned(StrongAddress<Tag> address, uint64_t alignment) {
  return IsAligned(address.value(), alignment);
}
template <typename Tag>
constexpr StrongAddress<Tag> AlignDown(StrongAddress<Tag> address, uint64_t alignment) {
  return StrongAddress<Tag>(AlignDown(address.value(), alignment));
}
template <typename Tag>
constexpr StrongAddress<Tag> AlignUp(StrongAddress<Tag> address, uint64_t alignment) {
  return StrongAddress<Tag>(AlignUp(address.value(), alignment));
}

// a + b, or kOutOfRange when it does not fit.
constexpr Result<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  if (b > std::numeric_limits<uint64_t>::max() - a) return Status::kOutOfRange;
  return a + b;
}
template <typename Tag>
constexpr Result<StrongAddress<Tag>> CheckedAdd(StrongAddress<Tag> address, uint64_t offset) {
  const Result<uint64_t> sum = CheckedAdd(address.value(), offset);
  if (!sum.ok()) return sum.status();
  return StrongAddress<Tag>(*sum);
}

// a * b, or kOutOfRange when it does not fit.
constexpr Result<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  if (a != 0 && b > std::numeric_limits<uint64_t>::max() / a) return Status::kOutOfRange;
  return a * b;
}

// Whether [start, start + length) lies in [0, limit); right for every input, also those whose sum
// does not fit in 64 bits. An empty range fits when start <= limit.
constexpr bool RangeFits(uint64_t start, uint64_t length, uint64_t limit) {
  return start <= limit && length <= limit - start;
}

}  // namespace base
