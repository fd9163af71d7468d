// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// `turnstile-smi trace`: records for a while and writes the picture of that time.
#pragma once

#include <string>

#include "files.h"
#include "model.h"

namespace turnstile_smi {

struct TraceOptions {
  double seconds = 5;
  std::string output;  // a path; "-": standard output
};

// Records until the time is over or a signal asks to end (SIGINT, SIGTERM), with a bar on standard
// error when that is a terminal. The file appears as a whole, or not at all. `host`: whose lanes.
// Returns the line that says what was written, "" when that is standard output. Throws Failure.
std::string Trace(const Files& files, const Host& host, const TraceOptions& options);

}  // namespace turnstile_smi
