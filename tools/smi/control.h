// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// sched set: writes attributes of the scheduler and says in one line why one was refused.
#pragma once

#include <string>
#include <vector>

#include "files.h"
#include "model.h"

namespace turnstile_smi {

struct Setting {
  std::string name;
  std::string value;
};

// What `sched set` is to change: a GPU, or the vGPU `uuid`.
struct Target {
  std::string gpu;   // its address, "" for a vGPU
  std::string uuid;  // "" for a GPU
};

// "NAME=VALUE" as a Setting; a name that the target has not, or no '=', is an error, in `problem`.
Setting ParseSetting(const std::string& text, const Target& target, std::string& problem);

// Writes one setting. Returns "" or one line: what was written where, the errno's meaning, and the
// legal values. The kernel decides what is legal.
std::string Apply(const Files& files, const Target& target, const Setting& setting);

// The value that is in force; "" when it cannot be read.
std::string Current(const Files& files, const Target& target, const std::string& name);

}  // namespace turnstile_smi
