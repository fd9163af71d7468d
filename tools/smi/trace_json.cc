// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "trace_json.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "files.h"

namespace turnstile_smi {
namespace {

// A number where the driver printed one, so that a viewer can sum and sort.
nlohmann::ordered_json ToJson(const Arguments& arguments) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : arguments) {
    const auto number = ParseNumber(value);
    number ? json[name] = *number : json[name] = value;
  }
  return json;
}

std::string Quote(std::string_view text) { return nlohmann::json(text).dump(); }

// Microseconds, exactly: a double has no room for the nanoseconds of a long uptime in all viewers.
std::string Micros(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// A nanosecond less than it is: viewers add it to the begin as doubles, and for those that round up
// a span that ends where the next begins would overlap it.
uint64_t Length(const Span& span) {
  return span.end_ns > span.begin_ns ? span.end_ns - span.begin_ns - 1 : 0;
}

class Writer {
 public:
  std::string Finish(uint64_t lost) {
    return fmt::format(
        "{{\"displayTimeUnit\": \"ms\", \"otherData\": {{\"lost_events\": {}}},\n"
        "\"traceEvents\": [\n{}\n]}}\n",
        lost, text_);
  }

  void Name(const char* what, size_t pid, size_t tid, std::string_view name) {
    Line(
        "{{\"ph\": \"M\", \"name\": \"{}_name\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": "
        "{}}}}}",
        what, pid, tid, Quote(name));
    Line(
        "{{\"ph\": \"M\", \"name\": \"{}_sort_index\", \"pid\": {}, \"tid\": {}, "
        "\"args\": {{\"sort_index\": {}}}}}",
        what, pid, tid, tid ? tid : pid);
  }

  void Write(const Lane& lane, size_t pid, size_t tid) {
    for (const Span& span : lane.spans) {
      Line(
          "{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"name\": {}, "
          "\"args\": {}}}",
          pid, tid, Micros(span.begin_ns), Micros(Length(span)), Quote(span.name),
          ToJson(span.arguments).dump());
    }
    for (const Mark& mark : lane.marks) {
      Line(
          "{{\"ph\": \"i\", \"s\": \"t\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"name\": {}, "
          "\"args\": {}}}",
          pid, tid, Micros(mark.time_ns), Quote(mark.name), ToJson(mark.arguments).dump());
    }
  }

 private:
  template <typename... T>
  void Line(fmt::format_string<T...> format, T&&... values) {
    if (!text_.empty()) text_ += ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
  }

  std::string text_;
};

}  // namespace

std::string ChromeTrace(const Timeline& timeline) {
  Writer writer;
  size_t pid = 0;
  std::string_view owner;
  size_t tid = 0;
  for (const Lane& lane : timeline.lanes) {
    if (pid == 0 || lane.owner != owner) {
      owner = lane.owner;
      tid = 0;
      writer.Name("process", ++pid, 0, owner);
    }
    writer.Name("thread", pid, ++tid, lane.name);
    writer.Write(lane, pid, tid);
  }
  return writer.Finish(timeline.lost);
}

}  // namespace turnstile_smi
