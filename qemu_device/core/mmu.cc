// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "mmu.h"

#include <algorithm>
#include <cstring>

namespace ts104 {
namespace {

constexpr std::array<uint8_t, 3> kPageShifts = {12, 16, 21};

size_t SizeIndex(uint8_t shift) {
  if (shift == kPageShifts[0]) return 0;
  return shift == kPageShifts[1] ? 1 : 2;
}

}  // namespace

Tlb::Directory* Tlb::DirectoryOf(PhysicalAddress directory) {
  const Key key{directory.aperture, directory.offset};
  if (last_ != nullptr && last_key_ == key) return last_;
  const auto found = directories_.find(key);
  if (found == directories_.end()) return nullptr;
  last_key_ = key;
  last_ = &found->second;
  return last_;
}

const Page* Tlb::Find(PhysicalAddress directory, uint64_t va) {
  Directory* entries = DirectoryOf(directory);
  if (entries == nullptr) return nullptr;
  for (size_t i = kPageShifts.size(); i-- > 0;) {
    const auto& pages = entries->pages[i];
    if (pages.empty()) continue;
    const auto found = pages.find(va >> kPageShifts[i]);
    if (found != pages.end()) return &found->second;
  }
  return nullptr;
}

void Tlb::Insert(PhysicalAddress directory, uint64_t va, const Page& page) {
  if (size_ >= kCapacity) Clear();
  Directory& entries = directories_[Key{directory.aperture, directory.offset}];
  const size_t index = SizeIndex(page.shift);
  if (entries.pages[index].insert_or_assign(va >> page.shift, page).second) ++size_;
}

void Tlb::InvalidateIn(Directory& directory, const TlbInvalidate& what) {
  for (size_t i = 0; i < kPageShifts.size(); ++i) {
    auto& pages = directory.pages[i];
    if (what.all_addresses) {
      size_ -= pages.size();
      pages.clear();
      continue;
    }
    if (what.bytes == 0) continue;
    const uint64_t first = what.va >> kPageShifts[i];
    const uint64_t last = (what.va + (what.bytes - 1)) >> kPageShifts[i];
    if (last - first < pages.size()) {
      for (uint64_t key = first; key <= last; ++key) size_ -= pages.erase(key);
    } else {
      size_ -= std::erase_if(
          pages, [&](const auto& entry) { return entry.first >= first && entry.first <= last; });
    }
  }
}

void Tlb::Invalidate(const TlbInvalidate& what) {
  if (what.all_directories) {
    if (what.all_addresses) return Clear();
    for (auto& [key, directory] : directories_) InvalidateIn(directory, what);
    return;
  }
  const auto found = directories_.find(Key{what.directory.aperture, what.directory.offset});
  if (found == directories_.end()) return;
  InvalidateIn(found->second, what);
  if (what.all_addresses) {
    last_ = nullptr;
    directories_.erase(found);
  }
}

void Tlb::Clear() {
  directories_.clear();
  last_ = nullptr;
  size_ = 0;
}

std::optional<MmuFault> Mmu::Translate(TlbClient client, const AddressSpace& space, uint64_t va,
                                       AccessKind kind, Translation& translation) {
  if (va >= kVaLimit) return MmuFault{FaultType::kVaLimitViolation, va, kind};
  if (!space.valid) return MmuFault{FaultType::kUnboundInstBlock, va, kind};
  Tlb& tlb = tlbs_[static_cast<size_t>(client)];
  const Page* page = tlb.Find(space.page_directory, va);
  WalkResult walk;
  if (page == nullptr) {
    walk = WalkPageTables(memory_, space.page_directory, va);
    if (!walk.ok) return MmuFault{walk.fault, va, kind};
    page = &walk.page;
    // A sparse entry is an invalid one for the TLB: not kept.
    if (!page->sparse) tlb.Insert(space.page_directory, va, *page);
  }
  if (!page->sparse) {
    if (page->privileged && !space.privileged) {
      return MmuFault{FaultType::kPrivViolation, va, kind};
    }
    if (page->read_only && kind != AccessKind::kRead) {
      return MmuFault{FaultType::kRoViolation, va, kind};
    }
    if (page->atomic_disable && kind == AccessKind::kAtomic) {
      return MmuFault{FaultType::kAtomicViolation, va, kind};
    }
  }
  const uint64_t in_page = va & (page->size() - 1);
  translation = {page->base + in_page, page->size() - in_page, page->sparse};
  if (!page->sparse) memory_.Report(space.gfid, translation.at, translation.bytes);
  return std::nullopt;
}

std::optional<MmuFault> Mmu::Read(TlbClient client, const AddressSpace& space, uint64_t va,
                                  std::span<std::byte> data) {
  while (!data.empty()) {
    Translation at;
    if (auto fault = Translate(client, space, va, AccessKind::kRead, at)) return fault;
    const auto part = data.first(std::min<uint64_t>(at.bytes, data.size()));
    if (at.sparse) {
      std::memset(part.data(), 0, part.size());
    } else if (const BusStatus status = memory_.Read(at.at, part); status != BusStatus::kOk) {
      return MmuFault{FaultOfBus(status), va, AccessKind::kRead};
    }
    va += part.size();
    data = data.subspan(part.size());
  }
  return std::nullopt;
}

std::optional<MmuFault> Mmu::Write(TlbClient client, const AddressSpace& space, uint64_t va,
                                   std::span<const std::byte> data) {
  while (!data.empty()) {
    Translation at;
    if (auto fault = Translate(client, space, va, AccessKind::kWrite, at)) return fault;
    const auto part = data.first(std::min<uint64_t>(at.bytes, data.size()));
    if (!at.sparse) {
      const BusStatus status = memory_.Write(at.at, part);
      if (status != BusStatus::kOk) return MmuFault{FaultOfBus(status), va, AccessKind::kWrite};
    }
    va += part.size();
    data = data.subspan(part.size());
  }
  return std::nullopt;
}

void Mmu::Invalidate(const TlbInvalidate& what) {
  tlbs_[static_cast<size_t>(TlbClient::kHub)].Invalidate(what);
  if (what.hub_only) return;
  tlbs_[static_cast<size_t>(TlbClient::kGpc)].Invalidate(what);
  ++gpc_generation_;
}

void Mmu::Reset() {
  for (Tlb& tlb : tlbs_) tlb.Clear();
  ++gpc_generation_;
}

}  // namespace ts104
