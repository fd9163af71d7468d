// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Runlists as they lie in memory, decoded and judged.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_FORMAT_H_
#define TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_FORMAT_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ts104 {

using RunlistEntry = std::array<uint32_t, 4>;

inline constexpr uint32_t kMaxRunlistEntries = 4096 + 4096;

struct Tsg {
  uint32_t tsgid = 0;
  uint32_t gfid = 0;
  uint64_t timeslice_ns = 1024;
  uint32_t header_index = 0;  // of its header in the list
  std::vector<uint32_t> chids;
};

struct ParsedRunlist {
  std::vector<Tsg> tsgs;
  bool bad = false;  // SCHED_ERROR BAD_TSG; `tsgs` ends before the bad TSG
};

// Never fails otherwise. behaviour.md §4, "Submit". `entries` beyond kMaxRunlistEntries are not
// looked at.
ParsedRunlist ParseRunlist(std::span<const RunlistEntry> entries);

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_RUNLIST_FORMAT_H_
