// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "libts104/program.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "embedded_programs.h"

namespace libts104 {

namespace {

// Instruction fetch may read ahead; the end of the code is followed by a page's rest of zeros.
constexpr uint64_t kTail = 64;
constexpr uint64_t kMaxFileBytes = 64u << 20;

std::vector<std::byte> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::vector<std::byte> bytes;
  std::vector<char> chunk(1u << 16);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    const auto* from = reinterpret_cast<const std::byte*>(chunk.data());
    bytes.insert(bytes.end(), from, from + in.gcount());
    if (bytes.size() > kMaxFileBytes) {
      throw Error(fmt::format("{} is larger than {} bytes", path, kMaxFileBytes));
    }
  }
  if (in.bad()) throw Error(fmt::format("cannot read {}", path));
  return bytes;
}

}  // namespace

Program::Program(Device& device, std::span<const std::byte> elf, Placement placement)
    : image_(ParseElf(elf)), code_(device.Alloc(image_.bytes.size() + kTail, placement)) {
  std::memcpy(code_.data(), image_.bytes.data(), image_.bytes.size());
}

Program Program::FromFile(Device& device, const std::string& path, Placement placement) {
  const std::vector<std::byte> bytes = ReadFile(path);
  try {
    return Program(device, bytes, placement);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

Program Program::Embedded(Device& device, const std::string& name, Placement placement) {
  const auto elf = ts104::FindEmbeddedProgram(name);
  if (elf.empty()) throw Error(fmt::format("no program '{}' in this build", name));
  return Program(device, std::as_bytes(elf), placement);
}

}  // namespace libts104
