// SPDX-License-Identifier: GPL-2.0-only OR MIT
// RV64IMAFD instruction words to the interpreter's operations.
#pragma once

#include <cstdint>

#include "sm/opcodes.h"

namespace sm {

// Rounding mode field values (RISC-V unprivileged manual, chapter "F").
inline constexpr uint32_t kRoundNearestEven = 0;
inline constexpr uint32_t kRoundToZero = 1;
inline constexpr uint32_t kRoundDown = 2;
inline constexpr uint32_t kRoundUp = 3;
inline constexpr uint32_t kRoundNearestMaxMagnitude = 4;
inline constexpr uint32_t kRoundDynamic = 7;

// Identity CSRs, read only: program_abi.md, "Identity".
inline constexpr uint32_t kCsrIdFirst = 0xcc0;
inline constexpr uint32_t kCsrIdLast = 0xcce;

struct Decoded {
  Opcode opcode = Opcode::kIllegal;
  uint8_t rd = 0;  // kSinkRegister when an integer result goes to x0
  uint8_t rs1 = 0;
  uint8_t rs2 = 0;
  uint8_t rs3 = 0;  // floating point only
  int32_t imm = 0;  // for kIllegal the instruction word
  bool ends_block = false;
};

// Never fails: what is not RV64IMAFD becomes kIllegal. `dynamic_is_slow`: the thread's frm is one
// that the host does not have (RMM or a reserved value), so dynamic rounding must not use the fast
// operations.
Decoded Decode(uint32_t word, bool dynamic_is_slow);

}  // namespace sm
