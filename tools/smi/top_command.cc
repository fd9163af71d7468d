// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Escape sequences of ECMA-48 that every terminal of today knows, in place of ncurses: a static
// program has no terminfo to read, and needs these five only.
#include "top_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "output.h"
#include "sched_log.h"
#include "shares.h"
#include "top.h"

namespace turnstile_smi {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr char kEnter[] = "\033[?1049h\033[?25l";  // the other screen, no cursor
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kRestOfLine[] = "\033[K";
constexpr char kRestOfScreen[] = "\033[J";

// So often turns are gathered: 200 of the shortest, 1 ms, are there for 200 ms.
constexpr Seconds kGather(0.15);

volatile std::sig_atomic_t g_end = 0;

// The terminal without echo and line editing, showing its other screen, as long as this lives.
class Terminal {
 public:
  Terminal() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    struct sigaction action = {};
    action.sa_handler = [](int) { g_end = 1; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
    std::fputs(kEnter, stdout);
  }
  ~Terminal() {
    std::fputs(kLeave, stdout);
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Screen Size() const {
    Screen screen;
    winsize size = {};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
      screen.columns = size.ws_col;
      screen.rows = size.ws_row;
    }
    const char* no_colour = std::getenv("NO_COLOR");
    screen.colours = no_colour == nullptr || *no_colour == '\0';
    return screen;
  }

  // The key that is pressed within the time; nullopt: none, or a signal came.
  std::optional<char> Key(Seconds within) const {
    pollfd descriptor = {STDIN_FILENO, POLLIN, 0};
    if (::poll(&descriptor, 1, static_cast<int>(within.count() * 1000)) <= 0) return std::nullopt;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) == 1) return key;
    g_end = 1;  // the terminal is gone
    return std::nullopt;
  }

 private:
  termios before_ = {};
};

class Reader {
 public:
  Reader(const Files& files, const std::function<Host()>& read) : files_(files), read_(read) {}

  // Another reading, with what happened since the one before.
  Host Read() {
    Host now = read_();
    if (before_) SetUsage(*before_, now);
    before_ = now;
    return now;
  }
  // The turns since the last call.
  void Gather(const Host& host) {
    for (const Gpu& gpu : host.gpus) {
      history_.Add(gpu.address, ReadSliceLog(files_, gpu).slices);
    }
  }
  const SliceHistory& history() const { return history_; }

 private:
  const Files& files_;
  const std::function<Host()>& read_;
  std::optional<Host> before_;
  SliceHistory history_;
};

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

void ShowOnTerminal(Reader& reader, const TopOptions& options) {
  const Terminal terminal;
  SortBy sort = SortBy::kUtilisation;
  Host host = reader.Read();
  auto next = Clock::now();
  for (uint64_t frames = 0; !g_end;) {
    reader.Gather(host);
    if (Clock::now() >= next) {
      host = reader.Read();
      next =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(options.interval_s));
      ++frames;
    }
    Screen screen = terminal.Size();
    --screen.rows;  // for the line below
    std::string frame = TopFrame(host, reader.history(), Now(), sort, screen);
    frame += fmt::format("q quit  sort: u utilisation, v VM, n number  (by {})", ToString(sort));
    std::string text = kHome;
    for (const char c : frame)
      text += c == '\n' ? std::string(kRestOfLine) + "\n" : std::string(1, c);
    Print(text + kRestOfLine + kRestOfScreen);
    if (options.count && frames >= options.count) return;
    switch (terminal.Key(kGather).value_or(0)) {
      case 'q': return;
      case 'u': sort = SortBy::kUtilisation; break;
      case 'v': sort = SortBy::kVm; break;
      case 'n': sort = SortBy::kFunction; break;
      default: break;
    }
  }
}

void PrintFrames(Reader& reader, const TopOptions& options) {
  Host host = reader.Read();
  for (uint64_t i = 0; i < (options.count ? options.count : 1); ++i) {
    const auto end = Clock::now() + Seconds(options.interval_s);
    while (Clock::now() < end) {
      reader.Gather(host);
      std::this_thread::sleep_for(std::min<Seconds>(kGather, end - Clock::now()));
    }
    host = reader.Read();
    reader.Gather(host);
    const Screen screen = {100, SIZE_MAX, false};
    Print(TopFrame(host, reader.history(), Now(), SortBy::kUtilisation, screen) + "\n");
  }
}

}  // namespace

void Top(const Files& files, const std::function<Host()>& read, const TopOptions& options) {
  Reader reader(files, read);
  if (::isatty(STDOUT_FILENO) && ::isatty(STDIN_FILENO)) {
    ShowOnTerminal(reader, options);
  } else {
    PrintFrames(reader, options);
  }
}

}  // namespace turnstile_smi
