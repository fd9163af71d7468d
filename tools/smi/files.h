// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The few things that are asked of /sys, /sys/kernel/debug and /proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile_smi {

// A tree of files below a prefix: "" is the machine itself, a folder is a copy of one (the tests').
// All paths are absolute, without the prefix. Not one of these functions throws: what cannot be
// read is a value, since a vGPU may go while it is looked at.
class Files {
 public:
  explicit Files(std::string prefix = "") : prefix_(std::move(prefix)) {}

  struct Text {
    int error = 0;     // errno; 0: `text` is what the file holds
    std::string text;  // without the newlines at its end
  };

  // A file, or the first `largest` bytes of it or a few more.
  Text Read(std::string_view path, size_t largest = 65536) const;
  // A decimal number that fills the file; nullopt when it is none or cannot be read.
  std::optional<uint64_t> ReadNumber(std::string_view path) const;
  // One write(2) of `text`; returns its errno, 0 when all went well.
  int Write(std::string_view path, std::string_view text) const;
  // Names in a folder, ascending, without "." and ".."; `error` (may be null) gets the errno.
  std::vector<std::string> List(std::string_view path, int* error = nullptr) const;
  // Where a symbolic link points, as it is written; "" when it is none.
  std::string ReadLink(std::string_view path) const;
  bool Exists(std::string_view path) const;
  // Return errno, 0 when all went well.
  int MakeFolder(std::string_view path) const;
  int RemoveFolder(std::string_view path) const;

 private:
  std::string Path(std::string_view path) const { return prefix_ + std::string(path); }

  std::string prefix_;
};

// Decimal digits as a number; nullopt for anything else, or beyond 64 bits.
std::optional<uint64_t> ParseNumber(std::string_view text);
// What follows the last '/'.
std::string BaseName(std::string_view path);

}  // namespace turnstile_smi
