// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What a host needs to give vGPUs to guests, what of it is wrong, and the command that mends it.
#pragma once

#include <string>
#include <vector>

#include "files.h"
#include "json.h"

namespace turnstile_smi {

enum class Verdict {
  kOk,
  kWarning,  // works, but not as most hosts want it, or it could not be looked at
  kWrong,    // guests get no vGPU until it is mended
};

struct Finding {
  std::string what;  // what was looked at, a word or two
  Verdict verdict = Verdict::kOk;
  std::string text;  // what was found
  std::string mend;  // a command, or what to do; "" with kOk
};

// Looks at: kernel, module, GPUs, types, VFIO, IOMMU, mdevctl and its definitions, libvirt, locked
// memory of those who use vGPUs, versions of packages. `kernel_release`: as uname says. Reads only;
// never throws.
std::vector<Finding> Examine(const Files& files, const std::string& kernel_release);

// A line per finding, and its mend below it.
std::string ToText(const std::vector<Finding>& findings);
Json ToJson(const std::vector<Finding>& findings);

}  // namespace turnstile_smi
