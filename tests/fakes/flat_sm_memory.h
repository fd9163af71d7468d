// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// GPU memory for the SMs without a GMMU: pages at any address with any rights, and a loader for
// program files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "sm/sm_memory.h"

namespace fakes {

class FlatSmMemory : public sm::SmMemory {
 public:
  // What a page allows; a refusal is a fault of the type beside it.
  struct Rights {
    bool write = true;    // else RO_VIOLATION, for atomics too
    bool atomic = true;   // else ATOMIC_VIOLATION
    bool pointer = true;  // false: reached only through ReadSlow and WriteSlow
    bool bus_ok = true;   // false: ReadSlow and WriteSlow are refused
  };
  static constexpr uint8_t kFaultPte = 2;
  static constexpr uint8_t kFaultReadOnly = 6;
  static constexpr uint8_t kFaultAtomic = 0xf;

  void Map(uint64_t va, uint64_t bytes, Rights rights) {
    const uint64_t end = va + bytes;
    for (uint64_t page = va & ~sm::kPageMask; page < end; page += sm::kPageSize) {
      pages_[page] = {Block(static_cast<std::byte*>(std::aligned_alloc(4096, 4096))), rights};
      std::memset(pages_[page].block.get(), 0, sm::kPageSize);
    }
    ++generation_;
  }
  void Map(uint64_t va, uint64_t bytes) { Map(va, bytes, Rights{}); }
  void SetRights(uint64_t va, Rights rights) { pages_.at(va & ~sm::kPageMask).rights = rights; }
  // Takes a page away, as if the page table had changed; no invalidate with it.
  void Unmap(uint64_t va) {
    graveyard_.push_back(std::move(pages_.at(va & ~sm::kPageMask).block));
    pages_.erase(va & ~sm::kPageMask);
  }
  void Invalidate() { ++generation_; }
  void set_time_ns(uint64_t time) { time_ns_ = time; }
  uint64_t translations() const { return translations_; }

  // The test's own access, whatever the rights.
  void Copy(uint64_t va, std::span<const std::byte> data) {
    for (size_t i = 0; i < data.size(); ++i) *Byte(va + i) = data[i];
  }
  template <typename T>
  void Put(uint64_t va, T value) {
    Copy(va, std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  T Get(uint64_t va) {
    T value;
    for (size_t i = 0; i < sizeof(T); ++i)
      std::as_writable_bytes(std::span(&value, 1))[i] = *Byte(va + i);
    return value;
  }

  sm::Translation Translate(uint64_t va, sm::Access access) override {
    ++translations_;
    const auto found = pages_.find(va & ~sm::kPageMask);
    if (found == pages_.end()) return sm::Translation::Fault(kFaultPte);
    const Rights& rights = found->second.rights;
    const bool changes = access == sm::Access::kWrite || access == sm::Access::kAtomic;
    if (changes && !rights.write) return sm::Translation::Fault(kFaultReadOnly);
    if (access == sm::Access::kAtomic && !rights.atomic) {
      return sm::Translation::Fault(kFaultAtomic);
    }
    if (!rights.pointer) return sm::Translation::Slow();
    return sm::Translation::Page(found->second.block.get());
  }
  bool ReadSlow(uint64_t va, std::span<std::byte> data) override {
    if (!pages_.at(va & ~sm::kPageMask).rights.bus_ok) return false;
    for (size_t i = 0; i < data.size(); ++i) data[i] = *Byte(va + i);
    return true;
  }
  bool WriteSlow(uint64_t va, std::span<const std::byte> data) override {
    if (!pages_.at(va & ~sm::kPageMask).rights.bus_ok) return false;
    Copy(va, data);
    return true;
  }
  uint64_t generation() const override { return generation_; }
  uint64_t TimeNs() const override { return time_ns_; }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  using Block = std::unique_ptr<std::byte, Free>;
  struct Page {
    Block block;
    Rights rights;
  };

  std::byte* Byte(uint64_t va) {
    return pages_.at(va & ~sm::kPageMask).block.get() + (va & sm::kPageMask);
  }

  std::map<uint64_t, Page> pages_;
  std::vector<Block> graveyard_;  // a stale pointer still points to memory, as in the model
  uint64_t generation_ = 1;
  uint64_t time_ns_ = 0;
  uint64_t translations_ = 0;
};

// What a program file asks for, and where it starts.
struct LoadedProgram {
  uint64_t entry = 0;
  uint32_t shared_bytes = 0;
  uint32_t local_bytes = 0;
  uint32_t barriers = 0;
  uint32_t argument_bytes = 0;
};

// Maps and fills the file's segment at `va` (its own address is 0). The files are our own: no
// check of them.
inline LoadedProgram LoadProgram(FlatSmMemory& memory, uint64_t va,
                                 std::span<const unsigned char> elf) {
  const auto read = [&](size_t at, auto value) {
    std::memcpy(&value, elf.data() + at, sizeof(value));
    return value;
  };
  LoadedProgram program;
  program.entry = va + read(0x18, uint64_t{});
  const auto table = read(0x20, uint64_t{});
  const auto count = read(0x38, uint16_t{});
  for (uint16_t i = 0; i < count; ++i) {
    const size_t header = table + size_t{i} * 56;
    const auto type = read(header, uint32_t{});
    const auto offset = read(header + 8, uint64_t{});
    if (type == 1) {  // PT_LOAD
      const auto address = read(header + 16, uint64_t{});
      memory.Map(va + address, read(header + 40, uint64_t{}));
      memory.Copy(va + address, std::as_bytes(elf.subspan(offset, read(header + 32, uint64_t{}))));
    } else if (type == 4) {  // PT_NOTE
      program.shared_bytes = read(offset + 24, uint32_t{});
      program.local_bytes = read(offset + 28, uint32_t{});
      program.barriers = read(offset + 32, uint32_t{});
      program.argument_bytes = read(offset + 36, uint32_t{});
    }
  }
  return program;
}

}  // namespace fakes
