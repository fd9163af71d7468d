// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Typed registers, driver side: a register is a value class, a field is a type. Everything is
// constexpr and compiles to the shifts one would write by hand.
//
// The types come from the generator in common/ts104, one per register:
//
//   struct RunlistSubmit : hwreg::Reg32<RunlistSubmit> {
//     using Reg32::Reg32;                                       // RunlistSubmit(raw)
//     static constexpr uint32_t Offset(uint32_t i) { return 0x2b08 + i * 16; }
//     using Length = hwreg::Field<15, 0>;                       // high, low: as the manuals
//     struct Target : hwreg::Field<29, 28> {                    // a field with named values
//       static constexpr uint32_t kVidMem = 0;
//     };
//   };
//
// and are used so:
//
//   RunlistSubmit submit;                                       // all bits 0
//   submit.Set<RunlistSubmit::Length>(3).Set<RunlistSubmit::Target>(0);
//   submit.WriteTo(mmio, 0);                                    // mmio.Write32(Offset(0), raw)
//   auto now = RunlistSubmit::ReadFrom(mmio, 0);
//
// Bits that no field names survive a read-modify-write.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/bits.h"

namespace hwreg {

// Bits kHiBit..kLoBit of a 32- or 64-bit register.
template <unsigned kHiBit, unsigned kLoBit>
struct Field {
  static_assert(kHiBit >= kLoBit, "write the high bit first");
  static_assert(kHiBit < 64);

  // 32 bits as long as the field lies in the low word, so that no 64-bit arithmetic creeps in.
  using Value = std::conditional_t<(kHiBit < 32), uint32_t, uint64_t>;

  static constexpr unsigned kHi = kHiBit;
  static constexpr unsigned kLo = kLoBit;
  static constexpr unsigned kShift = kLoBit;
  static constexpr unsigned kWidth = kHiBit - kLoBit + 1;
  static constexpr Value kMax = static_cast<Value>(base::LowMask(kWidth));  // largest value
  static constexpr Value kMask = static_cast<Value>(kMax << kShift);        // in place

  template <std::unsigned_integral Raw>
  static constexpr Value Get(Raw raw) {
    static_assert(kHiBit < sizeof(Raw) * 8, "the field lies outside this register");
    return static_cast<Value>(raw >> kShift) & kMax;
  }

  // `raw` with this field replaced. Bits of `value` beyond kMax are dropped: hardware has no place
  // for them. Check untrusted values against kMax before.
  template <std::unsigned_integral Raw>
  static constexpr Raw Set(Raw raw, Value value) {
    static_assert(kHiBit < sizeof(Raw) * 8, "the field lies outside this register");
    return static_cast<Raw>((raw & static_cast<Raw>(~static_cast<Raw>(kMask))) |
                            static_cast<Raw>((value & kMax) << kShift));
  }
};

// Bits kHiBit..kLoBit of a structure in memory made of 32-bit words (RAMFC, QMD, PTE, fault
// packet). At most 64 bits wide; may straddle words. Words beyond the span read 0 and are not
// written: a truncated structure is no memory error.
template <size_t kHiBit, size_t kLoBit>
struct WideField {
  static_assert(kHiBit >= kLoBit, "write the high bit first");
  static_assert(kHiBit - kLoBit < 64);

  static constexpr size_t kHi = kHiBit;
  static constexpr size_t kLo = kLoBit;
  static constexpr unsigned kWidth = static_cast<unsigned>(kHiBit - kLoBit + 1);
  static constexpr uint64_t kMax = base::LowMask(kWidth);

  static constexpr uint64_t Get(std::span<const uint32_t> words) {
    return base::GetBits(words, kHiBit, kLoBit);
  }
  static constexpr void Set(std::span<uint32_t> words, uint64_t value) {
    base::SetBits(words, kHiBit, kLoBit, value);
  }
};

namespace internal {

template <typename Derived, std::unsigned_integral Raw>
class RegBase {
 public:
  using RawType = Raw;

  constexpr RegBase() = default;
  constexpr explicit RegBase(Raw raw) : raw_(raw) {}

  constexpr Raw raw() const { return raw_; }
  friend constexpr bool operator==(RegBase, RegBase) = default;

  template <typename F>
  constexpr typename F::Value Get() const {
    return F::Get(raw_);
  }
  // Any bit of the field set. Reads well for flags: if (status.Test<Status::Pending>()) ...
  template <typename F>
  constexpr bool Test() const {
    return F::Get(raw_) != 0;
  }
  template <typename F>
  constexpr Derived& Set(typename F::Value value) {
    raw_ = F::Set(raw_, value);
    return static_cast<Derived&>(*this);
  }

 private:
  Raw raw_ = 0;
};

}  // namespace internal

// CRTP base of a 32-bit register. `Io` is anything with Read32(offset) and Write32(offset, value);
// `index` are the arguments of the register's own Offset().
template <typename Derived>
class Reg32 : public internal::RegBase<Derived, uint32_t> {
 public:
  using internal::RegBase<Derived, uint32_t>::RegBase;

  template <typename Io, typename... Index>
  static constexpr Derived ReadFrom(Io&& io, Index... index) {
    return Derived(io.Read32(Derived::Offset(index...)));
  }
  template <typename Io, typename... Index>
  constexpr void WriteTo(Io&& io, Index... index) const {
    io.Write32(Derived::Offset(index...), this->raw());
  }
};

// The same for a 64-bit register or memory word, with Read64 and Write64.
template <typename Derived>
class Reg64 : public internal::RegBase<Derived, uint64_t> {
 public:
  using internal::RegBase<Derived, uint64_t>::RegBase;

  template <typename Io, typename... Index>
  static constexpr Derived ReadFrom(Io&& io, Index... index) {
    return Derived(io.Read64(Derived::Offset(index...)));
  }
  template <typename Io, typename... Index>
  constexpr void WriteTo(Io&& io, Index... index) const {
    io.Write64(Derived::Offset(index...), this->raw());
  }
};

}  // namespace hwreg
