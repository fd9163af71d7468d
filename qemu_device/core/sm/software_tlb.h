// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Host pointers of recently used pages, one right at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sm/sm_memory.h"

namespace sm {

// Direct mapped. Each entry has one tag per kind of access, set only after the GMMU allowed that
// kind, so a hit needs one compare: the address with its page offset cleared but for the bits that
// natural alignment wants to be 0. A misaligned access therefore never hits.
class SoftwareTlb {
 public:
  struct Entry {
    uint64_t tag[3];   // by Access: kRead, kWrite, kAtomic
    uintptr_t offset;  // host address = GPU address + offset
  };

  SoftwareTlb() { Flush(); }

  // Host address of `size` bytes (a power of two) at `va`, or nullptr.
  template <Access kAccess, uint64_t kSize>
  std::byte* Find(uint64_t va) const {
    const Entry& entry = entries_[Index(va)];
    if ((va & (~kPageMask | (kSize - 1))) != entry.tag[static_cast<size_t>(kAccess)]) {
      return nullptr;
    }
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(va) + entry.offset);
  }

  void Insert(uint64_t va, Access access, std::byte* page) {
    const uint64_t base = va & ~kPageMask;
    const uintptr_t offset = reinterpret_cast<uintptr_t>(page) - static_cast<uintptr_t>(base);
    Entry& entry = entries_[Index(va)];
    bool same_page = entry.offset == offset;
    for (const uint64_t tag : entry.tag) same_page = same_page && (tag == base || tag == kNoTag);
    if (!same_page) entry = {{kNoTag, kNoTag, kNoTag}, offset};
    entry.tag[static_cast<size_t>(access)] = base;
  }

  void Flush() { entries_.fill({{kNoTag, kNoTag, kNoTag}, 0}); }

 private:
  static constexpr size_t kEntryBits = 10;
  static constexpr size_t kEntries = size_t{1} << kEntryBits;
  static constexpr uint64_t kNoTag = ~uint64_t{0};  // no page starts there
  // Buffers tend to lie at large powers of two from each other; upper bits keep them apart.
  static size_t Index(uint64_t va) {
    const uint64_t page = va / kPageSize;
    return (page ^ page >> kEntryBits) % kEntries;
  }

  std::array<Entry, kEntries> entries_;
};

}  // namespace sm
