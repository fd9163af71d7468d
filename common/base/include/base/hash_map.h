// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Hash map from uint64_t, whose growth can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/vector.h"

namespace base {

// Open addressing with linear probing; erasing shifts entries back, so there are no tombstones and
// a map that churns for years stays as fast as a new one. At most 3/4 full. V may be move-only; its
// moves must not fail. Not synchronized. Pointers to values are valid until the next insert or
// erase.
//
// `seed` goes into the hash. Where a guest chooses the keys, give every map a random one: else the
// guest could choose keys that all collide and make every lookup O(size).
template <typename V>
class HashMap {
 public:
  explicit HashMap(uint64_t seed = 0) : seed_(seed) {}
  HashMap(HashMap&& other) noexcept
      : seed_(other.seed_), size_(std::exchange(other.size_, 0)), slots_(std::move(other.slots_)) {}
  HashMap& operator=(HashMap&& other) noexcept {
    seed_ = other.seed_;
    size_ = std::exchange(other.size_, 0);
    slots_ = std::move(other.slots_);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Null when absent.
  V* Find(uint64_t key) {
    const size_t slot = FindSlot(key);
    return slot == kNone ? nullptr : &*slots_[slot].value;
  }
  const V* Find(uint64_t key) const {
    const size_t slot = FindSlot(key);
    return slot == kNone ? nullptr : &*slots_[slot].value;
  }
  bool Contains(uint64_t key) const { return FindSlot(key) != kNone; }

  // Room for `count` entries in all; inserts up to there cannot fail for want of memory.
  Status TryReserve(size_t count) {
    if (count <= Limit(slots_.size())) return Status::kOk;
    size_t slots = slots_.empty() ? kMinSlots : slots_.size();
    while (Limit(slots) < count) {
      if (slots > SIZE_MAX / 2) return Status::kNoMemory;
      slots *= 2;
    }
    return Rehash(slots);
  }

  // kExists when the key is there (the map is unchanged and `value` destroyed), kNoMemory.
  Status TryInsert(uint64_t key, V value) {
    if (Contains(key)) return Status::kExists;
    TS_TRY_STATUS(TryReserve(size_ + 1));
    Place(slots_, key, std::move(value));
    ++size_;
    return Status::kOk;
  }

  // Whether there was such an entry.
  bool Erase(uint64_t key) {
    const size_t slot = FindSlot(key);
    if (slot == kNone) return false;
    EraseSlot(slot);
    return true;
  }

  // Removes the entry and returns its value; nothing when absent.
  std::optional<V> Take(uint64_t key) {
    const size_t slot = FindSlot(key);
    if (slot == kNone) return std::nullopt;
    std::optional<V> taken(std::move(*slots_[slot].value));
    EraseSlot(slot);
    return taken;
  }

  // visit(uint64_t key, V& value) for every entry, in no order. It must not change the map.
  template <typename Visit>
  void ForEach(Visit&& visit) {
    for (Slot& slot : slots_) {
      if (slot.value.has_value()) visit(slot.key, *slot.value);
    }
  }
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.value.has_value()) visit(slot.key, *slot.value);
    }
  }

  // Removes every entry for which match(key, value) is true, asked once each. Returns how many.
  template <typename Match>
  size_t EraseIf(Match&& match) {
    if (size_ == 0) return 0;
    const size_t before = size_;
    const size_t mask = slots_.size() - 1;
    // Start behind an empty slot: then shifting back never moves an entry over the start, and each
    // is seen exactly once.
    size_t start = 0;
    while (slots_[start].value.has_value()) ++start;
    for (size_t step = 1; step <= mask; ++step) {
      Slot& slot = slots_[(start + step) & mask];
      while (slot.value.has_value() && match(slot.key, *slot.value)) {
        EraseSlot((start + step) & mask);
      }
    }
    return before - size_;
  }

  // Removes all entries and keeps the memory.
  void Clear() {
    for (Slot& slot : slots_) slot.value.reset();
    size_ = 0;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    std::optional<V> value;
  };

  static constexpr size_t kNone = SIZE_MAX;
  static constexpr size_t kMinSlots = 8;

  static constexpr size_t Limit(size_t slots) { return slots - slots / 4; }

  // The finalizer of SplitMix64: every bit of the key reaches every bit of the result.
  size_t Hash(uint64_t key) const {
    uint64_t x = key ^ seed_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>(x ^ (x >> 31));
  }

  size_t FindSlot(uint64_t key) const {
    if (size_ == 0) return kNone;
    const size_t mask = slots_.size() - 1;
    for (size_t slot = Hash(key) & mask;; slot = (slot + 1) & mask) {
      if (!slots_[slot].value.has_value()) return kNone;
      if (slots_[slot].key == key) return slot;
    }
  }

  void Place(DynArray<Slot>& slots, uint64_t key, V&& value) const {
    const size_t mask = slots.size() - 1;
    size_t slot = Hash(key) & mask;
    while (slots[slot].value.has_value()) slot = (slot + 1) & mask;
    slots[slot].key = key;
    slots[slot].value.emplace(std::move(value));
  }

  Status Rehash(size_t count) {
    TS_TRY(DynArray<Slot> fresh, DynArray<Slot>::Create(count));
    for (Slot& slot : slots_) {
      if (slot.value.has_value()) Place(fresh, slot.key, std::move(*slot.value));
    }
    slots_ = std::move(fresh);
    return Status::kOk;
  }

  void EraseSlot(size_t hole) {
    const size_t mask = slots_.size() - 1;
    slots_[hole].value.reset();
    --size_;
    for (size_t slot = (hole + 1) & mask; slots_[slot].value.has_value();
         slot = (slot + 1) & mask) {
      // An entry may move into the hole only if its probe sequence passes there.
      const size_t home = Hash(slots_[slot].key) & mask;
      if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
      slots_[hole].key = slots_[slot].key;
      slots_[hole].value.emplace(std::move(*slots_[slot].value));
      slots_[slot].value.reset();
      hole = slot;
    }
  }

  uint64_t seed_;
  size_t size_ = 0;
  DynArray<Slot> slots_;
};

}  // namespace base
