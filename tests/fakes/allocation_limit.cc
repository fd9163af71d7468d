// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "fakes/allocation_limit.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kUnlimited = SIZE_MAX;

thread_local size_t allowed_allocations = kUnlimited;
thread_local size_t until_failure = 0;  // 0: none is to come
std::atomic<size_t> live_allocations{0};
std::atomic<size_t> total_allocations{0};

void* Allocate(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  total_allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory != nullptr) live_allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* AllocateOrThrow(size_t size) {
  void* memory = Allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* AllocateLimited(size_t size) {
  if (until_failure != 0 && --until_failure == 0) return nullptr;
  if (allowed_allocations == 0) return nullptr;
  if (allowed_allocations != kUnlimited) --allowed_allocations;
  return Allocate(size);
}

void Deallocate(void* memory) {
  if (memory != nullptr) live_allocations.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

namespace fakes {

AllocationLimit::AllocationLimit(size_t allowed) { allowed_allocations = allowed; }
AllocationLimit::~AllocationLimit() { allowed_allocations = kUnlimited; }
AllocationFailure::AllocationFailure(size_t nth) { until_failure = nth; }
AllocationFailure::~AllocationFailure() { until_failure = 0; }
bool AllocationFailure::reached() const { return until_failure == 0; }
size_t LiveAllocations() { return live_allocations.load(std::memory_order_relaxed); }
size_t TotalAllocations() { return total_allocations.load(std::memory_order_relaxed); }

}  // namespace fakes

// All of them, so that a sanitizer never sees memory of one family freed by another.
void* operator new(size_t size) { return AllocateOrThrow(size); }
void* operator new[](size_t size) { return AllocateOrThrow(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return AllocateLimited(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return AllocateLimited(size); }
void operator delete(void* memory) noexcept { Deallocate(memory); }
void operator delete[](void* memory) noexcept { Deallocate(memory); }
void operator delete(void* memory, size_t) noexcept { Deallocate(memory); }
void operator delete[](void* memory, size_t) noexcept { Deallocate(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { Deallocate(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { Deallocate(memory); }
