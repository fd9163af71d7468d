// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// RISC-V instruction words for tests, by the formats of the unprivileged manual.
#pragma once

#include <cstdint>

namespace riscv {

constexpr uint32_t R(uint32_t funct7, uint32_t rs2, uint32_t rs1, uint32_t funct3, uint32_t rd,
                     uint32_t opcode) {
  return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
constexpr uint32_t I(int32_t imm, uint32_t rs1, uint32_t funct3, uint32_t rd, uint32_t opcode) {
  return static_cast<uint32_t>(imm) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
constexpr uint32_t S(int32_t imm, uint32_t rs2, uint32_t rs1, uint32_t funct3, uint32_t opcode) {
  const auto bits = static_cast<uint32_t>(imm);
  return (bits >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (bits & 0x1f) << 7 |
         opcode;
}
constexpr uint32_t B(int32_t imm, uint32_t rs2, uint32_t rs1, uint32_t funct3) {
  const auto bits = static_cast<uint32_t>(imm);
  return (bits >> 12 & 1) << 31 | (bits >> 5 & 0x3f) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 |
         (bits >> 1 & 0xf) << 8 | (bits >> 11 & 1) << 7 | 0x63;
}

// Integer.
constexpr uint32_t Lui(uint32_t rd, uint32_t upper20) { return upper20 << 12 | rd << 7 | 0x37; }
constexpr uint32_t Auipc(uint32_t rd, uint32_t upper20) { return upper20 << 12 | rd << 7 | 0x17; }
constexpr uint32_t Jal(uint32_t rd, int32_t offset) {
  const auto bits = static_cast<uint32_t>(offset);
  return (bits >> 20 & 1) << 31 | (bits >> 1 & 0x3ff) << 21 | (bits >> 11 & 1) << 20 |
         (bits >> 12 & 0xff) << 12 | rd << 7 | 0x6f;
}
constexpr uint32_t Jalr(uint32_t rd, uint32_t rs1, int32_t imm) { return I(imm, rs1, 0, rd, 0x67); }
constexpr uint32_t Addi(uint32_t rd, uint32_t rs1, int32_t imm) { return I(imm, rs1, 0, rd, 0x13); }
constexpr uint32_t Slli(uint32_t rd, uint32_t rs1, int32_t shift) {
  return I(shift, rs1, 1, rd, 0x13);
}
constexpr uint32_t Add(uint32_t rd, uint32_t rs1, uint32_t rs2) {
  return R(0, rs2, rs1, 0, rd, 0x33);
}
constexpr uint32_t Beq(uint32_t rs1, uint32_t rs2, int32_t offset) {
  return B(offset, rs2, rs1, 0);
}
constexpr uint32_t Bne(uint32_t rs1, uint32_t rs2, int32_t offset) {
  return B(offset, rs2, rs1, 1);
}
constexpr uint32_t Blt(uint32_t rs1, uint32_t rs2, int32_t offset) {
  return B(offset, rs2, rs1, 4);
}

// Memory.
constexpr uint32_t Lw(uint32_t rd, uint32_t rs1, int32_t imm) { return I(imm, rs1, 2, rd, 0x03); }
constexpr uint32_t Ld(uint32_t rd, uint32_t rs1, int32_t imm) { return I(imm, rs1, 3, rd, 0x03); }
constexpr uint32_t Sb(uint32_t rs2, uint32_t rs1, int32_t imm) { return S(imm, rs2, rs1, 0, 0x23); }
constexpr uint32_t Sw(uint32_t rs2, uint32_t rs1, int32_t imm) { return S(imm, rs2, rs1, 2, 0x23); }
constexpr uint32_t Sd(uint32_t rs2, uint32_t rs1, int32_t imm) { return S(imm, rs2, rs1, 3, 0x23); }
constexpr uint32_t Amo(uint32_t funct5, uint32_t width, uint32_t rd, uint32_t rs1, uint32_t rs2) {
  return R(funct5 << 2, rs2, rs1, width, rd, 0x2f);
}
constexpr uint32_t kWord = 2;
constexpr uint32_t kDouble = 3;
constexpr uint32_t AmoAddW(uint32_t rd, uint32_t rs1, uint32_t rs2) {
  return Amo(0, kWord, rd, rs1, rs2);
}
constexpr uint32_t LrW(uint32_t rd, uint32_t rs1) { return Amo(2, kWord, rd, rs1, 0); }
constexpr uint32_t ScW(uint32_t rd, uint32_t rs1, uint32_t rs2) {
  return Amo(3, kWord, rd, rs1, rs2);
}

// System.
constexpr uint32_t kEcall = 0x00000073;
constexpr uint32_t kEbreak = 0x00100073;
constexpr uint32_t kFence = 0x0ff0000f;
constexpr uint32_t kFenceI = 0x0000100f;
constexpr uint32_t Csrrw(uint32_t rd, uint32_t csr, uint32_t rs1) {
  return I(static_cast<int32_t>(csr), rs1, 1, rd, 0x73);
}
constexpr uint32_t Csrr(uint32_t rd, uint32_t csr) {
  return I(static_cast<int32_t>(csr), 0, 2, rd, 0x73);
}

// Registers by their ABI names.
constexpr uint32_t kZero = 0, kRa = 1, kSp = 2, kTp = 4, kT0 = 5, kT1 = 6, kT2 = 7, kA0 = 10,
                   kA1 = 11, kA2 = 12, kA3 = 13, kA4 = 14, kA5 = 15, kA7 = 17;

}  // namespace riscv
