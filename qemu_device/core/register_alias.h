// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Function 0's window (BAR0 + 0xb80000) shows registers that have another place as well.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_REGISTER_ALIAS_H_
#define TURNSTILE_QEMU_DEVICE_CORE_REGISTER_ALIAS_H_

#include <cstdint>

#include "ts104/regs.h"

namespace ts104 {

struct RegisterAlias {
  uint32_t offset;  // in the window
  uint32_t stride;
  uint32_t count;
  uint32_t target;  // the register it stands for
  uint32_t target_stride;
};

inline constexpr RegisterAlias kRegisterAliases[] = {
    {NV_FUNC_PRIV_BAR1_BLOCK, 4, 1, NV_PBUS_BAR1_BLOCK, 4},
    {NV_FUNC_PRIV_LEAF(0), 4, 8, NV_CTRL_LEAF(0), 4},
    {NV_FUNC_PRIV_LEAF_EN_SET(0), 4, 8, NV_CTRL_LEAF_EN_SET(0), 4},
    {NV_FUNC_PRIV_LEAF_EN_CLEAR(0), 4, 8, NV_CTRL_LEAF_EN_CLEAR(0), 4},
    {NV_FUNC_PRIV_TOP, 4, 1, NV_CTRL_TOP(0), 4},
    {NV_FUNC_PRIV_TOP_EN_SET, 4, 1, NV_CTRL_TOP_EN_SET(0), 4},
    {NV_FUNC_PRIV_TOP_EN_CLEAR, 4, 1, NV_CTRL_TOP_EN_CLEAR(0), 4},
    {NV_FUNC_PRIV_LEAF_TRIGGER, 4, 1, NV_CTRL_LEAF_TRIGGER(0), 4},
    {NV_FUNC_PRIV_MAILBOX_SCRATCH(0), 4, 16, NV_CTRL_MAILBOX_SCRATCH(0), 4},
    {NV_FUNC_MMU_FAULT_BUFFER_LO(0), 32, 2, NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0), 20},
    {NV_FUNC_MMU_FAULT_BUFFER_HI(0), 32, 2, NV_PFB_PRI_MMU_FAULT_BUFFER_HI(0), 20},
    {NV_FUNC_MMU_FAULT_BUFFER_GET(0), 32, 2, NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0), 20},
    {NV_FUNC_MMU_FAULT_BUFFER_PUT(0), 32, 2, NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0), 20},
    {NV_FUNC_MMU_FAULT_BUFFER_SIZE(0), 32, 2, NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0), 20},
    {NV_FUNC_MMU_FAULT_STATUS, 4, 1, NV_PFB_PRI_MMU_FAULT_STATUS, 4},
    {NV_FUNC_MMU_INVALIDATE_PDB, 4, 1, NV_PFB_PRI_MMU_INVALIDATE_PDB, 4},
    {NV_FUNC_MMU_INVALIDATE_UPPER_PDB, 4, 1, NV_PFB_PRI_MMU_INVALIDATE_UPPER_PDB, 4},
    {NV_FUNC_MMU_INVALIDATE, 4, 1, NV_PFB_PRI_MMU_INVALIDATE, 4},
};

// The one place of a register; `offset` itself when it is no alias.
constexpr uint32_t ResolveAlias(uint32_t offset) {
  if (offset < NV_FUNC_WINDOW_BASE || offset >= NV_FUNC_MSIX_TABLE) return offset;
  for (const RegisterAlias& alias : kRegisterAliases) {
    if (offset < alias.offset || (offset - alias.offset) % alias.stride != 0) continue;
    const uint32_t index = (offset - alias.offset) / alias.stride;
    if (index < alias.count) return alias.target + index * alias.target_stride;
  }
  return offset;
}

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_REGISTER_ALIAS_H_
