// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/page_table.h"

#include "base/units.h"
#include "ts104/typed.h"

namespace guest {

namespace {

using base::Status;
using ts104::mmu_fmt::Pde;
using ts104::mmu_fmt::Pte;

// VALID 0 and VOL 1. In a dual PDE's low half the same bits mean: 2 MiB sparse.
constexpr uint64_t kSparse = 0x8;

bool IsHugeEntry(uint64_t low) { return (low & 1) != 0 || low == kSparse; }
uint64_t Min(uint64_t a, uint64_t b) { return a < b ? a : b; }

}  // namespace

uint64_t EncodePte(uint32_t aperture, uint64_t address, uint32_t map_flags) {
  if ((map_flags & TSG_MAP_SPARSE) != 0) return kSparse;
  Pte pte;
  pte.Set<Pte::Valid>(1).Set<Pte::Kind>(Pte::kKindGenericMemory);
  pte.Set<Pte::AddressSys>(address >> 12);
  if (aperture == TSG_APERTURE_SYSMEM) {
    // VOL: the GPU's L2 must not keep what the CPU may change.
    pte.Set<Pte::Aperture>(Pte::kApertureSysCoh).Set<Pte::Vol>(1);
  }
  if ((map_flags & TSG_MAP_PRIVILEGED) != 0) pte.Set<Pte::Privilege>(1);
  if ((map_flags & TSG_MAP_READ_ONLY) != 0) pte.Set<Pte::ReadOnly>(1);
  if ((map_flags & TSG_MAP_NO_ATOMICS) != 0) pte.Set<Pte::AtomicDisable>(1);
  return pte.raw();
}

uint64_t EncodePde(uint32_t aperture, uint64_t table) {
  Pde pde;
  pde.Set<Pde::AddressSys>(table >> 12);
  if (aperture == TSG_APERTURE_SYSMEM) {
    pde.Set<Pde::Aperture>(Pde::kApertureSysCoh).Set<Pde::Vol>(1);
  } else {
    pde.Set<Pde::Aperture>(Pde::kApertureVideo);
  }
  return pde.raw();
}

uint64_t EncodeDualPdeBig(uint32_t aperture, uint64_t table) {
  // The table's address in units of 256 bytes from bit 4 on; the rest as in a PDE.
  return (EncodePde(aperture, 0)) | (table >> 8) << 4;
}

uint64_t EncodeDualPdeSmall(uint32_t aperture, uint64_t table) {
  return EncodePde(aperture, table);
}

uint32_t PageTable::EntryCount(Level level) {
  switch (level) {
    case Level::kPd3: return 4;
    case Level::kBig: return 32;
    default: return 512;
  }
}

// Of the first 8-byte entry for `va`.
uint32_t PageTable::Index(Level level, uint64_t va) {
  switch (level) {
    case Level::kPd3: return static_cast<uint32_t>(va >> 47) & 3;
    case Level::kPd2: return static_cast<uint32_t>(va >> 38) & 511;
    case Level::kPd1: return static_cast<uint32_t>(va >> 29) & 511;
    case Level::kPd0: return (static_cast<uint32_t>(va >> 21) & 255) * 2;
    case Level::kBig: return static_cast<uint32_t>(va >> 16) & 31;
    case Level::kSmall: break;
  }
  return static_cast<uint32_t>(va >> 12) & 511;
}

// Bytes of address space below one entry of a directory.
uint64_t PageTable::Span(Level level) {
  switch (level) {
    case Level::kPd3: return uint64_t{1} << 47;
    case Level::kPd2: return uint64_t{1} << 38;
    case Level::kPd1: return uint64_t{1} << 29;
    default: return kHugePage;
  }
}

PageTable::~PageTable() {
  if (root_ != nullptr) FreeTree(root_);
  ReleaseRetired();
}

Status PageTable::Init() {
  TS_TRY(root_, NewTable(Level::kPd3));
  return Status::kOk;
}

base::Result<PageTable::Table*> PageTable::NewTable(Level level) {
  TS_TRY(base::UniquePtr<Table> table, base::MakeUnique<Table>());
  table->level = level;
  TS_TRY(table->entries, base::DynArray<uint64_t>::Create(EntryCount(level)));
  if (level != Level::kSmall && level != Level::kBig) {
    TS_TRY(table->children, base::DynArray<Table*>::Create(EntryCount(level)));
  }
  TS_TRY(table->page, memory_.Alloc());
  ++table_count_;
  return table.release();
}

// Depth is bounded by the five levels.
void PageTable::FreeTree(Table* table) {
  for (Table* child : table->children) {
    if (child != nullptr) FreeTree(child);
  }
  memory_.Free(table->page);
  --table_count_;
  delete table;
}

void PageTable::ReleaseRetired() {
  while (retired_ != nullptr) {
    Table* table = retired_;
    retired_ = table->next_retired;
    FreeTree(table);
  }
}

void PageTable::SetEntries(Table& table, uint32_t first, const uint64_t* entries, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t& entry = table.entries[first + i];
    if (entry != 0) --table.used;
    if (entries[i] != 0) ++table.used;
    entry = entries[i];
  }
  memory_.Write(table.page, first, entries, count);
}

// `count` entries that start with `entry` and grow by `step`.
void PageTable::FillEntries(Table& table, uint32_t first, uint64_t entry, uint64_t step,
                            uint32_t count) {
  constexpr uint32_t kBatch = 32;
  uint64_t batch[kBatch];
  while (count > 0) {
    const uint32_t now = count < kBatch ? count : kBatch;
    for (uint32_t i = 0; i < now; ++i) {
      batch[i] = entry;
      entry += step;
    }
    SetEntries(table, first, batch, now);
    first += now;
    count -= now;
  }
}

base::Result<PageTable::Table*> PageTable::EnsurePd0(uint64_t va) {
  Table* table = root_;
  while (table->level != Level::kPd0) {
    const uint32_t index = Index(table->level, va);
    Table*& child = table->children[index];
    if (child == nullptr) {
      const auto below = static_cast<Level>(static_cast<uint8_t>(table->level) + 1);
      TS_TRY(child, NewTable(below));
      const uint64_t pde = EncodePde(child->page.aperture, child->page.address);
      SetEntries(*table, index, &pde, 1);
    }
    table = child;
  }
  return table;
}

base::Result<PageTable::Table*> PageTable::EnsureLeaf(Table& pd0, uint64_t va, Level level) {
  const uint32_t index = Index(Level::kPd0, va) + (level == Level::kSmall ? 1 : 0);
  Table*& child = pd0.children[index];
  if (child == nullptr) {
    TS_TRY(child, NewTable(level));
    const TablePage& page = child->page;
    const uint64_t half = level == Level::kSmall ? EncodeDualPdeSmall(page.aperture, page.address)
                                                 : EncodeDualPdeBig(page.aperture, page.address);
    SetEntries(pd0, index, &half, 1);
  }
  return child;
}

const PageTable::Table* PageTable::FindPd0(uint64_t va) const {
  const Table* table = root_;
  while (table != nullptr && table->level != Level::kPd0) {
    table = table->children[Index(table->level, va)];
  }
  return table;
}

// The first address >= va below which there is a PD0, or `end`. A range of 2^49 bytes costs a few
// steps, not one per page.
uint64_t PageTable::SkipAbsent(uint64_t va, uint64_t end) const {
  while (va < end) {
    const Table* table = root_;
    while (table->level != Level::kPd0) {
      const Table* child = table->children[Index(table->level, va)];
      if (child == nullptr) break;
      table = child;
    }
    if (table->level == Level::kPd0) return va;
    va = (va / Span(table->level) + 1) * Span(table->level);
  }
  return end;
}

bool PageTable::RegionIsFree(const Table& pd0, uint64_t va, uint64_t end) const {
  const uint32_t index = Index(Level::kPd0, va);
  if (IsHugeEntry(pd0.entries[index])) return false;
  if (const Table* big = pd0.children[index]) {
    for (uint64_t at = va & ~(kBigPage - 1); at < end; at += kBigPage) {
      if (big->entries[Index(Level::kBig, at)] != 0) return false;
    }
  }
  if (const Table* small = pd0.children[index + 1]) {
    for (uint64_t at = va; at < end; at += kSmallPage) {
      if (small->entries[Index(Level::kSmall, at)] != 0) return false;
    }
  }
  return true;
}

bool PageTable::IsFree(uint64_t va, uint64_t size) const {
  const uint64_t end = va + size;
  for (va = SkipAbsent(va, end); va < end; va = SkipAbsent(va, end)) {
    const uint64_t region_end = Min(end, (va / kHugePage + 1) * kHugePage);
    if (!RegionIsFree(*FindPd0(va), va, region_end)) return false;
    va = region_end;
  }
  return true;
}

// Maps the beginning of `rest` at `va` with one page size and says how many bytes that were.
base::Result<uint64_t> PageTable::MapStep(uint64_t va, const tsg_extent& rest, uint32_t flags) {
  const bool sparse = (flags & TSG_MAP_SPARSE) != 0;
  const uint64_t misfit = sparse ? va : va | rest.address;
  const uint64_t to_region_end = kHugePage - va % kHugePage;
  const uint64_t pte = EncodePte(rest.aperture, rest.address, flags);
  TS_TRY(Table * pd0, EnsurePd0(va));
  const uint32_t index = Index(Level::kPd0, va);

  if (misfit % kHugePage == 0 && rest.size >= kHugePage && pd0->entries[index] == 0 &&
      pd0->entries[index + 1] == 0) {
    SetEntries(*pd0, index, &pte, 1);
    return kHugePage;
  }
  // An invalid big entry sends the walk to the small table whatever VOL says: sparse is 4 KiB.
  if (!sparse && misfit % kBigPage == 0 && rest.size >= kBigPage) {
    TS_TRY(Table * big, EnsureLeaf(*pd0, va, Level::kBig));
    const uint64_t bytes = Min(to_region_end, rest.size) & ~(kBigPage - 1);
    FillEntries(*big, Index(Level::kBig, va), pte, (kBigPage >> 12) << Pte::AddressSys::kShift,
                static_cast<uint32_t>(bytes / kBigPage));
    return bytes;
  }
  TS_TRY(Table * small, EnsureLeaf(*pd0, va, Level::kSmall));
  uint64_t bytes = Min(to_region_end, rest.size);
  if (!sparse && (va ^ rest.address) % kBigPage == 0) {
    bytes = Min(bytes, kBigPage - va % kBigPage);  // from there on 64 KiB pages may fit
  }
  FillEntries(*small, Index(Level::kSmall, va), pte,
              sparse ? 0 : uint64_t{1} << Pte::AddressSys::kShift,
              static_cast<uint32_t>(bytes / kSmallPage));
  return bytes;
}

Status PageTable::Map(uint64_t va, std::span<const tsg_extent> extents, uint32_t flags) {
  uint64_t total = 0;
  for (const tsg_extent& extent : extents) {
    if (extent.size == 0 || (extent.size | extent.address) % kSmallPage != 0 ||
        extent.aperture > TSG_APERTURE_SYSMEM || extent.reserved != 0 ||
        extent.size > TSG_VA_LIMIT - total) {
      return Status::kInvalidArgument;
    }
    total += extent.size;
  }
  if (va % kSmallPage != 0 || total == 0 || !base::RangeFits(va, total, TSG_VA_LIMIT)) {
    return Status::kInvalidArgument;
  }
  if (!IsFree(va, total)) return Status::kExists;

  uint64_t at = va;
  for (tsg_extent rest : extents) {
    while (rest.size > 0) {
      const base::Result<uint64_t> mapped = MapStep(at, rest, flags);
      if (!mapped.ok()) {
        // A directory may be new and empty even where nothing was mapped yet.
        ClearRange(va, at + kSmallPage);
        return mapped.status();
      }
      at += *mapped;
      rest.address += *mapped;
      rest.size -= *mapped;
    }
  }
  return Status::kOk;
}

// Sixteen big entries or all the small ones that say the same as the 2 MiB entry. The new table is
// complete before the entry that names it changes.
Status PageTable::SplitHuge(Table& pd0, uint64_t va) {
  const uint32_t index = Index(Level::kPd0, va);
  const uint64_t entry = pd0.entries[index];
  const bool sparse = entry == kSparse;
  const Level level = sparse ? Level::kSmall : Level::kBig;
  TS_TRY(Table * table, NewTable(level));
  const TablePage& page = table->page;
  uint64_t halves[2] = {0, 0};
  if (sparse) {
    FillEntries(*table, 0, entry, 0, EntryCount(level));
    halves[1] = EncodeDualPdeSmall(page.aperture, page.address);
    pd0.children[index + 1] = table;
  } else {
    FillEntries(*table, 0, entry, (kBigPage >> 12) << Pte::AddressSys::kShift, EntryCount(level));
    halves[0] = EncodeDualPdeBig(page.aperture, page.address);
    pd0.children[index] = table;
  }
  SetEntries(pd0, index + 1, &halves[1], 1);
  SetEntries(pd0, index, &halves[0], 1);
  return Status::kOk;
}

Status PageTable::SplitBig(Table& pd0, uint64_t va) {
  Table& big = *pd0.children[Index(Level::kPd0, va)];
  const uint32_t index = Index(Level::kBig, va);
  TS_TRY(Table * small, EnsureLeaf(pd0, va, Level::kSmall));
  FillEntries(*small, Index(Level::kSmall, va & ~(kBigPage - 1)), big.entries[index],
              uint64_t{1} << Pte::AddressSys::kShift, kBigPage / kSmallPage);
  const uint64_t none = 0;
  SetEntries(big, index, &none, 1);
  return Status::kOk;
}

// Afterwards no page lies across `va`.
Status PageTable::SplitAt(uint64_t va) {
  if (va % kHugePage == 0 || va >= TSG_VA_LIMIT) return Status::kOk;
  auto* pd0 = const_cast<Table*>(FindPd0(va));
  if (pd0 == nullptr) return Status::kOk;
  const uint32_t index = Index(Level::kPd0, va);
  if (IsHugeEntry(pd0->entries[index])) TS_TRY_STATUS(SplitHuge(*pd0, va));
  const Table* big = pd0->children[index];
  if (va % kBigPage != 0 && big != nullptr && big->entries[Index(Level::kBig, va)] != 0) {
    TS_TRY_STATUS(SplitBig(*pd0, va));
  }
  return Status::kOk;
}

void PageTable::ClearRegion(Table& pd0, uint64_t va, uint64_t end) {
  const uint32_t index = Index(Level::kPd0, va);
  const uint64_t none = 0;
  if (IsHugeEntry(pd0.entries[index])) {
    SetEntries(pd0, index, &none, 1);
    return;
  }
  if (Table* big = pd0.children[index]) {
    const uint32_t first = Index(Level::kBig, va + (kBigPage - 1));
    const uint64_t from = (va + (kBigPage - 1)) & ~(kBigPage - 1);
    const uint64_t to = end & ~(kBigPage - 1);
    if (from < to) FillEntries(*big, first, 0, 0, static_cast<uint32_t>((to - from) / kBigPage));
    DropIfEmpty(pd0, index);
  }
  if (Table* small = pd0.children[index + 1]) {
    FillEntries(*small, Index(Level::kSmall, va), 0, 0,
                static_cast<uint32_t>((end - va) / kSmallPage));
    DropIfEmpty(pd0, index + 1);
  }
}

void PageTable::DropIfEmpty(Table& parent, uint32_t child_index) {
  Table*& child = parent.children[child_index];
  if (child == nullptr || child->used != 0) return;
  const uint64_t none = 0;
  SetEntries(parent, child_index, &none, 1);
  child->next_retired = retired_;
  retired_ = child;
  child = nullptr;
}

// Unlinks the directories above `va` that are empty.
void PageTable::Prune(uint64_t va) {
  Table* pd2 = root_->children[Index(Level::kPd3, va)];
  if (pd2 == nullptr) return;
  if (Table* pd1 = pd2->children[Index(Level::kPd2, va)]) {
    DropIfEmpty(*pd1, Index(Level::kPd1, va));
  }
  DropIfEmpty(*pd2, Index(Level::kPd2, va));
  DropIfEmpty(*root_, Index(Level::kPd3, va));
}

void PageTable::ClearRange(uint64_t va, uint64_t end) {
  for (va = SkipAbsent(va, end); va < end; va = SkipAbsent(va, end)) {
    const uint64_t region_end = Min(end, (va / kHugePage + 1) * kHugePage);
    ClearRegion(*const_cast<Table*>(FindPd0(va)), va, region_end);
    Prune(va);
    va = region_end;
  }
}

Status PageTable::Unmap(uint64_t va, uint64_t size) {
  if ((va | size) % kSmallPage != 0 || size == 0 || !base::RangeFits(va, size, TSG_VA_LIMIT)) {
    return Status::kInvalidArgument;
  }
  TS_TRY_STATUS(SplitAt(va));
  TS_TRY_STATUS(SplitAt(va + size));
  ClearRange(va, va + size);
  return Status::kOk;
}

base::Result<tsg_extent> PageTable::Translate(uint64_t va, uint32_t* flags) const {
  if (va >= TSG_VA_LIMIT) return Status::kFault;
  const Table* pd0 = FindPd0(va);
  if (pd0 == nullptr) return Status::kFault;
  const uint32_t index = Index(Level::kPd0, va);
  const Table* big = pd0->children[index];
  const Table* small = pd0->children[index + 1];
  uint64_t entry = 0;
  uint64_t page = 0;
  if (IsHugeEntry(pd0->entries[index])) {
    entry = pd0->entries[index];
    page = kHugePage;
  } else if (big != nullptr && big->entries[Index(Level::kBig, va)] != 0) {
    entry = big->entries[Index(Level::kBig, va)];
    page = kBigPage;
  } else if (small != nullptr) {
    entry = small->entries[Index(Level::kSmall, va)];
    page = kSmallPage;
  }
  if (entry == 0) return Status::kFault;

  const Pte pte(entry);
  uint32_t found = 0;
  if (entry == kSparse) found |= TSG_MAP_SPARSE;
  if (pte.Test<Pte::ReadOnly>()) found |= TSG_MAP_READ_ONLY;
  if (pte.Test<Pte::AtomicDisable>()) found |= TSG_MAP_NO_ATOMICS;
  if (pte.Test<Pte::Privilege>()) found |= TSG_MAP_PRIVILEGED;
  if (flags != nullptr) *flags = found;
  tsg_extent extent = {};
  extent.address = (pte.Get<Pte::AddressSys>() << 12) + va % page;
  extent.size = page - va % page;
  extent.aperture =
      pte.Get<Pte::Aperture>() == Pte::kApertureVideo ? TSG_APERTURE_VRAM : TSG_APERTURE_SYSMEM;
  return extent;
}

}  // namespace guest
