// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {

// One 4 KiB page that holds a page table, in VRAM or in system memory.
struct TablePage {
  uint32_t aperture = TSG_APERTURE_VRAM;
  uint64_t address = 0;
  tsg_dma_page dma = {};  // SYSMEM only
};

// Where page tables live. Any thread; Alloc and Free may sleep.
class TableMemory {
 public:
  TableMemory(const Os& os, VramAllocator& vram, bool in_sysmem)
      : os_(os), vram_(vram), in_sysmem_(in_sysmem) {}

  // A zeroed page. kNoSpace (VRAM), kNoMemory (system memory).
  base::Result<TablePage> Alloc();
  void Free(const TablePage& page);
  // Entries `first`, `first` + 1, ... of the page. The device sees the entries of one call after
  // those of an earlier call; inside one call there is no order.
  void Write(const TablePage& page, uint32_t first, const uint64_t* entries, uint32_t count);

 private:
  const Os& os_;
  VramAllocator& vram_;
  const bool in_sysmem_;
};

}  // namespace guest
