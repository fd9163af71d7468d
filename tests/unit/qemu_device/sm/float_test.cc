// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Expected values are bit patterns worked out from IEEE 754 and the RISC-V manual.
#include "interpreter_fixture.h"

namespace {

using namespace riscv;

constexpr uint32_t kRne = 0, kRtz = 1, kRdn = 2, kRup = 3, kRmm = 4, kDyn = 7;
constexpr uint32_t kNX = 1, kUF = 2, kOF = 4, kDZ = 8, kNV = 16;
constexpr uint64_t kBoxed = 0xffffffff00000000;
constexpr uint64_t kNanS = kBoxed | 0x7fc00000;
constexpr uint64_t kNanD = 0x7ff8000000000000;
constexpr uint64_t kOneS = kBoxed | 0x3f800000;
constexpr uint64_t kInfS = kBoxed | 0x7f800000;
constexpr uint64_t kNegInfS = kBoxed | 0xff800000;
constexpr uint64_t kSnanS = kBoxed | 0x7f800001;
constexpr uint64_t kMaxS = kBoxed | 0x7f7fffff;
constexpr uint64_t kOneD = 0x3ff0000000000000;
constexpr uint64_t kInfD = 0x7ff0000000000000;
constexpr uint64_t kSnanD = 0x7ff0000000000001;
constexpr uint64_t S(uint32_t bits) { return kBoxed | bits; }

// funct7 of the OP-FP operations; +1 for double.
constexpr uint32_t kAdd = 0x00, kSub = 0x04, kMul = 0x08, kDiv = 0x0c, kSqrt = 0x2c, kSgnj = 0x10,
                   kMinMax = 0x14, kCompare = 0x50;

struct FloatCase {
  const char* name;
  uint32_t word;  // reads f1, f2, f3; writes f10
  uint64_t a;
  uint64_t b;
  uint64_t c;
  uint64_t expected;
  uint32_t flags;
};

constexpr uint32_t Op(uint32_t funct7, uint32_t funct3) {
  return R(funct7, 2, 1, funct3, 10, 0x53);
}
constexpr uint32_t Op1(uint32_t funct7, uint32_t rs2, uint32_t funct3) {
  return R(funct7, rs2, 1, funct3, 10, 0x53);
}
constexpr uint32_t Fma(uint32_t opcode, uint32_t format, uint32_t rm) {
  return R(3u << 2 | format, 2, 1, rm, 10, opcode);
}
constexpr uint32_t kMadd = 0x43, kMsub = 0x47, kNmsub = 0x4b, kNmadd = 0x4f;

class FloatResult : public InterpreterTest, public testing::WithParamInterface<FloatCase> {};

TEST_P(FloatResult, GivesTheStandardsResultAndFlags) {
  const FloatCase& c = GetParam();
  thread_.f[1] = c.a;
  thread_.f[2] = c.b;
  thread_.f[3] = c.c;
  Execute({c.word});
  EXPECT_EQ(thread_.f[10], c.expected) << c.name;
  EXPECT_EQ(fflags(), c.flags) << c.name;
}

constexpr FloatCase kArithmeticCases[] = {
    {"fadd.s exact", Op(kAdd, kDyn), kOneS, kOneS, 0, S(0x40000000), 0},
    {"fadd.s inexact, tie to even", Op(kAdd, kDyn), kOneS, S(0x33800000), 0, kOneS, kNX},
    {"fadd.s tie, RMM", Op(kAdd, kRmm), kOneS, S(0x33800000), 0, S(0x3f800001), kNX},
    {"fadd.s tie, RMM, negative", Op(kAdd, kRmm), S(0xbf800000), S(0xb3800000), 0, S(0xbf800001),
     kNX},
    {"fadd.s up", Op(kAdd, kRup), kOneS, S(0x33000000), 0, S(0x3f800001), kNX},
    {"fadd.s below half, RMM", Op(kAdd, kRmm), kOneS, S(0x33000000), 0, kOneS, kNX},
    {"fadd.s down", Op(kAdd, kRdn), kOneS, S(0xb3000000), 0, S(0x3f7fffff), kNX},
    {"fadd.s to zero", Op(kAdd, kRtz), kOneS, S(0x337fffff), 0, kOneS, kNX},
    {"fadd.s inf - inf", Op(kAdd, kDyn), kInfS, kNegInfS, 0, kNanS, kNV},
    {"fadd.s overflow", Op(kAdd, kDyn), kMaxS, kMaxS, 0, kInfS, kOF | kNX},
    {"fadd.s overflow to zero stays finite", Op(kAdd, kRtz), kMaxS, kMaxS, 0, kMaxS, kOF | kNX},
    {"fadd.s quiet NaN is canonical", Op(kAdd, kDyn), S(0xffc12345), kOneS, 0, kNanS, 0},
    {"fadd.s signaling NaN", Op(kAdd, kDyn), kSnanS, kOneS, 0, kNanS, kNV},
    {"fadd.s not boxed is NaN", Op(kAdd, kDyn), 0x3f800000, kOneS, 0, kNanS, 0},
    {"fsub.s x - x", Op(kSub, kDyn), kOneS, kOneS, 0, S(0), 0},
    {"fsub.s x - x down", Op(kSub, kRdn), kOneS, kOneS, 0, S(0x80000000), 0},
    {"fmul.s underflow", Op(kMul, kDyn), S(0x00800000), S(0x3effffff), 0, S(0x00400000), kUF | kNX},
    {"fmul.s 0 * inf", Op(kMul, kDyn), S(0), kInfS, 0, kNanS, kNV},
    {"fdiv.s by zero", Op(kDiv, kDyn), S(0xbf800000), S(0), 0, kNegInfS, kDZ},
    {"fdiv.s 0 / 0", Op(kDiv, kDyn), S(0), S(0), 0, kNanS, kNV},
    {"fdiv.s third", Op(kDiv, kDyn), kOneS, S(0x40400000), 0, S(0x3eaaaaab), kNX},
    {"fsqrt.s 2", Op1(kSqrt, 0, kDyn), S(0x40000000), 0, 0, S(0x3fb504f3), kNX},
    {"fsqrt.s -1", Op1(kSqrt, 0, kDyn), S(0xbf800000), 0, 0, kNanS, kNV},
    {"fsqrt.s -0", Op1(kSqrt, 0, kDyn), S(0x80000000), 0, 0, S(0x80000000), 0},
    {"fadd.d exact", Op(kAdd + 1, kDyn), kOneD, kOneD, 0, 0x4000000000000000, 0},
    {"fadd.d tie", Op(kAdd + 1, kDyn), kOneD, 0x3ca0000000000000, 0, kOneD, kNX},
    {"fadd.d tie, RMM", Op(kAdd + 1, kRmm), kOneD, 0x3ca0000000000000, 0, 0x3ff0000000000001, kNX},
    {"fadd.d just below tie, RMM", Op(kAdd + 1, kRmm), kOneD, 0x3c9fffffffffffff, 0, kOneD, kNX},
    {"fsub.d", Op(kSub + 1, kDyn), kOneD, 0x4000000000000000, 0, 0xbff0000000000000, 0},
    {"fmul.d overflow up", Op(kMul + 1, kRup), 0xffefffffffffffff, 0x4000000000000000, 0,
     0xffefffffffffffff, kOF | kNX},
    {"fdiv.d third, up", Op(kDiv + 1, kRup), kOneD, 0x4008000000000000, 0, 0x3fd5555555555556, kNX},
    {"fdiv.d third, even", Op(kDiv + 1, kDyn), kOneD, 0x4008000000000000, 0, 0x3fd5555555555555,
     kNX},
    {"fsqrt.d 2", Op1(kSqrt + 1, 0, kDyn), 0x4000000000000000, 0, 0, 0x3ff6a09e667f3bcd, kNX},
    {"fadd.d signaling NaN", Op(kAdd + 1, kDyn), kSnanD, kOneD, 0, kNanD, kNV},
    {"fmadd.s", Fma(kMadd, 0, kDyn), S(0x40000000), S(0x40400000), kOneS, S(0x40e00000), 0},
    {"fmadd.s rounds once", Fma(kMadd, 0, kDyn), S(0x3f800001), S(0x3f800001), S(0xbf800002),
     S(0x28800000), 0},
    {"fmsub.s", Fma(kMsub, 0, kDyn), S(0x40000000), S(0x40400000), kOneS, S(0x40a00000), 0},
    {"fnmsub.s", Fma(kNmsub, 0, kDyn), S(0x40000000), S(0x40400000), kOneS, S(0xc0a00000), 0},
    {"fnmadd.s", Fma(kNmadd, 0, kDyn), S(0x40000000), S(0x40400000), kOneS, S(0xc0e00000), 0},
    {"fmadd.s inf * 0 + NaN", Fma(kMadd, 0, kDyn), kInfS, S(0), kNanS, kNanS, kNV},
    {"fmadd.s inf * 0 + NaN, static mode", Fma(kMadd, 0, kRtz), kInfS, S(0), kNanS, kNanS, kNV},
    {"fmadd.s NaN + NaN is quiet", Fma(kMadd, 0, kDyn), kNanS, kOneS, kNanS, kNanS, 0},
    {"fmadd.d", Fma(kMadd, 1, kDyn), 0x4000000000000000, 0x4008000000000000, kOneD,
     0x401c000000000000, 0},
    {"fmsub.d static", Fma(kMsub, 1, kRne), 0x4000000000000000, 0x4008000000000000, kOneD,
     0x4014000000000000, 0},
    {"fnmsub.d", Fma(kNmsub, 1, kDyn), 0x4000000000000000, 0x4008000000000000, kOneD,
     0xc014000000000000, 0},
    {"fnmadd.d static", Fma(kNmadd, 1, kRtz), 0x4000000000000000, 0x4008000000000000, kOneD,
     0xc01c000000000000, 0},
    {"fmadd.d tie, RMM", Fma(kMadd, 1, kRmm), kOneD, kOneD, 0x3ca0000000000000, 0x3ff0000000000001,
     kNX},
};
INSTANTIATE_TEST_SUITE_P(Arithmetic, FloatResult, testing::ValuesIn(kArithmeticCases));

constexpr FloatCase kBitCases[] = {
    {"fsgnj.s", Op(kSgnj, 0), kOneS, S(0x80000000), 0, S(0xbf800000), 0},
    {"fsgnjn.s", Op(kSgnj, 1), kOneS, S(0x80000000), 0, kOneS, 0},
    {"fsgnjx.s", Op(kSgnj, 2), S(0xbf800000), S(0x80000000), 0, kOneS, 0},
    {"fsgnj.s keeps NaN payload", Op(kSgnj, 0), S(0x7f800001), S(0x80000000), 0, S(0xff800001), 0},
    {"fsgnj.s not boxed", Op(kSgnj, 0), 0x1234, S(0x80000000), 0, S(0xffc00000), 0},
    {"fsgnj.d", Op(kSgnj + 1, 0), kOneD, 0x8000000000000000, 0, 0xbff0000000000000, 0},
    {"fsgnjn.d", Op(kSgnj + 1, 1), kOneD, kOneD, 0, 0xbff0000000000000, 0},
    {"fsgnjx.d", Op(kSgnj + 1, 2), 0xbff0000000000000, 0xbff0000000000000, 0, kOneD, 0},
    {"fmin.s -0 < +0", Op(kMinMax, 0), S(0), S(0x80000000), 0, S(0x80000000), 0},
    {"fmax.s +0 > -0", Op(kMinMax, 1), S(0x80000000), S(0), 0, S(0), 0},
    {"fmin.s", Op(kMinMax, 0), kOneS, S(0x40000000), 0, kOneS, 0},
    {"fmax.s", Op(kMinMax, 1), kOneS, S(0x40000000), 0, S(0x40000000), 0},
    {"fmin.s one quiet NaN", Op(kMinMax, 0), kNanS, kOneS, 0, kOneS, 0},
    {"fmax.s one signaling NaN", Op(kMinMax, 1), kOneS, kSnanS, 0, kOneS, kNV},
    {"fmin.s two NaNs", Op(kMinMax, 0), S(0xffc00001), S(0x7fc00002), 0, kNanS, 0},
    {"fmin.d", Op(kMinMax + 1, 0), 0xfff0000000000000, kOneD, 0, 0xfff0000000000000, 0},
    {"fmax.d NaN", Op(kMinMax + 1, 1), kNanD, kOneD, 0, kOneD, 0},
    {"fcvt.s.d inexact", Op1(0x20, 1, kDyn), 0x3ff0000010000000, 0, 0, kOneS, kNX},
    {"fcvt.s.d tie, RMM", Op1(0x20, 1, kRmm), 0x3ff0000010000000, 0, 0, S(0x3f800001), kNX},
    {"fcvt.s.d overflow", Op1(0x20, 1, kDyn), 0x7fefffffffffffff, 0, 0, kInfS, kOF | kNX},
    {"fcvt.s.d up", Op1(0x20, 1, kRup), 0x3ff0000000000001, 0, 0, S(0x3f800001), kNX},
    {"fcvt.s.d NaN", Op1(0x20, 1, kDyn), kSnanD, 0, 0, kNanS, kNV},
    {"fcvt.d.s exact", Op1(0x21, 0, kDyn), S(0x3f800001), 0, 0, 0x3ff0000020000000, 0},
    {"fcvt.d.s NaN", Op1(0x21, 0, 0), S(0xffc00000), 0, 0, kNanD, 0},
};
INSTANTIATE_TEST_SUITE_P(Bits, FloatResult, testing::ValuesIn(kBitCases));

struct ToIntegerCase {
  const char* name;
  uint32_t word;  // reads f1, f2; writes x10
  uint64_t a;
  uint64_t b;
  uint64_t expected;
  uint32_t flags;
};

class ToIntegerResult : public InterpreterTest,
                        public testing::WithParamInterface<ToIntegerCase> {};

TEST_P(ToIntegerResult, GivesTheManualsResultAndFlags) {
  const ToIntegerCase& c = GetParam();
  thread_.f[1] = c.a;
  thread_.f[2] = c.b;
  Execute({c.word});
  EXPECT_EQ(thread_.x[10], c.expected) << c.name;
  EXPECT_EQ(fflags(), c.flags) << c.name;
}

constexpr uint32_t kToW = 0, kToWu = 1, kToL = 2, kToLu = 3;
constexpr uint32_t CvtS(uint32_t type, uint32_t rm) { return Op1(0x60, type, rm); }
constexpr uint32_t CvtD(uint32_t type, uint32_t rm) { return Op1(0x61, type, rm); }
constexpr uint64_t kOnes = 0xffffffffffffffff;

constexpr ToIntegerCase kToIntegerCases[] = {
    {"w 1.5 to zero", CvtS(kToW, kRtz), S(0x3fc00000), 0, 1, kNX},
    {"w 1.5 nearest even", CvtS(kToW, kRne), S(0x3fc00000), 0, 2, kNX},
    {"w 2.5 nearest even", CvtS(kToW, kRne), S(0x40200000), 0, 2, kNX},
    {"w 2.5 max magnitude", CvtS(kToW, kRmm), S(0x40200000), 0, 3, kNX},
    {"w -2.5 max magnitude", CvtS(kToW, kRmm), S(0xc0200000), 0, 0xfffffffffffffffd, kNX},
    {"w -1.5 down", CvtS(kToW, kRdn), S(0xbfc00000), 0, 0xfffffffffffffffe, kNX},
    {"w -1.5 up", CvtS(kToW, kRup), S(0xbfc00000), 0, kOnes, kNX},
    {"w tiny up", CvtS(kToW, kRup), S(1), 0, 1, kNX},
    {"w dynamic is nearest even", CvtS(kToW, kDyn), S(0x3f000000), 0, 0, kNX},
    {"w too large", CvtS(kToW, kRtz), S(0x4f000000), 0, 0x7fffffff, kNV},
    {"w minimum fits", CvtS(kToW, kRtz), S(0xcf000000), 0, 0xffffffff80000000, 0},
    {"w too small", CvtS(kToW, kRtz), S(0xcf000001), 0, 0xffffffff80000000, kNV},
    {"w NaN", CvtS(kToW, kRtz), S(0xffc00000), 0, 0x7fffffff, kNV},
    {"w -inf", CvtS(kToW, kRtz), kNegInfS, 0, 0xffffffff80000000, kNV},
    {"wu -0.5 to zero", CvtS(kToWu, kRtz), S(0xbf000000), 0, 0, kNX},
    {"wu -1", CvtS(kToWu, kRtz), S(0xbf800000), 0, 0, kNV},
    {"wu 2^31 sign-extends", CvtS(kToWu, kRtz), S(0x4f000000), 0, 0xffffffff80000000, 0},
    {"wu 2^32", CvtS(kToWu, kRtz), S(0x4f800000), 0, kOnes, kNV},
    {"wu NaN", CvtS(kToWu, kRtz), kNanS, 0, kOnes, kNV},
    {"l 2^62", CvtS(kToL, kRtz), S(0x5e800000), 0, 0x4000000000000000, 0},
    {"l 2^63", CvtS(kToL, kRtz), S(0x5f000000), 0, 0x7fffffffffffffff, kNV},
    {"lu 2^63", CvtS(kToLu, kRtz), S(0x5f000000), 0, 0x8000000000000000, 0},
    {"lu inf", CvtS(kToLu, kRtz), kInfS, 0, kOnes, kNV},
    {"d w 2147483647.5 even overflows", CvtD(kToW, kRne), 0x41dfffffffe00000, 0, 0x7fffffff, kNV},
    {"d w 2147483647.5 to zero fits", CvtD(kToW, kRtz), 0x41dfffffffe00000, 0, 0x7fffffff, kNX},
    {"d wu -0.75 nearest", CvtD(kToWu, kRne), 0xbfe8000000000000, 0, 0, kNV},
    {"d l exact", CvtD(kToL, kRtz), 0xc1e0000000200000, 0, 0xffffffff7fffffff, 0},
    {"d lu NaN", CvtD(kToLu, kRtz), kNanD, 0, kOnes, kNV},
    {"d l tiny down", CvtD(kToL, kRdn), 0x8000000000000001, 0, kOnes, kNX},
    {"feq.s", Op(kCompare, 2), kOneS, kOneS, 1, 0},
    {"feq.s zeros", Op(kCompare, 2), S(0), S(0x80000000), 1, 0},
    {"feq.s quiet NaN", Op(kCompare, 2), kNanS, kOneS, 0, 0},
    {"feq.s signaling NaN", Op(kCompare, 2), kOneS, kSnanS, 0, kNV},
    {"flt.s", Op(kCompare, 1), S(0xbf800000), kOneS, 1, 0},
    {"flt.s quiet NaN", Op(kCompare, 1), kOneS, kNanS, 0, kNV},
    {"fle.s equal", Op(kCompare, 0), kOneS, kOneS, 1, 0},
    {"fle.s quiet NaN", Op(kCompare, 0), kNanS, kOneS, 0, kNV},
    {"feq.d quiet NaN", Op(kCompare + 1, 2), kNanD, kNanD, 0, 0},
    {"feq.d signaling NaN", Op(kCompare + 1, 2), kSnanD, kSnanD, 0, kNV},
    {"flt.d", Op(kCompare + 1, 1), kOneD, kInfD, 1, 0},
    {"fle.d NaN", Op(kCompare + 1, 0), kOneD, kNanD, 0, kNV},
    {"fmv.x.w sign-extends", Op1(0x70, 0, 0), S(0x80000000), 0, 0xffffffff80000000, 0},
    {"fmv.x.w takes raw bits", Op1(0x70, 0, 0), 0x1234, 0, 0x1234, 0},
    {"fmv.x.d", Op1(0x71, 0, 0), kNanD, 0, kNanD, 0},
    {"fclass.s -inf", Op1(0x70, 0, 1), kNegInfS, 0, 1, 0},
    {"fclass.s -normal", Op1(0x70, 0, 1), S(0xbf800000), 0, 2, 0},
    {"fclass.s -subnormal", Op1(0x70, 0, 1), S(0x80000001), 0, 4, 0},
    {"fclass.s -0", Op1(0x70, 0, 1), S(0x80000000), 0, 8, 0},
    {"fclass.s +0", Op1(0x70, 0, 1), S(0), 0, 16, 0},
    {"fclass.s +subnormal", Op1(0x70, 0, 1), S(1), 0, 32, 0},
    {"fclass.s +normal", Op1(0x70, 0, 1), kOneS, 0, 64, 0},
    {"fclass.s +inf", Op1(0x70, 0, 1), kInfS, 0, 128, 0},
    {"fclass.s signaling", Op1(0x70, 0, 1), kSnanS, 0, 256, 0},
    {"fclass.s quiet", Op1(0x70, 0, 1), kNanS, 0, 512, 0},
    {"fclass.s not boxed", Op1(0x70, 0, 1), 0x3f800000, 0, 512, 0},
    {"fclass.d -normal", Op1(0x71, 0, 1), 0xbff0000000000000, 0, 2, 0},
    {"fclass.d signaling", Op1(0x71, 0, 1), kSnanD, 0, 256, 0},
    {"fclass.d +subnormal", Op1(0x71, 0, 1), 1, 0, 32, 0},
};
INSTANTIATE_TEST_SUITE_P(ToInteger, ToIntegerResult, testing::ValuesIn(kToIntegerCases));

struct FromIntegerCase {
  const char* name;
  uint32_t word;  // reads x1; writes f10
  uint64_t a;
  uint64_t expected;
  uint32_t flags;
};

class FromIntegerResult : public InterpreterTest,
                          public testing::WithParamInterface<FromIntegerCase> {};

TEST_P(FromIntegerResult, GivesTheManualsResultAndFlags) {
  const FromIntegerCase& c = GetParam();
  thread_.x[1] = c.a;
  Execute({c.word});
  EXPECT_EQ(thread_.f[10], c.expected) << c.name;
  EXPECT_EQ(fflags(), c.flags) << c.name;
}

constexpr uint32_t FromS(uint32_t type, uint32_t rm) { return Op1(0x68, type, rm); }
constexpr uint32_t FromD(uint32_t type, uint32_t rm) { return Op1(0x69, type, rm); }

constexpr FromIntegerCase kFromIntegerCases[] = {
    {"s.w -1", FromS(kToW, kDyn), 0xffffffff, S(0xbf800000), 0},
    {"s.w 2^24 + 1", FromS(kToW, kDyn), 0x1000001, S(0x4b800000), kNX},
    {"s.w 2^24 + 1, RMM", FromS(kToW, kRmm), 0x1000001, S(0x4b800001), kNX},
    {"s.wu", FromS(kToWu, kDyn), 0xffffffff80000000, S(0x4f000000), 0},
    {"s.wu max to zero", FromS(kToWu, kRtz), 0xffffffff, S(0x4f7fffff), kNX},
    {"s.l min", FromS(kToL, kDyn), 0x8000000000000000, S(0xdf000000), 0},
    {"s.lu max", FromS(kToLu, kDyn), kOnes, S(0x5f800000), kNX},
    {"s.lu max down", FromS(kToLu, kRdn), kOnes, S(0x5f7fffff), kNX},
    {"s.lu above a tie", FromS(kToLu, kDyn), 0x8000008000000001, S(0x5f000001), kNX},
    {"s.lu tie to even", FromS(kToLu, kDyn), 0x8000008000000000, S(0x5f000000), kNX},
    {"s.lu tie, RMM", FromS(kToLu, kRmm), 0x8000008000000000, S(0x5f000001), kNX},
    {"d.w", FromD(kToW, 0), 0x80000000, 0xc1e0000000000000, 0},
    {"d.wu", FromD(kToWu, 0), 0xffffffff, 0x41efffffffe00000, 0},
    {"d.l inexact", FromD(kToL, kDyn), 0x20000000000001, 0x4340000000000000, kNX},
    {"d.l inexact up", FromD(kToL, kRup), 0x20000000000001, 0x4340000000000001, kNX},
    {"d.lu max", FromD(kToLu, kDyn), kOnes, 0x43f0000000000000, kNX},
    {"d.lu max to zero", FromD(kToLu, kRtz), kOnes, 0x43efffffffffffff, kNX},
    {"d.lu 0", FromD(kToLu, kRdn), 0, 0, 0},
    {"fmv.w.x boxes", Op1(0x78, 0, 0), 0x123456783f800000, kOneS, 0},
    {"fmv.d.x", Op1(0x79, 0, 0), kSnanD, kSnanD, 0},
};
INSTANTIATE_TEST_SUITE_P(FromInteger, FromIntegerResult, testing::ValuesIn(kFromIntegerCases));

class FloatTest : public InterpreterTest {
 protected:
  static constexpr uint32_t kFflags = 1, kFrm = 2, kFcsr = 3;
  static constexpr uint32_t CsrWrite(uint32_t csr, uint32_t rs1) { return Csrrw(0, csr, rs1); }
};

TEST_F(FloatTest, LoadsBoxAndStoresDoNot) {
  memory_.Put<uint32_t>(kData, 0x3f800000);
  memory_.Put<uint64_t>(kData + 8, kNanD);
  thread_.x[kT0] = kData;
  thread_.f[5] = kOneD;
  // flw f1, 0; fld f2, 8; fsw f1, 16; fsw f5, 20; fsd f2, 24.
  Execute({I(0, kT0, 2, 1, 0x07), I(8, kT0, 3, 2, 0x07), riscv::S(16, 1, kT0, 2, 0x27),
           riscv::S(20, 5, kT0, 2, 0x27), riscv::S(24, 2, kT0, 3, 0x27)});
  EXPECT_EQ(thread_.f[1], kOneS);
  EXPECT_EQ(thread_.f[2], kNanD);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 16), 0x3f800000u);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 20), 0u);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 24), kNanD);
}

TEST_F(FloatTest, FlagsAccumulateUntilWritten) {
  thread_.f[1] = kOneS;
  thread_.f[2] = S(0);
  thread_.f[3] = S(0x40400000);
  Execute({R(0x0c, 2, 1, kDyn, 10, 0x53), R(0x0c, 3, 1, kDyn, 10, 0x53), Csrr(kA0, kFflags),
           Csrrw(kA1, kFflags, kZero), Csrr(kA2, kFflags)});
  EXPECT_EQ(thread_.x[kA0], kDZ | kNX);
  EXPECT_EQ(thread_.x[kA1], kDZ | kNX);
  EXPECT_EQ(thread_.x[kA2], 0u);
}

TEST_F(FloatTest, FrmAndFflagsAreViewsOfFcsr) {
  thread_.x[kT0] = 0xfff;
  Execute({Csrrw(kZero, kFcsr, kT0), Csrr(kA0, kFcsr), Csrr(kA1, kFrm), Csrr(kA2, kFflags)});
  EXPECT_EQ(thread_.x[kA0], 0xffu);
  EXPECT_EQ(thread_.x[kA1], 7u);
  EXPECT_EQ(thread_.x[kA2], 0x1fu);
}

TEST_F(FloatTest, CsrSetAndClearImmediates) {
  // csrrsi a0, fflags, 0x15; csrrci a1, fflags, 0x05; csrrwi a2, frm, 3.
  Execute(
      {I(kFflags, 0x15, 6, kA0, 0x73), I(kFflags, 0x05, 7, kA1, 0x73), I(kFrm, 3, 5, kA2, 0x73)});
  EXPECT_EQ(thread_.x[kA0], 0u);
  EXPECT_EQ(thread_.x[kA1], 0x15u);
  EXPECT_EQ(thread_.fcsr, 0x70);
}

TEST_F(FloatTest, DynamicModeFollowsFrm) {
  constexpr uint32_t kExpected[] = {0x3eaaaaab, 0x3eaaaaaa, 0x3eaaaaaa, 0x3eaaaaab, 0x3eaaaaab};
  for (uint64_t mode = 0; mode < 5; ++mode) {
    thread_.f[1] = kOneS;
    thread_.f[2] = S(0x40400000);
    thread_.x[kT0] = mode;
    Execute({CsrWrite(kFrm, kT0), R(0x0c, 2, 1, kDyn, 10, 0x53)});
    EXPECT_EQ(thread_.f[10], S(kExpected[mode])) << mode;
  }
}

TEST_F(FloatTest, DynamicModeSurvivesAChangeOfThreads) {
  thread_.fcsr = 1 << 5;  // to zero
  LoadCode({R(0x0c, 2, 1, kDyn, 10, 0x53), R(0x0c, 2, 1, kDyn, 11, 0x53), kEbreak});
  thread_.f[1] = kOneS;
  thread_.f[2] = S(0x40400000);
  Run(1);
  sm::ThreadState other;
  other.pc = kCode;
  other.f = thread_.f;
  std::swap(thread_, other);
  Run(1);
  EXPECT_EQ(thread_.f[10], S(0x3eaaaaab));
  std::swap(thread_, other);
  Run();
  EXPECT_EQ(thread_.f[11], S(0x3eaaaaaa));
}

TEST_F(FloatTest, ReservedModesAreIllegal) {
  for (const uint32_t mode : {5u, 6u}) {
    EXPECT_EQ(ExecuteToStop({Op(kAdd, mode)}).exception, sm::ExceptionKind::kIllegalInstruction);
  }
  thread_.fcsr = 5 << 5;
  const sm::StopRecord& stop = ExecuteToStop({Op(kAdd, kRne), Op(kAdd, kDyn)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kIllegalInstruction);
  EXPECT_EQ(stop.code, Op(kAdd, kDyn));
  EXPECT_EQ(ExecuteToStop({CvtS(kToW, kDyn)}).exception, sm::ExceptionKind::kIllegalInstruction);
}

TEST_F(FloatTest, StaticModeLeavesTheDynamicOneAlone) {
  thread_.fcsr = 1 << 5;
  thread_.f[1] = kOneS;
  thread_.f[2] = S(0x40400000);
  Execute({R(0x0c, 2, 1, kRup, 10, 0x53), R(0x0c, 2, 1, kDyn, 11, 0x53)});
  EXPECT_EQ(thread_.f[10], S(0x3eaaaaab));
  EXPECT_EQ(thread_.f[11], S(0x3eaaaaaa));
}

}  // namespace
