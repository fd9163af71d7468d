// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fields.h"

#include <algorithm>
#include <charconv>

#include "files.h"
#include "model.h"

namespace turnstile_smi {
namespace {

constexpr std::string_view kEventPrefix = "turnstile_";

// Takes what comes before the first `separator` off `text`, and the separator.
std::string_view Take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

// "12.345678" in seconds as ns.
std::optional<uint64_t> ParseSeconds(std::string_view text) {
  const std::string_view whole = Take(text, '.');
  const auto seconds = ParseNumber(whole);
  const auto micros = ParseNumber(text);
  if (!seconds || !micros || text.size() != 6) return std::nullopt;
  return *seconds * 1'000'000'000 + *micros * 1000;
}

// "TASK-PID [CPU] FLAGS SECONDS: EVENT: FIELDS". A task's name may hold blanks and colons, so the
// time is looked for from the event backwards.
std::optional<TraceEvent> ParseEvent(std::string_view line) {
  const size_t name = line.find(": turnstile_");
  if (name == std::string_view::npos) return std::nullopt;
  const std::string_view head = line.substr(0, name);
  const size_t blank = head.rfind(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto time = ParseSeconds(head.substr(blank + 1));
  if (!time) return std::nullopt;
  std::string_view rest = line.substr(name + 2 + kEventPrefix.size());
  TraceEvent event;
  event.time_ns = *time;
  event.name = Take(rest, ':');
  event.fields = Fields(rest);
  return event;
}

// "# entries-in-buffer/entries-written: 205/205   #P:1": how many of the written are not there.
uint64_t ParseLost(std::string_view line) {
  constexpr std::string_view kHead = "# entries-in-buffer/entries-written: ";
  if (!line.starts_with(kHead)) return 0;
  line.remove_prefix(kHead.size());
  const auto there = ParseNumber(Take(line, '/'));
  const auto written = ParseNumber(Take(line, ' '));
  return there && written && *written > *there ? *written - *there : 0;
}

}  // namespace

Fields::Fields(std::string_view line) {
  while (!line.empty()) {
    std::string_view word = Take(line, ' ');
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    all_.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
}

std::string Fields::Text(std::string_view name) const {
  for (const auto& [key, value] : all_) {
    if (key == name) return value;
  }
  return "";
}

std::optional<uint64_t> Fields::Number(std::string_view name) const {
  const std::string text = Text(name);
  if (!text.starts_with("0x")) return ParseNumber(text);
  uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + 2, last, value, 16);
  if (text.size() == 2 || error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::optional<Slice> ParseSlice(const Fields& fields) {
  const auto runlist = fields.Number("runlist");
  const auto function = fields.Number("function");
  const auto start = fields.Number("start_ns");
  const auto end = fields.Number("time_ns");
  const auto run = fields.Number("run_ns");
  const auto target = fields.Number("target_ns");
  const auto total = fields.Number("total_run_ns");
  if (!runlist || !function || !start || !end || !run || !target || !total) return std::nullopt;
  if (*runlist >= kEngines.size() || *end < *start) return std::nullopt;
  return Slice{*runlist, *function, *start, *end, *run, *target, *total};
}

std::vector<Slice> ParseSlices(std::string_view text) {
  std::vector<Slice> slices;
  while (!text.empty()) {
    if (const auto slice = ParseSlice(Fields(Take(text, '\n')))) slices.push_back(*slice);
  }
  return slices;
}

TraceText ParseTrace(std::string_view text) {
  TraceText trace;
  while (!text.empty()) {
    const std::string_view line = Take(text, '\n');
    if (line.starts_with('#')) {
      trace.lost += ParseLost(line);
    } else if (auto event = ParseEvent(line)) {
      trace.events.push_back(std::move(*event));
    }
  }
  return trace;
}

}  // namespace turnstile_smi
