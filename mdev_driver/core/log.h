// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Lines for the log, built without printf.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host_abi.h"

namespace turnstile {

struct Hex {
  uint64_t value;
};

// One line; goes out when the object dies. Longer text is cut. Any context.
//
//   LogLine(gpu, nullptr, TS_LOG_WARNING) << "runlist " << 1 << " did not answer";
class LogLine {
 public:
  // `vgpu` may be null. `kind`: what a line that a guest can cause is about.
  LogLine(ts_host_gpu* gpu, ts_host_vgpu* vgpu, ts_log_level level,
          ts_log_kind kind = TS_LOG_UNLIMITED)
      : gpu_(gpu), vgpu_(vgpu), level_(level), kind_(kind) {}
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine() {
    text_[size_] = '\0';
    ts_host_log(gpu_, vgpu_, level_, kind_, text_);
  }

  LogLine& operator<<(const char* text) {
    while (*text != '\0') Put(*text++);
    return *this;
  }
  LogLine& operator<<(uint64_t value) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0) Put(digits[--count]);
    return *this;
  }
  LogLine& operator<<(uint32_t value) { return *this << uint64_t{value}; }
  LogLine& operator<<(Hex hex) {
    *this << "0x";
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const unsigned digit = (hex.value >> shift) & 0xf;
      started = started || digit != 0 || shift == 0;
      if (started) Put("0123456789abcdef"[digit]);
    }
    return *this;
  }

 private:
  void Put(char c) {
    if (size_ + 1 < sizeof(text_)) text_[size_++] = c;
  }

  ts_host_gpu* gpu_;
  ts_host_vgpu* vgpu_;
  ts_log_level level_;
  ts_log_kind kind_;
  size_t size_ = 0;
  char text_[192];
};

}  // namespace turnstile
