// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "gpu_semaphore.h"

#include <algorithm>
#include <bit>

namespace ts104 {
namespace {

template <typename Unsigned, typename Signed>
Unsigned ReduceAs(const Reduction& reduction, Unsigned old_value, Unsigned operand) {
  const bool less = reduction.is_signed
                        ? static_cast<Signed>(old_value) < static_cast<Signed>(operand)
                        : old_value < operand;
  switch (reduction.op) {
    case ReduceOp::kMin: return less ? old_value : operand;
    case ReduceOp::kMax: return less ? operand : old_value;
    case ReduceOp::kXor: return old_value ^ operand;
    case ReduceOp::kAnd: return old_value & operand;
    case ReduceOp::kOr: return old_value | operand;
    case ReduceOp::kAdd: return old_value + operand;
    case ReduceOp::kInc: return old_value >= operand ? 0 : old_value + 1;
    case ReduceOp::kDec: return old_value == 0 || old_value > operand ? operand : old_value - 1;
    case ReduceOp::kFloatAdd: break;
  }
  const float sum = std::bit_cast<float>(static_cast<uint32_t>(old_value)) +
                    std::bit_cast<float>(static_cast<uint32_t>(operand));
  return std::bit_cast<uint32_t>(sum);
}

template <typename T>
void ReduceInPlace(std::byte* host, const Reduction& reduction, T operand) {
  auto* word = reinterpret_cast<T*>(host);
  T old_value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  T new_value = 0;
  do {
    new_value = static_cast<T>(Reduce(reduction, old_value, operand, sizeof(T) == 8));
  } while (!__atomic_compare_exchange_n(word, &old_value, new_value, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
}

// System memory is reached by DMA, which has no atomics: read and write.
template <typename T>
BusStatus ReduceThroughBus(const MemoryPort& memory, PhysicalAddress at, const Reduction& reduction,
                           T operand) {
  T value = 0;
  if (const BusStatus status = memory.ReadValue(at, value); status != BusStatus::kOk) return status;
  return memory.WriteValue(at, static_cast<T>(Reduce(reduction, value, operand, sizeof(T) == 8)));
}

std::optional<MmuFault> ReduceAt(Mmu& mmu, const AddressSpace& space,
                                 const SemaphoreRelease& release) {
  Translation at;
  if (auto fault = mmu.Translate(TlbClient::kHub, space, release.va, AccessKind::kAtomic, at)) {
    return fault;
  }
  if (at.sparse) return std::nullopt;
  const Reduction& reduction = *release.reduction;
  const MemoryPort& memory = mmu.memory();
  const auto narrow = static_cast<uint32_t>(release.payload);
  if (at.at.aperture == Aperture::kVid) {
    std::byte* host = memory.Vram(at.at.offset, release.wide ? 8 : 4);
    if (host == nullptr) {
      return MmuFault{FaultType::kRegionViolation, release.va, AccessKind::kAtomic};
    }
    release.wide ? ReduceInPlace<uint64_t>(host, reduction, release.payload)
                 : ReduceInPlace<uint32_t>(host, reduction, narrow);
    return std::nullopt;
  }
  const BusStatus status =
      release.wide ? ReduceThroughBus<uint64_t>(memory, at.at, reduction, release.payload)
                   : ReduceThroughBus<uint32_t>(memory, at.at, reduction, narrow);
  if (status == BusStatus::kOk) return std::nullopt;
  return MmuFault{FaultOfBus(status), release.va, AccessKind::kAtomic};
}

}  // namespace

uint64_t Reduce(const Reduction& reduction, uint64_t old_value, uint64_t operand, bool wide) {
  if (wide) return ReduceAs<uint64_t, int64_t>(reduction, old_value, operand);
  return ReduceAs<uint32_t, int32_t>(reduction, static_cast<uint32_t>(old_value),
                                     static_cast<uint32_t>(operand));
}

std::optional<MmuFault> ReleaseSemaphore(Mmu& mmu, const AddressSpace& space,
                                         const SemaphoreRelease& release, uint64_t time_ns) {
  if (release.timestamp) {
    if (auto fault = mmu.WriteValue(space, release.va + 8, time_ns)) return fault;
  }
  if (release.reduction.has_value()) return ReduceAt(mmu, space, release);
  if (release.wide) return mmu.WriteValue(space, release.va, release.payload);
  const auto narrow = static_cast<uint32_t>(release.payload);
  if (release.timestamp) return mmu.WriteValue(space, release.va, uint64_t{narrow});
  return mmu.WriteValue(space, release.va, narrow);
}

}  // namespace ts104
