// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The leaves: 2 MiB of virtual addresses, pages of 4 KiB, 64 KiB or 2 MiB.
#include "core/memory/shadow_page_table.h"

namespace turnstile {

namespace {

constexpr uint64_t kIsPte = 1;
constexpr uint64_t kPageBytes = kPageSize;

// Whether `count` pages lie one after the other at a multiple of their size in all.
bool Contiguous(const uint64_t* dma, uint32_t count) {
  if (dma[0] == PinTable::kNoDma || !base::IsAligned(dma[0], count * kPageBytes)) return false;
  for (uint32_t i = 1; i < count; ++i) {
    if (dma[i] != dma[0] + i * kPageBytes) return false;
  }
  return true;
}

}  // namespace

ShadowRegion::ShadowRegion(ShadowMemory& memory, uint64_t low, uint64_t high)
    : memory_(memory), low_(low), huge_((low & kIsPte) != 0) {
  if (huge_) return;
  big_ = DecodeBigPde(low);
  small_ = DecodeSmallPde(high);
}

ShadowRegion::~ShadowRegion() {
  memory_.counter_.Sub(sizeof(*this) + (small_copy_.size() + big_copy_.size()) * sizeof(uint64_t));
  --memory_.tables_;
}

base::Result<base::UniquePtr<ShadowRegion>> ShadowRegion::Create(ShadowMemory& memory, uint64_t low,
                                                                 uint64_t high) {
  TS_TRY_STATUS(memory.TakeTable());
  auto region = base::AdoptUnique(new (std::nothrow) ShadowRegion(memory, low, high));
  if (!region.ok()) {
    --memory.tables_;
    return region.status();
  }
  memory.counter_.Add(sizeof(ShadowRegion));
  TS_TRY_STATUS((*region)->AllocateTables());
  return region;
}

Status ShadowRegion::AllocateTables() {
  if (small_.present) {
    TS_TRY(small_copy_, base::DynArray<uint64_t>::Create(kSlotsPerRegion));
    memory_.counter_.Add(kSlotsPerRegion * sizeof(uint64_t));
    TS_TRY(shadow_small_, DmaBuffer::Create(memory_.gpu_, kPageSize, &memory_.counter_));
  }
  if (big_.present) {
    TS_TRY(big_copy_, base::DynArray<uint64_t>::Create(kBlocksPerRegion));
    memory_.counter_.Add(kBlocksPerRegion * sizeof(uint64_t));
    TS_TRY(shadow_big_, DmaBuffer::Create(memory_.gpu_, kPageSize, &memory_.counter_));
  }
  return Status::kOk;
}

uint64_t ShadowRegion::ShadowLow() const {
  if (huge_entry_ != 0) return huge_entry_;
  return shadow_big_ ? MakeBigPde(shadow_big_.address()) : 0;
}

uint64_t ShadowRegion::ShadowHigh() const {
  if (huge_entry_ != 0) return 0;
  return shadow_small_ ? MakePde(shadow_small_.address()) : 0;
}

void ShadowRegion::Sync(uint32_t first, uint32_t last, SyncBudget& budget, bool* changed) {
  if (huge_) {
    budget.left -= 1;
    SyncHuge(changed);
    return;
  }
  budget.left -= SyncBudget::kTableCost;
  const uint64_t before = memory_.ptes_translated_;
  SyncTables(first / kSlotsPerBlock, last / kSlotsPerBlock, changed);
  budget.left -= static_cast<int64_t>(memory_.ptes_translated_ - before);
}

// ---- pages of 4 and 64 KiB
// -----------------------------------------------------------------------

// Reads the guest's entries of these blocks into the scratch arrays, where they keep their index. A
// table that cannot be read counts as empty.
void ShadowRegion::SyncTables(uint32_t first_block, uint32_t last_block, bool* changed) {
  uint64_t* small = memory_.entries_.data();
  uint64_t* big = memory_.big_entries_.data();
  const uint32_t blocks = last_block - first_block + 1;
  const uint32_t first_slot = first_block * kSlotsPerBlock;
  if (small_.present) {
    GuestAddress from = small_.table;
    from.value += first_slot * sizeof(uint64_t);
    if (memory_.memory_.Read(from, small + first_slot,
                             blocks * kSlotsPerBlock * sizeof(uint64_t)) != Status::kOk) {
      for (uint32_t i = 0; i < blocks * kSlotsPerBlock; ++i) small[first_slot + i] = 0;
    }
  }
  if (big_.present) {
    GuestAddress from = big_.table;
    from.value += first_block * sizeof(uint64_t);
    if (memory_.memory_.Read(from, big + first_block, blocks * sizeof(uint64_t)) != Status::kOk) {
      for (uint32_t i = 0; i < blocks; ++i) big[first_block + i] = 0;
    }
  }
  PinBlocks(first_block, last_block);
  for (uint32_t block = first_block; block <= last_block; ++block) {
    if (!BlockChanged(block)) continue;
    TranslateBlock(block);
    *changed = true;
  }
}

bool ShadowRegion::BlockChanged(uint32_t block) const {
  if ((retry_blocks_ >> block & 1) != 0) return true;
  if (big_.present && memory_.big_entries_[block] != big_copy_[block]) return true;
  if (!small_.present) return false;
  for (uint32_t slot = block * kSlotsPerBlock; slot < (block + 1) * kSlotsPerBlock; ++slot) {
    if (memory_.entries_[slot] != small_copy_[slot]) return true;
  }
  return false;
}

// Pins every system page that the changed blocks will need. Neighbouring slots that name
// neighbouring pages are pinned in one call; the result is in dma_, by slot.
void ShadowRegion::PinBlocks(uint32_t first_block, uint32_t last_block) {
  uint64_t* dma = memory_.dma_.data();
  uint64_t run_gpa = 0;
  uint32_t run_slot = 0;
  uint32_t run = 0;
  const auto flush_run = [&] {
    if (run != 0) {
      memory_.pins_.Acquire(base::Gpa(run_gpa), run, dma + run_slot, memory_.pin_batch_);
      WidenPages(run_gpa);
      WidenPages(run_gpa + (run - 1) * kPageBytes);
    }
    run = 0;
  };
  for (uint32_t block = first_block; block <= last_block; ++block) {
    if (!BlockChanged(block)) continue;
    const PteTranslation whole =
        big_.present ? TranslatePte(memory_.big_entries_[block], kBigShift, memory_.partition_)
                     : PteTranslation();
    const bool big_valid = big_.present && (memory_.big_entries_[block] & 1) != 0;
    for (uint32_t i = 0; i < kSlotsPerBlock; ++i) {
      const uint32_t slot = block * kSlotsPerBlock + i;
      dma[slot] = PinTable::kNoDma;
      PteTranslation page = whole;
      page.gpa += i * kPageBytes;
      if (!big_valid) {
        page = small_.present
                   ? TranslatePte(memory_.entries_[slot], kSmallShift, memory_.partition_)
                   : PteTranslation();
      }
      if (page.kind != PteTranslation::Kind::kSystem) continue;
      if (run == 0 || page.gpa.value() != run_gpa + run * kPageBytes || slot != run_slot + run) {
        flush_run();
        run_gpa = page.gpa.value();
        run_slot = slot;
      }
      ++run;
    }
  }
  flush_run();
}

// Makes the 16 small entries of a block. `pinned` is cleared when a page has no DMA address.
void ShadowRegion::MakeSmallEntries(uint32_t block, uint64_t* small, bool* pinned) const {
  const uint32_t first = block * kSlotsPerBlock;
  const uint64_t* dma = memory_.dma_.data() + first;
  const uint64_t raw_big = big_.present ? memory_.big_entries_[block] : 0;
  const bool big_valid = (raw_big & 1) != 0;
  for (uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    uint64_t raw = raw_big;
    if (!big_valid) raw = small_.present ? memory_.entries_[first + i] : 0;
    const PteTranslation page =
        TranslatePte(raw, big_valid ? kBigShift : kSmallShift, memory_.partition_);
    small[i] = page.shadow;
    if (page.kind != PteTranslation::Kind::kSystem) continue;
    const bool ok = dma[i] != PinTable::kNoDma;
    small[i] = ok ? MakeSystemPte(raw, base::Hpa(dma[i])) : kPtePeer;
    *pinned = *pinned && ok;
  }
}

void ShadowRegion::TranslateBlock(uint32_t block) {
  const uint32_t first = block * kSlotsPerBlock;
  uint64_t* dma = memory_.dma_.data() + first;
  const uint64_t raw_big = big_.present ? memory_.big_entries_[block] : 0;
  const PteTranslation big = TranslatePte(raw_big, kBigShift, memory_.partition_);
  const bool big_system = big.kind == PteTranslation::Kind::kSystem;
  uint64_t new_big = big.shadow;
  uint64_t new_small[kSlotsPerBlock] = {};
  BlockState state = BlockState::kSmall;
  bool pinned = true;

  if (big_system && Contiguous(dma, kSlotsPerBlock)) {
    new_big = MakeSystemPte(raw_big, base::Hpa(dma[0]));
    state = BlockState::kWhole;
  } else if (big_system && NeedSmallTable() != Status::kOk) {
    for (uint32_t i = 0; i < kSlotsPerBlock; ++i) {
      if (dma[i] != PinTable::kNoDma) memory_.pins_.Release(big.gpa + i * kPageBytes);
    }
    pinned = false;
  } else if (big_system || (raw_big & 1) == 0) {
    state = big_system ? BlockState::kSplit : BlockState::kSmall;
    MakeSmallEntries(block, new_small, &pinned);
  }
  // The old pins are given back after the new ones are taken: a page in both stays pinned.
  ReleaseBlock(block);
  WriteBlock(block, new_big, new_small);
  state_[block] = state;
  retry_blocks_ = pinned ? retry_blocks_ & ~(1u << block) : retry_blocks_ | 1u << block;
  memory_.ptes_translated_ += kSlotsPerBlock;
  if (big_.present) big_copy_[block] = raw_big;
  for (uint32_t i = 0; i < kSlotsPerBlock && small_.present; ++i) {
    small_copy_[first + i] = memory_.entries_[first + i];
  }
}

Status ShadowRegion::NeedSmallTable() {
  if (shadow_small_) return Status::kOk;
  auto table = DmaBuffer::Create(memory_.gpu_, kPageSize, &memory_.counter_);
  if (!table.ok()) {
    memory_.limit_reached_ = true;
    return table.status();
  }
  shadow_small_ = *std::move(table);
  return Status::kOk;
}

// The guest page that a slot with a valid system entry leads to.
base::Gpa ShadowRegion::SlotPage(uint32_t slot) const {
  const uint32_t block = slot / kSlotsPerBlock;
  if (huge_) {
    return TranslatePte(low_, kHugeShift, memory_.partition_).gpa + slot * kPageBytes;
  }
  if (state_[block] == BlockState::kSmall) {
    return TranslatePte(small_copy_[slot], kSmallShift, memory_.partition_).gpa;
  }
  return TranslatePte(big_copy_[block], kBigShift, memory_.partition_).gpa +
         slot % kSlotsPerBlock * kPageBytes;
}

// Gives back every pin of the block as it stands in the shadow.
void ShadowRegion::ReleaseBlock(uint32_t block) {
  const uint32_t first = block * kSlotsPerBlock;
  for (uint32_t slot = first; slot < first + kSlotsPerBlock; ++slot) {
    const bool small = shadow_small_ && IsValidSystemPte(shadow_small_.Load64(slot));
    if (state_[block] == BlockState::kWhole || small) memory_.pins_.Release(SlotPage(slot));
  }
}

// The device may walk the block at any moment: it sees the old pages, the new ones, or for an
// instant none of them, never a mixture with foreign ones. A valid big entry hides the small ones,
// so it is written before they change, and an invalid one after.
void ShadowRegion::WriteBlock(uint32_t block, uint64_t big, const uint64_t* small) {
  const bool hides = (big & 1) != 0;
  if (hides) shadow_big_.Store64(block, big);
  for (uint32_t i = 0; i < kSlotsPerBlock && shadow_small_; ++i) {
    shadow_small_.Store64(block * kSlotsPerBlock + i, small[i]);
  }
  if (!hides && shadow_big_) shadow_big_.Store64(block, big);
}

// ---- one page of 2 MiB
// ---------------------------------------------------------------------------

// The entry of a huge region never changes (another entry is another region): it is translated
// once, and again only after pins failed or were taken away.
void ShadowRegion::SyncHuge(bool* changed) {
  if (huge_done_) return;
  *changed = true;
  memory_.ptes_translated_ += 1;
  const PteTranslation page = TranslatePte(low_, kHugeShift, memory_.partition_);
  if (page.kind == PteTranslation::Kind::kFixed) {
    // PD0 has no invalid 2 MiB entry: misaligned becomes an absent directory entry.
    huge_entry_ = (page.shadow & 1) != 0 ? page.shadow : 0;
    huge_done_ = true;
    return;
  }
  uint64_t* dma = memory_.dma_.data();
  memory_.pins_.Acquire(page.gpa, kSlotsPerRegion, dma, memory_.pin_batch_);
  WidenPages(page.gpa.value());
  WidenPages(page.gpa.value() + (kSlotsPerRegion - 1) * kPageBytes);
  ReleasePins();
  if (Contiguous(dma, kSlotsPerRegion)) {
    huge_entry_ = MakeSystemPte(low_, base::Hpa(dma[0]));
    huge_done_ = true;
    return;
  }
  huge_entry_ = 0;
  huge_done_ = NeedSmallTable() == Status::kOk;
  for (uint32_t slot = 0; slot < kSlotsPerRegion; ++slot) {
    const bool ok = dma[slot] != PinTable::kNoDma;
    if (!shadow_small_) {
      if (ok) memory_.pins_.Release(page.gpa + slot * kPageBytes);
      continue;
    }
    huge_done_ = huge_done_ && ok;
    shadow_small_.Store64(slot, ok ? MakeSystemPte(low_, base::Hpa(dma[slot])) : kPtePeer);
  }
}

// ---- both
// ----------------------------------------------------------------------------------------

void ShadowRegion::ReleasePins() {
  if (huge_ && IsValidSystemPte(huge_entry_)) {
    for (uint32_t slot = 0; slot < kSlotsPerRegion; ++slot) {
      memory_.pins_.Release(SlotPage(slot));
    }
    huge_entry_ = 0;
    return;
  }
  for (uint32_t block = 0; block < kBlocksPerRegion; ++block) {
    ReleaseBlock(block);
    const uint64_t none[kSlotsPerBlock] = {};
    WriteBlock(block, kPteInvalid, none);
    state_[block] = BlockState::kSmall;
  }
}

void ShadowRegion::Unmap(uint64_t start, uint64_t last, bool* changed) {
  if (highest_page_ < start || lowest_page_ > last) return;
  if (huge_) {
    const uint64_t first_page = SlotPage(0).value();
    const bool pinned = IsValidSystemPte(huge_entry_) || shadow_small_;
    if (!pinned || first_page > last || first_page + (kSlotsPerRegion * kPageBytes - 1) < start) {
      return;
    }
    ReleasePins();
    huge_done_ = false;
    *changed = true;
    return;
  }
  for (uint32_t block = 0; block < kBlocksPerRegion; ++block) {
    UnmapBlock(block, start, last, changed);
  }
}

void ShadowRegion::UnmapBlock(uint32_t block, uint64_t start, uint64_t last, bool* changed) {
  const uint32_t first = block * kSlotsPerBlock;
  bool hit = false;
  for (uint32_t slot = first; slot < first + kSlotsPerBlock; ++slot) {
    const bool small = shadow_small_ && IsValidSystemPte(shadow_small_.Load64(slot));
    if (state_[block] != BlockState::kWhole && !small) continue;
    const base::Gpa page = SlotPage(slot);
    if (page.value() < start || page.value() > last) continue;
    hit = true;
    if (state_[block] != BlockState::kSmall) break;
    shadow_small_.Store64(slot, kPteInvalid);
    memory_.pins_.Release(page);
  }
  if (!hit) return;
  *changed = true;
  retry_blocks_ |= 1u << block;
  if (state_[block] == BlockState::kSmall) return;
  // One page of 64 KiB has lost a part: all of it goes, to come back at the next invalidate.
  ReleaseBlock(block);
  const uint64_t none[kSlotsPerBlock] = {};
  WriteBlock(block, kPteInvalid, none);
  state_[block] = BlockState::kSmall;
}

void ShadowRegion::WidenPages(uint64_t page) {
  lowest_page_ = page < lowest_page_ ? page : lowest_page_;
  highest_page_ = page > highest_page_ ? page : highest_page_;
}

}  // namespace turnstile
