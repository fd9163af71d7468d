// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>
#include <span>

#include "guest_driver/core/guest_abi.h"

namespace guest {

struct InstanceBlockParams {
  uint32_t chid = 0;
  uint64_t ring_va = 0;
  uint32_t ring_order = 0;
  uint32_t userd_aperture = TSG_APERTURE_VRAM;
  uint64_t userd_address = 0;
  uint32_t root_aperture = TSG_APERTURE_VRAM;  // page directory PD3
  uint64_t root_address = 0;
  uint64_t context_offset = 0;  // GR context buffer in VRAM; 0: none
};

inline constexpr uint32_t kInstanceWords = 1024;

// Writes all words of an instance block (register_map.md: NV_RAMFC, NV_RAMIN; initial values §4).
// The channel gets neither AUTH_LEVEL nor HCE_PRIV_MODE.
void BuildInstanceBlock(const InstanceBlockParams& params,
                        std::span<uint32_t, kInstanceWords> words);

}  // namespace guest
