// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The fuzzer's bytes as decisions. Every byte string means something, and a changed byte changes
// little: that is all the structure libFuzzer needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  // Bytes beyond the end are 0.
  uint8_t U8() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  uint16_t U16() { return static_cast<uint16_t>(U8() | U8() << 8); }
  uint32_t U32() { return U16() | uint32_t{U16()} << 16; }
  uint64_t U64() { return U32() | uint64_t{U32()} << 32; }
  // 0 .. n - 1; n > 0.
  uint32_t Below(uint32_t n) { return (n <= 256 ? U8() : n <= 65536 ? U16() : U32()) % n; }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  template <typename T, size_t n>
  T Pick(const T (&choices)[n]) {
    return choices[Below(n)];
  }
  // A number as they go wrong: small, at a power of two, all ones, page aligned, or anything.
  uint64_t Value() {
    switch (U8() % 8) {
      case 0: return U8();
      case 1: return uint64_t{1} << Below(64);
      case 2: return (uint64_t{1} << Below(64)) - 1;
      case 3: return ~uint64_t{0} << Below(64);
      case 4: return U16();
      case 5: return uint64_t{U16()} << 12;
      case 6: return U32();
      default: return U64();
    }
  }
  uint32_t Word() { return static_cast<uint32_t>(Value()); }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace fuzz
