// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// trapped_access DEVICE read|write|interrupt SECONDS
//
// What a vGPU's traps cost its user, as JSON; `./lab bench tracing` runs it in L1. DEVICE is a UUID
// or a folder in sysfs. read, write: one access of a register that is a word of the vGPU's own and
// does nothing, so that whatever the driver does for every trap weighs as much as it can.
// interrupt: a register write that makes one, and the one that acknowledges it.
//
// Operations are timed in groups, and `ns` is that of the group which a tenth of them beats: other
// work of the machine comes between some of them, and a mean would tell of that.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "core_transport.h"
#include "ts104/regs.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRegister = NV_CTRL_MAILBOX_SCRATCH(0);
constexpr uint32_t kPattern = 0x5eed1e55;
constexpr uint32_t kVector = 0;  // bit 0 of leaf 0, in subtree 0, which has MSI-X entry 0
// Some hundred microseconds, beside which reading the clock costs nothing.
constexpr uint32_t kGroup = 256;

// Calls `operation` for `seconds`; nanoseconds per call of each group of calls.
template <typename Operation>
std::vector<double> Groups(double seconds, Operation&& operation) {
  std::vector<double> groups;
  auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(seconds);
  while (start < end) {
    for (uint32_t i = 0; i < kGroup; ++i) operation(i);
    const auto now = Clock::now();
    groups.push_back(std::chrono::duration<double, std::nano>(now - start).count() / kGroup);
    start = now;
  }
  return groups;
}

// Each kind first makes sure that it measures what it says.
std::vector<double> Measure(libts104::Platform& gpu, std::string_view what, double seconds) {
  if (what == "interrupt") {
    const auto interrupt = [&](uint32_t) {
      gpu.Write32(NV_CTRL_LEAF_TRIGGER(0), kVector);
      gpu.Write32(NV_CTRL_LEAF(0), 1);
    };
    gpu.Write32(NV_CTRL_LEAF_EN_SET(0), 1);
    gpu.Write32(NV_CTRL_TOP_EN_SET(0), 1);
    interrupt(0);
    if (gpu.WaitInterrupts(0) != 1) throw libts104::Error("no interrupt comes");
    return Groups(seconds, interrupt);
  }
  gpu.Write32(kRegister, kPattern);
  if (gpu.Read32(kRegister) != kPattern) throw libts104::Error("the register keeps nothing");
  if (what == "read") return Groups(seconds, [&](uint32_t) { gpu.Read32(kRegister); });
  if (what == "write") return Groups(seconds, [&](uint32_t i) { gpu.Write32(kRegister, i); });
  throw libts104::Error("neither read nor write nor interrupt");
}

int Run(std::span<char*> arguments) {
  if (arguments.size() != 3) throw libts104::Error("DEVICE read|write|interrupt SECONDS");
  const std::string_view number = arguments[2];
  double seconds = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), seconds);
  if (parsed.ec != std::errc() || parsed.ptr != number.end() || seconds <= 0) {
    throw libts104::Error("SECONDS is no time");
  }
  const auto gpu = libts104::OpenVfioPlatform(arguments[0]);
  std::vector<double> groups = Measure(*gpu, arguments[1], seconds);
  const auto decile = groups.begin() + static_cast<ptrdiff_t>(groups.size() / 10);
  std::nth_element(groups.begin(), decile, groups.end());
  fmt::print("{{\"ns\": {:.1f}, \"operations\": {}}}\n", *decile, groups.size() * kGroup);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, static_cast<size_t>(argc - 1)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "trapped_access: {}\n", error.what());
    return 2;
  }
}
