// SPDX-License-Identifier: GPL-2.0-only OR MIT
// RISC-V floating point on the host's: NaN boxing, canonical NaNs, conversions, rounding, flags.
//
// Arithmetic runs on the host's own float and double in the host's current rounding mode, and the
// host's sticky exception flags collect the RISC-V ones; HostFlags moves them over. Operations the
// host defines otherwise (conversions to integers, minimum, compare) set their flags by hand.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "sm/opcodes.h"
#include "sm/thread_state.h"

namespace sm {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

inline constexpr uint32_t kCanonicalNanS = 0x7fc00000;
inline constexpr uint64_t kCanonicalNanD = 0x7ff8000000000000;
inline constexpr uint64_t kBox = 0xffffffff00000000;

// The bits of a single-precision operand: one that is not NaN-boxed counts as the canonical NaN.
inline uint32_t UnboxBits(uint64_t reg) {
  return reg >= kBox ? static_cast<uint32_t>(reg) : kCanonicalNanS;
}
inline float UnboxS(uint64_t reg) { return std::bit_cast<float>(UnboxBits(reg)); }
inline uint64_t BoxBits(uint32_t bits) { return kBox | bits; }

// Result registers of arithmetic: any NaN becomes the canonical one.
inline uint64_t ResultS(float value) {
  if (value != value) [[unlikely]]
    return BoxBits(kCanonicalNanS);
  return BoxBits(std::bit_cast<uint32_t>(value));
}
inline uint64_t ResultD(double value) {
  if (value != value) [[unlikely]]
    return kCanonicalNanD;
  return std::bit_cast<uint64_t>(value);
}

// Bit-level views of the two formats, for code that serves both.
struct SingleFormat {
  using Bits = uint32_t;
  using Value = float;
  static constexpr unsigned kFractionBits = 23;
  static constexpr unsigned kExponentMax = 0xff;
  static constexpr Bits kCanonicalNan = kCanonicalNanS;
};
struct DoubleFormat {
  using Bits = uint64_t;
  using Value = double;
  static constexpr unsigned kFractionBits = 52;
  static constexpr unsigned kExponentMax = 0x7ff;
  static constexpr Bits kCanonicalNan = kCanonicalNanD;
};

template <typename F>
constexpr typename F::Bits kSignBit = typename F::Bits{1} << (sizeof(typename F::Bits) * 8 - 1);

template <typename F>
bool IsNan(typename F::Bits bits) {
  constexpr typename F::Bits kInfinity = typename F::Bits{F::kExponentMax} << F::kFractionBits;
  return (bits & ~kSignBit<F>) > kInfinity;
}
template <typename F>
bool IsSignalingNan(typename F::Bits bits) {
  return IsNan<F>(bits) && (bits >> (F::kFractionBits - 1) & 1) == 0;
}

// fmin/fmax (IEEE 754-2019 minimumNumber/maximumNumber); `flags` gains NV for a signaling NaN.
template <typename F>
typename F::Bits MinMax(typename F::Bits a, typename F::Bits b, bool want_max, uint8_t& flags) {
  if (IsSignalingNan<F>(a) || IsSignalingNan<F>(b)) flags |= kFlagInvalid;
  if (IsNan<F>(a)) return IsNan<F>(b) ? F::kCanonicalNan : b;
  if (IsNan<F>(b)) return a;
  const auto value_a = std::bit_cast<typename F::Value>(a);
  const auto value_b = std::bit_cast<typename F::Value>(b);
  // Of two zeros the one with the sign is the smaller.
  const bool a_is_less = value_a < value_b || (value_a == value_b && (a & kSignBit<F>) != 0);
  return a_is_less == want_max ? b : a;
}

// fclass: one-hot class of a value.
template <typename F>
uint64_t Classify(typename F::Bits bits) {
  const bool negative = (bits & kSignBit<F>) != 0;
  const auto exponent = bits >> F::kFractionBits & F::kExponentMax;
  const bool has_fraction = (bits & ((typename F::Bits{1} << F::kFractionBits) - 1)) != 0;
  if (exponent == F::kExponentMax) {
    if (has_fraction) return IsSignalingNan<F>(bits) ? 1u << 8 : 1u << 9;
    return negative ? 1u << 0 : 1u << 7;
  }
  if (exponent != 0) return negative ? 1u << 1 : 1u << 6;
  if (has_fraction) return negative ? 1u << 2 : 1u << 5;
  return negative ? 1u << 3 : 1u << 4;
}

enum class IntegerType : uint8_t { kW, kWu, kL, kLu };

// fcvt.{w,wu,l,lu}.{s,d}: rounds by `mode` (0-4), saturates, sign-extends 32-bit results. `flags`
// gains NV when the rounded value does not fit (or is NaN), else NX when it is not exact.
template <typename F>
uint64_t ToInteger(typename F::Bits bits, IntegerType type, uint32_t mode, uint8_t& flags);
extern template uint64_t ToInteger<SingleFormat>(uint32_t, IntegerType, uint32_t, uint8_t&);
extern template uint64_t ToInteger<DoubleFormat>(uint64_t, IntegerType, uint32_t, uint8_t&);

// One rounding operation in an explicit mode (0-4), the general and slow way. Operands and result
// are register contents; integer operands of conversions come in `a`. Needs the host in its
// default rounding mode with all exception flags clear, and leaves it so; `flags` gains the flags.
uint64_t RoundedOperation(FpOperation operation, uint64_t a, uint64_t b, uint64_t c, uint32_t mode,
                          uint8_t& flags);

// Fused multiply-add on register contents in the host's mode. Flags go to the host's, but for the
// one the host may not raise: infinity times zero plus a quiet NaN, which `flags` gains.
uint64_t FusedS(float a, float b, float c, uint8_t& flags);
uint64_t FusedD(double a, double b, double c, uint8_t& flags);

// Host floating-point environment of the calling thread while GPU threads run on it.
class HostFloat {
 public:
  // Saves the caller's environment and sets the default one with all flags clear.
  HostFloat();
  ~HostFloat();
  HostFloat(const HostFloat&) = delete;
  HostFloat& operator=(const HostFloat&) = delete;

  // Sets the host's rounding mode; `mode` 0-3, the ones the host has.
  static void SetRounding(uint32_t mode);
  // Returns the flags raised since the last call as fflags bits, and clears them.
  static uint8_t TakeFlags();

 private:
  alignas(16) unsigned char saved_[64];
};

}  // namespace sm
