// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What the driver prints of its turns and events: in debugfs, and as tracepoints
// (docs/sysfs-abi.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turnstile_smi {

// A line "name=value name=value". What has no '=' is left out; of a name twice, the first counts.
class Fields {
 public:
  explicit Fields(std::string_view line = "");

  // "" when there is no such field.
  std::string Text(std::string_view name) const;
  // Decimal, or hexadecimal after "0x"; nullopt when it is no number or not there.
  std::optional<uint64_t> Number(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

// A turn of a vGPU on a runlist, as the scheduler ended it.
struct Slice {
  uint64_t runlist = 0;       // 0 to 2, as kEngines
  uint64_t function = 0;      // whose; 0: nobody's, the engine was kept idle
  uint64_t start_ns = 0;      // CLOCK_MONOTONIC
  uint64_t end_ns = 0;        // the same
  uint64_t run_ns = 0;        // time on the engine in it, by the GPU's clock
  uint64_t target_ns = 0;     // how long it was planned
  uint64_t total_run_ns = 0;  // of the function since its vGPU was made
};

// The slice that the fields of `turnstile_slice` or a line of debugfs' `slices` describe; nullopt
// when one is missing, a runlist is unknown or it ends before it begins.
std::optional<Slice> ParseSlice(const Fields& fields);

// debugfs' `slices`: lines that are none are left out. Of each runlist in order of time.
std::vector<Slice> ParseSlices(std::string_view text);

// An event of the group turnstile, in a text as tracefs' `trace` is.
struct TraceEvent {
  uint64_t time_ns = 0;  // by the clock of the trace, to the microsecond
  std::string name;      // without "turnstile_"
  Fields fields;
};

struct TraceText {
  std::vector<TraceEvent> events;
  uint64_t lost = 0;  // overwritten, or dropped, before they could be read
};

// Lines that are no event of the driver are left out.
TraceText ParseTrace(std::string_view text);

}  // namespace turnstile_smi
