// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdio>
#include <string>

namespace turnstile_smi {

// Writes all of `text` to `file`, which messages call `name`, and flushes it. Throws Failure.
void WriteAll(std::FILE* file, const std::string& text, const std::string& name);
// The same to standard output.
void Print(const std::string& text);

}  // namespace turnstile_smi
