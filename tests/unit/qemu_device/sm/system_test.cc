// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Calls, identity CSRs, illegal code.
#include <random>

#include "interpreter_fixture.h"
#include "sm/decoder.h"

namespace {

using namespace riscv;

class SystemTest : public InterpreterTest {};

TEST_F(SystemTest, ExitAndBarrierLeaveThePcBehindTheCall) {
  LoadCode({Addi(kA7, kZero, 1), kEcall, Addi(kA7, kZero, 0), kEcall});
  EXPECT_EQ(Run(), sm::RunExit::kBarrier);
  EXPECT_EQ(thread_.pc, kCode + 8);
  EXPECT_EQ(retired_, 2u);
  EXPECT_EQ(Run(), sm::RunExit::kExit);
  EXPECT_EQ(retired_, 2u);
}

TEST_F(SystemTest, TrapCarriesItsCode) {
  thread_.x[kA0] = 0xabcdef;
  const sm::StopRecord& stop = ExecuteToStop({Addi(kA7, kZero, 2), kEcall});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kTrap);
  EXPECT_EQ(stop.code, 0xabcdefu);
}

TEST_F(SystemTest, UnknownCallIsAnException) {
  const sm::StopRecord& stop = ExecuteToStop({Addi(kA7, kZero, 3), kEcall});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kUnknownCall);
  EXPECT_EQ(stop.code, 3u);
}

TEST_F(SystemTest, EbreakIsAnException) {
  EXPECT_EQ(ExecuteToStop({kEbreak}).exception, sm::ExceptionKind::kBreakpoint);
}

TEST_F(SystemTest, JumpToAMisalignedAddressStopsThere) {
  thread_.x[kT0] = kCode + 6;
  LoadCode({Jalr(kZero, kT0, 0)});
  EXPECT_EQ(Run(), sm::RunExit::kStop);
  EXPECT_EQ(interpreter_.stop().exception, sm::ExceptionKind::kMisalignedPc);
  EXPECT_EQ(interpreter_.stop().pc, kCode + 6);
}

TEST_F(SystemTest, IdentityCsrs) {
  thread_.tid = {1, 2, 3};
  thread_.linear_tid = 99;
  memory_.set_time_ns(123456789);
  constexpr uint64_t kExpected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 99, 3, 123456789};
  for (uint32_t i = 0; i < 15; ++i) {
    Execute({Csrr(kT0, 0xcc0 + i)});
    EXPECT_EQ(thread_.x[kT0], kExpected[i]) << i;
  }
}

TEST_F(SystemTest, Counters) {
  memory_.set_time_ns(77);
  thread_.instret = 50;
  Execute({Addi(kT0, kZero, 1), Csrr(kA0, 0xc00), Csrr(kA1, 0xc01), Csrr(kA2, 0xc02)});
  EXPECT_EQ(thread_.x[kA0], 1001u);
  EXPECT_EQ(thread_.x[kA1], 77u);
  EXPECT_EQ(thread_.x[kA2], 53u);
}

TEST_F(SystemTest, ReadOnlyCsrsCannotBeWritten) {
  for (const uint32_t csr : {0xc00u, 0xc02u, 0xcc0u, 0xcceu}) {
    EXPECT_EQ(ExecuteToStop({Csrrw(kT0, csr, kT1)}).exception,
              sm::ExceptionKind::kIllegalInstruction);
    // csrrs with a register, csrrsi with an immediate.
    EXPECT_EQ(ExecuteToStop({I(static_cast<int32_t>(csr), kT1, 2, kT0, 0x73)}).exception,
              sm::ExceptionKind::kIllegalInstruction);
    EXPECT_EQ(ExecuteToStop({I(static_cast<int32_t>(csr), 1, 6, kT0, 0x73)}).exception,
              sm::ExceptionKind::kIllegalInstruction);
  }
}

TEST_F(SystemTest, UnknownCsrsAreIllegal) {
  for (const uint32_t csr : {0x000u, 0x300u, 0xc03u, 0xcbfu, 0xccfu, 0xf11u}) {
    EXPECT_EQ(ExecuteToStop({Csrr(kT0, csr)}).exception, sm::ExceptionKind::kIllegalInstruction);
  }
}

struct IllegalCase {
  const char* name;
  uint32_t word;
};

class IllegalInstruction : public InterpreterTest,
                           public testing::WithParamInterface<IllegalCase> {};

TEST_P(IllegalInstruction, StopsWithTheWord) {
  const sm::StopRecord& stop = ExecuteToStop({Addi(kT0, kZero, 1), GetParam().word});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kIllegalInstruction) << GetParam().name;
  EXPECT_EQ(stop.code, GetParam().word) << GetParam().name;
}

constexpr IllegalCase kIllegalCases[] = {
    {"all zero", 0x00000000},
    {"all one", 0xffffffff},
    {"compressed", 0x00004501},
    {"branch funct3 2", B(8, 0, 0, 2)},
    {"load funct3 7", I(0, 0, 7, 5, 0x03)},
    {"store funct3 4", S(0, 0, 0, 4, 0x23)},
    {"jalr funct3 1", I(0, 0, 1, 5, 0x67)},
    {"slli with bit 26", I(0x400, 0, 1, 5, 0x13)},
    {"slliw with shift 32", I(32, 0, 1, 5, 0x1b)},
    {"op funct7 2", R(2, 0, 0, 0, 5, 0x33)},
    {"sub funct3 1", R(0x20, 0, 0, 1, 5, 0x33)},
    {"op-32 mulh", R(1, 0, 0, 1, 5, 0x3b)},
    {"fence funct3 2", I(0, 0, 2, 0, 0x0f)},
    {"mret", 0x30200073},
    {"wfi", 0x10500073},
    {"system funct3 4", I(0, 0, 4, 5, 0x73)},
    {"lr with rs2", Amo(2, kWord, 5, 6, 7)},
    {"amo width 1", Amo(0, 1, 5, 6, 7)},
    {"amo funct5 0x05", Amo(5, kWord, 5, 6, 7)},
    {"half-precision load", I(0, 0, 1, 5, 0x07)},
    {"quad-precision add", R(3, 2, 1, 7, 5, 0x53)},
    {"fsqrt with rs2", R(0x2c, 1, 1, 7, 5, 0x53)},
    {"fmin funct3 2", R(0x14, 2, 1, 2, 5, 0x53)},
    {"fsgnj funct3 3", R(0x10, 2, 1, 3, 5, 0x53)},
    {"fcvt type 4", R(0x60, 4, 1, 1, 5, 0x53)},
    {"fcvt.s.s", R(0x20, 0, 1, 7, 5, 0x53)},
    {"fmadd half", R(2, 2, 1, 7, 5, 0x43)},
    {"vector", 0x02008057},
};
INSTANTIATE_TEST_SUITE_P(Isa, IllegalInstruction, testing::ValuesIn(kIllegalCases));

TEST_F(SystemTest, FenceDoesNothingVisible) {
  Execute({kFence, 0x8330000f /* fence.tso */, 0x0100000f /* pause */, kFenceI});
  EXPECT_EQ(retired_, 4u);
}

// Hostile code: whatever the words are, the interpreter stops or uses up its budget.
TEST_F(SystemTest, RandomWordsNeverEscape) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint32_t> words(1024);
    for (uint32_t& word : words) {
      word = static_cast<uint32_t>(random());
      if (random() % 4 != 0) {  // mostly something that decodes
        constexpr uint32_t kMajor[] = {0x03, 0x07, 0x0f, 0x13, 0x17, 0x1b, 0x23, 0x27, 0x2f, 0x33,
                                       0x37, 0x3b, 0x43, 0x47, 0x4b, 0x4f, 0x53, 0x63, 0x67, 0x6f};
        word = (word & ~0x7fu) | kMajor[random() % std::size(kMajor)];
      }
    }
    LoadCode(words);
    for (auto& reg : thread_.x) reg = kData + random() % 8192;
    thread_.x[0] = 0;
    for (int i = 0; i < 50; ++i) {
      Run(random() % 300);
      EXPECT_EQ(thread_.x[0], 0u);
      thread_.pc = kCode + random() % 1024 * 4;
    }
  }
}

TEST_F(SystemTest, CodeThatFillsTheCacheRunsOn) {
  // Jumps through more decoded code than the cache holds: a page of "jal +4096 - 4k" is enough to
  // start blocks everywhere.
  constexpr uint64_t kBig = 0x100'0000;
  constexpr uint64_t kPages = 2200;
  memory_.Map(kBig, kPages * sm::kPageSize);
  for (uint64_t page = 0; page < kPages; ++page) {
    const uint64_t base = kBig + page * sm::kPageSize;
    for (uint64_t i = 0; i < 127; ++i) memory_.Put<uint32_t>(base + 4 * i, Addi(kT0, kT0, 1));
    memory_.Put<uint32_t>(base + 4 * 127, Jal(kZero, sm::kPageSize - 4 * 127));
  }
  thread_.pc = kBig;
  EXPECT_EQ(Run(kPages * 128), sm::RunExit::kBudget);
  EXPECT_EQ(thread_.x[kT0], kPages * 127);
  thread_.pc = kBig;
  EXPECT_EQ(Run(kPages * 128), sm::RunExit::kBudget);
  EXPECT_EQ(thread_.x[kT0], 2 * kPages * 127);
}

}  // namespace
