// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What people read. Names of VMs come from command lines of others: no control character of theirs
// reaches the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
// Columns that UTF-8 text takes.
size_t Width(std::string_view text);
std::string MiB(uint64_t bytes);
std::string Milliseconds(uint64_t ns);
// "ts104_v4" of "turnstile-ts104_v4".
std::string ShortType(const std::string& id);
// The VM; of another program its name in parentheses; "-": nobody's, or not known.
std::string UserName(const Vgpu& vgpu);
// What could not be read, a line each.
std::string Notes(const Host& host);
// Rows of cells as lines, each column as wide as its widest cell; the first row is the heading.
// `right` has an 'r' for each column that is aligned to the right.
std::string Align(const std::vector<std::vector<std::string>>& rows, std::string_view right);

}  // namespace turnstile_smi
