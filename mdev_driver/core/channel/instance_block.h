// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest's instance block, judged, and the shadow block that the device loads in its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/memory/guest_memory.h"

namespace turnstile {

// The words that TS104 uses: RAMFC, and RAMIN up to ENGINE_WFI_VEID.
inline constexpr size_t kInstanceWords = 0x220 / 4;
inline constexpr size_t kInstanceBytes = kInstanceWords * 4;

// A copy of the guest's block. Untrusted; read once.
struct InstanceBlock {
  std::array<uint32_t, kInstanceWords> words{};

  uint32_t At(uint32_t byte_offset) const { return words[byte_offset / 4]; }
  friend bool operator==(const InstanceBlock&, const InstanceBlock&) = default;
};

// The page directory that the block names. False: the GMMU takes it for unbound (TARGET, format or
// big page size).
bool PageDirectoryOf(const InstanceBlock& block, GuestAddress* root);
// Where the block says USERD is (512-aligned). False: a target that TS104 does not have.
bool UserdOf(const InstanceBlock& block, GuestAddress* userd);
// RAMFC CONFIG.AUTH_LEVEL: never granted to hardware, honoured for MEM_OP by emulation.
bool IsPrivileged(const InstanceBlock& block);

// 512 bytes for USERD that the device may use.
struct UserdPlace {
  bool valid = false;
  bool system = false;
  uint64_t address = 0;  // VRAM offset on the card or DMA address; 40 bits
};

// What translation made of the addresses in a block.
struct InstanceTranslation {
  bool has_root = false;
  base::Hpa root;
  UserdPlace userd;
  uint32_t chid = 0;  // physical
};

// Builds the shadow block: every address in it comes from `translation` or lies in the guest's VRAM
// partition, privileges are off, words that TS104 does not define are 0. `ctx_size`:
// NV_TS104_CTX_SIZE.
InstanceBlock MakeShadowInstance(const InstanceBlock& guest, const InstanceTranslation& translation,
                                 const Partition& partition, uint64_t ctx_size);

}  // namespace turnstile
