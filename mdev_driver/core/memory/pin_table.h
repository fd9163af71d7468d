// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Guest pages that the device may reach: pinned once, reference-counted, unpinned late.
#pragma once

#include <cstdint>

#include "base/hash_map.h"
#include "base/units.h"
#include "base/vector.h"
#include "core/dump.h"
#include "core/host.h"

namespace turnstile {

// Pins of one vGPU. Guarded by the vGPU's mutex; process context.
//
// A page whose last reference is released stays pinned until Flush: the caller first makes sure
// that the device's TLB has forgotten it.
class PinTable {
 public:
  static constexpr uint64_t kNoDma = ~uint64_t{0};
  static constexpr uint32_t kMaxBatch = 512;
  // 8 GiB of guest memory; beyond it pages count as not pinnable.
  static constexpr size_t kMaxPages = size_t{1} << 21;

  PinTable(ts_host_vgpu* vgpu, uint64_t seed) : vgpu_(vgpu), pins_(seed) {}
  PinTable(const PinTable&) = delete;
  PinTable& operator=(const PinTable&) = delete;
  ~PinTable();

  // Takes one reference on each of `count` (1..512) pages from `gpa`. dma[i]: its DMA address, or
  // kNoDma when it has none (no memory there, limit reached, no host memory) and no reference was
  // taken. At most `batch` (1..512) pages per call to the host.
  void Acquire(base::Gpa gpa, uint32_t count, uint64_t* dma, uint32_t batch);
  // Gives one reference back. The page must have one.
  void Release(base::Gpa gpa);
  // Unpins what has no reference left, neighbours in one call.
  void Flush() { static_cast<void>(FlushSome(kMaxPages)); }
  // The same for at most `pages` of them (more when host memory was short). True: none is left.
  bool FlushSome(size_t pages);
  // Whether there is something to flush.
  bool flush_wanted() const { return scan_needed_ || !unreferenced_.empty(); }
  // About how many pages a flush would look at.
  size_t unreferenced() const { return unreferenced_.size(); }

  // Whether a page of [start, start + length) is pinned, referenced or not.
  bool AnyPinned(uint64_t start, uint64_t length) const;

  size_t pinned() const { return pins_.size(); }
  uint64_t pinned_total() const { return pinned_total_; }
  uint64_t host_calls() const { return host_calls_; }
  // Whether a page was refused for the limit since the last call.
  bool TakeLimitReached() { return std::exchange(limit_reached_, false); }
  // The host's memory for the bookkeeping.
  uint64_t memory_bytes() const { return pins_.size() * sizeof(Pin) * 2; }
  // What is pinned, in runs. Looks at each page twice: some 0.1 s for the 8 GiB of kMaxPages.
  void DumpTo(Dump& dump) const;

 private:
  struct Pin {
    uint64_t dma = 0;
    uint32_t references = 0;
  };

  void PinRun(uint64_t first_page, uint32_t count, uint64_t* dma, uint32_t batch);
  bool Insert(uint64_t page, uint64_t dma);
  void UnpinSorted(uint64_t* pages, size_t count);

  ts_host_vgpu* vgpu_;
  base::HashMap<Pin> pins_;  // page number -> pin
  base::Vector<uint64_t> unreferenced_;
  bool scan_needed_ = false;  // unreferenced_ is incomplete for want of memory
  bool limit_reached_ = false;
  uint64_t pinned_total_ = 0;
  uint64_t host_calls_ = 0;
};

}  // namespace turnstile
