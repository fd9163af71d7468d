// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "failure.h"

namespace turnstile_smi {

void WriteAll(std::FILE* file, const std::string& text, const std::string& name) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file)) {
    throw Failure{kFailed, fmt::format("{} cannot be written: {}", name, std::strerror(errno))};
  }
}

void Print(const std::string& text) { WriteAll(stdout, text, "standard output"); }

}  // namespace turnstile_smi
