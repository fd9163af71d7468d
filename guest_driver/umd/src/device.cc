// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "libts104/device.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <utility>

namespace libts104 {

namespace {

// The first 4 GiB stay unmapped, so that small wild pointers fault. Rings, push buffers and launch
// descriptors must lie below 2^40.
constexpr uint64_t kVaStart = uint64_t{1} << 32;
constexpr uint64_t kVaEnd = uint64_t{1} << 40;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kBigPage = 64u << 10;
constexpr uint64_t kHugePage = 2u << 20;

}  // namespace

struct VaAllocator::Impl {
  std::map<uint64_t, uint64_t> free;  // start -> size
};

VaAllocator::VaAllocator(uint64_t start, uint64_t end) : impl_(std::make_unique<Impl>()) {
  impl_->free[start] = end - start;
}

VaAllocator::~VaAllocator() = default;

uint64_t VaAllocator::Alloc(uint64_t size, uint64_t align) {
  for (auto it = impl_->free.begin(); it != impl_->free.end(); ++it) {
    const auto [start, length] = *it;
    const uint64_t va = (start + align - 1) & ~(align - 1);
    const uint64_t skipped = va - start;
    if (skipped > length || size > length - skipped) continue;
    impl_->free.erase(it);
    if (skipped > 0) impl_->free[start] = skipped;
    if (length - skipped > size) impl_->free[va + size] = length - skipped - size;
    return va;
  }
  return 0;
}

void VaAllocator::Free(uint64_t va, uint64_t size) {
  auto next = impl_->free.lower_bound(va);
  if (next != impl_->free.end() && next->first == va + size) {
    size += next->second;
    next = impl_->free.erase(next);
  }
  if (next != impl_->free.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == va) {
      before->second += size;
      return;
    }
  }
  impl_->free[va] = size;
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      allocation_(std::exchange(other.allocation_, {})),
      va_(std::exchange(other.va_, 0)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(allocation_, taken.allocation_);
  std::swap(va_, taken.va_);
  std::swap(size_, taken.size_);
  return *this;
}

Buffer::~Buffer() {
  if (device_ != nullptr) device_->Release(*this);
}

std::unique_ptr<Device> Device::Open(const std::string& transport, const std::string& path) {
  std::string kind = transport;
  if (kind.empty()) kind = path.empty() || path.starts_with("/dev/dri/") ? "drm" : "vfio";
  if (kind == "drm") return std::make_unique<Device>(OpenDrm(path));
  if (kind == "vfio") return std::make_unique<Device>(OpenVfio(path));
  throw Error(fmt::format("unknown transport '{}': drm or vfio", kind));
}

Device::Device(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)), va_(kVaStart, kVaEnd) {}

Device::~Device() = default;

Buffer Device::Alloc(uint64_t size, Placement placement, bool read_only) {
  if (size == 0) throw Error("a buffer of 0 bytes");
  if (size > kVaEnd - kVaStart) {
    throw Error(fmt::format("a buffer of {} bytes is larger than the address space", size));
  }
  Buffer buffer;
  buffer.allocation_ = transport_->Allocate(size, placement);
  buffer.size_ = size;
  const uint64_t mapped = buffer.allocation_.size;
  const uint64_t align = mapped >= kHugePage ? kHugePage : mapped >= kBigPage ? kBigPage : kPage;
  try {
    {
      const std::lock_guard guard(mutex_);
      buffer.va_ = va_.Alloc(mapped, align);
    }
    if (buffer.va_ == 0) throw Error("GPU address space is used up");
    transport_->Bind(buffer.va_, buffer.allocation_, read_only);
  } catch (...) {
    if (buffer.va_ != 0) {
      const std::lock_guard guard(mutex_);
      va_.Free(buffer.va_, mapped);
    }
    transport_->Free(buffer.allocation_);
    throw;
  }
  buffer.device_ = this;
  return buffer;
}

void Device::Release(Buffer& buffer) noexcept {
  const uint64_t mapped = buffer.allocation_.size;
  try {
    transport_->Unbind(buffer.va_, mapped);
  } catch (const Error&) {
    // The GPU may still reach the memory: it is not given back. Closing the device frees it.
    return;
  }
  transport_->Free(buffer.allocation_);
  const std::lock_guard guard(mutex_);
  va_.Free(buffer.va_, mapped);
}

}  // namespace libts104
