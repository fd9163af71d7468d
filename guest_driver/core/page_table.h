// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Builder of GMMU page tables, version 2 (register_map.md: NV_MMU_PDE, NV_MMU_DUAL_PDE,
// NV_MMU_PTE).
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/unique_ptr.h"
#include "base/vector.h"
#include "guest_driver/core/guest_abi.h"
#include "guest_driver/core/table_memory.h"

namespace guest {

inline constexpr uint64_t kSmallPage = uint64_t{1} << 12;
inline constexpr uint64_t kBigPage = uint64_t{1} << 16;
inline constexpr uint64_t kHugePage = uint64_t{1} << 21;

// Entries as the hardware reads them.
uint64_t EncodePte(uint32_t aperture, uint64_t address, uint32_t map_flags);
uint64_t EncodePde(uint32_t aperture, uint64_t table);
// Halves of a dual PDE: low names the table of 64 KiB pages, high that of 4 KiB pages.
uint64_t EncodeDualPdeBig(uint32_t aperture, uint64_t table);
uint64_t EncodeDualPdeSmall(uint32_t aperture, uint64_t table);

// The tables of one address space. Keeps a copy of every table on the CPU's side, so nothing is
// ever read back from the device. Not synchronized; may sleep.
//
// Tables that lost their last entry are unlinked at once but freed by ReleaseRetired, because the
// GPU may hold their addresses until its TLBs are invalidated.
class PageTable {
 public:
  explicit PageTable(TableMemory& memory) : memory_(memory) {}
  ~PageTable();
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // Allocates the root. Once. kNoMemory, kNoSpace.
  base::Status Init();

  // See tsg_vm_map, tsg_vm_unmap, tsg_vm_translate.
  base::Status Map(uint64_t va, std::span<const tsg_extent> extents, uint32_t flags);
  base::Status Unmap(uint64_t va, uint64_t size);
  base::Result<tsg_extent> Translate(uint64_t va, uint32_t* flags) const;

  void ReleaseRetired();
  bool ready() const { return root_ != nullptr; }
  const TablePage& root() const { return root_->page; }
  uint64_t table_bytes() const { return table_count_ * TSG_PAGE_SIZE; }

 private:
  // Levels count down as in the manual: PD3 is the root. The leaves hang below PD0.
  enum class Level : uint8_t { kPd3, kPd2, kPd1, kPd0, kSmall, kBig };

  struct Table {
    Level level = Level::kPd3;
    TablePage page;
    uint32_t used = 0;                 // entries (of 8 bytes) that are not 0
    base::DynArray<uint64_t> entries;  // what the device sees
    base::DynArray<Table*> children;   // owned; directories only; PD0: [2i] big, [2i + 1] small
    Table* next_retired = nullptr;
  };

  static uint32_t EntryCount(Level level);
  static uint32_t Index(Level level, uint64_t va);
  static uint64_t Span(Level level);

  base::Result<Table*> NewTable(Level level);
  void FreeTree(Table* table);
  void SetEntries(Table& table, uint32_t first, const uint64_t* entries, uint32_t count);
  void FillEntries(Table& table, uint32_t first, uint64_t entry, uint64_t step, uint32_t count);
  base::Result<Table*> EnsurePd0(uint64_t va);
  base::Result<Table*> EnsureLeaf(Table& pd0, uint64_t va, Level level);
  const Table* FindPd0(uint64_t va) const;
  uint64_t SkipAbsent(uint64_t va, uint64_t end) const;

  bool IsFree(uint64_t va, uint64_t size) const;
  bool RegionIsFree(const Table& pd0, uint64_t va, uint64_t end) const;
  base::Result<uint64_t> MapStep(uint64_t va, const tsg_extent& rest, uint32_t flags);
  base::Status SplitAt(uint64_t va);
  base::Status SplitHuge(Table& pd0, uint64_t va);
  base::Status SplitBig(Table& pd0, uint64_t va);
  void ClearRegion(Table& pd0, uint64_t va, uint64_t end);
  void ClearRange(uint64_t va, uint64_t end);
  void DropIfEmpty(Table& parent, uint32_t child_index);
  void Prune(uint64_t va);

  TableMemory& memory_;
  Table* root_ = nullptr;
  Table* retired_ = nullptr;
  uint64_t table_count_ = 0;
};

}  // namespace guest
