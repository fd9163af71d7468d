// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The operating system as the core sees it: struct tsg_os_ops with the "device is lost" switch and
// bounded waiting on top.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "guest_driver/core/guest_abi.h"

namespace guest {

// One line of a log message, built without an allocation. What does not fit is cut.
class LogLine {
 public:
  LogLine& Text(const char* text);
  LogLine& Hex(uint64_t value);
  LogLine& Dec(uint64_t value);
  const char* c_str() const { return line_; }

 private:
  static constexpr size_t kCapacity = 160;
  void Put(char c);

  char line_[kCapacity + 1] = {};
  size_t length_ = 0;
};

// Any thread. After MarkLost nothing reaches the hardware any more: reads give 0, writes are
// dropped.
class Os {
 public:
  Os(const tsg_os_ops& ops, void* os) : ops_(ops), os_(os) {}
  Os(const Os&) = delete;
  Os& operator=(const Os&) = delete;

  uint32_t Read32(uint32_t offset) const { return lost() ? 0 : ops_.read32(os_, offset); }
  void Write32(uint32_t offset, uint32_t value) const {
    if (!lost()) ops_.write32(os_, offset, value);
  }

  // VRAM, in multiples of four bytes; the caller stays inside its own allocations.
  void VramRead(uint64_t offset, void* to, size_t length) const;
  void VramWrite(uint64_t offset, const void* from, size_t length) const;
  void VramZero(uint64_t offset, uint64_t length) const;

  base::Status AllocDmaPage(tsg_dma_page* page) const;
  void FreeDmaPage(const tsg_dma_page& page) const { ops_.dma_page_free(os_, &page); }

  uint64_t NowNs() const { return ops_.now_ns(os_); }
  void Log(tsg_log_level level, const LogLine& line) const { ops_.log(os_, level, line.c_str()); }

  void MarkLost() { lost_.store(true, std::memory_order_release); }
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  // Polls `done()` until it is true. kTimeout after `timeout_us`, kIo when the device is lost.
  // Waits get longer, because a register read traps in a virtual machine. May sleep.
  template <typename Done>
  base::Status WaitFor(uint32_t timeout_us, Done&& done) const {
    const uint64_t start = NowNs();
    uint32_t pause_us = 1;
    while (!done()) {
      if (lost()) return base::Status::kIo;
      // The last look comes after the deadline: a thread that was not scheduled loses nothing.
      if (NowNs() - start > uint64_t{timeout_us} * 1000) {
        return done() ? base::Status::kOk : base::Status::kTimeout;
      }
      ops_.relax(os_, pause_us);
      if (pause_us < kMaxPauseUs) pause_us *= 2;
    }
    return base::Status::kOk;
  }

 private:
  static constexpr uint32_t kMaxPauseUs = 256;

  const tsg_os_ops& ops_;
  void* const os_;
  std::atomic<bool> lost_{false};
};

}  // namespace guest
