// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The programs of this folder, as ELF files inside the executable that links them.
#pragma once

#include <span>
#include <string_view>

namespace ts104 {

struct EmbeddedProgram {
  const char* name;  // as the source file without its ending
  std::span<const unsigned char> elf;
};

std::span<const EmbeddedProgram> EmbeddedPrograms();

// The file named `name`; empty when there is none.
inline std::span<const unsigned char> FindEmbeddedProgram(std::string_view name) {
  for (const EmbeddedProgram& program : EmbeddedPrograms()) {
    if (name == program.name) return program.elf;
  }
  return {};
}

}  // namespace ts104
