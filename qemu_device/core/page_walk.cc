// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "page_walk.h"

#include <array>

#include "base/bits.h"
#include "ts104/regs.h"

namespace ts104 {
namespace {

constexpr uint64_t kEntryBytes = 8;

WalkResult Fault(FaultType type) { return {false, type, {}}; }

WalkResult Sparse(uint8_t shift) {
  WalkResult result{true, FaultType::kPde, {}};
  result.page.shift = shift;
  result.page.sparse = true;
  return result;
}

struct Table {
  bool valid = false;
  PhysicalAddress base;
};

// APERTURE of a PDE: 0 invalid, 1 video memory, 2 and 3 system memory.
Table TableOf(uint64_t aperture, uint64_t vid_address, uint64_t sys_address) {
  if (aperture == 0) return {};
  if (aperture == NV_MMU_PDE_APERTURE_VIDEO) return {true, {Aperture::kVid, vid_address}};
  return {true, {Aperture::kSys, sys_address}};
}

Table NextTable(uint64_t pde) {
  return TableOf(TS104_GET64(NV_MMU_PDE_APERTURE, pde),
                 TS104_GET64(NV_MMU_PDE_ADDRESS_VID, pde) << 12,
                 TS104_GET64(NV_MMU_PDE_ADDRESS_SYS, pde) << 12);
}

// A PTE that is VALID, in the order of checks that behaviour.md §6 gives.
WalkResult CheckPte(const MemoryPort& memory, uint64_t pte, uint8_t shift) {
  const auto aperture = TS104_GET64(NV_MMU_PTE_APERTURE, pte);
  if (aperture == NV_MMU_PTE_APERTURE_PEER) return Fault(FaultType::kUnsupportedAperture);
  const auto kind = TS104_GET64(NV_MMU_PTE_KIND, pte);
  if (kind != NV_MMU_PTE_KIND_PITCH && kind != NV_MMU_PTE_KIND_GENERIC_MEMORY) {
    return Fault(FaultType::kUnsupportedKind);
  }
  WalkResult result{true, FaultType::kPte, {}};
  Page& page = result.page;
  page.shift = shift;
  page.base = aperture == NV_MMU_PTE_APERTURE_VIDEO
                  ? PhysicalAddress{Aperture::kVid, TS104_GET64(NV_MMU_PTE_ADDRESS_VID, pte) << 12}
                  : PhysicalAddress{Aperture::kSys, TS104_GET64(NV_MMU_PTE_ADDRESS_SYS, pte) << 12};
  if (page.base.offset % page.size() != 0) return Fault(FaultType::kPte);
  if (!memory.InRange(page.base, page.size())) return Fault(FaultType::kRegionViolation);
  page.privileged = TS104_GET64(NV_MMU_PTE_PRIVILEGE, pte) != 0;
  page.read_only = TS104_GET64(NV_MMU_PTE_READ_ONLY, pte) != 0;
  page.atomic_disable = TS104_GET64(NV_MMU_PTE_ATOMIC_DISABLE, pte) != 0;
  return result;
}

WalkResult InvalidPte(uint64_t pte, uint8_t shift) {
  return TS104_GET64(NV_MMU_PTE_VOL, pte) != 0 ? Sparse(shift) : Fault(FaultType::kPte);
}

WalkResult WalkSmall(const MemoryPort& memory, Table table, uint64_t va) {
  const uint64_t index = base::GetBits<20, 12>(va);
  uint64_t pte = 0;
  if (memory.ReadValue(table.base + index * kEntryBytes, pte) != BusStatus::kOk) {
    return Fault(FaultType::kPde);
  }
  if (TS104_GET64(NV_MMU_PTE_VALID, pte) == 0) return InvalidPte(pte, 12);
  return CheckPte(memory, pte, 12);
}

// The last level: PD0 entries are pairs for 64 KiB and 4 KiB pages, or one 2 MiB page.
WalkResult WalkPd0(const MemoryPort& memory, PhysicalAddress pd0, uint64_t va) {
  std::array<uint64_t, 2> entry{};
  const uint64_t index = base::GetBits<28, 21>(va);
  if (memory.ReadValue(pd0 + index * sizeof(entry), entry) != BusStatus::kOk) {
    return Fault(FaultType::kPde);
  }
  const auto [low, high] = entry;
  if (TS104_GET64(NV_MMU_PTE_VALID, low) != 0) return CheckPte(memory, low, 21);

  const Table big = TableOf(TS104_GET64(NV_MMU_DUAL_PDE_APERTURE_BIG, low),
                            TS104_GET64(NV_MMU_DUAL_PDE_ADDRESS_BIG_VID, low) << 8,
                            TS104_GET64(NV_MMU_DUAL_PDE_ADDRESS_BIG_SYS, low) << 8);
  const Table small = NextTable(high);
  if (!big.valid && !small.valid) {
    return TS104_GET64(NV_MMU_DUAL_PDE_VOL_BIG, low) != 0 ? Sparse(21) : Fault(FaultType::kPde);
  }
  if (!big.valid) return WalkSmall(memory, small, va);

  uint64_t pte = 0;
  const uint64_t big_index = base::GetBits<20, 16>(va);
  if (memory.ReadValue(big.base + big_index * kEntryBytes, pte) != BusStatus::kOk) {
    return Fault(FaultType::kPde);
  }
  if (TS104_GET64(NV_MMU_PTE_VALID, pte) != 0) return CheckPte(memory, pte, 16);
  // PRIVILEGE in an invalid big PTE: there are no small pages either.
  if (TS104_GET64(NV_MMU_PTE_PRIVILEGE, pte) != 0) return Fault(FaultType::kPte);
  if (small.valid) return WalkSmall(memory, small, va);
  return InvalidPte(pte, 16);
}

}  // namespace

WalkResult WalkPageTables(const MemoryPort& memory, PhysicalAddress root, uint64_t va) {
  constexpr std::array<unsigned, 3> kShift = {NV_MMU_PD3_LO, NV_MMU_PD2_LO, NV_MMU_PD1_LO};
  constexpr std::array<uint64_t, 3> kEntries = {NV_MMU_PD3_ENTRIES, NV_MMU_PD2_ENTRIES,
                                                NV_MMU_PD1_ENTRIES};
  PhysicalAddress table = root;
  for (size_t level = 0; level < kShift.size(); ++level) {
    const uint64_t index = (va >> kShift[level]) & (kEntries[level] - 1);
    uint64_t pde = 0;
    if (memory.ReadValue(table + index * kEntryBytes, pde) != BusStatus::kOk) {
      return Fault(FaultType::kPde);
    }
    if (TS104_GET64(NV_MMU_PDE_IS_PTE, pde) != 0) return Fault(FaultType::kPdeSize);
    const Table next = NextTable(pde);
    if (!next.valid) {
      return TS104_GET64(NV_MMU_PDE_VOL, pde) != 0 ? Sparse(21) : Fault(FaultType::kPde);
    }
    table = next.base;
  }
  return WalkPd0(memory, table, va);
}

}  // namespace ts104
