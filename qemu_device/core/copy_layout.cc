// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "copy_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ts104 {
namespace {

// Order of bytes inside a GOB; Tegra X1 technical reference manual, "block linear".
uint64_t OffsetInGob(uint64_t x, uint64_t y) {
  return x % 64 / 32 * 256 + y % 8 / 2 * 64 + x % 32 / 16 * 32 + y % 2 * 16 + x % 16;
}

}  // namespace

uint64_t CopySurface::AddressOf(uint64_t y, uint64_t x) const {
  if (!block_linear) return base + static_cast<uint64_t>(pitch) * y + x;
  x += origin_x_bytes;
  y += origin_y;
  const uint64_t rows_per_block = kGobHeight << block_height_log2;
  const uint64_t blocks_per_row = (width_bytes + kGobWidth - 1) / kGobWidth;
  const uint64_t block_rows = (height + rows_per_block - 1) / rows_per_block;
  const uint64_t block_bytes = kGobBytes << (block_height_log2 + block_depth_log2);
  const uint64_t block_layer = layer >> block_depth_log2;
  const uint64_t layer_in_block = layer & ((uint64_t{1} << block_depth_log2) - 1);
  const uint64_t block =
      (block_layer * block_rows + y / rows_per_block) * blocks_per_row + x / kGobWidth;
  const uint64_t gob = (layer_in_block << block_height_log2) + y % rows_per_block / kGobHeight;
  return base + block * block_bytes + gob * kGobBytes + OffsetInGob(x, y);
}

uint64_t CopySurface::RunAt(uint64_t x) const {
  if (!block_linear) return std::numeric_limits<uint64_t>::max();
  return kGobRun - (x + origin_x_bytes) % kGobRun;
}

bool Remap::HasHoles() const {
  for (uint32_t i = 0; enabled && i < destination_components; ++i) {
    if (destination[i] == kNoWrite) return true;
  }
  return false;
}

bool Remap::IsValid() const {
  for (uint32_t i = 0; enabled && i < destination_components; ++i) {
    if (destination[i] > kNoWrite) return false;
    if (destination[i] < kConstA && destination[i] >= source_components) return false;
  }
  return true;
}

void Remap::Apply(std::span<const std::byte> from, std::span<std::byte> to, size_t count) const {
  for (size_t element = 0; element < count; ++element) {
    const std::byte* source = from.data() + element * source_bytes();
    std::byte* target = to.data() + element * destination_bytes();
    for (uint32_t i = 0; i < destination_components; ++i, target += component_bytes) {
      const uint8_t select = destination[i];
      if (select == kNoWrite) continue;
      if (select >= kConstA) {
        std::memcpy(target, &constants[select - kConstA], component_bytes);
      } else {
        std::memcpy(target, source + select * component_bytes, component_bytes);
      }
    }
  }
}

void CopyForward(std::byte* to, const std::byte* from, size_t bytes) {
  const auto distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (distance == 0 || distance >= bytes) {
    std::memmove(to, from, bytes);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min<size_t>(distance, bytes - done);
    std::memcpy(to + done, from + done, part);
    done += part;
  }
}

}  // namespace ts104
