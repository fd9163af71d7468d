// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>

#include "base/lock.h"
#include "base/result.h"
#include "base/unique_ptr.h"
#include "guest_driver/core/fifo.h"
#include "guest_driver/core/interrupt_tree.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/table_memory.h"
#include "guest_driver/core/topology.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {

// One TS104, bare or virtual. guest_abi.h says what its functions promise.
class Device {
 public:
  // kNotFound: no TS104 answers. kNotSupported, kNoMemory, kNoSpace.
  static base::Result<base::UniquePtr<Device>> Create(const tsg_os_ops& ops, void* os,
                                                      uint32_t flags);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Os& os() { return os_; }
  VramAllocator& vram() { return vram_; }
  const VramAllocator& vram() const { return vram_; }
  TableMemory& tables() { return tables_; }
  Fifo& fifo() { return fifo_; }
  InterruptTree& interrupts() { return interrupts_; }
  const Topology& topology() const { return topology_; }
  const tsg_device_info& info() const { return info_; }

  // Drops all translations of the address space whose page directory this is, and waits for it.
  // kTimeout, kIo (lost).
  base::Status InvalidateTlb(const TablePage& root) TS_EXCLUDES(mmu_mutex_);
  uint64_t GpuTime() const;

 private:
  Device(const tsg_os_ops& ops, void* os, uint32_t flags);
  base::Status ReadIds();
  base::Status BringUp();
  base::Status InvalidateAll();

  Os os_;
  VramAllocator vram_;
  TableMemory tables_;
  Topology topology_;
  Fifo fifo_;
  InterruptTree interrupts_;
  base::Mutex mmu_mutex_;
  tsg_device_info info_ = {};
  bool up_ = false;
};

}  // namespace guest
