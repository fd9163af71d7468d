// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What an administrator may set, with ranges. 0 means "default" where a range allows it.
#pragma once

#include <cstdint>

namespace turnstile {

// Of a GPU. The order is that of ts_gpu_sched_param (core_abi.h).
struct SchedParams {
  uint32_t arr = 1;                 // adaptive round robin instead of strict, equal and fixed share
  uint32_t frequency_hz = 0;        // of slices with arr; 0: 480, types of more than 8: 960
  uint32_t averaging_factor = 33;   // an overshoot is paid back over about so many slices
  uint32_t timeslice_us = 0;        // without arr, weighted, latency; 0: 2000, as above: 1000
  uint32_t hold_us = 150;           // an idle vGPU keeps its slice so long although others wait
  uint32_t ctxsw_timeout_ms = 500;  // then a context that will not leave is dropped
  uint32_t strict = 0;              // weighted, latency: the slices of idle vGPUs stay idle
};

// Of a vGPU. The order is that of ts_vgpu_sched_param.
struct VgpuSchedParams {
  uint32_t weight = 100;
  uint32_t cap_percent = 100;  // of the time of an engine, however idle the rest is
  uint32_t latency_us = 0;  // latency policy: on the hardware so soon after waking; 0: no promise
};

struct SchedRange {
  const char* name;
  uint32_t min;
  uint32_t max;
  bool zero;  // 0 is legal too
};

inline constexpr SchedRange kSchedRanges[] = {
    {"arr", 0, 1, true},
    {"frequency_hz", 63, 960, true},
    {"averaging_factor", 1, 60, false},
    {"timeslice_us", 1000, 30000, true},
    {"hold_us", 1, 10000, true},
    {"ctxsw_timeout_ms", 1, 10000, false},
    {"strict", 0, 1, true},
};
inline constexpr SchedRange kVgpuSchedRanges[] = {
    {"weight", 1, 10000, false},
    {"cap_percent", 1, 100, false},
    {"latency_us", 200, 1000000, true},
};

constexpr bool InRange(const SchedRange& range, uint32_t value) {
  return (value == 0 && range.zero) || (value >= range.min && value <= range.max);
}

}  // namespace turnstile
