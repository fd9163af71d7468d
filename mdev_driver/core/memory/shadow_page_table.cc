// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Directories, spaces, and what all spaces of a vGPU share. Leaves: shadow_region.cc.
#include "core/memory/shadow_page_table.h"

namespace turnstile {

namespace {

// By level, 0 is PD3: first bit of the virtual address, entries, words per entry.
constexpr unsigned kLevelShift[ShadowDirectory::kLevels] = {47, 38, 29, 21};
constexpr uint32_t kLevelEntries[ShadowDirectory::kLevels] = {4, 512, 512, 256};
constexpr uint32_t kLevelWords[ShadowDirectory::kLevels] = {1, 1, 1, 2};
constexpr unsigned kPd0 = 3;

}  // namespace

// ---- ShadowDirectory
// -----------------------------------------------------------------------------

base::Result<base::UniquePtr<ShadowDirectory>> ShadowDirectory::Create(ShadowMemory& memory,
                                                                       unsigned level,
                                                                       GuestAddress table) {
  TS_TRY_STATUS(memory.TakeTable());
  auto directory = base::AdoptUnique(new (std::nothrow) ShadowDirectory(memory, level, table));
  if (!directory.ok()) {
    --memory.tables_;
    return directory.status();
  }
  const size_t words = kLevelEntries[level] * kLevelWords[level];
  memory.counter_.Add(sizeof(ShadowDirectory));
  TS_TRY((*directory)->copy_, base::DynArray<uint64_t>::Create(words));
  memory.counter_.Add(words * sizeof(uint64_t));
  TS_TRY((*directory)->shadow_, DmaBuffer::Create(memory.gpu_, kPageSize, &memory.counter_));
  return directory;
}

unsigned ShadowDirectory::Shift() const { return kLevelShift[level_]; }
uint32_t ShadowDirectory::Entries() const { return kLevelEntries[level_]; }

ShadowDirectory::~ShadowDirectory() {
  memory_.counter_.Sub(sizeof(*this) + copy_.size() * sizeof(uint64_t));
  --memory_.tables_;
}

bool ShadowDirectory::Sync(uint64_t base, const SyncRange& range, uint64_t sync_epoch,
                           SyncBudget& budget, bool* changed) {
  if (epoch == sync_epoch) return true;
  const unsigned shift = Shift();
  const uint64_t end = base + (uint64_t{Entries()} << shift) - 1;
  const uint64_t low = range.first > base ? range.first : base;
  const uint64_t high = range.last < end ? range.last : end;
  const auto first = static_cast<uint32_t>((low - base) >> shift);
  const auto last = static_cast<uint32_t>((high - base) >> shift);
  if (read_epoch_ != sync_epoch) {
    ReadEntries(first, last, budget, changed);
    read_epoch_ = sync_epoch;
  }
  for (uint32_t index = first; index <= last; ++index) {
    if (!SyncChild(index, base + (uint64_t{index} << shift), range, sync_epoch, budget, changed)) {
      return false;
    }
  }
  epoch = sync_epoch;
  return true;
}

// Compares the guest's entries with those of last time. A table that cannot be read is empty: the
// device then reports a PDE fault, as for the guest's own table.
void ShadowDirectory::ReadEntries(uint32_t first, uint32_t last, SyncBudget& budget,
                                  bool* changed) {
  budget.left -= SyncBudget::kTableCost;
  const uint32_t words = kLevelWords[level_];
  uint64_t* raw = memory_.entries_.data();
  const size_t count = (last - first + 1) * words;
  GuestAddress from = table_;
  from.value += first * words * sizeof(uint64_t);
  if (memory_.memory_.Read(from, raw, count * sizeof(uint64_t)) != Status::kOk) {
    for (size_t i = 0; i < count; ++i) raw[i] = 0;
  }
  for (uint32_t index = first; index <= last; ++index, raw += words) {
    const uint64_t* old = copy_.data() + index * words;
    if (raw[0] == old[0] && (words == 1 || raw[1] == old[1])) continue;
    UpdateEntry(index, raw, changed);
    budget.left -= SyncBudget::kTableCost;  // it may have made a table
  }
}

void ShadowDirectory::UpdateEntry(uint32_t index, const uint64_t* raw, bool* changed) {
  ++memory_.ptes_translated_;
  if (level_ == kPd0) {
    copy_[index * 2] = raw[0];
    copy_[index * 2 + 1] = raw[1];
    UpdateRegionEntry(index, raw[0], raw[1], changed);
  } else {
    copy_[index] = raw[0];
    UpdateDirectoryEntry(index, raw[0], changed);
  }
}

// A new child is not linked here but when it is up to date (SyncChild): until then the device goes
// on with the old one, which waits on the retired list.
void ShadowDirectory::UpdateDirectoryEntry(uint32_t index, uint64_t raw, bool* changed) {
  base::UniquePtr<ShadowDirectory>* old = directories_.Find(index);
  const bool is_pte = (raw & kPdeIsPte) != 0;
  const PdeTarget target = is_pte ? PdeTarget() : DecodePde(raw);
  if (old != nullptr && target.present && (*old)->table() == target.table) return;
  if (old != nullptr) {
    memory_.RetireDirectory(*directories_.Take(index));
    *changed = true;
  }
  if (!target.present) {
    Store(index, is_pte ? kPdeIsPte : raw & kPdeSparse, 0, changed);
    return;
  }
  auto child = Create(memory_, level_ + 1, target.table);
  if (!child.ok() || directories_.TryInsert(index, *std::move(child)) != Status::kOk) {
    memory_.limit_reached_ = true;
    Forget(index);
    Store(index, 0, 0, changed);
    return;
  }
  ++unlinked_;
}

void ShadowDirectory::UpdateRegionEntry(uint32_t index, uint64_t low, uint64_t high,
                                        bool* changed) {
  if (regions_.Contains(index)) {
    memory_.RetireRegion(*regions_.Take(index));
    *changed = true;
  }
  const bool huge = (low & 1) != 0;
  if (!huge && !DecodeBigPde(low).present && !DecodeSmallPde(high).present) {
    Store(index, low & kPdeSparse, 0, changed);
    return;
  }
  auto region = ShadowRegion::Create(memory_, low, high);
  if (!region.ok() || regions_.TryInsert(index, *std::move(region)) != Status::kOk) {
    memory_.limit_reached_ = true;
    Forget(index);
    Store(index, 0, 0, changed);
    return;
  }
  ++unlinked_;
}

// The entry counts as never read: the next invalidate tries again.
void ShadowDirectory::Forget(uint32_t index) {
  for (uint32_t word = 0; word < kLevelWords[level_]; ++word) {
    copy_[index * kLevelWords[level_] + word] = 0;
  }
}

bool ShadowDirectory::SyncChild(uint32_t index, uint64_t base, const SyncRange& range,
                                uint64_t sync_epoch, SyncBudget& budget, bool* changed) {
  if (level_ != kPd0) {
    base::UniquePtr<ShadowDirectory>* child = directories_.Find(index);
    if (child == nullptr) return true;
    // A child that is not linked has never been read: all of it is wanted.
    const SyncRange wanted = (*child)->linked ? range : SyncRange();
    if (budget.spent() || !(*child)->Sync(base, wanted, sync_epoch, budget, changed)) return false;
    if (!(*child)->linked) {
      (*child)->linked = true;
      --unlinked_;
      Store(index, MakePde((*child)->address()), 0, changed);
    }
    return true;
  }
  base::UniquePtr<ShadowRegion>* found = regions_.Find(index);
  if (found == nullptr || (*found)->epoch == sync_epoch) return true;
  if (budget.spent()) return false;
  ShadowRegion& region = **found;
  const uint64_t end = base + (uint64_t{1} << kHugeShift) - 1;
  const bool all = !region.linked;
  const uint64_t low = !all && range.first > base ? range.first : base;
  const uint64_t high = !all && range.last < end ? range.last : end;
  region.Sync(static_cast<uint32_t>((low - base) >> kSmallShift),
              static_cast<uint32_t>((high - base) >> kSmallShift), budget, changed);
  region.epoch = sync_epoch;
  if (!region.linked) --unlinked_;
  region.linked = true;
  Store(index, region.ShadowLow(), region.ShadowHigh(), changed);
  return true;
}

void ShadowDirectory::Store(uint32_t index, uint64_t low, uint64_t high, bool* changed) {
  if (level_ != kPd0) {
    if (shadow_.Load64(index) == low) return;
    shadow_.Store64(index, low);
    *changed = true;
    return;
  }
  if (shadow_.Load64(index * 2) == low && shadow_.Load64(index * 2 + 1) == high) return;
  // Both halves lead to tables of this vGPU that live until the next Flush: every mixture that the
  // device may see is safe.
  shadow_.Store64(index * 2 + 1, high);
  shadow_.Store64(index * 2, low);
  *changed = true;
}

void ShadowDirectory::DropStaleLinks() {
  bool ignored = false;
  directories_.ForEach([&](uint64_t index, base::UniquePtr<ShadowDirectory>& child) {
    if (!child->linked) Store(static_cast<uint32_t>(index), 0, 0, &ignored);
    child->DropStaleLinks();
  });
  if (unlinked_ == 0) return;
  regions_.ForEach([&](uint64_t index, base::UniquePtr<ShadowRegion>& region) {
    if (!region->linked) Store(static_cast<uint32_t>(index), 0, 0, &ignored);
  });
}

void ShadowDirectory::Unmap(uint64_t start, uint64_t last, bool* changed) {
  directories_.ForEach([&](uint64_t, base::UniquePtr<ShadowDirectory>& child) {
    child->Unmap(start, last, changed);
  });
  regions_.ForEach([&](uint64_t index, base::UniquePtr<ShadowRegion>& region) {
    region->Unmap(start, last, changed);
    if (region->linked) {
      Store(static_cast<uint32_t>(index), region->ShadowLow(), region->ShadowHigh(), changed);
    }
  });
}

void ShadowDirectory::RetireChildren() {
  directories_.ForEach([this](uint64_t, base::UniquePtr<ShadowDirectory>& child) {
    memory_.RetireDirectory(std::move(child));
  });
  directories_.Clear();
  regions_.ForEach([this](uint64_t, base::UniquePtr<ShadowRegion>& region) {
    memory_.RetireRegion(std::move(region));
  });
  regions_.Clear();
}

// ---- ShadowSpace
// ---------------------------------------------------------------------------------

void ShadowSpace::BeginSync(const SyncRange& range) {
  if (syncing_) {
    range_.first = range.first < range_.first ? range.first : range_.first;
    range_.last = range.last > range_.last ? range.last : range_.last;
  } else {
    range_ = range;
  }
  syncing_ = true;
  ++epoch_;
}

bool ShadowSpace::Continue(SyncBudget& budget) {
  if (!syncing_) return true;
  syncing_ = !directory_->Sync(0, range_, epoch_, budget, &changed_);
  return !syncing_;
}

// ---- ShadowMemory
// --------------------------------------------------------------------------------

base::Result<base::UniquePtr<ShadowMemory>> ShadowMemory::Create(
    HostGpu gpu, const Partition& partition, const GuestMemory& memory, PinTable& pins,
    TlbInvalidator& tlb, MemoryCounter& counter) {
  auto shadow = base::AdoptUnique(new (std::nothrow)
                                      ShadowMemory(gpu, partition, memory, pins, tlb, counter));
  if (!shadow.ok()) return shadow.status();
  TS_TRY((*shadow)->entries_, base::DynArray<uint64_t>::Create(kSlotsPerRegion));
  TS_TRY((*shadow)->big_entries_, base::DynArray<uint64_t>::Create(kBlocksPerRegion));
  TS_TRY((*shadow)->dma_, base::DynArray<uint64_t>::Create(kSlotsPerRegion));
  return shadow;
}

ShadowMemory::~ShadowMemory() { Clear(); }

Status ShadowMemory::TakeTable() {
  if (tables_ >= kMaxTables) {
    limit_reached_ = true;
    return Status::kNoSpace;
  }
  ++tables_;
  return Status::kOk;
}

ShadowSpace* ShadowMemory::Find(GuestAddress root) {
  for (auto& space : spaces_) {
    if (space->root() == root) return space.get();
  }
  return nullptr;
}

base::Result<ShadowSpace*> ShadowMemory::Acquire(GuestAddress root, bool* fresh) {
  *fresh = false;
  ShadowSpace* space = Find(root);
  if (space == nullptr) {
    // Room on the retired list is made now, so that Release cannot fail.
    TS_TRY_STATUS(retired_spaces_.TryReserve(retired_spaces_.size() + spaces_.size() + 1));
    TS_TRY(auto directory, ShadowDirectory::Create(*this, 0, root));
    TS_TRY(auto made, base::MakeUnique<ShadowSpace>(root, std::move(directory)));
    space = made.get();
    TS_TRY_STATUS(spaces_.TryPushBack(std::move(made)));
    *fresh = true;
  }
  ++space->references_;
  return space;
}

void ShadowMemory::Release(ShadowSpace* space) {
  TS_CHECK(space->references_ > 0);
  if (--space->references_ > 0) return;
  for (size_t i = 0; i < spaces_.size(); ++i) {
    if (spaces_[i].get() != space) continue;
    TS_CHECK(retired_spaces_.TryPushBack(std::move(spaces_[i])) == Status::kOk);
    spaces_.EraseUnordered(i);
    return;
  }
}

void ShadowMemory::RetireRegion(base::UniquePtr<ShadowRegion> region) {
  retired_regions_.PushBack(*region.release());
}

void ShadowMemory::RetireDirectory(base::UniquePtr<ShadowDirectory> directory) {
  retired_directories_.PushBack(*directory.release());
}

void ShadowMemory::Unmap(uint64_t start, uint64_t length) {
  if (!pins_.AnyPinned(start, length)) return;
  for (auto& space : spaces_) {
    space->directory_->Unmap(start, start + (length - 1), &space->changed_);
  }
  Flush();
}

// The order is the point: entries are changed, the device forgets them, only then pages are
// unpinned and tables freed. A sync that is still going on has old tables linked and new ones not:
// those links go first.
void ShadowMemory::Flush() {
  const bool retired = !retired_regions_.empty() || !retired_directories_.empty();
  for (auto& space : spaces_) {
    if (space->syncing_ && retired) space->directory_->DropStaleLinks();
  }
  SyncBudget all{int64_t{1} << 62};
  static_cast<void>(FlushTlb(all) && Free(all));
}

bool ShadowMemory::FlushTlb(SyncBudget& budget) {
  for (auto& space : spaces_) {
    if (!space->changed_) continue;
    if (budget.spent()) return false;
    budget.left -= SyncBudget::kTlbCost;
    space->changed_ = false;
    tlb_.InvalidateTlb(space->shadow_root());
  }
  while (!retired_spaces_.empty()) {
    if (budget.spent()) return false;
    budget.left -= SyncBudget::kTlbCost;
    tlb_.InvalidateTlb(retired_spaces_.back()->shadow_root());
    RetireDirectory(std::move(retired_spaces_.back()->directory_));
    retired_spaces_.PopBack();
  }
  return true;
}

// A directory gives its children to the lists before it goes: however large a tree is, one step is
// one table.
bool ShadowMemory::Free(SyncBudget& budget) {
  for (;;) {
    const bool none = retired_regions_.empty() && retired_directories_.empty();
    if (none || budget.spent()) break;
    budget.left -= SyncBudget::kTableCost;
    if (ShadowRegion* region = retired_regions_.PopFront(); region != nullptr) {
      region->ReleasePins();
      base::UniquePtr<ShadowRegion> owned(region);
      continue;
    }
    base::UniquePtr<ShadowDirectory> owned(retired_directories_.PopFront());
    owned->RetireChildren();
  }
  if (budget.spent()) return !flush_wanted();
  const auto pages = static_cast<size_t>(budget.left);
  budget.left -= static_cast<int64_t>(pins_.unreferenced());
  return pins_.FlushSome(pages);
}

bool ShadowMemory::flush_wanted() const {
  bool wanted = !retired_spaces_.empty() || !retired_regions_.empty() ||
                !retired_directories_.empty() || pins_.flush_wanted();
  for (const auto& space : spaces_) wanted = wanted || space->changed_;
  return wanted;
}

void ShadowMemory::Clear() {
  while (!spaces_.empty()) {
    spaces_.back()->references_ = 1;
    Release(spaces_.back().get());
  }
  Flush();
}

}  // namespace turnstile
