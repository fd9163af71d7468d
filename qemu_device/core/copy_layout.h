// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The arithmetic of a copy: where bytes of a surface lie, and what remapping makes of an element.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_COPY_LAYOUT_H_
#define TURNSTILE_QEMU_DEVICE_CORE_COPY_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ts104 {

// A GOB is 64 bytes wide and 8 rows high.
inline constexpr uint64_t kGobWidth = 64;
inline constexpr uint64_t kGobHeight = 8;
inline constexpr uint64_t kGobBytes = kGobWidth * kGobHeight;
// Bytes that lie side by side both in a row and in memory.
inline constexpr uint64_t kGobRun = 16;

// One side of a copy.
struct CopySurface {
  bool block_linear = false;
  bool physical = false;
  bool physical_is_system = false;
  uint64_t base = 0;
  int64_t pitch = 0;  // pitch layout: bytes from line to line
  // Block-linear layout only.
  uint32_t block_height_log2 = 0;  // in GOBs
  uint32_t block_depth_log2 = 0;   // in layers
  uint64_t width_bytes = 0;
  uint64_t height = 0;
  uint64_t layer = 0;
  uint64_t origin_x_bytes = 0;
  uint64_t origin_y = 0;

  // Address of byte `x` of line `y`, both counted from the origin.
  uint64_t AddressOf(uint64_t y, uint64_t x) const;
  // How many bytes from there on follow each other in memory.
  uint64_t RunAt(uint64_t x) const;
};

// SET_REMAP_COMPONENTS with the constants; without remapping an element is one byte.
struct Remap {
  enum Source : uint8_t { kConstA = 4, kConstB = 5, kNoWrite = 6 };

  bool enabled = false;
  uint32_t component_bytes = 1;
  uint32_t source_components = 1;
  std::array<uint8_t, 4> destination{};  // by component: source component 0-3 or a Source
  uint32_t destination_components = 1;
  std::array<uint32_t, 2> constants{};

  uint32_t source_bytes() const { return enabled ? component_bytes * source_components : 1; }
  uint32_t destination_bytes() const {
    return enabled ? component_bytes * destination_components : 1;
  }
  // Some bytes of the destination keep their value.
  bool HasHoles() const;
  // Every selector names something that exists.
  bool IsValid() const;
  // Makes `count` destination elements; holes are left as they are in `to`.
  void Apply(std::span<const std::byte> from, std::span<std::byte> to, size_t count) const;
};

// Copies as if byte by byte from the first to the last, whatever overlaps.
void CopyForward(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_COPY_LAYOUT_H_
