// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The interpreter's operations: RV64IMAFD after decoding. One line of the list = one handler.
#pragma once

#include <cstdint>

namespace sm {

// FpSlow is every rounding operation whose mode is not the host's current one; Fallthrough is no
// instruction but ends a block that stops before a jump.
// clang-format off
#define SM_OPCODE_LIST(V)                                                      \
  V(Illegal) V(Nop) V(Fallthrough) V(LoadImmediate) V(Auipc) V(Move)           \
  V(Jal) V(Jalr) V(Beq) V(Bne) V(Blt) V(Bge) V(Bltu) V(Bgeu)                   \
  V(Lb) V(Lh) V(Lw) V(Ld) V(Lbu) V(Lhu) V(Lwu) V(Sb) V(Sh) V(Sw) V(Sd)         \
  V(Addi) V(Slti) V(Sltiu) V(Xori) V(Ori) V(Andi) V(Slli) V(Srli) V(Srai)      \
  V(Add) V(Sub) V(Sll) V(Slt) V(Sltu) V(Xor) V(Srl) V(Sra) V(Or) V(And)        \
  V(Addiw) V(Slliw) V(Srliw) V(Sraiw) V(Addw) V(Subw) V(Sllw) V(Srlw) V(Sraw)  \
  V(Mul) V(Mulh) V(Mulhsu) V(Mulhu) V(Div) V(Divu) V(Rem) V(Remu)              \
  V(Mulw) V(Divw) V(Divuw) V(Remw) V(Remuw)                                    \
  V(Fence) V(FenceI) V(Ecall) V(Ebreak) V(CsrId) V(Csr)                        \
  V(AmoW) V(AmoD) V(LrW) V(LrD) V(ScW) V(ScD) V(Flw) V(Fld) V(Fsw) V(Fsd)      \
  V(FaddS) V(FsubS) V(FmulS) V(FdivS) V(FsqrtS) V(FmaddS) V(FmsubS)            \
  V(FnmsubS) V(FnmaddS)                                                        \
  V(FaddD) V(FsubD) V(FmulD) V(FdivD) V(FsqrtD) V(FmaddD) V(FmsubD)            \
  V(FnmsubD) V(FnmaddD)                                                        \
  V(FsgnjS) V(FsgnjnS) V(FsgnjxS) V(FminS) V(FmaxS)                            \
  V(FeqS) V(FltS) V(FleS) V(FclassS)                                           \
  V(FsgnjD) V(FsgnjnD) V(FsgnjxD) V(FminD) V(FmaxD)                            \
  V(FeqD) V(FltD) V(FleD) V(FclassD)                                           \
  V(FcvtToIntS) V(FcvtToIntD) V(FcvtSW) V(FcvtSWu) V(FcvtSL)                   \
  V(FcvtSLu) V(FcvtDW) V(FcvtDWu) V(FcvtDL) V(FcvtDLu)                         \
  V(FcvtSD) V(FcvtDS) V(FmvXW) V(FmvWX) V(FmvXD) V(FmvDX) V(FpSlow)
// clang-format on

enum class Opcode : uint8_t {
#define SM_OPCODE_ENUM(name) k##name,
  SM_OPCODE_LIST(SM_OPCODE_ENUM)
#undef SM_OPCODE_ENUM
      kCount
};

// Rounding operations of FpSlow; `imm` = operation | rounding mode << 8 (7 = dynamic).
enum class FpOperation : uint8_t {
  kAddS,
  kSubS,
  kMulS,
  kDivS,
  kSqrtS,
  kMaddS,
  kMsubS,
  kNmsubS,
  kNmaddS,
  kAddD,
  kSubD,
  kMulD,
  kDivD,
  kSqrtD,
  kMaddD,
  kMsubD,
  kNmsubD,
  kNmaddD,
  kCvtSW,
  kCvtSWu,
  kCvtSL,
  kCvtSLu,
  kCvtDL,
  kCvtDLu,
  kCvtSD,
};

}  // namespace sm
