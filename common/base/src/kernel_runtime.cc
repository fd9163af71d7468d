// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The whole C++ runtime of a kernel module. Every module compiles it once, by including it in its
// core/runtime.cc.
//
// What is absent is absent on purpose, so that modpost refuses code that needs it: throwing
// operator new, __cxa_atexit and __cxa_guard_* (statics with constructors or destructors), the
// unwinder.

#include <cstddef>
#include <new>

#include "base/check.h"
#include "base/runtime_abi.h"

namespace std {
const nothrow_t nothrow{};
}  // namespace std

void* operator new(size_t size, const std::nothrow_t&) noexcept { return ts_alloc(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return ts_alloc(size); }

void operator delete(void* memory) noexcept { ts_free(memory); }
void operator delete[](void* memory) noexcept { ts_free(memory); }
// Not declared by the compiler itself under -fno-sized-deallocation.
void operator delete(void* memory, size_t) noexcept;
void operator delete[](void* memory, size_t) noexcept;
void operator delete(void* memory, size_t) noexcept { ts_free(memory); }
void operator delete[](void* memory, size_t) noexcept { ts_free(memory); }
// Called only when a constructor throws, which cannot happen; the compiler may name it all the
// same.
void operator delete(void* memory, const std::nothrow_t&) noexcept { ts_free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { ts_free(memory); }

extern "C" {

// The vtable entry of a pure virtual function: reached only during construction or destruction.
void __cxa_pure_virtual();
void __cxa_pure_virtual() { TS_CHECK(!"pure virtual function called"); }

}  // extern "C"
