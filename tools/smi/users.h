// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Which process has which vGPU open, and which VM that is.
#pragma once

#include <string>
#include <vector>

#include "files.h"
#include "model.h"

namespace turnstile_smi {

// Sets `user` and `state` of every vGPU. The process that has a vGPU open has its group,
// /dev/vfio/GROUP, or its own node, /dev/vfio/devices/vfioN, among its descriptors. A note says so
// when processes could not be looked at and a vGPU may be theirs.
void FindUsers(const Files& files, Host& host);

// The arguments in /proc/PID/cmdline.
std::vector<std::string> SplitCommandLine(const std::string& text);
// What QEMU's "-name guest=NAME,…" or "-name NAME,…" names; ",," stands for a comma. "": nothing
// does.
std::string VmName(const std::vector<std::string>& arguments);

}  // namespace turnstile_smi
