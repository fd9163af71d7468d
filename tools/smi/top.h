// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// `turnstile-smi top`: what a screen of it shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fields.h"
#include "model.h"

namespace turnstile_smi {

enum class SortBy { kFunction, kUtilisation, kVm };
const char* ToString(SortBy sort);

// The turns of the last second, gathered from readings that overlap: a reading holds the last 200
// of each runlist, which may be less than a second.
class SliceHistory {
 public:
  static constexpr uint64_t kLengthNs = 1'000'000'000;

  // Adds what is new in a reading of one GPU's slices; forgets what ended a second before the last.
  void Add(const std::string& gpu, const std::vector<Slice>& slices);
  // Those of a runlist, in order.
  const std::vector<Slice>& Of(const std::string& gpu, uint64_t runlist) const;

 private:
  std::map<std::pair<std::string, uint64_t>, std::vector<Slice>> slices_;
};

struct Screen {
  size_t columns = 80;
  size_t rows = 24;
  bool colours = false;  // SGR sequences; without, vGPUs are told apart by their letter only
};

// One frame, lines that end with "\n", at most `rows` of them and none wider than `columns`. Per
// GPU: a heading, a strip of the second before `now_ns` (CLOCK_MONOTONIC) with the letter of the
// vGPU that was longest on GR in each column ('.': nobody, ' ': before the oldest turn that is
// known), and a line for each vGPU with a bar of its utilisation, '|' where its ordered share ends.
std::string TopFrame(const Host& host, const SliceHistory& history, uint64_t now_ns, SortBy sort,
                     const Screen& screen);

}  // namespace turnstile_smi
