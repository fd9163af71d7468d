// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Semaphores in GPU-virtual memory: releases, timestamps and reductions, the same for Host, copy
// engines and compute.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_GPU_SEMAPHORE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_GPU_SEMAPHORE_H_

#include <cstdint>
#include <optional>

#include "mmu.h"

namespace ts104 {

// The first eight have the codes of NVC46F_SEM_EXECUTE_REDUCTION.
enum class ReduceOp : uint8_t { kMin, kMax, kXor, kAnd, kOr, kAdd, kInc, kDec, kFloatAdd };

struct Reduction {
  ReduceOp op = ReduceOp::kAdd;
  bool is_signed = false;
};

// `old_value` combined with `operand`, in 32 or (wide) 64 bits. INC: 0 when the old value has
// reached the operand, else plus 1. DEC: the operand when the old value is 0 or beyond it, else
// minus 1. FloatAdd: 32 bits only.
uint64_t Reduce(const Reduction& reduction, uint64_t old_value, uint64_t operand, bool wide);

struct SemaphoreRelease {
  uint64_t va = 0;  // aligned to 4, 8 (wide) or 16 (timestamp)
  uint64_t payload = 0;
  bool wide = false;                   // 64-bit payload
  bool timestamp = false;              // payload in 8 bytes, then 8 bytes of time
  std::optional<Reduction> reduction;  // instead of plain writing
};

// Writes the semaphore; the timestamp becomes visible before the payload.
std::optional<MmuFault> ReleaseSemaphore(Mmu& mmu, const AddressSpace& space,
                                         const SemaphoreRelease& release, uint64_t time_ns);

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_GPU_SEMAPHORE_H_
