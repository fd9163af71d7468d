// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Page table entries of the guest, judged; entries of the shadow, made. Pure functions.
//
// A wrong entry becomes the shadow entry that makes the GMMU report what it would report for the
// guest's entry on a bare TS104 (register map §6), with no address of the guest in it.
#pragma once

#include <cstdint>

#include "core/memory/guest_memory.h"
#include "ts104/typed.h"

namespace turnstile {

inline constexpr unsigned kSmallShift = 12;
inline constexpr unsigned kBigShift = 16;
inline constexpr unsigned kHugeShift = 21;
inline constexpr uint32_t kSlotsPerBlock = 16;    // 4 KiB pages in a 64 KiB page
inline constexpr uint32_t kSlotsPerRegion = 512;  // 4 KiB pages under one PD0 entry
inline constexpr uint32_t kBlocksPerRegion = 32;

// Shadow entries that no address can go wrong in.
inline constexpr uint64_t kPteInvalid = 0;
inline constexpr uint64_t kPteNoSmall = 0x20;        // PTE fault, small table not consulted
inline constexpr uint64_t kPtePeer = 0x3;            // valid, PEER: UNSUPPORTED_APERTURE
inline constexpr uint64_t kPteRegion = 0x1fffe0001;  // valid, VIDEO, 2 MiB-aligned, beyond any VRAM
inline constexpr uint64_t kPdeSparse = 0x8;
inline constexpr uint64_t kPdeIsPte = 0x1;  // PDE_SIZE fault

struct PteTranslation {
  enum class Kind : uint8_t {
    kFixed,   // `shadow` is the entry: VRAM, invalid or an error
    kSystem,  // pin the pages from `gpa`, then MakeSystemPte
  };
  Kind kind = Kind::kFixed;
  uint64_t shadow = kPteInvalid;
  base::Gpa gpa;
};

// Bits that pass from the guest's valid entry to the shadow's.
constexpr uint64_t PteFlags(uint64_t raw) {
  const ts104::mmu_fmt::Pte guest(raw);
  using Pte = ts104::mmu_fmt::Pte;
  return Pte(1)
      .Set<Pte::Vol>(guest.Get<Pte::Vol>())
      .Set<Pte::Privilege>(guest.Get<Pte::Privilege>())
      .Set<Pte::ReadOnly>(guest.Get<Pte::ReadOnly>())
      .Set<Pte::AtomicDisable>(guest.Get<Pte::AtomicDisable>())
      .Set<Pte::Kind>(guest.Get<Pte::Kind>())
      .raw();
}

// The shadow entry for a page at `dma` with the flags of the guest's entry `raw`.
constexpr uint64_t MakeSystemPte(uint64_t raw, base::Hpa dma) {
  using Pte = ts104::mmu_fmt::Pte;
  return Pte(PteFlags(raw))
      .Set<Pte::Aperture>(Pte::kApertureSysCoh)
      .Set<Pte::AddressSys>(dma.value() >> kSmallShift)
      .raw();
}

// Judges one entry for a page of 1 << shift bytes, in the order of the register map §6.
constexpr PteTranslation TranslatePte(uint64_t raw, unsigned shift, const Partition& partition) {
  using Pte = ts104::mmu_fmt::Pte;
  const Pte guest(raw);
  PteTranslation result;
  if (!guest.Test<Pte::Valid>()) {
    result.shadow = raw & (kPteNoSmall | kPdeSparse);
    return result;
  }
  const uint64_t aperture = guest.Get<Pte::Aperture>();
  const uint64_t kind = guest.Get<Pte::Kind>();
  const bool video = aperture == Pte::kApertureVideo;
  const uint64_t address = (video ? guest.Get<Pte::AddressVid>() : guest.Get<Pte::AddressSys>())
                           << kSmallShift;
  const uint64_t limit = video ? partition.vram_bytes : kSystemAddressLimit;
  if (aperture == Pte::kAperturePeer) {
    result.shadow = kPtePeer;
  } else if (kind != Pte::kKindPitch && kind != Pte::kKindGenericMemory) {
    // The address is the partition's own: even if the check failed, nothing foreign is reached.
    result.shadow =
        Pte(PteFlags(raw)).Set<Pte::AddressVid>(partition.vram.value() >> kSmallShift).raw();
  } else if (!base::IsAligned(address, uint64_t{1} << shift)) {
    result.shadow = kPteNoSmall;
  } else if (!base::RangeFits(address, uint64_t{1} << shift, limit)) {
    result.shadow = kPteRegion;
  } else if (video) {
    const base::VramOffset physical = partition.vram + address;
    result.shadow = Pte(PteFlags(raw)).Set<Pte::AddressVid>(physical.value() >> kSmallShift).raw();
  } else {
    result.kind = PteTranslation::Kind::kSystem;
    result.gpa = base::Gpa(address);
  }
  return result;
}

constexpr bool IsValidSystemPte(uint64_t shadow) {
  using Pte = ts104::mmu_fmt::Pte;
  return Pte(shadow).Test<Pte::Valid>() && Pte(shadow).Get<Pte::Aperture>() == Pte::kApertureSysCoh;
}

// Where a directory entry of the guest leads.
struct PdeTarget {
  bool present = false;
  GuestAddress table;
  friend constexpr bool operator==(const PdeTarget&, const PdeTarget&) = default;
};

namespace internal {

constexpr PdeTarget DecodeTarget(uint64_t aperture, uint64_t vid, uint64_t sys) {
  PdeTarget target;
  target.present = aperture != ts104::mmu_fmt::Pde::kApertureInvalid;
  if (!target.present) return target;
  const bool video = aperture == ts104::mmu_fmt::Pde::kApertureVideo;
  target.table = {video ? Aperture::kVid : Aperture::kSys, video ? vid : sys};
  return target;
}

}  // namespace internal

// PD3, PD2, PD1.
constexpr PdeTarget DecodePde(uint64_t raw) {
  using Pde = ts104::mmu_fmt::Pde;
  const Pde pde(raw);
  return internal::DecodeTarget(pde.Get<Pde::Aperture>(), pde.Get<Pde::AddressVid>() << 12,
                                pde.Get<Pde::AddressSys>() << 12);
}

// PD0, low word: the table of 64 KiB pages (256-byte aligned).
constexpr PdeTarget DecodeBigPde(uint64_t low) {
  return internal::DecodeTarget((low >> 1) & 3, ((low >> 4) & base::LowMask(29)) << 8,
                                ((low >> 4) & base::LowMask(50)) << 8);
}

// PD0, high word: the table of 4 KiB pages.
constexpr PdeTarget DecodeSmallPde(uint64_t high) { return DecodePde(high & ~uint64_t{1}); }

// A shadow directory entry: tables of the shadow always lie in system memory.
constexpr uint64_t MakePde(base::Hpa table) {
  using Pde = ts104::mmu_fmt::Pde;
  return Pde()
      .Set<Pde::Aperture>(Pde::kApertureSysCoh)
      .Set<Pde::AddressSys>(table.value() >> 12)
      .raw();
}
// The same for the big half of a PD0 entry, whose address counts 256 bytes.
constexpr uint64_t MakeBigPde(base::Hpa table) {
  return uint64_t{ts104::mmu_fmt::Pde::kApertureSysCoh} << 1 | (table.value() >> 8) << 4;
}

}  // namespace turnstile
