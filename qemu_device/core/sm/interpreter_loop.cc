// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The dispatch loop. One function by nature: every handler jumps straight to the next one, which
// gives the host's branch predictor one indirect jump per handler to learn.
#include <bit>
#include <cmath>

#include "sm/float_ops.h"
#include "sm/interpreter_inline.h"

// Labels as values: both supported compilers have them.
#pragma GCC diagnostic ignored "-Wpedantic"

namespace sm {
namespace {

uint64_t SignExtend32(uint64_t value) {
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));
}
int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }
int32_t Signed32(uint64_t value) { return static_cast<int32_t>(value); }
uint32_t Unsigned32(uint64_t value) { return static_cast<uint32_t>(value); }

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

uint64_t High(Uint128 product) { return static_cast<uint64_t>(product >> 64); }
uint64_t MulHigh(uint64_t a, uint64_t b) {
  return High(static_cast<Uint128>(static_cast<Int128>(Signed(a)) * Signed(b)));
}
uint64_t MulHighSignedUnsigned(uint64_t a, uint64_t b) {
  return High(static_cast<Uint128>(static_cast<Int128>(Signed(a)) * static_cast<Int128>(b)));
}
uint64_t MulHighUnsigned(uint64_t a, uint64_t b) { return High(static_cast<Uint128>(a) * b); }

// Division never traps: by zero and overflow have defined results (chapter "M").
uint64_t Divide(uint64_t a, uint64_t b) {
  if (b == 0) return ~uint64_t{0};
  if (b == ~uint64_t{0}) return 0 - a;
  return static_cast<uint64_t>(Signed(a) / Signed(b));
}
uint64_t DivideUnsigned(uint64_t a, uint64_t b) { return b == 0 ? ~uint64_t{0} : a / b; }
uint64_t Remainder(uint64_t a, uint64_t b) {
  if (b == 0) return a;
  if (b == ~uint64_t{0}) return 0;
  return static_cast<uint64_t>(Signed(a) % Signed(b));
}
uint64_t RemainderUnsigned(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }
uint64_t Divide32(uint64_t a, uint64_t b) {
  return SignExtend32(Divide(SignExtend32(a), SignExtend32(b)));
}
uint64_t DivideUnsigned32(uint64_t a, uint64_t b) {
  return SignExtend32(DivideUnsigned(Unsigned32(a), Unsigned32(b)));
}
uint64_t Remainder32(uint64_t a, uint64_t b) {
  return SignExtend32(Remainder(SignExtend32(a), SignExtend32(b)));
}
uint64_t RemainderUnsigned32(uint64_t a, uint64_t b) {
  return SignExtend32(RemainderUnsigned(Unsigned32(a), Unsigned32(b)));
}

float AsS(uint64_t reg) { return UnboxS(reg); }
double AsD(uint64_t reg) { return std::bit_cast<double>(reg); }
float SquareRoot(float value) { return std::sqrt(value); }
double SquareRoot(double value) { return std::sqrt(value); }

// Right in every rounding mode: the lost bit stays as a sticky one.
template <typename T>
T UnsignedToFloat(uint64_t value) {
  if (Signed(value) >= 0) return static_cast<T>(Signed(value));
  return static_cast<T>(Signed(value >> 1 | (value & 1))) * 2;
}

}  // namespace

RunExit Interpreter::Execute(ThreadState* thread, int64_t* budget_io) {
#define SM_OPCODE_LABEL(name) &&op_##name,
  static const void* const kHandlers[] = {SM_OPCODE_LIST(SM_OPCODE_LABEL)};
#undef SM_OPCODE_LABEL
  if (thread == nullptr) {
    handlers_ = kHandlers;
    return RunExit::kBudget;
  }

  uint64_t* const x = thread->x.data();
  uint64_t* const f = thread->f.data();
  uint64_t pc = thread->pc;
  const int64_t budget_at_start = *budget_io;
  int64_t budget = budget_at_start;
  Block* block = nullptr;
  Block** chain = nullptr;  // the slot of the block before that led here
  const Op* ip = nullptr;

#define NEXT()          \
  do {                  \
    ++ip;               \
    goto * ip->handler; \
  } while (0)
#define ENTER_BLOCK()                     \
  do {                                    \
    budget -= block->count;               \
    if (budget < 0) goto short_of_budget; \
    ip = block->ops;                      \
    goto * ip->handler;                   \
  } while (0)
#define SX(op) static_cast<uint64_t>(static_cast<int64_t>((op)->imm))
#define INDEX() static_cast<uint64_t>(ip - block->ops)
#define THIS_PC() (block->pc + 4 * INDEX())

lookup:
  if (budget == 0) goto out_of_budget;
  {
    bool flushed = false;
    Block* const found = Lookup(pc, flushed);
    if (found == nullptr) goto stop_at_pc;
    if (chain != nullptr && !flushed) *chain = found;
    block = found;
  }
  ENTER_BLOCK();

short_of_budget:
  // Not enough left for the whole block: run its first part, decoded for this purpose.
  budget += block->count;
  pc = block->pc;
  if (budget == 0) goto out_of_budget;
  block = DecodeShort(pc, budget);
  if (block == nullptr) goto stop_at_pc;
  ENTER_BLOCK();

jump_to_target:
  pc = THIS_PC() + SX(ip);
  chain = &block->next[0];
  goto lookup;

go_past_block:
  pc = block->pc + 4 * uint64_t{block->count};
  chain = &block->next[1];
  goto lookup;

#include "sm/ops_float.inc"
#include "sm/ops_integer.inc"
#include "sm/ops_memory.inc"

out_of_budget:
  thread->pc = pc;
  *budget_io = budget;
  return RunExit::kBudget;

stop_at_pc:
  thread->pc = pc;
  *budget_io = budget;
  return RunExit::kStop;

stop_at_instruction:
  // The instruction and those behind it in the block did not retire.
  thread->pc = THIS_PC();
  *budget_io = budget + (block->count - Signed(INDEX()));
  return RunExit::kStop;

illegal_instruction:
  Raise(ExceptionKind::kIllegalInstruction, 0, ReadInstruction(THIS_PC()));
  goto stop_at_instruction;
}

}  // namespace sm
