// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Physical memory as the GPU's units reach it: VRAM, and system memory through DMA.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_MEMORY_PORT_H_
#define TURNSTILE_QEMU_DEVICE_CORE_MEMORY_PORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "model_abi.h"

namespace ts104 {

enum class Aperture : uint8_t { kVid, kSys };

// Aperture of a TARGET field (0 VID, 2 and 3 system memory); nullopt for 1.
constexpr std::optional<Aperture> ApertureOfTarget(uint32_t target) {
  if (target == 0) return Aperture::kVid;
  if (target == 2 || target == 3) return Aperture::kSys;
  return std::nullopt;
}

struct PhysicalAddress {
  Aperture aperture = Aperture::kVid;
  uint64_t offset = 0;

  PhysicalAddress operator+(uint64_t bytes) const { return {aperture, offset + bytes}; }
  bool operator==(const PhysicalAddress&) const = default;
};

inline constexpr uint64_t kSystemAddressLimit = uint64_t{1} << 47;

enum class BusStatus : uint8_t {
  kOk,
  kOutOfRange,  // beyond VRAM, or a system address of 2^47 and more
  kRejected,    // the platform refused, or bus mastering is off
};

// Thread context: any; the object has no state but the bus master flag. Words of natural alignment
// in VRAM are moved as one, because vCPUs read and write them at the same time.
class MemoryPort {
 public:
  // `vram`, `ops` and `opaque` outlive the port.
  MemoryPort(std::span<std::byte> vram, const ts104_host_ops& ops, void* opaque)
      : vram_(vram), ops_(ops), opaque_(opaque) {}

  uint64_t vram_size() const { return vram_.size(); }
  void set_bus_master(bool on) { bus_master_.store(on, std::memory_order_relaxed); }

  // Whether [at, at + bytes) exists at all; says nothing about what the platform will do.
  bool InRange(PhysicalAddress at, uint64_t bytes) const;
  // Host address of VRAM bytes, nullptr when they are not all inside.
  std::byte* Vram(uint64_t offset, uint64_t bytes) const;

  // Tells the test that watches, if there is one: see ts104_host_ops::touched.
  void Report(uint32_t gfid, PhysicalAddress at, uint64_t bytes) const {
    if (ops_.touched == nullptr) return;
    ops_.touched(opaque_, gfid, at.aperture == Aperture::kSys, at.offset, bytes);
  }
  // The same of what may lie outside of memory: an access there reaches nothing.
  void ReportInRange(uint32_t gfid, PhysicalAddress at, uint64_t bytes) const {
    if (InRange(at, bytes)) Report(gfid, at, bytes);
  }

  BusStatus Read(PhysicalAddress at, std::span<std::byte> data) const;
  BusStatus Write(PhysicalAddress at, std::span<const std::byte> data) const;

  template <typename T>
  BusStatus ReadValue(PhysicalAddress at, T& value) const {
    return Read(at, std::as_writable_bytes(std::span(&value, 1)));
  }
  template <typename T>
  BusStatus WriteValue(PhysicalAddress at, const T& value) const {
    return Write(at, std::as_bytes(std::span(&value, 1)));
  }

 private:
  const std::span<std::byte> vram_;
  const ts104_host_ops& ops_;
  void* const opaque_;
  std::atomic<bool> bus_master_{false};
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_MEMORY_PORT_H_
