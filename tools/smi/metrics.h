// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// OpenMetrics 1.0 text of a host, for a scraper or node_exporter's textfile collector.
#pragma once

#include <string>
#include <string_view>

#include "model.h"

namespace turnstile_smi {

// Ends with "# EOF". Counters of a vGPU begin at 0 when it is made.
std::string Metrics(const Host& host);

// A label's value with '\', '"' and newline escaped.
std::string EscapeLabel(std::string_view value);

}  // namespace turnstile_smi
