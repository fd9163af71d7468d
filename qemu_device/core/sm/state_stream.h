// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Reading and writing the saved state of a grid: little endian, no padding, bounds checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace sm {

// The owner sizes the buffer by StateSize first; writing past its end sets failed().
class StateWriter {
 public:
  explicit StateWriter(std::span<std::byte> buffer) : buffer_(buffer) {}

  void Bytes(std::span<const std::byte> bytes) {
    failed_ = failed_ || bytes.size() > buffer_.size() - used_;
    if (failed_ || bytes.empty()) return;
    std::memcpy(buffer_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  template <typename T>
  void Value(T value) {
    static_assert(std::is_integral_v<T>);
    Bytes(std::as_bytes(std::span(&value, 1)));
  }
  size_t used() const { return used_; }
  bool failed() const { return failed_; }

 private:
  std::span<std::byte> buffer_;
  size_t used_ = 0;
  bool failed_ = false;
};

// Reading past the end gives zeros and sets failed(), which the caller checks before it trusts
// what it read.
class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> buffer) : buffer_(buffer) {}

  void Bytes(std::span<std::byte> bytes) {
    failed_ = failed_ || bytes.size() > buffer_.size();
    if (bytes.empty()) return;
    if (failed_) {
      std::memset(bytes.data(), 0, bytes.size());
      return;
    }
    std::memcpy(bytes.data(), buffer_.data(), bytes.size());
    buffer_ = buffer_.subspan(bytes.size());
  }
  template <typename T>
  T Value() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    Bytes(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  size_t left() const { return buffer_.size(); }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> buffer_;
  bool failed_ = false;
};

}  // namespace sm
