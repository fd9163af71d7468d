// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "trace_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "failure.h"
#include "output.h"
#include "timeline.h"
#include "trace_json.h"
#include "tracing.h"

namespace turnstile_smi {
namespace {

// Per CPU and second: 20 000 exits of 100 bytes.
constexpr double kBufferKibPerSecond = 2048;
constexpr double kLeastBufferKib = 4096;
constexpr double kLargestBufferKib = 131072;

volatile std::sig_atomic_t g_end = 0;

// While it lives, SIGINT and SIGTERM end the recording and not the program, which has to take its
// trace instance away.
class Signals {
 public:
  Signals() {
    struct sigaction action = {};
    action.sa_handler = [](int) { g_end = 1; };
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~Signals() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct sigaction interrupt_;
  struct sigaction terminate_;
};

void ShowProgress(double part, double seconds) {
  constexpr int kWidth = 30;
  const int done = static_cast<int>(part * kWidth);
  fmt::print(stderr, "\rtracing [{:#<{}}{:.<{}}] {:.0f} of {:g} s", "", done, "", kWidth - done,
             part * seconds, seconds);
}

void WaitFor(double seconds) {
  using Clock = std::chrono::steady_clock;
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const auto begin = Clock::now();
  for (double part = 0; part < 1 && !g_end;) {
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    part = std::min(passed / seconds, 1.0);
    if (terminal) ShowProgress(part, seconds);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(0.1, std::max(seconds - passed, 0.0))));
  }
  if (terminal) fmt::print(stderr, "\n");
}

void WriteFile(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "w");
  if (file == nullptr) {
    throw Failure{kFailed, fmt::format("{} cannot be made: {}", partial, std::strerror(errno))};
  }
  try {
    WriteAll(file, text, partial);
  } catch (...) {
    std::fclose(file);
    std::remove(partial.c_str());
    throw;
  }
  std::fclose(file);
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(partial.c_str());
    throw Failure{kFailed, fmt::format("{} cannot be made: {}", path, std::strerror(error))};
  }
}

size_t Turns(const Timeline& timeline) {
  size_t count = 0;
  for (const Lane& lane : timeline.lanes) {
    if (lane.owner.starts_with("GPU ")) count += lane.spans.size();
  }
  return count;
}

}  // namespace

std::string Trace(const Files& files, const Host& host, const TraceOptions& options) {
  Timeline timeline;
  {
    const Signals signals;
    Tracing tracing(files);
    tracing.Start(static_cast<uint64_t>(
        std::clamp(options.seconds * kBufferKibPerSecond, kLeastBufferKib, kLargestBufferKib)));
    WaitFor(options.seconds);
    timeline = MakeTimeline(host, tracing.Stop());
  }
  const std::string text = ChromeTrace(timeline);
  if (options.output == "-") {
    Print(text);
    return "";
  }
  WriteFile(options.output, text);
  std::string line = fmt::format("{}: {} turns in {} lanes; open it in https://ui.perfetto.dev\n",
                                 options.output, Turns(timeline), timeline.lanes.size());
  if (timeline.lost) {
    line += fmt::format("{} events were lost: trace for a shorter time\n", timeline.lost);
  }
  return line;
}

}  // namespace turnstile_smi
