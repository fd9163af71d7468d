// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// How a command ends that cannot do what it is asked for.
#pragma once

#include <string>

namespace turnstile_smi {

// The program's exit status.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kNoDriver = 3, kNoGpu = 4, kNoSuchId = 5 };

// Thrown by commands; main() prints the line and exits.
struct Failure {
  ExitCode code;
  std::string message;  // one line, without newline
};

}  // namespace turnstile_smi
