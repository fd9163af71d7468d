// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The GMMU: translation with explicit invalidate, and GPU-virtual reads and writes on top of it.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_MMU_H_
#define TURNSTILE_QEMU_DEVICE_CORE_MMU_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "memory_port.h"
#include "page_walk.h"

namespace ts104 {

// ACCESS_TYPE of the fault packet.
enum class AccessKind : uint8_t { kRead = 0, kWrite = 1, kAtomic = 2 };

// Who asks: Host, copy engines and the GR front end share the hub's TLB, the SMs have the GPCs'.
enum class TlbClient : uint8_t { kHub = 0, kGpc = 1 };

inline constexpr uint64_t kVaLimit = uint64_t{1} << 49;

// The address space of a channel as its instance block names it.
struct AddressSpace {
  bool valid = false;  // false: every access is UNBOUND_INST_BLOCK
  PhysicalAddress page_directory;
  bool privileged = false;  // RAMFC CONFIG.AUTH_LEVEL
  uint32_t gfid = 0;        // whose it is; translations do not depend on it

  bool operator==(const AddressSpace&) const = default;
};

struct MmuFault {
  FaultType type = FaultType::kPde;
  uint64_t va = 0;
  AccessKind access = AccessKind::kRead;
};

// Where `va` lies, and how many bytes from there on belong to the same page.
struct Translation {
  PhysicalAddress at;
  uint64_t bytes = 0;
  bool sparse = false;
};

struct TlbInvalidate {
  bool all_directories = false;
  PhysicalAddress directory;  // else this one
  bool all_addresses = true;
  uint64_t va = 0;  // else [va, va + bytes)
  uint64_t bytes = 0;
  bool hub_only = false;

  // Limits it to 4 KiB << log2_pages around `address`, aligned to that size.
  void SetRange(uint64_t address, uint32_t log2_pages) {
    constexpr uint32_t kWholeSpace = 49 - 12;
    all_addresses = log2_pages >= kWholeSpace;
    if (all_addresses) return;
    bytes = uint64_t{4096} << log2_pages;
    va = address & ~(bytes - 1);
  }
};

// The entries of one TLB, tagged by page directory. Entries stay until invalidated, whatever memory
// says; only when kCapacity is reached all are dropped at once.
class Tlb {
 public:
  static constexpr size_t kCapacity = 65536;

  // nullptr: no entry.
  const Page* Find(PhysicalAddress directory, uint64_t va);
  void Insert(PhysicalAddress directory, uint64_t va, const Page& page);
  void Invalidate(const TlbInvalidate& what);
  void Clear();
  size_t size() const { return size_; }

 private:
  struct Directory {
    // One map per page size, keyed by va >> shift.
    std::array<std::unordered_map<uint64_t, Page>, 3> pages;
  };
  using Key = std::pair<Aperture, uint64_t>;

  Directory* DirectoryOf(PhysicalAddress directory);
  void InvalidateIn(Directory& directory, const TlbInvalidate& what);

  std::map<Key, Directory> directories_;
  Key last_key_{};
  Directory* last_ = nullptr;
  size_t size_ = 0;
};

// Thread context: the worker. Translations and memory accesses take no lock.
class Mmu {
 public:
  explicit Mmu(const MemoryPort& memory) : memory_(memory) {}

  const MemoryPort& memory() const { return memory_; }

  // Judges one access of `kind` at `va` (any 64-bit value).
  std::optional<MmuFault> Translate(TlbClient client, const AddressSpace& space, uint64_t va,
                                    AccessKind kind, Translation& translation);

  // Move bytes page by page. On a fault the pages before it have been moved.
  std::optional<MmuFault> Read(TlbClient client, const AddressSpace& space, uint64_t va,
                               std::span<std::byte> data);
  std::optional<MmuFault> Write(TlbClient client, const AddressSpace& space, uint64_t va,
                                std::span<const std::byte> data);
  template <typename T>
  std::optional<MmuFault> ReadValue(const AddressSpace& space, uint64_t va, T& value) {
    return Read(TlbClient::kHub, space, va, std::as_writable_bytes(std::span(&value, 1)));
  }
  template <typename T>
  std::optional<MmuFault> WriteValue(const AddressSpace& space, uint64_t va, const T& value) {
    return Write(TlbClient::kHub, space, va, std::as_bytes(std::span(&value, 1)));
  }

  void Invalidate(const TlbInvalidate& what);
  void Reset();
  // Changes whenever GPC entries may have been dropped.
  uint64_t gpc_generation() const { return gpc_generation_; }

 private:
  const MemoryPort& memory_;
  std::array<Tlb, 2> tlbs_;
  uint64_t gpc_generation_ = 1;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_MMU_H_
