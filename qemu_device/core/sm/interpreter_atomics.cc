// SPDX-License-Identifier: GPL-2.0-only OR MIT
// AMO and LR/SC. Pages with a host pointer get host atomics, because the VM's CPUs and the copy
// engines may work on the same words; shared memory belongs to this host thread; pages without a
// pointer are read and written back, atomic against other GPU threads only.
#include <algorithm>

#include "sm/interpreter_inline.h"

namespace sm {
namespace {

uint64_t Extend(int32_t value) { return static_cast<uint64_t>(int64_t{value}); }
uint64_t Extend(int64_t value) { return static_cast<uint64_t>(value); }

// The new value of an AMO (funct5 of the instruction, already known to be one of the nine).
template <typename T>
T Combine(uint32_t funct5, T old_value, T operand) {
  using U = std::make_unsigned_t<T>;
  const auto a = static_cast<U>(old_value);
  const auto b = static_cast<U>(operand);
  switch (funct5) {
    case 0x00: return static_cast<T>(a + b);
    case 0x01: return operand;
    case 0x04: return static_cast<T>(a ^ b);
    case 0x08: return static_cast<T>(a | b);
    case 0x0c: return static_cast<T>(a & b);
    case 0x10: return std::min(old_value, operand);
    case 0x14: return std::max(old_value, operand);
    case 0x18: return static_cast<T>(std::min(a, b));
    default: return static_cast<T>(std::max(a, b));
  }
}

}  // namespace

// Finds the operand; `va` becomes its address in GMMU memory. `host` == nullptr afterwards: a page
// without a pointer. `is_page`: host memory that others may touch at the same time.
template <typename T>
bool Interpreter::AtomicOperand(uint64_t& va, std::byte*& host, bool& is_page) {
  is_page = false;
  if (va % sizeof(T) != 0) {
    Raise(ExceptionKind::kMisalignedAtomic, va, 0);
    return false;
  }
  if (shared_.Holds<sizeof(T)>(shared_.Offset(va))) {
    host = shared_memory_ + shared_.Offset(va);
    return true;
  }
  if (local_.Holds<sizeof(T)>(local_.Offset(va))) {
    va = local_memory_ + local_.Offset(va);
    if (va % sizeof(T) != 0) {  // SET_SHADER_LOCAL_MEMORY may be anything
      Raise(ExceptionKind::kMisalignedAtomic, va, 0);
      return false;
    }
  } else if (!OutsideWindows(va)) {
    return false;
  }
  is_page = true;
  host = tlb_.Find<Access::kAtomic, sizeof(T)>(va);
  return host != nullptr || Reach(va, Access::kAtomic, host);
}

template <typename T>
bool Interpreter::ReadOperand(uint64_t va, const std::byte* host, bool is_page, T& value) {
  if (host == nullptr) {
    if (memory_->ReadSlow(va, std::as_writable_bytes(std::span(&value, 1)))) return true;
    RaiseFault(va, Access::kAtomic, kFaultTypeRegionViolation);
    return false;
  }
  if (is_page) {
    value = __atomic_load_n(reinterpret_cast<const T*>(host), __ATOMIC_SEQ_CST);
  } else {
    std::memcpy(&value, host, sizeof(T));
  }
  return true;
}

template <typename T>
bool Interpreter::ReplaceOperand(uint64_t va, std::byte* host, bool is_page, T& expected, T desired,
                                 bool& replaced) {
  if (is_page && host != nullptr) {
    replaced = __atomic_compare_exchange_n(reinterpret_cast<T*>(host), &expected, desired, false,
                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return true;
  }
  T current = 0;
  if (!ReadOperand(va, host, is_page, current)) return false;
  replaced = current == expected;
  expected = current;
  if (!replaced) return true;
  if (host != nullptr) {
    std::memcpy(host, &desired, sizeof(T));
    return true;
  }
  if (memory_->WriteSlow(va, std::as_bytes(std::span(&desired, 1)))) return true;
  RaiseFault(va, Access::kAtomic, kFaultTypeRegionViolation);
  return false;
}

template <typename T>
bool Interpreter::Amo(uint32_t funct5, uint64_t va, uint64_t operand, uint64_t& old_value) {
  std::byte* host = nullptr;
  bool is_page = false;
  if (!AtomicOperand<T>(va, host, is_page)) return false;
  const auto value = static_cast<T>(operand);
  T seen = 0;
  if (is_page && host != nullptr && funct5 == 0) {  // the common one, without a loop
    seen = __atomic_fetch_add(reinterpret_cast<T*>(host), value, __ATOMIC_SEQ_CST);
    old_value = Extend(seen);
    return true;
  }
  if (!ReadOperand(va, host, is_page, seen)) return false;
  for (bool replaced = false; !replaced;) {
    const T desired = Combine(funct5, seen, value);
    if (!ReplaceOperand(va, host, is_page, seen, desired, replaced)) return false;
  }
  old_value = Extend(seen);
  return true;
}

template <typename T>
bool Interpreter::LoadReserved(uint64_t va, uint64_t& value) {
  std::byte* host = nullptr;
  bool is_page = false;
  T seen = 0;
  if (!AtomicOperand<T>(va, host, is_page)) return false;
  if (!ReadOperand(va, host, is_page, seen)) return false;
  value = Extend(seen);
  thread_->reservation_address = va;
  thread_->reservation_value = value;
  thread_->reservation_size = sizeof(T);
  return true;
}

// The reservation holds while the word has the value that LR saw: a store of the same value in
// between goes unnoticed (program_abi.md says so).
template <typename T>
bool Interpreter::StoreConditional(uint64_t va, uint64_t value, uint64_t& failed) {
  std::byte* host = nullptr;
  bool is_page = false;
  if (!AtomicOperand<T>(va, host, is_page)) return false;
  const bool reserved =
      thread_->reservation_size == sizeof(T) && thread_->reservation_address == va;
  bool replaced = false;
  if (reserved) {
    auto expected = static_cast<T>(thread_->reservation_value);
    if (!ReplaceOperand(va, host, is_page, expected, static_cast<T>(value), replaced)) return false;
  }
  thread_->reservation_size = 0;
  failed = replaced ? 0 : 1;
  return true;
}

template bool Interpreter::Amo<int32_t>(uint32_t, uint64_t, uint64_t, uint64_t&);
template bool Interpreter::Amo<int64_t>(uint32_t, uint64_t, uint64_t, uint64_t&);
template bool Interpreter::LoadReserved<int32_t>(uint64_t, uint64_t&);
template bool Interpreter::LoadReserved<int64_t>(uint64_t, uint64_t&);
template bool Interpreter::StoreConditional<int32_t>(uint64_t, uint64_t, uint64_t&);
template bool Interpreter::StoreConditional<int64_t>(uint64_t, uint64_t, uint64_t&);

}  // namespace sm
