// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/table_memory.h"

#include <atomic>

namespace guest {

base::Result<TablePage> TableMemory::Alloc() {
  TablePage page;
  if (in_sysmem_) {
    TS_TRY_STATUS(os_.AllocDmaPage(&page.dma));
    page.aperture = TSG_APERTURE_SYSMEM;
    page.address = page.dma.dma;
    return page;
  }
  TS_TRY(page.address, vram_.Alloc(TSG_PAGE_SIZE));
  os_.VramZero(page.address, TSG_PAGE_SIZE);
  return page;
}

void TableMemory::Free(const TablePage& page) {
  if (page.aperture == TSG_APERTURE_SYSMEM) {
    os_.FreeDmaPage(page.dma);
  } else {
    (void)vram_.Free(page.address, TSG_PAGE_SIZE);
  }
}

void TableMemory::Write(const TablePage& page, uint32_t first, const uint64_t* entries,
                        uint32_t count) {
  if (page.aperture == TSG_APERTURE_VRAM) {
    os_.VramWrite(page.address + uint64_t{first} * sizeof(uint64_t), entries,
                  size_t{count} * sizeof(uint64_t));
    return;
  }
  auto* words = static_cast<uint64_t*>(page.dma.cpu) + first;
  for (uint32_t i = 0; i < count; ++i) {
    __atomic_store_n(&words[i], entries[i], __ATOMIC_RELAXED);
  }
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace guest
