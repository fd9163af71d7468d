// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "interpreter_fixture.h"

namespace {

using namespace riscv;

constexpr uint64_t kMin64 = 0x8000000000000000;
constexpr uint64_t kMax64 = 0x7fffffffffffffff;
constexpr uint64_t kMinus1 = 0xffffffffffffffff;
constexpr uint64_t kMin32 = 0xffffffff80000000;  // sign-extended

struct RegisterCase {
  const char* name;
  uint32_t funct7;
  uint32_t funct3;
  uint32_t opcode;
  uint64_t a;
  uint64_t b;
  uint64_t expected;
};

class RegisterOperation : public InterpreterTest,
                          public testing::WithParamInterface<RegisterCase> {};

TEST_P(RegisterOperation, GivesTheManualsResult) {
  const RegisterCase& c = GetParam();
  thread_.x[kT0] = c.a;
  thread_.x[kT1] = c.b;
  Execute({R(c.funct7, kT1, kT0, c.funct3, kT2, c.opcode)});
  EXPECT_EQ(thread_.x[kT2], c.expected) << c.name;
}

constexpr RegisterCase kRegisterCases[] = {
    {"add wraps", 0, 0, 0x33, kMax64, 1, kMin64},
    {"sub", 0x20, 0, 0x33, 5, 7, 0xfffffffffffffffe},
    {"sll uses 6 bits", 0, 1, 0x33, 1, 64 + 63, kMin64},
    {"slt signed", 0, 2, 0x33, kMinus1, 1, 1},
    {"slt equal", 0, 2, 0x33, 3, 3, 0},
    {"sltu unsigned", 0, 3, 0x33, kMinus1, 1, 0},
    {"xor", 0, 4, 0x33, 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0xf0f0f0f0f0f0f0f0},
    {"srl", 0, 5, 0x33, kMin64, 63, 1},
    {"sra", 0x20, 5, 0x33, kMin64, 63, kMinus1},
    {"or", 0, 6, 0x33, 0xf0, 0x0f, 0xff},
    {"and", 0, 7, 0x33, 0xf0f0, 0xff00, 0xf000},
    {"addw sign-extends", 0, 0, 0x3b, 0x7fffffff, 1, kMin32},
    {"addw ignores upper half", 0, 0, 0x3b, 0xdeadbeef00000001, 0x100000002, 3},
    {"subw", 0x20, 0, 0x3b, 0, 1, kMinus1},
    {"sllw uses 5 bits", 0, 1, 0x3b, 1, 32 + 31, kMin32},
    {"srlw", 0, 5, 0x3b, 0xffffffff80000000, 31, 1},
    {"sraw", 0x20, 5, 0x3b, 0x80000000, 31, kMinus1},
    {"mul low half", 1, 0, 0x33, 0x123456789abcdef0, 0x10, 0x23456789abcdef00},
    {"mulh", 1, 1, 0x33, kMinus1, kMinus1, 0},
    {"mulh of minima", 1, 1, 0x33, kMin64, kMin64, 0x4000000000000000},
    {"mulhsu", 1, 2, 0x33, kMinus1, kMinus1, kMinus1},
    {"mulhu", 1, 3, 0x33, kMinus1, kMinus1, 0xfffffffffffffffe},
    {"div", 1, 4, 0x33, 0xfffffffffffffff9, 2, 0xfffffffffffffffd},
    {"div by zero", 1, 4, 0x33, 42, 0, kMinus1},
    {"div overflow", 1, 4, 0x33, kMin64, kMinus1, kMin64},
    {"divu", 1, 5, 0x33, kMinus1, 2, kMax64},
    {"divu by zero", 1, 5, 0x33, 42, 0, kMinus1},
    {"rem keeps dividend's sign", 1, 6, 0x33, 0xfffffffffffffff9, 2, kMinus1},
    {"rem by zero", 1, 6, 0x33, 42, 0, 42},
    {"rem overflow", 1, 6, 0x33, kMin64, kMinus1, 0},
    {"remu", 1, 7, 0x33, 43, 10, 3},
    {"remu by zero", 1, 7, 0x33, 42, 0, 42},
    {"mulw", 1, 0, 0x3b, 0x10000, 0x8000, kMin32},
    {"divw", 1, 4, 0x3b, 0x00000000fffffff9, 2, 0xfffffffffffffffd},
    {"divw by zero", 1, 4, 0x3b, 42, 0, kMinus1},
    {"divw overflow", 1, 4, 0x3b, 0x80000000, kMinus1, kMin32},
    {"divuw", 1, 5, 0x3b, 0xffffffff, 1, kMinus1},
    {"divuw by zero", 1, 5, 0x3b, 42, 0x100000000, kMinus1},
    {"remw by zero", 1, 6, 0x3b, 0x80000000, 0, kMin32},
    {"remw overflow", 1, 6, 0x3b, 0x80000000, kMinus1, 0},
    {"remuw", 1, 7, 0x3b, 0xffffffff, 0x10, 15},
    {"remuw by zero", 1, 7, 0x3b, 0x80000000, 0, kMin32},
};
INSTANTIATE_TEST_SUITE_P(Isa, RegisterOperation, testing::ValuesIn(kRegisterCases));

struct ImmediateCase {
  const char* name;
  int32_t imm;
  uint32_t funct3;
  uint32_t opcode;
  uint64_t a;
  uint64_t expected;
};

class ImmediateOperation : public InterpreterTest,
                           public testing::WithParamInterface<ImmediateCase> {};

TEST_P(ImmediateOperation, GivesTheManualsResult) {
  const ImmediateCase& c = GetParam();
  thread_.x[kT0] = c.a;
  Execute({I(c.imm, kT0, c.funct3, kT2, c.opcode)});
  EXPECT_EQ(thread_.x[kT2], c.expected) << c.name;
}

constexpr ImmediateCase kImmediateCases[] = {
    {"addi negative", -1, 0, 0x13, 0, kMinus1},
    {"addi zero moves", 0, 0, 0x13, 77, 77},
    {"slti", -5, 2, 0x13, 0xfffffffffffffffa, 1},
    {"sltiu compares sign-extended", -1, 3, 0x13, 5, 1},
    {"xori -1 inverts", -1, 4, 0x13, 0x0f, 0xfffffffffffffff0},
    {"ori", 0x7ff, 6, 0x13, 0x800, 0xfff},
    {"andi", -16, 7, 0x13, 0xff, 0xf0},
    {"slli 63", 63, 1, 0x13, 1, kMin64},
    {"srli 63", 63, 5, 0x13, kMin64, 1},
    {"srai 63", 0x400 | 63, 5, 0x13, kMin64, kMinus1},
    {"addiw truncates", 1, 0, 0x1b, 0x17fffffff, kMin32},
    {"addiw 0 is sext.w", 0, 0, 0x1b, 0x80000000, kMin32},
    {"slliw 31", 31, 1, 0x1b, 1, kMin32},
    {"srliw 31", 31, 5, 0x1b, 0x80000000, 1},
    {"srliw 0", 0, 5, 0x1b, 0x80000000, kMin32},
    {"sraiw 31", 0x400 | 31, 5, 0x1b, 0x80000000, kMinus1},
};
INSTANTIATE_TEST_SUITE_P(Isa, ImmediateOperation, testing::ValuesIn(kImmediateCases));

TEST_F(InterpreterTest, LuiSignExtends) {
  Execute({Lui(kT0, 0x80000), Lui(kT1, 0x7ffff)});
  EXPECT_EQ(thread_.x[kT0], 0xffffffff80000000u);
  EXPECT_EQ(thread_.x[kT1], 0x7ffff000u);
}

TEST_F(InterpreterTest, AuipcAddsToItsOwnAddress) {
  Execute({Addi(kT0, kZero, 1), Auipc(kT1, 1), Auipc(kT2, 0xfffff)});
  EXPECT_EQ(thread_.x[kT1], 0x11004u);
  EXPECT_EQ(thread_.x[kT2], 0xf008u);
}

TEST_F(InterpreterTest, X0StaysZero) {
  thread_.x[kT0] = 5;
  memory_.Put<uint64_t>(kData, 99);
  thread_.x[kT1] = kData;
  Execute({Addi(kZero, kT0, 3), Lui(kZero, 1), Ld(kZero, kT1, 0), Add(kT2, kZero, kZero)});
  EXPECT_EQ(thread_.x[0], 0u);
  EXPECT_EQ(thread_.x[kT2], 0u);
}

struct BranchCase {
  const char* name;
  uint32_t funct3;
  uint64_t a;
  uint64_t b;
  bool taken;
};

class Branch : public InterpreterTest, public testing::WithParamInterface<BranchCase> {};

TEST_P(Branch, GoesWhereTheManualSays) {
  const BranchCase& c = GetParam();
  thread_.x[kT0] = c.a;
  thread_.x[kT1] = c.b;
  Execute({B(12, kT1, kT0, c.funct3), Addi(kT2, kT2, 1), Addi(kT2, kT2, 2), Addi(kT2, kT2, 4)});
  EXPECT_EQ(thread_.x[kT2], c.taken ? 4u : 7u) << c.name;
}

constexpr BranchCase kBranchCases[] = {
    {"beq equal", 0, 3, 3, true},
    {"beq different", 0, 3, 4, false},
    {"bne equal", 1, 3, 3, false},
    {"bne different", 1, 3, 4, true},
    {"blt signed", 4, kMinus1, 0, true},
    {"blt equal", 4, 1, 1, false},
    {"bge signed", 5, kMinus1, 0, false},
    {"bge equal", 5, 1, 1, true},
    {"bltu unsigned", 6, kMinus1, 0, false},
    {"bltu", 6, 0, kMinus1, true},
    {"bgeu", 7, kMinus1, 0, true},
    {"bgeu less", 7, 0, 1, false},
};
INSTANTIATE_TEST_SUITE_P(Isa, Branch, testing::ValuesIn(kBranchCases));

TEST_F(InterpreterTest, BackwardBranchLoops) {
  thread_.x[kT0] = 10;
  Execute({Add(kT1, kT1, kT0), Addi(kT0, kT0, -1), Bne(kT0, kZero, -8)});
  EXPECT_EQ(thread_.x[kT1], 55u);
}

TEST_F(InterpreterTest, JalLinksAndJumps) {
  Execute({Jal(kRa, 8), Addi(kT0, kT0, 1), Addi(kT0, kT0, 2)});
  EXPECT_EQ(thread_.x[kRa], 0x10004u);
  EXPECT_EQ(thread_.x[kT0], 2u);
}

TEST_F(InterpreterTest, JalrClearsBitZeroAndMayUseItsOwnBase) {
  thread_.x[kRa] = kCode + 5;
  Execute({Jalr(kRa, kRa, 4), Addi(kT0, kT0, 1), Addi(kT0, kT0, 2)});
  EXPECT_EQ(thread_.x[kRa], 0x10004u);
  EXPECT_EQ(thread_.x[kT0], 2u);
}

TEST_F(InterpreterTest, CodeCrossesPages) {
  const uint64_t last = kCode + sm::kPageSize - 4;
  memory_.Put<uint32_t>(last, Addi(kT0, kT0, 1));
  memory_.Put<uint32_t>(last + 4, Addi(kT0, kT0, 2));
  memory_.Put<uint32_t>(last + 8, kEbreak);
  thread_.pc = last;
  EXPECT_EQ(Run(), sm::RunExit::kStop);
  EXPECT_EQ(thread_.x[kT0], 3u);
  EXPECT_EQ(thread_.pc, last + 8);
}

TEST_F(InterpreterTest, StraightCodeLongerThanABlockRuns) {
  Execute(std::vector<uint32_t>(700, Addi(kT0, kT0, 1)));
  EXPECT_EQ(thread_.x[kT0], 700u);
  EXPECT_EQ(retired_, 700u);
}

TEST_F(InterpreterTest, BudgetIsExactToTheInstruction) {
  LoadCode({Addi(kT0, kT0, 1), Addi(kT0, kT0, 1), Addi(kT0, kT0, 1), Jal(kZero, -12)});
  for (uint64_t budget : {1u, 2u, 3u, 4u, 5u, 7u, 1000u}) {
    EXPECT_EQ(Run(budget), sm::RunExit::kBudget);
    EXPECT_EQ(retired_, budget);
  }
  // 1022 instructions: 255 rounds of four, and two of the next.
  EXPECT_EQ(thread_.x[kT0], 255u * 3 + 2);
  EXPECT_EQ(thread_.pc, kCode + 8);
  EXPECT_EQ(thread_.instret, 1022u);
}

TEST_F(InterpreterTest, ChangedCodeCountsAfterFenceI) {
  // Overwrites the instruction at +16 with "addi t0, t0, 2".
  thread_.x[kA0] = Addi(kT0, kT0, 2);
  thread_.x[kA1] = kCode + 16;
  LoadCode({Jal(kZero, 16), Sw(kA0, kA1, 0), kFenceI, Jal(kZero, 4), Addi(kT0, kT0, 1), kEbreak});
  Run();
  EXPECT_EQ(thread_.x[kT0], 1u);
  thread_.pc = kCode + 4;
  Run();
  EXPECT_EQ(thread_.x[kT0], 3u);
}

}  // namespace
