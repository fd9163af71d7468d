// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The operating system as C++ sees it: thin wrappers of host_abi.h and owners of what it gives out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/errno_map.h"
#include "base/result.h"
#include "base/units.h"
#include "core/host_abi.h"

namespace turnstile {

using base::Status;

inline constexpr uint64_t kPageSize = TS_PAGE_SIZE;
inline constexpr uint64_t kPageMask = kPageSize - 1;

// Bytes of host memory that one vGPU holds. Any thread.
class MemoryCounter {
 public:
  void Add(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void Sub(uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bytes_{0};
};

// The physical device: registers, VRAM, DMA memory. A handle, copied freely. Contexts: host_abi.h.
class HostGpu {
 public:
  explicit HostGpu(ts_host_gpu* handle) : handle_(handle) {}

  uint32_t Read32(uint32_t offset) const { return ts_host_read32(handle_, offset); }
  void Write32(uint32_t offset, uint32_t value) const { ts_host_write32(handle_, offset, value); }

  void VramRead(base::VramOffset offset, void* buffer, size_t length) const {
    ts_host_vram_read(handle_, offset.value(), buffer, length);
  }
  void VramWrite(base::VramOffset offset, const void* buffer, size_t length) const {
    ts_host_vram_write(handle_, offset.value(), buffer, length);
  }
  void SleepUs(uint32_t us) const { ts_host_sleep_us(us); }
  uint64_t NowNs() const { return ts_host_now_ns(); }

  ts_host_gpu* handle() const { return handle_; }

 private:
  ts_host_gpu* handle_;
};

// Coherent memory that the device reads (shadow tables, lists, instance blocks). Sole owner.
class DmaBuffer {
 public:
  DmaBuffer() = default;
  DmaBuffer(const DmaBuffer&) = delete;
  DmaBuffer& operator=(const DmaBuffer&) = delete;
  DmaBuffer(DmaBuffer&& other) noexcept { Swap(other); }
  DmaBuffer& operator=(DmaBuffer&& other) noexcept {
    DmaBuffer taken(std::move(other));
    Swap(taken);
    return *this;
  }
  ~DmaBuffer() {
    if (memory_.cpu == nullptr) return;
    ts_host_dma_free(gpu_, size_, &memory_);
    if (counter_ != nullptr) counter_->Sub(size_);
  }

  // Zeroed, 4 KiB aligned; `size` a multiple of 4 KiB. `counter` may be null. kNoMemory. Process
  // context.
  static base::Result<DmaBuffer> Create(HostGpu gpu, size_t size, MemoryCounter* counter) {
    DmaBuffer buffer;
    if (ts_host_dma_alloc(gpu.handle(), size, &buffer.memory_) < 0) return Status::kNoMemory;
    buffer.gpu_ = gpu.handle();
    buffer.size_ = size;
    buffer.counter_ = counter;
    if (counter != nullptr) counter->Add(size);
    return base::Result<DmaBuffer>(std::move(buffer));
  }

  explicit operator bool() const { return memory_.cpu != nullptr; }
  base::Hpa address() const { return base::Hpa(memory_.dma); }
  size_t size() const { return size_; }

  // The device may read a word while it is written: whole words, never torn.
  uint64_t Load64(size_t index) const {
    return __atomic_load_n(static_cast<const uint64_t*>(memory_.cpu) + index, __ATOMIC_RELAXED);
  }
  void Store64(size_t index, uint64_t value) {
    __atomic_store_n(static_cast<uint64_t*>(memory_.cpu) + index, value, __ATOMIC_RELEASE);
  }
  uint32_t Load32(size_t index) const {
    return __atomic_load_n(static_cast<const uint32_t*>(memory_.cpu) + index, __ATOMIC_RELAXED);
  }
  void Store32(size_t index, uint32_t value) {
    __atomic_store_n(static_cast<uint32_t*>(memory_.cpu) + index, value, __ATOMIC_RELEASE);
  }

 private:
  void Swap(DmaBuffer& other) {
    std::swap(memory_, other.memory_);
    std::swap(gpu_, other.gpu_);
    std::swap(size_, other.size_);
    std::swap(counter_, other.counter_);
  }

  ts_host_dma memory_ = {nullptr, 0};
  ts_host_gpu* gpu_ = nullptr;
  size_t size_ = 0;
  MemoryCounter* counter_ = nullptr;
};

}  // namespace turnstile
