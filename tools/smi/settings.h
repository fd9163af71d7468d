// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The scheduler's settings: what is shown, and what sched set may write.
#pragma once

#include <array>

namespace turnstile_smi {

// Names and legal values as docs/sysfs-abi.md has them.
struct Attribute {
  const char* name;
  const char* legal;
};

// The policy, a name, and then numbers.
inline constexpr std::array<Attribute, 8> kGpuAttributes = {{
    {"policy", "best_effort, equal_share, fixed_share, weighted or latency"},
    {"arr", "0 or 1"},
    {"frequency_hz", "63 to 960, or 0"},
    {"averaging_factor", "1 to 60"},
    {"timeslice_us", "1000 to 30000, or 0"},
    {"hold_us", "0 to 10000"},
    {"ctxsw_timeout_ms", "1 to 10000"},
    {"strict", "0 or 1"},
}};

inline constexpr std::array<Attribute, 3> kVgpuAttributes = {{
    {"weight", "1 to 10000"},
    {"cap_percent", "1 to 100"},
    {"latency_us", "200 to 1000000, or 0"},
}};

}  // namespace turnstile_smi
