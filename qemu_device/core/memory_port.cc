// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "memory_port.h"

#include <cstring>

namespace ts104 {
namespace {

bool IsWord(const std::byte* host, size_t bytes) {
  return (bytes == 4 || bytes == 8) && reinterpret_cast<uintptr_t>(host) % bytes == 0;
}

void CopyFromShared(std::byte* to, const std::byte* shared, size_t bytes) {
  if (!IsWord(shared, bytes)) {
    std::memcpy(to, shared, bytes);
  } else if (bytes == 4) {
    const auto word = __atomic_load_n(reinterpret_cast<const uint32_t*>(shared), __ATOMIC_ACQUIRE);
    std::memcpy(to, &word, sizeof(word));
  } else {
    const auto word = __atomic_load_n(reinterpret_cast<const uint64_t*>(shared), __ATOMIC_ACQUIRE);
    std::memcpy(to, &word, sizeof(word));
  }
}

void CopyToShared(std::byte* shared, const std::byte* from, size_t bytes) {
  if (!IsWord(shared, bytes)) {
    std::memcpy(shared, from, bytes);
  } else if (bytes == 4) {
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<uint32_t*>(shared), word, __ATOMIC_RELEASE);
  } else {
    uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<uint64_t*>(shared), word, __ATOMIC_RELEASE);
  }
}

}  // namespace

bool MemoryPort::InRange(PhysicalAddress at, uint64_t bytes) const {
  const uint64_t limit = at.aperture == Aperture::kVid ? vram_.size() : kSystemAddressLimit;
  return at.offset < limit && bytes <= limit - at.offset;
}

std::byte* MemoryPort::Vram(uint64_t offset, uint64_t bytes) const {
  return InRange({Aperture::kVid, offset}, bytes) ? vram_.data() + offset : nullptr;
}

BusStatus MemoryPort::Read(PhysicalAddress at, std::span<std::byte> data) const {
  if (data.empty()) return BusStatus::kOk;
  if (!InRange(at, data.size())) return BusStatus::kOutOfRange;
  if (at.aperture == Aperture::kVid) {
    CopyFromShared(data.data(), vram_.data() + at.offset, data.size());
    return BusStatus::kOk;
  }
  if (!bus_master_.load(std::memory_order_relaxed)) return BusStatus::kRejected;
  return ops_.dma_read(opaque_, at.offset, data.data(), data.size()) == 0 ? BusStatus::kOk
                                                                          : BusStatus::kRejected;
}

BusStatus MemoryPort::Write(PhysicalAddress at, std::span<const std::byte> data) const {
  if (data.empty()) return BusStatus::kOk;
  if (!InRange(at, data.size())) return BusStatus::kOutOfRange;
  if (at.aperture == Aperture::kVid) {
    CopyToShared(vram_.data() + at.offset, data.data(), data.size());
    return BusStatus::kOk;
  }
  if (!bus_master_.load(std::memory_order_relaxed)) return BusStatus::kRejected;
  return ops_.dma_write(opaque_, at.offset, data.data(), data.size()) == 0 ? BusStatus::kOk
                                                                           : BusStatus::kRejected;
}

}  // namespace ts104
