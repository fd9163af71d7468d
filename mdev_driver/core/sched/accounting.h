// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What a vGPU got of a runlist and what it cost others. Filled by policies that have slices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector.h"
#include "core/host_abi.h"

namespace turnstile {

// Monotonic, nanoseconds of the GPU's clock where not said otherwise.
struct SchedAccount {
  uint64_t run_ns = 0;   // when the last slice ended
  uint64_t wait_ns = 0;  // had work and was not on the hardware; host's clock
  uint64_t longest_wait_ns = 0;
  uint64_t slices = 0;
  uint64_t preemptions = 0;   // slices that ended with work left
  uint64_t overshoot_ns = 0;  // on the engine after its slice had ended
};

// The last 200 slices of a runlist.
class SliceLog {
 public:
  static constexpr size_t kEntries = 200;

  // kNoMemory.
  base::Status Init() {
    TS_TRY(records_, base::DynArray<ts_slice>::Create(kEntries));
    return base::Status::kOk;
  }
  void Add(const ts_slice& slice) { records_[total_++ % kEntries] = slice; }
  size_t size() const { return total_ < kEntries ? static_cast<size_t>(total_) : kEntries; }
  // 0: the oldest that is kept.
  const ts_slice& At(size_t index) const { return records_[(total_ - size() + index) % kEntries]; }

 private:
  base::DynArray<ts_slice> records_;
  uint64_t total_ = 0;
};

}  // namespace turnstile
