// SPDX-License-Identifier: GPL-2.0-only OR MIT
// How the SMs reach memory: the seam between the interpreter and the model's GMMU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sm {

inline constexpr uint64_t kPageSize = 4096;
inline constexpr uint64_t kPageMask = kPageSize - 1;

enum class Access : uint8_t { kRead, kWrite, kAtomic, kFetch };

// FAULT_TYPE of the MMU fault packet (dev_mmu_fault.ref) that the SM raises by itself, when a page
// the GMMU called readable cannot be read after all.
inline constexpr uint8_t kFaultTypeRegionViolation = 0xd;

// What one address means for one kind of access, valid until the GMMU's generation changes.
struct Translation {
  enum class Kind : uint8_t {
    kPage,   // `page` points to the 4 KiB of host memory that hold the address
    kSlow,   // allowed, but without a host pointer: use ReadSlow/WriteSlow
    kFault,  // not allowed: `fault_type` is the FAULT_TYPE of the fault packet
  };

  static Translation Page(std::byte* page) { return {Kind::kPage, 0, page}; }
  static Translation Slow() { return {Kind::kSlow, 0, nullptr}; }
  static Translation Fault(uint8_t type) { return {Kind::kFault, type, nullptr}; }

  Kind kind = Kind::kFault;
  uint8_t fault_type = 0;
  std::byte* page = nullptr;  // 4 KiB aligned
};

// The GPU-virtual memory of one context, as its GMMU sees it. All calls come from the thread that
// runs the quantum; none may call back into the interpreter.
class SmMemory {
 public:
  virtual ~SmMemory() = default;

  // Translates the byte at `va` (any 64-bit value) for `access`. A page once returned must stay
  // valid host memory until the end of the quantum; the SM may use it without asking again for as
  // long as generation() stays the same.
  virtual Translation Translate(uint64_t va, Access access) = 0;

  // Move bytes that lie within one page for which Translate said kSlow. False: the bus refused; the
  // SM reports a REGION_VIOLATION fault at `va`.
  virtual bool ReadSlow(uint64_t va, std::span<std::byte> data) = 0;
  virtual bool WriteSlow(uint64_t va, std::span<const std::byte> data) = 0;

  // Changes whenever any translation handed out may no longer hold (a TLB invalidate). Read once at
  // the start of each quantum; an invalidate is therefore acknowledged between quanta only.
  virtual uint64_t generation() const = 0;

  // GPU time in nanoseconds, as PTIMER counts it.
  virtual uint64_t TimeNs() const = 0;
};

}  // namespace sm
