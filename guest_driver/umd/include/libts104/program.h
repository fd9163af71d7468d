// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libts104/device.h"

namespace libts104 {

// What the loader takes from an ELF file (common/ts104/program_abi.md, File format).
struct ProgramImage {
  std::vector<std::byte> bytes;  // the segments, first one at 0
  uint64_t entry = 0;            // offset in `bytes`
  uint32_t shared_bytes = 0;
  uint32_t local_bytes = 0;
  uint32_t barriers = 0;
  uint32_t argument_bytes = 0;
};

// Throws Error naming what is wrong: no ELF, another machine, 32 bits, truncated, relocations,
// segments of impossible size, entry outside, note missing or out of range.
ProgramImage ParseElf(std::span<const std::byte> file);

// A program in GPU memory, ready to launch.
class Program {
 public:
  Program(Device& device, std::span<const std::byte> elf, Placement placement);
  // Throws Error when the file cannot be read.
  static Program FromFile(Device& device, const std::string& path, Placement placement);
  // One that comes with libts104, by the name of its source in kernels/.
  static Program Embedded(Device& device, const std::string& name, Placement placement);

  uint64_t entry_va() const { return code_.va() + image_.entry; }
  const ProgramImage& image() const { return image_; }

 private:
  ProgramImage image_;
  Buffer code_;
};

}  // namespace libts104
