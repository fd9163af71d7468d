// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// PCI config space of a vGPU: the capabilities of register map §1, emulated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace turnstile {

// Guarded by the vGPU's mutex.
class PciConfig {
 public:
  static constexpr size_t kSize = 256;           // what exists
  static constexpr uint64_t kRegionSize = 4096;  // extended space reads 0

  // What a write asks for beyond the bytes.
  struct Effects {
    bool reset = false;            // FLR
    bool command_changed = false;  // see intx_disabled()
  };

  // `bar1_bytes`: a power of two. `subsystem`: the type's number.
  PciConfig(uint64_t bar1_bytes, uint64_t bar3_bytes, uint16_t subsystem);

  // Bytes beyond the end read 0. `length` 1..8.
  uint64_t Read(uint64_t offset, size_t length) const;
  Effects Write(uint64_t offset, uint64_t value, size_t length);
  // Power-on state. BARs are forgotten too: the user writes them again.
  void Reset();

  bool intx_disabled() const { return (bytes_[5] & 0x04) != 0; }

 private:
  void Define(size_t offset, size_t length, uint64_t value, uint64_t writable);
  void DefineCapabilities();

  std::array<uint8_t, kSize> bytes_{};
  std::array<uint8_t, kSize> power_on_{};
  std::array<uint8_t, kSize> writable_{};
};

}  // namespace turnstile
