// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Reads a host: GPUs, types, vGPUs and who uses them.
#pragma once

#include <string>

#include "files.h"
#include "model.h"

namespace turnstile_smi {

// Everything turnstile-smi shows, once. Needs no rights: what only root may read is left out, and a
// note says so. A vGPU that goes while it is read is left out. Shares are filled in, usage is not.
Host ReadHost(const Files& files);

// Where a GPU's and a vGPU's attributes are.
std::string GpuAttributes(const std::string& address);
std::string VgpuAttributes(const std::string& uuid);
// Where its debugfs folder is.
std::string GpuDebugfs(const std::string& address);

}  // namespace turnstile_smi
