// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A timeline as Perfetto and Chrome read it: the Trace Event Format, as JSON.
#pragma once

#include <string>

#include "timeline.h"

namespace turnstile_smi {

// An object with `traceEvents`: a process per owner, a thread per lane, a complete event ("X") per
// span, a nanosecond short, and an instant ("i") per mark. Times are microseconds of
// CLOCK_MONOTONIC, to the nanosecond.
// `otherData` has `lost_events`.
std::string ChromeTrace(const Timeline& timeline);

}  // namespace turnstile_smi
