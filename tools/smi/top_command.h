// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// `turnstile-smi top` on a terminal.
#pragma once

#include <cstdint>
#include <functional>

#include "files.h"
#include "model.h"

namespace turnstile_smi {

struct TopOptions {
  double interval_s = 1;
  uint64_t count = 0;  // frames; 0: until 'q', or a signal
};

// Reads with `read` and shows frames. On a terminal they take the whole screen, one over the other;
// keys: q ends, u, v and n sort by utilisation, VM and number. Otherwise they are printed, without
// colours, `count` of them or one. The terminal is as before when this returns or throws.
void Top(const Files& files, const std::function<Host()>& read, const TopOptions& options);

}  // namespace turnstile_smi
