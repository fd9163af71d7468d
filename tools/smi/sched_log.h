// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The scheduler's last decisions: the turns that debugfs keeps.
#pragma once

#include <string>
#include <vector>

#include "fields.h"
#include "files.h"
#include "json.h"
#include "model.h"

namespace turnstile_smi {

// The last turns of one GPU, at most 200 of each runlist.
struct SliceLog {
  std::string gpu;  // PCI address
  int error = 0;    // errno of reading it; only root may
  std::vector<Slice> slices;
};

SliceLog ReadSliceLog(const Files& files, const Gpu& gpu);

// A table per GPU; times count back from the end of the last turn of its runlist.
std::string ToText(const std::vector<SliceLog>& logs, const Host& host);
Json ToJson(const std::vector<SliceLog>& logs, const Host& host);

}  // namespace turnstile_smi
