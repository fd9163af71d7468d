// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Prints the figures of `bench share` that come from the rig, as JSON: two tenants ordered 2:1 (1:1
// where a policy knows nothing else) launch compute grids of 16 to 2112 blocks, one at a time each;
// and a light tenant beside one that saturates the GPU with such grids.
//
//   rig_share_figures [SECONDS [POLICY]...]    modelled time per point, default 10; all policies
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "rig/compute_rig.h"

namespace rig {
namespace {

constexpr uint32_t kBlocks[] = {16, 32, 64, 132, 264, 528, 1056, 2112};

// What is asked of a policy that has no shares is what they are measured against.
constexpr Order kBestEffort = {"best_effort", 2, VgpuMachine::kV4, VgpuMachine::kV4};

// Kernels that one tenant alone gets through.
uint64_t Solo(uint32_t blocks, uint64_t ns) {
  static std::map<uint32_t, uint64_t> known;
  if (const auto it = known.find(blocks); it != known.end()) return it->second;
  ComputeRig rig("best_effort");
  rig.Add(Blocks(blocks), VgpuMachine::kV4);
  rig.Run(50 * kMs);
  const uint64_t before = rig.Done();
  rig.Run(ns);
  return known[blocks] = rig.Done() - before;
}

struct Latencies {
  uint64_t p50_us;
  uint64_t p99_us;
};

// Launch to notice of a light tenant's kernels (1 ms, every 20 ms) beside a saturating tenant's.
Latencies LightBeside(const Order& order, uint32_t blocks, uint64_t ns) {
  ComputeRig rig(order.policy);
  ComputeTenant& light = rig.Add(LightWork(), order.second);
  light.Set(TS_VGPU_SCHED_LATENCY_US, 500);
  rig.Add(Blocks(blocks, 8), order.first);
  rig.Run(ns);
  return {light.Percentile(50) / kUs, light.Percentile(99) / kUs};
}

struct Shares {
  double ratio;
  double worst_window_us;  // run time beyond 0.5 % of the ordered share in a window of 1 s
  uint64_t done;
};

Shares MeasureShares(const Order& order, uint32_t blocks, uint64_t ns) {
  constexpr uint64_t kWindow = 1'000 * kMs;
  ComputeRig rig(order.policy);
  rig.Add(Blocks(blocks), order.first).Set(TS_VGPU_SCHED_WEIGHT, 2);
  rig.Add(Blocks(blocks), order.second).Set(TS_VGPU_SCHED_WEIGHT, 1);
  rig.Run(50 * kMs);
  const uint64_t before = rig.Done();
  uint64_t run[2] = {};
  double worst = 0;
  for (uint64_t left = ns; left != 0;) {
    const uint64_t window = std::min(left, kWindow);
    const auto part = rig.Measure(window);
    run[0] += part[0];
    run[1] += part[1];
    worst = std::max(worst, BeyondHalfPercent(part, {order.ratio, 1.0}) / kUs);
    left -= window;
  }
  return {static_cast<double>(run[0]) / static_cast<double>(run[1]), worst, rig.Done() - before};
}

void PrintPoint(const Order& order, uint32_t blocks, uint64_t ns, bool first) {
  const Shares shares = MeasureShares(order, blocks, ns);
  const Latencies light = LightBeside(order, blocks, ns);
  std::printf(
      "%s\n    {\"policy\": \"%s\", \"ordered\": %.1f, \"blocks\": %u, \"ratio\": %.4f, "
      "\"error_percent\": %.3f, \"throughput_of_solo\": %.4f, \"p50_us\": %lu, \"p99_us\": %lu, "
      "\"worst_1s_beyond_us\": %.0f}",
      first ? "" : ",", order.policy, order.ratio, blocks, shares.ratio,
      std::abs(shares.ratio / order.ratio - 1) * 100,
      static_cast<double>(shares.done) / static_cast<double>(Solo(blocks, ns)), light.p50_us,
      light.p99_us, shares.worst_window_us);
  std::fflush(stdout);
}

// All register accesses of a second in which two tenants take turns, by switch. One kernel each
// that lasts the whole time: no interrupt of a guest is among them; and a policy under which every
// decision is a switch.
double SwitchAccesses() {
  ComputeRig rig("equal_share");
  Work work = Blocks(kSms);
  work.rounds = 100'000'000;
  rig.Add(work, VgpuMachine::kV4);
  rig.Add(work, VgpuMachine::kV4);
  rig.Run(100 * kMs);
  const auto count = rig.CountSwitches(1'000 * kMs);
  return static_cast<double>(count.accesses) / static_cast<double>(count.switches);
}

// Kernels and nothing else: what one of `blocks` takes alone.
void PrintSolo(uint64_t ns) {
  std::printf("\n  ],\n  \"solo_kernels_per_s\": {");
  const char* comma = "";
  for (const uint32_t blocks : kBlocks) {
    std::printf("%s\"%u\": %.1f", comma, blocks,
                static_cast<double>(Solo(blocks, ns)) * 1e9 / static_cast<double>(ns));
    comma = ", ";
  }
  ComputeRig rig("latency");
  ComputeTenant& light = rig.Add(LightWork());
  rig.Run(ns);
  std::printf("},\n  \"light_solo_p99_us\": %lu,\n", light.Percentile(99) / kUs);
}

int Print(uint64_t ns, int count, char** policies) {
  std::printf("{\n  \"rig\": [");
  bool first = true;
  const auto points_of = [&](const Order& order) {
    bool wanted = count == 0;
    for (int i = 0; i < count; ++i) wanted |= std::strcmp(policies[i], order.policy) == 0;
    if (!wanted) return;
    for (const uint32_t blocks : kBlocks) {
      PrintPoint(order, blocks, ns, first);
      first = false;
    }
  };
  points_of(kBestEffort);
  for (const Order& order : kOrders) points_of(order);
  PrintSolo(ns);
  std::printf("  \"switch_register_accesses\": %.2f\n}\n", SwitchAccesses());
  return 0;
}

}  // namespace
}  // namespace rig

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  if (!(seconds >= 0.1 && seconds <= 1000)) {
    std::fprintf(stderr, "usage: %s [SECONDS [POLICY]...]    0.1 <= SECONDS <= 1000\n", argv[0]);
    return 2;
  }
  return rig::Print(static_cast<uint64_t>(seconds * 1e9), std::max(argc - 2, 0), argv + 2);
}
