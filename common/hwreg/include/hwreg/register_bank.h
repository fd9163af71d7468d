// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Registers, device side: "somebody wrote N bytes at offset X, what happens?"
//
// A register is data (RegisterInfo): where it is, what reset leaves in it, which bits software may
// write, which it clears by writing 1. The rules below are applied in one place; what is left for
// code are the side effects, in a handler.
//
//   constexpr hwreg::RegisterInfo kTable[] = {
//       // name              offset    stride count reset write_mask  w1c_mask    flags
//       {"PFIFO_INTR_0",     0x002100, 0,     1,    0,    0,          0x00000100, 0},
//       {"PFIFO_INTR_EN_0",  0x002140, 0,     1,    0,    0x00000100, 0,          0},
//       {"RUNLIST_SUBMIT",   0x002b08, 16,    3,    0,    0x0000ffff, 0,          0},
//   };
//
// Two classes, because the table is the same for all vGPUs while the values differ:
//
//   RegisterMap   the table plus the way from an offset to a register, O(1). Immutable after
//                 Create: any number of threads and banks may share one. Takes 4 KiB per 4 KiB
//                 page of register space that has a register in it.
//   RegisterBank  the values of one device: 4 bytes per register. Not synchronized.
//
// A 32-bit write `v` to a register that holds `old` makes
//
//   bits in write_mask        take v
//   bits in w1c_mask          become 0 where v is 1, else stay
//   all others                stay (read only, reserved)
//
// stores the result and calls on_write(info, index, old, now). The handler is called at every
// write, also when nothing changed: a doorbell rings twice. It may call Set() on this bank, for
// example to clear a bit that starts something and reads back 0. A register is reset to
// RegisterInfo::reset, which may have bits that cannot be written.
//
// Reading gives the stored value. With kDynamic the value is made at the time of the read: on_read
// (info, index, stored) is called and what it returns is read (a clock, a status). With kWriteOnly
// software reads 0; Get() still sees the stored value.
//
// Accesses of 1, 2 and 8 bytes go through Read and Write. Narrow writes touch only their bytes: a
// W1C bit in another byte is not cleared. An 8-byte access is two 4-byte ones, low half first, and
// is done only when both halves are registers. Anything not naturally aligned is kMisaligned.
//
// An offset without a register is kUnknown and nothing happens. Whether that reads 0, reads
// 0xbadf...., is logged or is denied is for the caller to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/vector.h"

namespace hwreg {

// RegisterInfo::flags
inline constexpr uint32_t kWriteOnly = 1u << 0;  // software reads 0
inline constexpr uint32_t kDynamic = 1u << 1;    // on_read makes the value
// Bits 16..31 belong to the owner of the table (a class of access rights, a dispatch number ...).
inline constexpr unsigned kOwnerFlagsShift = 16;

struct RegisterInfo {
  const char* name;
  uint32_t offset;  // of element 0, bytes, multiple of 4
  uint32_t stride;  // bytes from one element to the next, multiple of 4; any value if count is 1
  uint32_t count;   // elements, at least 1
  uint32_t reset;   // value after reset
  uint32_t write_mask;  // bits that take the written value
  uint32_t w1c_mask;    // bits that writing 1 clears; disjoint from write_mask
  uint32_t flags;
};

enum class Access : uint8_t {
  kOk,
  kUnknown,     // no register there
  kMisaligned,  // size not 1, 2, 4 or 8, or the offset is no multiple of it
};

class RegisterMap {
 public:
  // One element of the table.
  struct Location {
    const RegisterInfo* info;
    uint32_t index;  // 0 .. info->count - 1
    uint32_t slot;   // number of its value in a bank
  };

  RegisterMap() = default;

  // `table` must outlive the map. `space_size`: bytes of register space, up to 128 MiB.
  // kInvalidArgument: an entry with count 0, a misaligned offset or stride, overlapping masks;
  // kOutOfRange: an element beyond space_size, or space_size too large; kExists: two elements at
  // one offset; kNoMemory. A table is a constant, so everything but kNoMemory is our bug and found
  // by the first test.
  static base::Result<RegisterMap> Create(std::span<const RegisterInfo> table, uint32_t space_size);

  std::span<const RegisterInfo> table() const { return table_; }
  size_t slot_count() const { return slots_.size(); }

  // The register at this offset; Location::info is null when there is none. `offset` may be
  // anything; a multiple of 4 else there is none.
  Location Find(uint64_t offset) const {
    if (offset % 4 != 0 || offset / kPageBytes >= directory_.size()) return {};
    const uint16_t page = directory_.data()[offset / kPageBytes];
    if (page == kNoPage) return {};
    const uint32_t slot = pages_.data()[size_t{page} * kPageEntries + offset % kPageBytes / 4];
    if (slot == kNoSlot) return {};
    const Slot& entry = slots_.data()[slot];
    return {&table_[entry.entry], slot - first_slot_.data()[entry.entry], slot};
  }

  // The slot of element `index` of `info`, an entry of this map's table. Traps if it is not.
  uint32_t SlotOf(const RegisterInfo& info, uint32_t index) const {
    const auto entry = static_cast<size_t>(&info - table_.data());
    TS_CHECK(entry < table_.size() && index < info.count);
    return first_slot_.data()[entry] + index;
  }

  const RegisterInfo& InfoOfSlot(uint32_t slot) const { return table_[slots_[slot].entry]; }

 private:
  struct Slot {
    uint16_t entry;  // in table_
  };

  static constexpr uint32_t kPageBytes = 4096;
  static constexpr uint32_t kPageEntries = kPageBytes / 4;
  static constexpr uint32_t kMaxSpace = 128u << 20;
  static constexpr uint16_t kNoPage = UINT16_MAX;
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  static base::Status CheckEntry(const RegisterInfo& info, uint32_t space_size);
  base::Status AssignSlots();
  base::Status IndexPages();

  std::span<const RegisterInfo> table_;
  base::DynArray<uint16_t> directory_;   // page of register space -> number in pages_, or kNoPage
  base::DynArray<uint32_t> pages_;       // kPageEntries each -> slot, or kNoSlot
  base::DynArray<Slot> slots_;           // slot -> table entry
  base::DynArray<uint32_t> first_slot_;  // table entry -> slot of element 0
};

class RegisterBank {
 public:
  RegisterBank() = default;

  // All registers at their reset values. `map` must outlive the bank. kNoMemory.
  static base::Result<RegisterBank> Create(const RegisterMap& map) {
    RegisterBank bank;
    TS_TRY(bank.values_, base::DynArray<uint32_t>::Create(map.slot_count()));
    bank.map_ = &map;
    bank.Reset();
    return base::Result<RegisterBank>(std::move(bank));
  }

  const RegisterMap& map() const { return *map_; }

  void Reset() {
    uint32_t* value = values_.data();
    for (const RegisterInfo& info : map_->table()) {
      for (uint32_t i = 0; i < info.count; ++i) *value++ = info.reset;
    }
  }

  // The device's own view, past all masks. Trap when `info` is not of this bank's table.
  uint32_t Get(const RegisterInfo& info, uint32_t index = 0) const {
    return values_[map_->SlotOf(info, index)];
  }
  void Set(const RegisterInfo& info, uint32_t index, uint32_t value) {
    values_[map_->SlotOf(info, index)] = value;
  }
  // The same by offset. False or kNotFound when there is no register.
  base::Result<uint32_t> GetAt(uint64_t offset) const {
    const RegisterMap::Location at = map_->Find(offset);
    if (at.info == nullptr) return base::Status::kNotFound;
    return values_[at.slot];
  }
  base::Status SetAt(uint64_t offset, uint32_t value) {
    const RegisterMap::Location at = map_->Find(offset);
    if (at.info == nullptr) return base::Status::kNotFound;
    values_[at.slot] = value;
    return base::Status::kOk;
  }

  // Software reads. `value` is written only with kOk.
  // on_read(const RegisterInfo&, uint32_t index, uint32_t stored) -> uint32_t, for kDynamic.
  template <typename OnRead>
  Access Read32(uint64_t offset, uint32_t& value, OnRead&& on_read) const {
    if (offset % 4 != 0) return Access::kMisaligned;
    const RegisterMap::Location at = map_->Find(offset);
    if (at.info == nullptr) return Access::kUnknown;
    value = ReadAt(at, on_read);
    return Access::kOk;
  }
  Access Read32(uint64_t offset, uint32_t& value) const {
    return Read32(offset, value, KeepStored);
  }

  // Software writes.
  // on_write(const RegisterInfo&, uint32_t index, uint32_t old, uint32_t now), after the store.
  template <typename OnWrite>
  Access Write32(uint64_t offset, uint32_t value, OnWrite&& on_write) {
    if (offset % 4 != 0) return Access::kMisaligned;
    const RegisterMap::Location at = map_->Find(offset);
    if (at.info == nullptr) return Access::kUnknown;
    WriteAt(at, value, ~uint32_t{0}, on_write);
    return Access::kOk;
  }

  // Accesses of 1, 2, 4 or 8 bytes; `value` has the first byte in its lowest bits.
  template <typename OnRead>
  Access Read(uint64_t offset, unsigned size, uint64_t& value, OnRead&& on_read) const {
    if (!IsNatural(offset, size)) return Access::kMisaligned;
    const RegisterMap::Location low = map_->Find(offset & ~uint64_t{3});
    if (low.info == nullptr) return Access::kUnknown;
    if (size == 8) {
      const RegisterMap::Location high = map_->Find(offset + 4);
      if (high.info == nullptr) return Access::kUnknown;
      const uint32_t low_value = ReadAt(low, on_read);
      value = low_value | uint64_t{ReadAt(high, on_read)} << 32;
      return Access::kOk;
    }
    value = (ReadAt(low, on_read) >> Shift(offset)) & Lanes(size);
    return Access::kOk;
  }

  template <typename OnWrite>
  Access Write(uint64_t offset, unsigned size, uint64_t value, OnWrite&& on_write) {
    if (!IsNatural(offset, size)) return Access::kMisaligned;
    const RegisterMap::Location low = map_->Find(offset & ~uint64_t{3});
    if (low.info == nullptr) return Access::kUnknown;
    if (size == 8) {
      const RegisterMap::Location high = map_->Find(offset + 4);
      if (high.info == nullptr) return Access::kUnknown;
      WriteAt(low, static_cast<uint32_t>(value), ~uint32_t{0}, on_write);
      WriteAt(high, static_cast<uint32_t>(value >> 32), ~uint32_t{0}, on_write);
      return Access::kOk;
    }
    const unsigned shift = Shift(offset);
    WriteAt(low, static_cast<uint32_t>(value) << shift, Lanes(size) << shift, on_write);
    return Access::kOk;
  }

 private:
  static uint32_t KeepStored(const RegisterInfo&, uint32_t, uint32_t stored) { return stored; }

  static bool IsNatural(uint64_t offset, unsigned size) {
    return (size == 1 || size == 2 || size == 4 || size == 8) && offset % size == 0;
  }
  static unsigned Shift(uint64_t offset) { return static_cast<unsigned>(offset % 4) * 8; }
  static uint32_t Lanes(unsigned size) { return size >= 4 ? ~uint32_t{0} : (1u << size * 8) - 1; }

  template <typename OnRead>
  uint32_t ReadAt(const RegisterMap::Location& at, OnRead&& on_read) const {
    if ((at.info->flags & kWriteOnly) != 0) return 0;
    const uint32_t stored = values_[at.slot];
    return (at.info->flags & kDynamic) != 0 ? on_read(*at.info, at.index, stored) : stored;
  }

  template <typename OnWrite>
  void WriteAt(const RegisterMap::Location& at, uint32_t value, uint32_t lanes,
               OnWrite&& on_write) {
    const uint32_t old = values_[at.slot];
    const uint32_t writable = at.info->write_mask & lanes;
    const uint32_t cleared = at.info->w1c_mask & lanes & value;
    const uint32_t now = ((old & ~writable) | (value & writable)) & ~cleared;
    values_[at.slot] = now;
    on_write(*at.info, at.index, old, now);
  }

  const RegisterMap* map_ = nullptr;
  base::DynArray<uint32_t> values_;
};

inline base::Status RegisterMap::CheckEntry(const RegisterInfo& info, uint32_t space_size) {
  if (info.count == 0 || info.offset % 4 != 0) return base::Status::kInvalidArgument;
  if (info.count > 1 && (info.stride == 0 || info.stride % 4 != 0)) {
    return base::Status::kInvalidArgument;
  }
  if ((info.write_mask & info.w1c_mask) != 0) return base::Status::kInvalidArgument;
  const uint64_t last = info.offset + uint64_t{info.count - 1} * info.stride;
  return last + 4 <= space_size ? base::Status::kOk : base::Status::kOutOfRange;
}

inline base::Status RegisterMap::AssignSlots() {
  uint64_t total = 0;
  TS_TRY(first_slot_, base::DynArray<uint32_t>::Create(table_.size()));
  for (size_t entry = 0; entry < table_.size(); ++entry) {
    first_slot_[entry] = static_cast<uint32_t>(total);
    total += table_[entry].count;  // at most 2^16 entries of 2^25 elements
  }
  if (total >= kNoSlot) return base::Status::kOutOfRange;
  TS_TRY(slots_, base::DynArray<Slot>::Create(static_cast<size_t>(total)));
  for (size_t entry = 0; entry < table_.size(); ++entry) {
    for (uint32_t i = 0; i < table_[entry].count; ++i) {
      slots_[first_slot_[entry] + i].entry = static_cast<uint16_t>(entry);
    }
  }
  return base::Status::kOk;
}

inline base::Status RegisterMap::IndexPages() {
  uint16_t page_count = 0;
  for (uint16_t& page : directory_) page = kNoPage;
  const auto for_each_element = [this](auto&& visit) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const RegisterInfo& info = InfoOfSlot(slot);
      const uint32_t index = slot - first_slot_[slots_[slot].entry];
      visit(info.offset + index * info.stride, slot);
    }
  };
  for_each_element([&](uint32_t offset, uint32_t) {
    uint16_t& page = directory_[offset / kPageBytes];
    if (page == kNoPage) page = page_count++;
  });
  TS_TRY(pages_, base::DynArray<uint32_t>::Create(size_t{page_count} * kPageEntries));
  for (uint32_t& slot : pages_) slot = kNoSlot;
  base::Status status = base::Status::kOk;
  for_each_element([&](uint32_t offset, uint32_t slot) {
    const size_t page = directory_[offset / kPageBytes];
    uint32_t& entry = pages_[page * kPageEntries + offset % kPageBytes / 4];
    if (entry != kNoSlot) status = base::Status::kExists;
    entry = slot;
  });
  return status;
}

inline base::Result<RegisterMap> RegisterMap::Create(std::span<const RegisterInfo> table,
                                                     uint32_t space_size) {
  if (space_size > kMaxSpace || table.size() > UINT16_MAX) return base::Status::kOutOfRange;
  for (const RegisterInfo& info : table) TS_TRY_STATUS(CheckEntry(info, space_size));
  RegisterMap map;
  map.table_ = table;
  const size_t pages = space_size / kPageBytes + (space_size % kPageBytes != 0 ? 1 : 0);
  TS_TRY(map.directory_, base::DynArray<uint16_t>::Create(pages));
  TS_TRY_STATUS(map.AssignSlots());
  TS_TRY_STATUS(map.IndexPages());
  return base::Result<RegisterMap>(std::move(map));
}

}  // namespace hwreg
