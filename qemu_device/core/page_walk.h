// SPDX-License-Identifier: GPL-2.0-only OR MIT
// GMMU page tables, version 2: one walk, as a function of memory.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_PAGE_WALK_H_
#define TURNSTILE_QEMU_DEVICE_CORE_PAGE_WALK_H_

#include <cstdint>

#include "memory_port.h"

namespace ts104 {

// FAULT_TYPE of the fault packet; the values of NV_MMU_FAULT_PACKET_FAULT_TYPE.
enum class FaultType : uint8_t {
  kPde = 0x0,
  kPdeSize = 0x1,
  kPte = 0x2,
  kVaLimitViolation = 0x3,
  kUnboundInstBlock = 0x4,
  kPrivViolation = 0x5,
  kRoViolation = 0x6,
  kUnsupportedAperture = 0xa,
  kUnsupportedKind = 0xc,
  kRegionViolation = 0xd,
  kAtomicViolation = 0xf,
  kIllegalInstruction = 0x10,
  kTrap = 0x11,
  kMisaligned = 0x12,
  kLocalOutOfRange = 0x13,
  kSharedOutOfRange = 0x14,
  kBadLaunch = 0x15,
  kIllegalMethod = 0x16,
  kCeLaunchError = 0x17,
  kBadContext = 0x18,
  kCtxswTimeout = 0x19,
};

// What a platform's answer to a physical access means for the MMU.
constexpr FaultType FaultOfBus(BusStatus status) {
  return status == BusStatus::kRejected ? FaultType::kUnsupportedAperture
                                        : FaultType::kRegionViolation;
}

// One valid or sparse page. Rights are judged by the caller, at every access.
struct Page {
  PhysicalAddress base;     // of the whole page
  uint8_t shift = 12;       // 12, 16 or 21
  bool privileged = false;  // only for privileged channels
  bool read_only = false;
  bool atomic_disable = false;
  bool sparse = false;  // reads 0, drops writes; `base` means nothing

  uint64_t size() const { return uint64_t{1} << shift; }
};

struct WalkResult {
  bool ok = false;
  FaultType fault = FaultType::kPde;  // when not ok
  Page page;
};

// Translates `va` (below 2^49) with the tables at `root`. Reads memory, at most six entries, and
// keeps nothing: the TLB is the caller's. Source: gp100-mmu-format.pdf; behaviour.md §6.
WalkResult WalkPageTables(const MemoryPort& memory, PhysicalAddress root, uint64_t va);

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_PAGE_WALK_H_
