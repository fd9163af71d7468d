// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// vGPUs that nobody has open: they hold VRAM, and no guest computes on them.
#pragma once

#include <string>
#include <vector>

#include "files.h"
#include "json.h"
#include "model.h"

namespace turnstile_smi {

struct Orphan {
  std::string uuid;
  std::string type;
  std::string gpu;  // PCI address
  uint64_t vram_bytes = 0;
  // Of mdevctl: "auto" or "manual"; "": it is not defined, and gone after a reboot.
  std::string start;
};

// Those of `host`, in its order. A vGPU whose user could not be looked for is none.
std::vector<Orphan> FindOrphans(const Files& files, const Host& host);

// A table, with the command that takes one away, then the notes of `host`.
std::string ToText(const std::vector<Orphan>& orphans, const Host& host);
Json ToJson(const std::vector<Orphan>& orphans, const Host& host);

}  // namespace turnstile_smi
