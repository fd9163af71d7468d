// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <array>
#include <cstdint>

#include "libts104/stream.h"

namespace libts104 {

struct LaunchParams {
  uint64_t program_va = 0;
  Dim3 grid;
  Dim3 cta;
  uint32_t shared_bytes = 0;
  uint32_t local_bytes = 0;
  uint32_t barriers = 0;
  uint64_t args_va = 0;  // constant buffer 0; multiple of 16
  uint32_t args_bytes = 0;
};

using Qmd = std::array<uint32_t, 64>;

// A launch descriptor V02_03 (register_map.md: NVC5C0_QMDV02_03).
Qmd BuildQmd(const LaunchParams& params);

}  // namespace libts104
