// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/os.h"

#include "base/errno_map.h"

namespace guest {

void LogLine::Put(char c) {
  if (length_ < kCapacity) line_[length_++] = c;
}

LogLine& LogLine::Text(const char* text) {
  while (*text != '\0') Put(*text++);
  return *this;
}

LogLine& LogLine::Hex(uint64_t value) {
  Text("0x");
  unsigned shift = 60;
  while (shift > 0 && (value >> shift) == 0) shift -= 4;
  for (;; shift -= 4) {
    Put("0123456789abcdef"[(value >> shift) & 15]);
    if (shift == 0) return *this;
  }
}

LogLine& LogLine::Dec(uint64_t value) {
  char digits[20];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count > 0) Put(digits[--count]);
  return *this;
}

void Os::VramRead(uint64_t offset, void* to, size_t length) const {
  if (lost()) {
    auto* bytes = static_cast<unsigned char*>(to);
    for (size_t i = 0; i < length; ++i) bytes[i] = 0;
    return;
  }
  ops_.vram_read(os_, offset, to, length);
}

void Os::VramWrite(uint64_t offset, const void* from, size_t length) const {
  if (!lost()) ops_.vram_write(os_, offset, from, length);
}

void Os::VramZero(uint64_t offset, uint64_t length) const {
  if (!lost()) ops_.vram_zero(os_, offset, length);
}

base::Status Os::AllocDmaPage(tsg_dma_page* page) const {
  return base::StatusFromErrno(ops_.dma_page_alloc(os_, page));
}

}  // namespace guest
