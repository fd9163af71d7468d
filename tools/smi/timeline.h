// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Who was on which engine when, who waited, and what else happened: a picture of time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fields.h"
#include "model.h"

namespace turnstile_smi {

using Arguments = std::vector<std::pair<std::string, std::string>>;

struct Span {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  std::string name;
  Arguments arguments;
};

struct Mark {
  uint64_t time_ns = 0;
  std::string name;
  Arguments arguments;
};

// A line of the picture. Its spans are in order and do not overlap.
struct Lane {
  std::string owner;  // a GPU or a vGPU, as a person reads it
  std::string name;
  std::vector<Span> spans;
  std::vector<Mark> marks;
};

struct Timeline {
  std::vector<Lane> lanes;  // those of an owner together: GPUs first, then vGPUs
  uint64_t lost = 0;        // events that are missing in it
  uint64_t refused = 0;  // slices that overlap the one before on their runlist: none, unless lost
};

// Lanes of each GPU in `host`: its engines, with the vGPU that had the turn. Lanes of each of its
// vGPUs in `host`, and of those made meanwhile: `gr`, `ce2`, `ce3` with turns ("runs") and waits,
// then interrupts, faults, exits, memory and life. An empty lane is left out.
//
// A wait begins where a turn ended with work left, or where a doorbell or an exit made an idle vGPU
// have work, and ends with its next turn. Times are those of the slices, else those of the events.
Timeline MakeTimeline(const Host& host, const TraceText& trace);

}  // namespace turnstile_smi
