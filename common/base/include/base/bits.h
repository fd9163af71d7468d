// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Bit fields by (high, low) as the manuals write them, in one word and across words, and
// little-endian bytes. Everything is portable C++: no libgcc call hides behind it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace base {

// `width` ones, 0 <= width <= 64.
constexpr uint64_t LowMask(unsigned width) {
  return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

// Bits kHi..kLo of `value`, both included.
template <unsigned kHi, unsigned kLo, std::unsigned_integral T>
constexpr T GetBits(T value) {
  static_assert(kHi >= kLo && kHi < sizeof(T) * 8);
  return static_cast<T>((value >> kLo) & static_cast<T>(LowMask(kHi - kLo + 1)));
}

// `value` with bits kHi..kLo replaced; bits of `field` that do not fit are dropped.
template <unsigned kHi, unsigned kLo, std::unsigned_integral T>
constexpr T SetBits(T value, std::type_identity_t<T> field) {
  static_assert(kHi >= kLo && kHi < sizeof(T) * 8);
  constexpr T kMask = static_cast<T>(static_cast<T>(LowMask(kHi - kLo + 1)) << kLo);
  return static_cast<T>((value & static_cast<T>(~kMask)) | (static_cast<T>(field << kLo) & kMask));
}

// Bits hi..lo of a structure of 32-bit words (bit 32 is bit 0 of words[1]). At most 64 bits; they
// may straddle two or three words. Words beyond the end read as 0; hi < lo or a wider field gives
// 0.
constexpr uint64_t GetBits(std::span<const uint32_t> words, size_t hi, size_t lo) {
  if (hi < lo || hi - lo >= 64) return 0;
  uint64_t value = 0;
  const size_t width = hi - lo + 1;
  for (size_t done = 0; done < width;) {
    const size_t bit = lo + done;
    const size_t shift = bit % 32;
    const uint64_t word = bit / 32 < words.size() ? words[bit / 32] : 0;
    value |= (word >> shift) << done;
    done += 32 - shift;
  }
  return value & LowMask(static_cast<unsigned>(width));
}

// The counterpart: bits of `field` that do not fit are dropped, words beyond the end are not
// written, an impossible hi/lo writes nothing.
constexpr void SetBits(std::span<uint32_t> words, size_t hi, size_t lo, uint64_t field) {
  if (hi < lo || hi - lo >= 64) return;
  const size_t width = hi - lo + 1;
  for (size_t done = 0; done < width;) {
    const size_t bit = lo + done;
    const size_t shift = bit % 32;
    const size_t left = width - done;
    const size_t take = left < 32 - shift ? left : 32 - shift;
    if (bit / 32 >= words.size()) return;
    const uint32_t mask = static_cast<uint32_t>(LowMask(static_cast<unsigned>(take))) << shift;
    const uint32_t bits = static_cast<uint32_t>((field >> done) << shift) & mask;
    words[bit / 32] = (words[bit / 32] & ~mask) | bits;
    done += take;
  }
}

constexpr bool IsPowerOfTwo(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// Floor of the base-2 logarithm; 0 for 0.
constexpr unsigned Log2(uint64_t value) {
  return value == 0 ? 0 : 63 - static_cast<unsigned>(__builtin_clzll(value));
}

// Index of the lowest set bit; 64 for 0.
constexpr unsigned LowestSetBit(uint64_t value) {
  return value == 0 ? 64 : static_cast<unsigned>(__builtin_ctzll(value));
}

// The smallest power of two that is >= value; 1 for 0, and 0 when it does not fit in 64 bits.
constexpr uint64_t RoundUpToPowerOfTwo(uint64_t value) {
  if (value <= 1) return 1;
  const unsigned log = Log2(value - 1) + 1;
  return log >= 64 ? 0 : uint64_t{1} << log;
}

// Number of set bits. Not std::popcount: without -mpopcnt that calls libgcc's __popcountdi2, which
// the kernel does not have.
constexpr unsigned PopCount(uint64_t value) {
  value = value - ((value >> 1) & 0x5555555555555555u);
  value = (value & 0x3333333333333333u) + ((value >> 2) & 0x3333333333333333u);
  value = (value + (value >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<unsigned>((value * 0x0101010101010101u) >> 56);
}

// Little-endian loads and stores at any alignment.
inline uint16_t LoadLe16(const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}
inline uint32_t LoadLe32(const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
         uint32_t{bytes[3]} << 24;
}
inline uint64_t LoadLe64(const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  return LoadLe32(bytes) | uint64_t{LoadLe32(bytes + 4)} << 32;
}
inline void StoreLe16(void* to, uint16_t value) {
  auto* bytes = static_cast<uint8_t*>(to);
  bytes[0] = static_cast<uint8_t>(value);
  bytes[1] = static_cast<uint8_t>(value >> 8);
}
inline void StoreLe32(void* to, uint32_t value) {
  auto* bytes = static_cast<uint8_t*>(to);
  bytes[0] = static_cast<uint8_t>(value);
  bytes[1] = static_cast<uint8_t>(value >> 8);
  bytes[2] = static_cast<uint8_t>(value >> 16);
  bytes[3] = static_cast<uint8_t>(value >> 24);
}
inline void StoreLe64(void* to, uint64_t value) {
  auto* bytes = static_cast<uint8_t*>(to);
  StoreLe32(bytes, static_cast<uint32_t>(value));
  StoreLe32(bytes + 4, static_cast<uint32_t>(value >> 32));
}

}  // namespace base
