// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The architectural state of one GPU thread, and why a thread or a grid stopped.
#pragma once

#include <array>
#include <cstdint>

#include "sm/launch.h"
#include "sm/sm_memory.h"

namespace sm {

// The decoder turns a write of x0 into a write of this extra register, so that the interpreter
// needs no test for it.
inline constexpr uint8_t kSinkRegister = 32;

// fflags bits (RISC-V unprivileged manual, chapter "F").
inline constexpr uint8_t kFlagInexact = 1;
inline constexpr uint8_t kFlagUnderflow = 2;
inline constexpr uint8_t kFlagOverflow = 4;
inline constexpr uint8_t kFlagDivideByZero = 8;
inline constexpr uint8_t kFlagInvalid = 16;

enum class ThreadStatus : uint8_t { kRunnable, kAtBarrier, kExited };

struct ThreadState {
  std::array<uint64_t, 33> x{};
  std::array<uint64_t, 32> f{};
  uint64_t pc = 0;
  uint64_t instret = 0;
  uint64_t reservation_address = 0;
  uint64_t reservation_value = 0;
  uint8_t reservation_size = 0;  // 0: none, else 4 or 8
  uint8_t fcsr = 0;              // frm in bits 7:5, fflags in bits 4:0
  ThreadStatus status = ThreadStatus::kRunnable;
  uint8_t barrier = 0;  // which one, while kAtBarrier
  std::array<uint16_t, 3> tid{};
  uint32_t linear_tid = 0;

  uint8_t frm() const { return fcsr >> 5; }
};

enum class ExceptionKind : uint8_t {
  kNone,
  kIllegalInstruction,  // code = the instruction word
  kBreakpoint,
  kMisalignedAtomic,  // address = the operand's
  kMisalignedPc,      // pc = the jump's target
  kUnknownCall,       // code = a7
  kTrap,              // ecall 2; code = a0
  kSharedOutOfRange,  // address = the operand's
  kLocalOutOfRange,   // address = the operand's
  kBadBarrier,        // code = the barrier id
  kBarrierDeadlock,   // every live thread of the CTA waits, not all at one barrier
};
const char* ExceptionKindName(ExceptionKind kind);

// Why execution cannot go on. Either an MMU fault (`exception` is kNone) or an SM exception.
struct StopRecord {
  ExceptionKind exception = ExceptionKind::kNone;
  uint8_t fault_type = 0;  // MMU fault: FAULT_TYPE of the packet
  Access access = Access::kRead;
  uint64_t address = 0;  // faulting GPU-virtual address
  uint64_t code = 0;
  uint64_t pc = 0;  // of the instruction, which has not retired
  uint32_t sm = 0;
  Dim3 cta{0, 0, 0};
  Dim3 thread{0, 0, 0};
};

}  // namespace sm
