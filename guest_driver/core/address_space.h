// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>
#include <span>

#include "base/lock.h"
#include "base/result.h"
#include "guest_driver/core/device.h"
#include "guest_driver/core/page_table.h"

namespace guest {

// A GPU address space: page tables, their lock, and when the TLBs must be told.
class AddressSpace {
 public:
  explicit AddressSpace(Device& device) : device_(device), table_(device.tables()) {}
  ~AddressSpace() TS_NO_THREAD_SAFETY_ANALYSIS;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  base::Status Init();
  base::Status Map(uint64_t va, std::span<const tsg_extent> extents, uint32_t flags)
      TS_EXCLUDES(mutex_);
  base::Status Unmap(uint64_t va, uint64_t size) TS_EXCLUDES(mutex_);
  base::Status Flush() TS_EXCLUDES(mutex_);
  base::Result<tsg_extent> Translate(uint64_t va, uint32_t* flags) TS_EXCLUDES(mutex_);
  uint64_t TableBytes() const TS_EXCLUDES(mutex_);

  Device& device() { return device_; }
  // The root never moves.
  const TablePage& root() const TS_NO_THREAD_SAFETY_ANALYSIS { return table_.root(); }

 private:
  Device& device_;
  mutable base::Mutex mutex_;
  PageTable table_ TS_GUARDED_BY(mutex_);
  bool dirty_ TS_GUARDED_BY(mutex_) = false;
};

}  // namespace guest
