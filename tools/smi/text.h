// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What people read. Names of VMs come from command lines of others: no control character of theirs
// reaches the terminal.
#pragma once

#include <string>
#include <string_view>

#include "model.h"

namespace turnstile_smi {

// The default table: a line and a table of vGPUs for each GPU, then the notes.
std::string Table(const Host& host);
// -q: everything that is known.
std::string Report(const Host& host);
// -s, -c: the types of every GPU; `creatable_only` leaves out those of which none can be made now.
std::string Types(const Host& host, bool creatable_only);
// -u: a line for each vGPU, and what stands above them.
std::string UsageHeader();
std::string UsageLines(const Host& host);
// sched show.
std::string Sched(const Host& host);

// `text` with '?' for every control character.
std::string Printable(std::string_view text);

}  // namespace turnstile_smi
