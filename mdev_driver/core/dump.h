// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Dumps: what the driver holds for a vGPU, as text for whoever debugs (docs/sysfs-abi.md, debugfs).
#pragma once

#include <cstdint>

#include "core/host_abi.h"
#include "core/text_line.h"

namespace turnstile {

// Where a dump goes. Its lines are made with locks held, so it ends at kMaxLines, or as soon as the
// reader has no room left. Process context.
class Dump {
 public:
  static constexpr uint32_t kMaxLines = 4096;

  explicit Dump(ts_host_dump* to) : to_(to) {}
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  // Nothing more is taken: whoever makes lines stops.
  bool full() const { return full_; }

 private:
  friend class DumpLine;

  void Put(const char* line) {
    if (full_) return;
    if (lines_ == kMaxLines) {
      static_cast<void>(ts_host_dump_line(to_, "truncated=1"));
      full_ = true;
      return;
    }
    ++lines_;
    full_ = !ts_host_dump_line(to_, line);
  }

  ts_host_dump* to_;
  uint32_t lines_ = 0;
  bool full_ = false;
};

// One line of `name=value` pairs; goes out when the object dies.
class DumpLine : public TextLine {
 public:
  explicit DumpLine(Dump& dump) : dump_(dump) {}
  DumpLine(const DumpLine&) = delete;
  DumpLine& operator=(const DumpLine&) = delete;
  ~DumpLine() { dump_.Put(text()); }

 private:
  Dump& dump_;
};

}  // namespace turnstile
