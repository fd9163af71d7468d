// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/trap/csr_table.h"

#include <cstddef>

#include "ts104/regs.h"

namespace turnstile {

namespace {

constexpr CsrRange Mirrored(uint32_t first, uint32_t words = 1) {
  return {first, words * 4, CsrKind::kMirrored, CsrPart::kNone, 0, 0, 0};
}
constexpr CsrRange Handled(CsrPart part, uint32_t first, uint32_t bytes = 4) {
  return {first, bytes, CsrKind::kHandled, part, 0, 0, 0};
}
constexpr CsrRange Stored(uint16_t slot, uint32_t first, uint32_t mask, uint32_t reset = 0,
                          uint32_t words = 1) {
  return {first, words * 4, CsrKind::kStored, CsrPart::kNone, slot, mask, reset};
}

// Sorted by offset; docs/register_map.md §10 says what a vGPU shows. INSTRUCTIONS and the mailboxes
// of other functions are not listed: they tell about other guests.
constexpr CsrRange kTable[] = {
    Mirrored(NV_PMC_BOOT_0),
    Handled(CsrPart::kIdentity, NV_PMC_BOOT_1),
    Mirrored(NV_PMC_BOOT_2),
    Handled(CsrPart::kPmc, NV_PMC_INTR(0), 0xa8),
    Handled(CsrPart::kPmc, NV_PMC_ENABLE),
    Mirrored(NV_PMC_BOOT_42),
    Stored(0, NV_PBUS_INTR_EN, 0xa),
    Stored(kSlotBar0Window, NV_PBUS_BAR0_WINDOW, 0x3ffffff),
    Stored(2, NV_PBUS_BAR1_BLOCK, 0xbfffffff),
    Stored(3, NV_PBUS_BAR2_BLOCK, 0xbfffffff),
    Mirrored(NV_PFIFO_CFG0),
    Handled(CsrPart::kIdentity, NV_PFIFO_CFG1),
    Mirrored(NV_PFIFO_CFG2),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_0),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_EN_0),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_0_MASK_SET),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_0_MASK_CLEAR),
    Stored(4, NV_PFIFO_CONFIG, 0x300),
    Stored(5, NV_PFIFO_ACQ_PRETEST, 0xf0ff, 0x8),
    Stored(6, NV_PFIFO_USERD_WRITEBACK, 0xf0ff, 0x64),
    Mirrored(NV_PFIFO_PBDMA_MAP(0), NV_PFIFO_PBDMA_MAP__COUNT),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_EN_1),
    Handled(CsrPart::kFifo, NV_PFIFO_BIND_ERROR),
    Stored(7, NV_PFIFO_INTR_STALL, 0xffffffff, 0xffffffff),
    Handled(CsrPart::kFifo, NV_PFIFO_SCHED_ERROR),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_PBDMA_ID),
    Handled(CsrPart::kFifo, NV_PFIFO_SCHED_DISABLE, 0x30),  // .. ENGINE_STATUS(3)
    Handled(CsrPart::kFifo, NV_PFIFO_PBDMA_STATUS_INST(0), 0xc),
    Handled(CsrPart::kFifo, NV_PFIFO_PBDMA_STATUS_USERD(0), 0xc),
    Handled(CsrPart::kFifo, NV_PFIFO_PBDMA_STATUS_USERD_HI(0), 0xc),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_EVENT),
    Stored(8, NV_PFIFO_ENG_CTXSW_TIMEOUT, 0xffffffff, 0x803fffff),
    Stored(9, NV_PFIFO_CLEAR_FAULTED_TIMEOUT, 0xbfffffff, 0x3ff),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_CTXSW_TIMEOUT),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_IDLE_EN_CLEAR),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_SET),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_CLEAR),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_SET),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_CLEAR),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_SET),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_RUNLIST_ACQUIRE_AND_ENG_IDLE_EN_CLEAR),
    Handled(CsrPart::kFifo, NV_PFIFO_RUNLIST_BASE_LO(0), 0x30),  // 4 words per runlist
    Handled(CsrPart::kFifo, NV_PFIFO_PBDMA_STATUS(0), 0xc),
    Handled(CsrPart::kFifo, NV_PFIFO_ENGINE_STATUS_INST(0), 0x10),
    Handled(CsrPart::kFifo, NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO(0), 0x10),
    Handled(CsrPart::kFifo, NV_PFIFO_RUNLIST_INFO(0), 0xc),
    Stored(10, NV_PTIMER_INTR_EN_0, 0x3),
    Mirrored(NV_PTIMER_TIME_0),
    Mirrored(NV_PTIMER_TIME_1),
    Mirrored(NV_TS104_ID),
    Handled(CsrPart::kIdentity, NV_TS104_VRAM_SIZE),
    Mirrored(NV_TS104_SM_COUNT, 4),  // SM_COUNT, ENGINE_MHZ, CTXSW_US, CTX_SIZE
    Handled(CsrPart::kIdentity, NV_TS104_NUM_CHIDS),
    Mirrored(NV_TS104_LAG_NS_LO, 2),
    Mirrored(NV_TS104_RUNLIST_TIME_LO(0), 6),
    Handled(CsrPart::kTime, NV_TS104_FUNCTION_TIME_LO(0), 192 * 8),
    Mirrored(NV_PTOP_DEVICE_INFO(0), 64),
    Handled(CsrPart::kPbdma, NV_PPBDMA_GP_PUT(0), 0x6000),
    Handled(CsrPart::kConfig, NV_FUNC_CONFIG_MIRROR_BASE, NV_FUNC_CONFIG_MIRROR_SIZE),
    Stored(11, NV_PFB_PRI_MMU_CTRL, 0xffffffff),
    Handled(CsrPart::kMmu, NV_PFB_PRI_MMU_INVALIDATE_VADDR, 0xc),  // VADDR, PDB, INVALIDATE
    Handled(CsrPart::kMmu, NV_PFB_PRI_MMU_INVALIDATE_UPPER_VADDR, 0x8),
    Stored(12, NV_PFB_PRI_MMU_PAGE_FAULT_CTRL, 0x3),
    Handled(CsrPart::kMmu, NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0), 0x28),
    Handled(CsrPart::kMmu, NV_PFB_PRI_MMU_FAULT_STATUS),
    Stored(13, NV_PFB_PRI_MMU_INVALIDATE_PASID, 0xfffff),
    Handled(CsrPart::kMmu, NV_PFB_PRI_MMU_INVALIDATE_SIZE),
    Mirrored(NV_CE_PCE_MAP),
    Stored(14, NV_CE_GRCE_CONFIG, 0xffffffff),
    Handled(CsrPart::kCopy, NV_CE_LCE_STATUS(0), 0x280),
    Handled(CsrPart::kPramin, NV_FUNC_PRAMIN_BASE, NV_FUNC_PRAMIN_SIZE),
    Handled(CsrPart::kChannel, NV_PCCSR_CHANNEL_INST(0), TS104_PCI_NUM_CHANNELS * 8),
    Handled(CsrPart::kDoorbell, NV_FUNC_BAR0_USERMODE_BASE, NV_FUNC_USERMODE_SIZE),
    Stored(16, NV_CTRL_MAILBOX_SCRATCH(0), 0xffffffff, 0, 16),
    Handled(CsrPart::kTree, NV_CTRL_VIRTUAL_CHANNEL_CFG(0)),
    Mirrored(NV_CTRL_VIRTUAL_INTR_VECTOR),
    Mirrored(NV_CTRL_CPU_DOORBELL_VECTOR),
    Mirrored(NV_CTRL_ENGINE_STALL_BASE),
    Mirrored(NV_CTRL_ENGINE_NONSTALL_BASE),
    Mirrored(NV_CTRL_SW_INTR_NOSTALL),
    Handled(CsrPart::kTree, NV_CTRL_LEAF_TRIGGER(0)),
    Handled(CsrPart::kTree, NV_CTRL_TOP(0)),
    Handled(CsrPart::kTree, NV_CTRL_TOP_EN_SET(0)),
    Handled(CsrPart::kTree, NV_CTRL_TOP_EN_CLEAR(0)),
    Handled(CsrPart::kTree, NV_CTRL_LEAF(0), 0x20),
    Handled(CsrPart::kTree, NV_CTRL_LEAF_EN_SET(0), 0x20),
    Handled(CsrPart::kTree, NV_CTRL_LEAF_EN_CLEAR(0), 0x20),
    Handled(CsrPart::kMsix, NV_FUNC_MSIX_TABLE, TS104_PCI_MSIX_VECTORS * 16),
    Handled(CsrPart::kDoorbell, NV_FUNC_USERMODE_BASE, NV_FUNC_USERMODE_SIZE),
};
constexpr size_t kCount = sizeof(kTable) / sizeof(kTable[0]);

constexpr bool Sorted() {
  for (size_t i = 1; i < kCount; ++i) {
    if (kTable[i].first < kTable[i - 1].first + kTable[i - 1].bytes) return false;
  }
  return true;
}
static_assert(Sorted(), "binary search wants ascending ranges that do not overlap");

constexpr bool SlotsFit() {
  for (const CsrRange& range : kTable) {
    if (range.kind == CsrKind::kStored && range.slot + range.bytes / 4 > kStoredWords) return false;
  }
  return true;
}
static_assert(SlotsFit());

// Parts of the function window and where they are in the physical driver's view.
struct Alias {
  uint32_t first;
  uint32_t bytes;
  uint32_t target;
};
constexpr Alias kAliases[] = {
    {NV_FUNC_PRIV_BAR1_BLOCK, 4, NV_PBUS_BAR1_BLOCK},
    {NV_FUNC_PRIV_LEAF(0), 0x20, NV_CTRL_LEAF(0)},
    {NV_FUNC_PRIV_LEAF_EN_SET(0), 0x20, NV_CTRL_LEAF_EN_SET(0)},
    {NV_FUNC_PRIV_LEAF_EN_CLEAR(0), 0x20, NV_CTRL_LEAF_EN_CLEAR(0)},
    {NV_FUNC_PRIV_TOP, 4, NV_CTRL_TOP(0)},
    {NV_FUNC_PRIV_TOP_EN_SET, 4, NV_CTRL_TOP_EN_SET(0)},
    {NV_FUNC_PRIV_TOP_EN_CLEAR, 4, NV_CTRL_TOP_EN_CLEAR(0)},
    {NV_FUNC_PRIV_LEAF_TRIGGER, 4, NV_CTRL_LEAF_TRIGGER(0)},
    {NV_FUNC_PRIV_MAILBOX_SCRATCH(0), 0x40, NV_CTRL_MAILBOX_SCRATCH(0)},
    {NV_FUNC_MMU_FAULT_BUFFER_LO(0), 0x14, NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0)},
    {NV_FUNC_MMU_FAULT_BUFFER_LO(1), 0x14, NV_PFB_PRI_MMU_FAULT_BUFFER_LO(1)},
    {NV_FUNC_MMU_FAULT_STATUS, 4, NV_PFB_PRI_MMU_FAULT_STATUS},
    {NV_FUNC_MMU_INVALIDATE_PDB, 4, NV_PFB_PRI_MMU_INVALIDATE_PDB},
    {NV_FUNC_MMU_INVALIDATE_UPPER_PDB, 4, NV_PFB_PRI_MMU_INVALIDATE_UPPER_PDB},
    {NV_FUNC_MMU_INVALIDATE, 4, NV_PFB_PRI_MMU_INVALIDATE},
};

}  // namespace

const CsrRange* FindCsr(uint32_t offset) {
  size_t low = 0;
  size_t high = kCount;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (offset < kTable[middle].first) {
      high = middle;
    } else if (offset - kTable[middle].first >= kTable[middle].bytes) {
      low = middle + 1;
    } else {
      return &kTable[middle];
    }
  }
  return nullptr;
}

uint32_t CanonicalCsr(uint32_t offset) {
  if (offset < NV_FUNC_WINDOW_BASE || offset >= NV_FUNC_MSIX_TABLE) return offset;
  for (const Alias& alias : kAliases) {
    if (offset >= alias.first && offset - alias.first < alias.bytes) {
      return alias.target + (offset - alias.first);
    }
  }
  return offset;
}

void ResetStored(uint32_t (&words)[kStoredWords]) {
  for (uint32_t& word : words) word = 0;
  for (const CsrRange& range : kTable) {
    if (range.kind == CsrKind::kStored && range.reset != 0) words[range.slot] = range.reset;
  }
}

}  // namespace turnstile
