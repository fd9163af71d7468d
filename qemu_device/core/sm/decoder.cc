// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/decoder.h"

#include "sm/thread_state.h"

namespace sm {
namespace {

uint32_t Field(uint32_t word, unsigned high, unsigned low) {
  return (word >> low) & ((uint32_t{1} << (high - low + 1)) - 1);
}
int32_t SignExtend(uint32_t value, unsigned bits) {
  return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
}
int32_t ImmI(uint32_t word) { return static_cast<int32_t>(word) >> 20; }
int32_t ImmS(uint32_t word) {
  return SignExtend(Field(word, 31, 25) << 5 | Field(word, 11, 7), 12);
}
int32_t ImmB(uint32_t word) {
  return SignExtend(Field(word, 31, 31) << 12 | Field(word, 7, 7) << 11 | Field(word, 30, 25) << 5 |
                        Field(word, 11, 8) << 1,
                    13);
}
int32_t ImmU(uint32_t word) { return static_cast<int32_t>(word & 0xfffff000); }
int32_t ImmJ(uint32_t word) {
  return SignExtend(Field(word, 31, 31) << 20 | Field(word, 19, 12) << 12 |
                        Field(word, 20, 20) << 11 | Field(word, 30, 21) << 1,
                    21);
}

class Decoding {
 public:
  Decoding(uint32_t word, bool dynamic_is_slow) : word_(word), dynamic_is_slow_(dynamic_is_slow) {
    funct3_ = Field(word, 14, 12);
    funct7_ = Field(word, 31, 25);
    rd_ = static_cast<uint8_t>(Field(word, 11, 7));
    rs1_ = static_cast<uint8_t>(Field(word, 19, 15));
    rs2_ = static_cast<uint8_t>(Field(word, 24, 20));
    rs3_ = static_cast<uint8_t>(Field(word, 31, 27));
  }

  Decoded Run() {
    switch (word_ & 0x7f) {
      case 0x37: return Integer(Opcode::kLoadImmediate, ImmU(word_));
      case 0x17: return Integer(Opcode::kAuipc, ImmU(word_));
      case 0x6f: return Ending(Integer(Opcode::kJal, ImmJ(word_)));
      case 0x67: return funct3_ == 0 ? Ending(Integer(Opcode::kJalr, ImmI(word_))) : Illegal();
      case 0x63: return Branch();
      case 0x03: return Load();
      case 0x23: return Store();
      case 0x13: return ImmediateOperation();
      case 0x1b: return ImmediateOperation32();
      case 0x33: return RegisterOperation();
      case 0x3b: return RegisterOperation32();
      case 0x0f: return Fence();
      case 0x73: return System();
      case 0x2f: return Atomic();
      case 0x07: return FloatLoad();
      case 0x27: return FloatStore();
      case 0x43: return FusedMultiplyAdd(0);
      case 0x47: return FusedMultiplyAdd(1);
      case 0x4b: return FusedMultiplyAdd(2);
      case 0x4f: return FusedMultiplyAdd(3);
      case 0x53: return FloatOperation();
      default: return Illegal();
    }
  }

 private:
  static Decoded Ending(Decoded decoded) {
    decoded.ends_block = true;
    return decoded;
  }
  Decoded Illegal() const {
    return Ending({Opcode::kIllegal, kSinkRegister, 0, 0, 0, static_cast<int32_t>(word_)});
  }
  // Result in an integer register.
  Decoded Integer(Opcode opcode, int32_t imm = 0) const {
    return {opcode, rd_ == 0 ? kSinkRegister : rd_, rs1_, rs2_, 0, imm};
  }
  // Result in a floating-point register.
  Decoded Float(Opcode opcode, int32_t imm = 0) const {
    return {opcode, rd_, rs1_, rs2_, rs3_, imm};
  }
  // No result.
  Decoded NoResult(Opcode opcode, int32_t imm = 0) const {
    return {opcode, kSinkRegister, rs1_, rs2_, 0, imm};
  }
  // An operation on registers without side effect: with rd = x0 it does nothing.
  Decoded Pure(Opcode opcode, int32_t imm = 0) const {
    return rd_ == 0 ? Decoded{Opcode::kNop} : Integer(opcode, imm);
  }

  Decoded Branch() const {
    static constexpr Opcode kOpcodes[8] = {Opcode::kBeq,     Opcode::kBne, Opcode::kIllegal,
                                           Opcode::kIllegal, Opcode::kBlt, Opcode::kBge,
                                           Opcode::kBltu,    Opcode::kBgeu};
    if (kOpcodes[funct3_] == Opcode::kIllegal) return Illegal();
    return Ending(NoResult(kOpcodes[funct3_], ImmB(word_)));
  }

  Decoded Load() const {
    static constexpr Opcode kOpcodes[8] = {Opcode::kLb,  Opcode::kLh,     Opcode::kLw,
                                           Opcode::kLd,  Opcode::kLbu,    Opcode::kLhu,
                                           Opcode::kLwu, Opcode::kIllegal};
    if (kOpcodes[funct3_] == Opcode::kIllegal) return Illegal();
    return Integer(kOpcodes[funct3_], ImmI(word_));
  }

  Decoded Store() const {
    static constexpr Opcode kOpcodes[4] = {Opcode::kSb, Opcode::kSh, Opcode::kSw, Opcode::kSd};
    if (funct3_ > 3) return Illegal();
    return NoResult(kOpcodes[funct3_], ImmS(word_));
  }

  Decoded ImmediateOperation() const {
    const int32_t imm = ImmI(word_);
    const int32_t shift = static_cast<int32_t>(Field(word_, 25, 20));
    const uint32_t funct6 = Field(word_, 31, 26);
    switch (funct3_) {
      case 0:
        if (rs1_ == 0) return Pure(Opcode::kLoadImmediate, imm);
        return Pure(imm == 0 ? Opcode::kMove : Opcode::kAddi, imm);
      case 1: return funct6 == 0 ? Pure(Opcode::kSlli, shift) : Illegal();
      case 2: return Pure(Opcode::kSlti, imm);
      case 3: return Pure(Opcode::kSltiu, imm);
      case 4: return Pure(Opcode::kXori, imm);
      case 5:
        if (funct6 == 0) return Pure(Opcode::kSrli, shift);
        return funct6 == 0x10 ? Pure(Opcode::kSrai, shift) : Illegal();
      case 6: return Pure(Opcode::kOri, imm);
      default: return Pure(Opcode::kAndi, imm);
    }
  }

  Decoded ImmediateOperation32() const {
    const int32_t shift = static_cast<int32_t>(rs2_);
    switch (funct3_) {
      case 0: return Pure(Opcode::kAddiw, ImmI(word_));
      case 1: return funct7_ == 0 ? Pure(Opcode::kSlliw, shift) : Illegal();
      case 5:
        if (funct7_ == 0) return Pure(Opcode::kSrliw, shift);
        return funct7_ == 0x20 ? Pure(Opcode::kSraiw, shift) : Illegal();
      default: return Illegal();
    }
  }

  Decoded RegisterOperation() const {
    static constexpr Opcode kBase[8] = {Opcode::kAdd, Opcode::kSll, Opcode::kSlt, Opcode::kSltu,
                                        Opcode::kXor, Opcode::kSrl, Opcode::kOr,  Opcode::kAnd};
    static constexpr Opcode kMultiply[8] = {Opcode::kMul,   Opcode::kMulh, Opcode::kMulhsu,
                                            Opcode::kMulhu, Opcode::kDiv,  Opcode::kDivu,
                                            Opcode::kRem,   Opcode::kRemu};
    if (funct7_ == 0) return Pure(kBase[funct3_]);
    if (funct7_ == 1) return Pure(kMultiply[funct3_]);
    if (funct7_ == 0x20 && funct3_ == 0) return Pure(Opcode::kSub);
    if (funct7_ == 0x20 && funct3_ == 5) return Pure(Opcode::kSra);
    return Illegal();
  }

  Decoded RegisterOperation32() const {
    switch (funct7_ << 3 | funct3_) {
      case 0x000: return Pure(Opcode::kAddw);
      case 0x001: return Pure(Opcode::kSllw);
      case 0x005: return Pure(Opcode::kSrlw);
      case 0x100: return Pure(Opcode::kSubw);
      case 0x105: return Pure(Opcode::kSraw);
      case 0x008: return Pure(Opcode::kMulw);
      case 0x00c: return Pure(Opcode::kDivw);
      case 0x00d: return Pure(Opcode::kDivuw);
      case 0x00e: return Pure(Opcode::kRemw);
      case 0x00f: return Pure(Opcode::kRemuw);
      default: return Illegal();
    }
  }

  Decoded Fence() const {
    // The reserved fields of both are to be ignored (unprivileged manual, "Memory Ordering").
    if (funct3_ == 0) return NoResult(Opcode::kFence);
    return funct3_ == 1 ? Ending(NoResult(Opcode::kFenceI)) : Illegal();
  }

  Decoded System() const {
    if (word_ == 0x00000073) return Ending(NoResult(Opcode::kEcall));
    if (word_ == 0x00100073) return Ending(NoResult(Opcode::kEbreak));
    if (funct3_ == 0 || funct3_ == 4) return Illegal();
    const uint32_t csr = Field(word_, 31, 20);
    const bool only_reads = (funct3_ & 3) != 1 && rs1_ == 0;
    if (csr >= kCsrIdFirst && csr <= kCsrIdLast && only_reads) {
      return Pure(Opcode::kCsrId, static_cast<int32_t>(csr - kCsrIdFirst));
    }
    Decoded decoded = Ending(Integer(Opcode::kCsr, static_cast<int32_t>(csr)));
    decoded.rs2 = static_cast<uint8_t>(funct3_);
    return decoded;
  }

  Decoded Atomic() const {
    if (funct3_ != 2 && funct3_ != 3) return Illegal();
    const bool wide = funct3_ == 3;
    const uint32_t funct5 = Field(word_, 31, 27);
    switch (funct5) {
      case 0x02: return rs2_ == 0 ? Integer(wide ? Opcode::kLrD : Opcode::kLrW) : Illegal();
      case 0x03: return Integer(wide ? Opcode::kScD : Opcode::kScW);
      case 0x00:
      case 0x01:
      case 0x04:
      case 0x08:
      case 0x0c:
      case 0x10:
      case 0x14:
      case 0x18:
      case 0x1c: return Integer(wide ? Opcode::kAmoD : Opcode::kAmoW, static_cast<int32_t>(funct5));
      default: return Illegal();
    }
  }

  Decoded FloatLoad() const {
    if (funct3_ == 2) return Float(Opcode::kFlw, ImmI(word_));
    return funct3_ == 3 ? Float(Opcode::kFld, ImmI(word_)) : Illegal();
  }
  Decoded FloatStore() const {
    if (funct3_ == 2) return NoResult(Opcode::kFsw, ImmS(word_));
    return funct3_ == 3 ? NoResult(Opcode::kFsd, ImmS(word_)) : Illegal();
  }

  // The fast form runs in the host's rounding mode, which the interpreter keeps equal to frm.
  Decoded Rounding(Opcode fast, FpOperation slow) const {
    if (funct3_ == 5 || funct3_ == 6) return Illegal();
    if (funct3_ == kRoundDynamic && !dynamic_is_slow_) return Float(fast);
    return Float(Opcode::kFpSlow, static_cast<int32_t>(static_cast<uint32_t>(slow) | funct3_ << 8));
  }
  static Opcode Plus(Opcode first, uint32_t index) {
    return static_cast<Opcode>(static_cast<uint32_t>(first) + index);
  }
  static FpOperation Plus(FpOperation first, uint32_t index) {
    return static_cast<FpOperation>(static_cast<uint32_t>(first) + index);
  }

  Decoded FusedMultiplyAdd(uint32_t index) const {
    const uint32_t format = Field(word_, 26, 25);
    if (format == 0)
      return Rounding(Plus(Opcode::kFmaddS, index), Plus(FpOperation::kMaddS, index));
    if (format == 1)
      return Rounding(Plus(Opcode::kFmaddD, index), Plus(FpOperation::kMaddD, index));
    return Illegal();
  }

  Decoded FloatOperation() const {
    const bool is_double = (funct7_ & 1) != 0;
    if ((funct7_ & 2) != 0) return Illegal();  // half and quad precision
    switch (funct7_ >> 2) {
      case 0x00:
      case 0x01:
      case 0x02:
      case 0x03: {
        const uint32_t index = funct7_ >> 2;
        return is_double ? Rounding(Plus(Opcode::kFaddD, index), Plus(FpOperation::kAddD, index))
                         : Rounding(Plus(Opcode::kFaddS, index), Plus(FpOperation::kAddS, index));
      }
      case 0x0b:
        if (rs2_ != 0) return Illegal();
        return is_double ? Rounding(Opcode::kFsqrtD, FpOperation::kSqrtD)
                         : Rounding(Opcode::kFsqrtS, FpOperation::kSqrtS);
      case 0x04:
        if (funct3_ > 2) return Illegal();
        return Float(Plus(is_double ? Opcode::kFsgnjD : Opcode::kFsgnjS, funct3_));
      case 0x05:
        if (funct3_ > 1) return Illegal();
        return Float(Plus(is_double ? Opcode::kFminD : Opcode::kFminS, funct3_));
      case 0x08: return FloatToFloat(is_double);
      case 0x14: return Compare(is_double);
      case 0x18: return FloatToInteger(is_double);
      case 0x1a: return IntegerToFloat(is_double);
      case 0x1c:
      case 0x1e: return MoveOrClassify(is_double);
      default: return Illegal();
    }
  }

  Decoded FloatToFloat(bool to_double) const {
    if (to_double) {
      // Exact, so every valid rounding mode is the same.
      if (rs2_ != 0 || funct3_ == 5 || funct3_ == 6) return Illegal();
      return Float(Opcode::kFcvtDS);
    }
    return rs2_ == 1 ? Rounding(Opcode::kFcvtSD, FpOperation::kCvtSD) : Illegal();
  }

  Decoded Compare(bool is_double) const {
    static constexpr Opcode kSingle[3] = {Opcode::kFleS, Opcode::kFltS, Opcode::kFeqS};
    static constexpr Opcode kDouble[3] = {Opcode::kFleD, Opcode::kFltD, Opcode::kFeqD};
    if (funct3_ > 2) return Illegal();
    return Integer(is_double ? kDouble[funct3_] : kSingle[funct3_]);
  }

  // rs2 keeps the integer type (0 W, 1 WU, 2 L, 3 LU), imm the rounding mode.
  Decoded FloatToInteger(bool is_double) const {
    if (rs2_ > 3 || funct3_ == 5 || funct3_ == 6) return Illegal();
    return Integer(is_double ? Opcode::kFcvtToIntD : Opcode::kFcvtToIntS,
                   static_cast<int32_t>(funct3_));
  }

  Decoded IntegerToFloat(bool is_double) const {
    if (rs2_ > 3 || funct3_ == 5 || funct3_ == 6) return Illegal();
    if (!is_double) {
      return Rounding(Plus(Opcode::kFcvtSW, rs2_), Plus(FpOperation::kCvtSW, rs2_));
    }
    if (rs2_ < 2) return Float(Plus(Opcode::kFcvtDW, rs2_));  // exact
    return Rounding(Plus(Opcode::kFcvtDW, rs2_), Plus(FpOperation::kCvtDL, rs2_ - 2u));
  }

  Decoded MoveOrClassify(bool is_double) const {
    if (rs2_ != 0) return Illegal();
    if ((funct7_ >> 2) == 0x1e) {
      return funct3_ == 0 ? Float(is_double ? Opcode::kFmvDX : Opcode::kFmvWX) : Illegal();
    }
    if (funct3_ == 0) return Integer(is_double ? Opcode::kFmvXD : Opcode::kFmvXW);
    return funct3_ == 1 ? Integer(is_double ? Opcode::kFclassD : Opcode::kFclassS) : Illegal();
  }

  const uint32_t word_;
  const bool dynamic_is_slow_;
  uint32_t funct3_;
  uint32_t funct7_;
  uint8_t rd_;
  uint8_t rs1_;
  uint8_t rs2_;
  uint8_t rs3_;
};

}  // namespace

Decoded Decode(uint32_t word, bool dynamic_is_slow) {
  return Decoding(word, dynamic_is_slow).Run();
}

}  // namespace sm
