// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "libts104/transport.h"

namespace libts104 {

class Device;

// GPU memory with an address for the GPU (va) and one for the CPU. Movable. The GPU must be done
// with it before it is destroyed, and its Device must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  uint64_t va() const { return va_; }
  uint64_t size() const { return size_; }  // as asked for
  Placement placement() const { return allocation_.placement; }
  const Allocation& allocation() const { return allocation_; }
  void* data() { return allocation_.cpu; }
  const void* data() const { return allocation_.cpu; }
  template <typename T>
  std::span<T> as() {
    return {static_cast<T*>(allocation_.cpu), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {static_cast<const T*>(allocation_.cpu), size_ / sizeof(T)};
  }

 private:
  friend class Device;
  Device* device_ = nullptr;
  Allocation allocation_;
  uint64_t va_ = 0;
  uint64_t size_ = 0;
};

// Ranges of GPU address space. First fit. Not synchronized.
class VaAllocator {
 public:
  VaAllocator(uint64_t start, uint64_t end);
  ~VaAllocator();
  VaAllocator(const VaAllocator&) = delete;
  VaAllocator& operator=(const VaAllocator&) = delete;

  // 0 when there is no room. `align` is a power of two.
  uint64_t Alloc(uint64_t size, uint64_t align);
  void Free(uint64_t va, uint64_t size);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A TS104 and one address space on it. Any thread.
class Device {
 public:
  // transport: "drm", "vfio", or "" for whichever `path` looks like (empty path: drm).
  static std::unique_ptr<Device> Open(const std::string& transport, const std::string& path);
  explicit Device(std::unique_ptr<Transport> transport);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return transport_->info(); }
  Transport& transport() { return *transport_; }

  // Zeroed, bound below 2^40. Throws Error: size 0, or no room (with numbers).
  Buffer Alloc(uint64_t size, Placement placement, bool read_only = false);

 private:
  friend class Buffer;
  void Release(Buffer& buffer) noexcept;

  std::unique_ptr<Transport> transport_;
  std::mutex mutex_;
  VaAllocator va_;
};

}  // namespace libts104
