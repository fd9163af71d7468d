// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Shadow page tables: what the device walks in place of the guest's. docs/memory_virtualization.md.
//
// The guest's tables count only after a TLB invalidate, so the shadow is brought up to date then:
// Sync reads the guest's tables, compares them with what they were, and translates the difference.
// Nothing is write-protected, and no entry of the guest's is ever seen by the device.
#pragma once

#include <cstdint>

#include "base/hash_map.h"
#include "base/intrusive_list.h"
#include "base/unique_ptr.h"
#include "base/vector.h"
#include "core/dump.h"
#include "core/host.h"
#include "core/memory/guest_memory.h"
#include "core/memory/pin_table.h"
#include "core/memory/pte.h"

namespace turnstile {

// Makes the device forget translations of one shadow root, and waits until it has.
class TlbInvalidator {
 public:
  virtual ~TlbInvalidator() = default;
  // Process context. A device that does not answer is reported and given up after a bounded time:
  // what stands between it and pages that are gone is then the IOMMU.
  virtual void InvalidateTlb(base::Hpa root) = 0;
};

// Virtual addresses [first, last] to bring up to date.
struct SyncRange {
  uint64_t first = 0;
  uint64_t last = kVaLimit - 1;
  static constexpr uint64_t kVaLimit = uint64_t{1} << 49;
};

// Work that may still be done in this slice: one per entry translated or page unpinned, kTableCost
// per table read, made or freed, kTlbCost per invalidate of the device.
struct SyncBudget {
  static constexpr int64_t kTableCost = 64;
  static constexpr int64_t kTlbCost = 256;
  int64_t left = 0;
  bool spent() const { return left <= 0; }
};

class MappingDump;
class ShadowSpace;
class ShadowRegion;
class ShadowDirectory;

// What all shadow tables of one vGPU share: seams, limits, scratch memory, figures. Guarded by the
// vGPU's mutex.
class ShadowMemory {
 public:
  // Tables (directories and regions) per vGPU: bounds host memory at about 8 KiB each.
  static constexpr uint32_t kMaxTables = 16384;

  static base::Result<base::UniquePtr<ShadowMemory>> Create(HostGpu gpu, const Partition& partition,
                                                            const GuestMemory& memory,
                                                            PinTable& pins, TlbInvalidator& tlb,
                                                            MemoryCounter& counter);
  ~ShadowMemory();

  // The space of this page directory with one more reference, made (empty) when there is none.
  // `fresh` tells that it is new and wants a Sync. kNoMemory, kNoSpace (limit on tables).
  base::Result<ShadowSpace*> Acquire(GuestAddress root, bool* fresh);
  // Gives a reference back. With the last one the space is taken apart; pins and tables are let go
  // in the next Flush. No channel may use its root any more.
  void Release(ShadowSpace* space);
  ShadowSpace* Find(GuestAddress root);

  template <typename Visit>
  void ForEachSpace(Visit&& visit) {
    for (auto& space : spaces_) visit(*space);
  }

  // Guest memory [start, start + length) goes away: clears every entry that leads there, makes the
  // device forget it and unpins.
  void Unmap(uint64_t start, uint64_t length);
  // After changes: makes the device forget what was changed, then frees retired tables and unpins.
  void Flush();
  // The same in two parts and in slices, when no space is in the middle of a sync. True: done.
  // FlushTlb: the device has forgotten. Free: what was retired is gone; only after FlushTlb.
  bool FlushTlb(SyncBudget& budget);
  bool Free(SyncBudget& budget);
  // Whether Flush would do anything.
  bool flush_wanted() const;
  // Releases everything, whatever the references. No channel is on the device any more.
  void Clear();

  void set_pin_batch(uint32_t pages) { pin_batch_ = pages; }
  uint64_t ptes_translated() const { return ptes_translated_; }
  uint32_t tables() const { return tables_; }
  // Whether a limit or want of memory left entries invalid since the last call.
  bool TakeLimitReached() { return std::exchange(limit_reached_, false); }
  // All spaces, and what the device finds in them.
  void DumpTo(Dump& dump) const;

 private:
  friend class ShadowSpace;
  friend class ShadowRegion;
  friend class ShadowDirectory;

  ShadowMemory(HostGpu gpu, const Partition& partition, const GuestMemory& memory, PinTable& pins,
               TlbInvalidator& tlb, MemoryCounter& counter)
      : gpu_(gpu),
        partition_(partition),
        memory_(memory),
        pins_(pins),
        tlb_(tlb),
        counter_(counter) {}

  Status TakeTable();
  void RetireRegion(base::UniquePtr<ShadowRegion> region);
  void RetireDirectory(base::UniquePtr<ShadowDirectory> directory);

  HostGpu gpu_;
  const Partition& partition_;
  const GuestMemory& memory_;
  PinTable& pins_;
  TlbInvalidator& tlb_;
  MemoryCounter& counter_;
  uint32_t pin_batch_ = PinTable::kMaxBatch;
  uint32_t tables_ = 0;
  bool limit_reached_ = false;
  uint64_t ptes_translated_ = 0;

  base::Vector<base::UniquePtr<ShadowSpace>> spaces_;
  // Still walked by the device, perhaps: freed by Flush. Linked lists, so retiring cannot fail.
  base::IntrusiveList<ShadowRegion> retired_regions_;
  base::IntrusiveList<ShadowDirectory> retired_directories_;
  // Roots that were dropped and still need an invalidate.
  base::Vector<base::UniquePtr<ShadowSpace>> retired_spaces_;

  // Scratch: one table as read, and the addresses of one region's pages.
  base::DynArray<uint64_t> entries_;
  base::DynArray<uint64_t> big_entries_;
  base::DynArray<uint64_t> dma_;
};

// Everything under one PD0 entry: 2 MiB of virtual addresses. Either tables of the guest (small,
// big or both) or one 2 MiB page.
class ShadowRegion : public base::ListNode<> {
 public:
  static base::Result<base::UniquePtr<ShadowRegion>> Create(ShadowMemory& memory, uint64_t low,
                                                            uint64_t high);
  ~ShadowRegion();

  // Brings [first, last], 4 KiB slots of the region, up to date. Never fails: what cannot be
  // translated is invalid and counts as not read, so that the next invalidate tries again.
  void Sync(uint32_t first, uint32_t last, SyncBudget& budget, bool* changed);
  // Clears entries that lead to guest pages in [start, last].
  void Unmap(uint64_t start, uint64_t last, bool* changed);
  void ReleasePins();

  // The shadow's PD0 entry for it.
  uint64_t ShadowLow() const;
  uint64_t ShadowHigh() const;
  void DumpTo(uint64_t va, MappingDump& out) const;

  uint64_t epoch = 0;
  bool linked = false;

 private:
  enum class BlockState : uint8_t { kSmall, kWhole, kSplit };

  ShadowRegion(ShadowMemory& memory, uint64_t low, uint64_t high);

  Status AllocateTables();
  void SyncTables(uint32_t first_block, uint32_t last_block, bool* changed);
  void SyncHuge(bool* changed);
  bool BlockChanged(uint32_t block) const;
  void PinBlocks(uint32_t first_block, uint32_t last_block);
  void MakeSmallEntries(uint32_t block, uint64_t* small, bool* pinned) const;
  void TranslateBlock(uint32_t block);
  Status NeedSmallTable();
  void ReleaseBlock(uint32_t block);
  void WriteBlock(uint32_t block, uint64_t big, const uint64_t* small);
  void UnmapBlock(uint32_t block, uint64_t start, uint64_t last, bool* changed);
  base::Gpa SlotPage(uint32_t slot) const;
  void WidenPages(uint64_t page);

  ShadowMemory& memory_;
  const uint64_t low_;  // the guest's PD0 entry
  const bool huge_;
  PdeTarget big_;
  PdeTarget small_;
  uint64_t huge_entry_ = 0;  // shadow's 2 MiB entry, or 0: see the small table
  bool huge_done_ = false;   // translated, with every page pinned
  DmaBuffer shadow_small_;
  DmaBuffer shadow_big_;
  base::DynArray<uint64_t> small_copy_;  // the guest's entries as last translated
  base::DynArray<uint64_t> big_copy_;
  BlockState state_[kBlocksPerRegion] = {};
  uint32_t retry_blocks_ = 0;  // translate again at the next invalidate, changed or not
  // Bounds of the guest pages that this region holds or held.
  uint64_t lowest_page_ = ~uint64_t{0};
  uint64_t highest_page_ = 0;
};

// A directory: PD3, PD2, PD1 or PD0.
class ShadowDirectory : public base::ListNode<> {
 public:
  static constexpr unsigned kLevels = 4;  // 0 is PD3, 3 is PD0

  static base::Result<base::UniquePtr<ShadowDirectory>> Create(ShadowMemory& memory, unsigned level,
                                                               GuestAddress table);
  ~ShadowDirectory();

  base::Hpa address() const { return shadow_.address(); }
  const GuestAddress& table() const { return table_; }

  // Brings what lies in `range` up to date; `base` is the virtual address of entry 0. False: the
  // budget is spent, call again with the same epoch.
  bool Sync(uint64_t base, const SyncRange& range, uint64_t epoch, SyncBudget& budget,
            bool* changed);
  void Unmap(uint64_t start, uint64_t last, bool* changed);
  // Takes links away that lead to tables about to be freed: see ShadowMemory::Flush.
  void DropStaleLinks();
  // Retires everything below it. The device cannot reach it any more.
  void RetireChildren();
  void DumpTo(uint64_t va, MappingDump& out) const;

  uint64_t epoch = 0;
  bool linked = false;

 private:
  ShadowDirectory(ShadowMemory& memory, unsigned level, GuestAddress table)
      : memory_(memory), level_(level), table_(table) {}

  void ReadEntries(uint32_t first, uint32_t last, SyncBudget& budget, bool* changed);
  void UpdateEntry(uint32_t index, const uint64_t* raw, bool* changed);
  void UpdateDirectoryEntry(uint32_t index, uint64_t raw, bool* changed);
  void UpdateRegionEntry(uint32_t index, uint64_t low, uint64_t high, bool* changed);
  bool SyncChild(uint32_t index, uint64_t base, const SyncRange& range, uint64_t epoch,
                 SyncBudget& budget, bool* changed);
  void Store(uint32_t index, uint64_t low, uint64_t high, bool* changed);
  void Forget(uint32_t index);
  unsigned Shift() const;  // of what one entry covers
  uint32_t Entries() const;

  ShadowMemory& memory_;
  const unsigned level_;
  const GuestAddress table_;
  uint64_t read_epoch_ = 0;
  DmaBuffer shadow_;
  base::DynArray<uint64_t> copy_;  // 1 word per entry, PD0: 2
  base::HashMap<base::UniquePtr<ShadowDirectory>> directories_;
  base::HashMap<base::UniquePtr<ShadowRegion>> regions_;
  // Entries whose new child is not linked yet: the device still walks the old one.
  uint32_t unlinked_ = 0;
};

// One page directory of the guest and its shadow.
class ShadowSpace {
 public:
  ShadowSpace(GuestAddress root, base::UniquePtr<ShadowDirectory> directory)
      : root_(root), directory_(static_cast<base::UniquePtr<ShadowDirectory>&&>(directory)) {}

  const GuestAddress& root() const { return root_; }
  base::Hpa shadow_root() const { return directory_->address(); }

  // Starts over: the next Continue calls belong to this request. A request in progress is widened.
  void BeginSync(const SyncRange& range);
  // Works on the request. True: it is done (or there was none). The caller then calls Flush.
  bool Continue(SyncBudget& budget);
  bool syncing() const { return syncing_; }

 private:
  friend class ShadowMemory;

  const GuestAddress root_;
  base::UniquePtr<ShadowDirectory> directory_;
  uint32_t references_ = 0;
  bool syncing_ = false;
  bool changed_ = false;  // since the last invalidate
  SyncRange range_;
  uint64_t epoch_ = 0;
};

}  // namespace turnstile
