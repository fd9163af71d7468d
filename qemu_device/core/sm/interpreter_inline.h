// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The memory fast paths, shared by the interpreter's two source files and by nothing else.
#pragma once

#include "sm/interpreter.h"

namespace sm {

// Pages may be written by the CPUs of the VM at the same time, so accesses to them are atomic in
// the host's sense (naturally aligned, relaxed: plain moves). Shared memory belongs to this host
// thread alone. Local memory is pages at another address.
template <typename T>
inline bool Interpreter::Load(uint64_t va, T& value) {
  const uint64_t shared_offset = shared_.Offset(va);
  if (shared_.Holds<sizeof(T)>(shared_offset)) {
    std::memcpy(&value, shared_memory_ + shared_offset, sizeof(T));
    return true;
  }
  const std::byte* host = tlb_.Find<Access::kRead, sizeof(T)>(va);
  if (host == nullptr) [[unlikely]] {
    const uint64_t local_offset = local_.Offset(va);
    const bool is_local = local_.Holds<sizeof(T)>(local_offset);
    if (!is_local && !OutsideWindows(va)) return false;
    if (is_local) va = local_memory_ + local_offset;
    host = is_local ? tlb_.Find<Access::kRead, sizeof(T)>(va) : nullptr;
    if (host == nullptr) return LoadSlow(va, reinterpret_cast<std::byte*>(&value), sizeof(T));
  }
  value = __atomic_load_n(reinterpret_cast<const T*>(host), __ATOMIC_RELAXED);
  return true;
}

template <typename T>
inline bool Interpreter::Store(uint64_t va, T value) {
  const uint64_t shared_offset = shared_.Offset(va);
  if (shared_.Holds<sizeof(T)>(shared_offset)) {
    std::memcpy(shared_memory_ + shared_offset, &value, sizeof(T));
    return true;
  }
  std::byte* host = tlb_.Find<Access::kWrite, sizeof(T)>(va);
  if (host == nullptr) [[unlikely]] {
    const uint64_t local_offset = local_.Offset(va);
    const bool is_local = local_.Holds<sizeof(T)>(local_offset);
    if (!is_local && !OutsideWindows(va)) return false;
    if (is_local) va = local_memory_ + local_offset;
    host = is_local ? tlb_.Find<Access::kWrite, sizeof(T)>(va) : nullptr;
    if (host == nullptr)
      return StoreSlow(va, reinterpret_cast<const std::byte*>(&value), sizeof(T));
  }
  __atomic_store_n(reinterpret_cast<T*>(host), value, __ATOMIC_RELAXED);
  return true;
}

}  // namespace sm
