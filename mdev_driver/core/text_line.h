// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Text, built without printf.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile {

struct Hex {
  uint64_t value;
};

// One line in place; longer text is cut. Any context.
class TextLine {
 public:
  TextLine& operator<<(const char* text) {
    while (*text != '\0') Put(*text++);
    return *this;
  }
  TextLine& operator<<(uint64_t value) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0) Put(digits[--count]);
    return *this;
  }
  TextLine& operator<<(uint32_t value) { return *this << uint64_t{value}; }
  TextLine& operator<<(Hex hex) {
    *this << "0x";
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const unsigned digit = (hex.value >> shift) & 0xf;
      started = started || digit != 0 || shift == 0;
      if (started) Put("0123456789abcdef"[digit]);
    }
    return *this;
  }

  // Zero-terminated; valid until the line grows.
  const char* text() {
    text_[size_] = '\0';
    return text_;
  }

 private:
  void Put(char c) {
    if (size_ + 1 < sizeof(text_)) text_[size_++] = c;
  }

  size_t size_ = 0;
  char text_[192];
};

}  // namespace turnstile
