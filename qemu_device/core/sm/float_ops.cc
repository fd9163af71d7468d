// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/float_ops.h"

#include <cfenv>
#include <cmath>
#include <cstring>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "sm/decoder.h"

namespace sm {
namespace {

struct IntegerRange {
  bool is_signed;
  unsigned bits;
};
constexpr IntegerRange kRanges[4] = {{true, 32}, {false, 32}, {true, 64}, {false, 64}};

uint64_t Largest(IntegerRange range) {
  return ~uint64_t{0} >> (64 - range.bits + (range.is_signed ? 1 : 0));
}
uint64_t LargestNegativeMagnitude(IntegerRange range) {
  return range.is_signed ? uint64_t{1} << (range.bits - 1) : 0;
}

// Should the magnitude grow by one? `half` and `rest`: the first discarded bit, and whether any
// discarded bit after it is set.
bool RoundsAway(uint32_t mode, bool negative, bool odd, bool half, bool rest) {
  switch (mode) {
    case kRoundNearestEven: return half && (rest || odd);
    case kRoundDown: return negative && (half || rest);
    case kRoundUp: return !negative && (half || rest);
    case kRoundNearestMaxMagnitude: return half;
    default: return false;
  }
}

struct Rounded {
  uint64_t magnitude = 0;
  bool overflow = false;  // beyond 64 bits
  bool inexact = false;
};

// |value| = significand * 2^exponent, rounded to an integer.
Rounded RoundMagnitude(uint64_t significand, int exponent, bool negative, uint32_t mode) {
  Rounded result;
  if (exponent >= 0) {
    result.overflow = exponent >= 64 || (significand << exponent) >> exponent != significand;
    if (!result.overflow) result.magnitude = significand << exponent;
    return result;
  }
  const int shift = -exponent;
  bool half = false;
  bool rest = significand != 0;
  if (shift < 64) {
    result.magnitude = significand >> shift;
    half = (significand >> (shift - 1) & 1) != 0;
    rest = (significand & ((uint64_t{1} << (shift - 1)) - 1)) != 0;
  }
  result.inexact = half || rest;
  if (RoundsAway(mode, negative, (result.magnitude & 1) != 0, half, rest)) ++result.magnitude;
  return result;
}

uint64_t ExtendResult(uint64_t value, IntegerRange range) {
  if (range.bits == 64) return value;
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));
}

}  // namespace

template <typename F>
uint64_t ToInteger(typename F::Bits bits, IntegerType type, uint32_t mode, uint8_t& flags) {
  const IntegerRange range = kRanges[static_cast<unsigned>(type)];
  constexpr int kBias = static_cast<int>(F::kExponentMax / 2 + F::kFractionBits);
  const bool is_nan = IsNan<F>(bits);
  const bool negative = !is_nan && (bits & kSignBit<F>) != 0;
  const auto exponent = static_cast<unsigned>(bits >> F::kFractionBits & F::kExponentMax);
  uint64_t significand = bits & ((typename F::Bits{1} << F::kFractionBits) - 1);
  Rounded rounded;
  if (exponent == F::kExponentMax) {
    rounded.overflow = true;
  } else {
    if (exponent != 0) significand |= uint64_t{1} << F::kFractionBits;
    const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - kBias;
    rounded = RoundMagnitude(significand, power, negative, mode);
  }
  const uint64_t limit = negative ? LargestNegativeMagnitude(range) : Largest(range);
  if (rounded.overflow || rounded.magnitude > limit) {
    flags |= kFlagInvalid;
    return ExtendResult(negative ? uint64_t{0} - limit : limit, range);
  }
  if (rounded.inexact) flags |= kFlagInexact;
  return ExtendResult(negative ? uint64_t{0} - rounded.magnitude : rounded.magnitude, range);
}
template uint64_t ToInteger<SingleFormat>(uint32_t, IntegerType, uint32_t, uint8_t&);
template uint64_t ToInteger<DoubleFormat>(uint64_t, IntegerType, uint32_t, uint8_t&);

uint64_t FusedS(float a, float b, float c, uint8_t& flags) {
  const float result = std::fmaf(a, b, c);
  if (result != result) [[unlikely]] {
    if ((std::isinf(a) && b == 0) || (a == 0 && std::isinf(b))) flags |= kFlagInvalid;
  }
  return ResultS(result);
}

uint64_t FusedD(double a, double b, double c, uint8_t& flags) {
  const double result = std::fma(a, b, c);
  if (result != result) [[unlikely]] {
    if ((std::isinf(a) && b == 0) || (a == 0 && std::isinf(b))) flags |= kFlagInvalid;
  }
  return ResultD(result);
}

namespace {

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv, kSqrt, kFused };

// `volatile` pins the operation between the calls that change the host's environment.
template <typename T>
T Compute(Arithmetic arithmetic, T a_in, T b_in, T c_in) {
  volatile T a = a_in;
  volatile T b = b_in;
  volatile T c = c_in;
  volatile T result = 0;
  switch (arithmetic) {
    case Arithmetic::kAdd: result = a + b; break;
    case Arithmetic::kSub: result = a - b; break;
    case Arithmetic::kMul: result = a * b; break;
    case Arithmetic::kDiv: result = a / b; break;
    case Arithmetic::kSqrt: result = std::sqrt(a); break;
    case Arithmetic::kFused: result = std::fma(a, b, c); break;
  }
  return result;
}

// Of a nearest-even `result` makes the nearest with ties away from zero. `wide` is the same
// operation in long double, `wide_is_exact` says that it did not round. A tie needs only one bit
// more than T has, so a tie is always exact in long double.
template <typename T>
T TiesAway(T result, long double wide, bool wide_is_exact) {
  if (!wide_is_exact || std::isinf(result) || wide == static_cast<long double>(result)) {
    return result;
  }
  const T infinity = std::numeric_limits<T>::infinity();
  const T other =
      std::nextafter(result, wide > static_cast<long double>(result) ? infinity : -infinity);
  const long double middle =
      (static_cast<long double>(result) + static_cast<long double>(other)) / 2;
  if (wide != middle) return result;
  return std::fabs(other) > std::fabs(result) ? other : result;
}

template <typename T>
T RoundedArithmetic(Arithmetic arithmetic, T a, T b, T c, uint32_t mode, uint8_t& flags) {
  if (mode != kRoundNearestMaxMagnitude) {
    HostFloat::SetRounding(mode);
    const T result = Compute<T>(arithmetic, a, b, c);
    HostFloat::SetRounding(kRoundNearestEven);
    flags |= HostFloat::TakeFlags();
    return result;
  }
  const T result = Compute<T>(arithmetic, a, b, c);
  flags |= HostFloat::TakeFlags();
  if (result != result) return result;
  std::feclearexcept(FE_ALL_EXCEPT);
  const auto wide = Compute<long double>(arithmetic, a, b, c);
  const bool exact = std::fetestexcept(FE_INEXACT) == 0;
  const T rounded = TiesAway(result, wide, exact);
  std::feclearexcept(FE_ALL_EXCEPT);
  return rounded;
}

// The host's conversion of an unsigned number may be built from signed ones in a way that holds in
// the default mode only, so the upper half is halved first, keeping the lost bit as a sticky one.
template <typename T>
T FromInteger(uint64_t value, bool is_signed) {
  if (is_signed || static_cast<int64_t>(value) >= 0) {
    volatile auto number = static_cast<int64_t>(value);
    return static_cast<T>(number);
  }
  volatile auto number = static_cast<int64_t>(value >> 1 | (value & 1));
  volatile T half = static_cast<T>(number);
  return half * 2;
}

template <typename T>
T RoundedFromInteger(uint64_t value, bool is_signed, uint32_t mode, uint8_t& flags) {
  const bool ties_away = mode == kRoundNearestMaxMagnitude;
  if (!ties_away) HostFloat::SetRounding(mode);
  volatile T result = FromInteger<T>(value, is_signed);
  if (!ties_away) HostFloat::SetRounding(kRoundNearestEven);
  flags |= HostFloat::TakeFlags();
  if (!ties_away) return result;
  // long double holds every 64-bit integer.
  const long double wide = is_signed ? static_cast<long double>(static_cast<int64_t>(value))
                                     : static_cast<long double>(value);
  const T rounded = TiesAway<T>(result, wide, true);
  std::feclearexcept(FE_ALL_EXCEPT);
  return rounded;
}

float RoundedNarrow(double value, uint32_t mode, uint8_t& flags) {
  const bool ties_away = mode == kRoundNearestMaxMagnitude;
  if (!ties_away) HostFloat::SetRounding(mode);
  volatile double source = value;
  volatile float result = static_cast<float>(source);
  if (!ties_away) HostFloat::SetRounding(kRoundNearestEven);
  flags |= HostFloat::TakeFlags();
  const float nearest = result;
  if (!ties_away || nearest != nearest) return nearest;
  const float rounded = TiesAway<float>(nearest, value, true);
  std::feclearexcept(FE_ALL_EXCEPT);
  return rounded;
}

constexpr unsigned kArithmeticForms = 9;  // add sub mul div sqrt madd msub nmsub nmadd

// Splits one of the nine forms into plain arithmetic with signs moved to the operands, as the
// manual defines them: nmadd = -(a*b) - c rounded once, nmsub = -(a*b) + c.
template <typename T>
T RoundedForm(unsigned form, T a, T b, T c, uint32_t mode, uint8_t& flags) {
  if (form < 5) return RoundedArithmetic<T>(static_cast<Arithmetic>(form), a, b, c, mode, flags);
  const bool negate_product = form >= 7;
  const bool negate_addend = form == 6 || form == 8;
  if ((std::isinf(a) && b == 0) || (a == 0 && std::isinf(b))) flags |= kFlagInvalid;
  return RoundedArithmetic<T>(Arithmetic::kFused, negate_product ? -a : a, b,
                              negate_addend ? -c : c, mode, flags);
}

}  // namespace

uint64_t RoundedOperation(FpOperation operation, uint64_t a, uint64_t b, uint64_t c, uint32_t mode,
                          uint8_t& flags) {
  const auto index = static_cast<unsigned>(operation);
  if (index < kArithmeticForms) {
    return ResultS(RoundedForm(index, UnboxS(a), UnboxS(b), UnboxS(c), mode, flags));
  }
  if (index < 2 * kArithmeticForms) {
    return ResultD(RoundedForm(index - kArithmeticForms, std::bit_cast<double>(a),
                               std::bit_cast<double>(b), std::bit_cast<double>(c), mode, flags));
  }
  const auto word = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a)));
  switch (operation) {
    case FpOperation::kCvtSW: return ResultS(RoundedFromInteger<float>(word, true, mode, flags));
    case FpOperation::kCvtSWu:
      return ResultS(RoundedFromInteger<float>(static_cast<uint32_t>(a), false, mode, flags));
    case FpOperation::kCvtSL: return ResultS(RoundedFromInteger<float>(a, true, mode, flags));
    case FpOperation::kCvtSLu: return ResultS(RoundedFromInteger<float>(a, false, mode, flags));
    case FpOperation::kCvtDL: return ResultD(RoundedFromInteger<double>(a, true, mode, flags));
    case FpOperation::kCvtDLu: return ResultD(RoundedFromInteger<double>(a, false, mode, flags));
    default: return ResultS(RoundedNarrow(std::bit_cast<double>(a), mode, flags));
  }
}

HostFloat::HostFloat() {
  static_assert(sizeof(std::fenv_t) <= sizeof(saved_));
  std::fenv_t environment;
  std::fegetenv(&environment);
  std::memcpy(saved_, &environment, sizeof(environment));
  std::fesetenv(FE_DFL_ENV);
  std::feclearexcept(FE_ALL_EXCEPT);
}

HostFloat::~HostFloat() {
  std::fenv_t environment;
  std::memcpy(&environment, saved_, sizeof(environment));
  std::fesetenv(&environment);
}

void HostFloat::SetRounding(uint32_t mode) {
  static constexpr int kModes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(kModes[mode & 3]);
}

uint8_t HostFloat::TakeFlags() {
#if defined(__SSE2__)
  // <cfenv> also visits the x87 unit, which costs more than a whole short slice; no float or
  // double operation runs there.
  const unsigned status = _mm_getcsr();
  if ((status & _MM_EXCEPT_MASK) == 0) return 0;
  _mm_setcsr(status & ~static_cast<unsigned>(_MM_EXCEPT_MASK));
  const bool invalid = (status & _MM_EXCEPT_INVALID) != 0;
  const bool divide = (status & _MM_EXCEPT_DIV_ZERO) != 0;
  const bool overflow = (status & _MM_EXCEPT_OVERFLOW) != 0;
  const bool underflow = (status & _MM_EXCEPT_UNDERFLOW) != 0;
  const bool inexact = (status & _MM_EXCEPT_INEXACT) != 0;
#else
  const int status = std::fetestexcept(FE_ALL_EXCEPT);
  if (status == 0) return 0;
  std::feclearexcept(FE_ALL_EXCEPT);
  const bool invalid = (status & FE_INVALID) != 0;
  const bool divide = (status & FE_DIVBYZERO) != 0;
  const bool overflow = (status & FE_OVERFLOW) != 0;
  const bool underflow = (status & FE_UNDERFLOW) != 0;
  const bool inexact = (status & FE_INEXACT) != 0;
#endif
  return static_cast<uint8_t>((invalid ? kFlagInvalid : 0) | (divide ? kFlagDivideByZero : 0) |
                              (overflow ? kFlagOverflow : 0) | (underflow ? kFlagUnderflow : 0) |
                              (inexact ? kFlagInexact : 0));
}

}  // namespace sm
