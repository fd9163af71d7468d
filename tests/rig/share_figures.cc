// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Prints the figures of `bench share` that come from the rig, as JSON: two tenants ordered 2:1 (1:1
// where a policy knows nothing else), one kernel at a time each, of 16 to 2112 blocks.
//
//   rig_share_figures [SECONDS]    modelled time per point, default 10
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "rig/sched_rig.h"

namespace rig {
namespace {

constexpr uint64_t kBlockNs = 225;  // of the engine; 2112 blocks are just under half a millisecond
constexpr uint32_t kBlocks[] = {16, 64, 132, 528, 1056, 2112};

struct Order {
  const char* policy;
  double ordered;
  VgpuMachine::Type first;
  VgpuMachine::Type second;
};
constexpr Order kOrders[] = {
    {"best_effort", 2, VgpuMachine::kV4, VgpuMachine::kV4},
    {"equal_share", 1, VgpuMachine::kV4, VgpuMachine::kV4},
    {"fixed_share", 2, VgpuMachine::kV2, VgpuMachine::kV4},
    {"weighted", 2, VgpuMachine::kV4, VgpuMachine::kV4},
    {"latency", 2, VgpuMachine::kV4, VgpuMachine::kV4},
};

Load LoadOf(uint32_t blocks) { return {(blocks * kBlockNs + kUs - 1) / kUs * kUs, 1, 0, 0}; }

// Kernels that one tenant alone gets through.
uint64_t Solo(uint32_t blocks, uint64_t ns) {
  SchedRig rig("best_effort");
  rig.Add(LoadOf(blocks));
  rig.Run(50 * kMs);
  const uint64_t before = rig.tenant(0).done();
  rig.Run(ns);
  return rig.tenant(0).done() - before;
}

// Notice of a light tenant's kernel beside a saturating one.
uint64_t LightP99(const char* policy) {
  SchedRig rig(policy);
  Tenant& light = rig.Add({448 * kUs, 1, 20 * kMs, 0}, VgpuMachine::kV4);
  light.Set(TS_VGPU_SCHED_LATENCY_US, 500);
  rig.Add({256 * kUs, 8, 0, 0}, VgpuMachine::kV4);
  rig.Run(5'000 * kMs);
  return light.Percentile(99) / kUs;
}

void PrintPoint(const Order& order, uint32_t blocks, uint64_t ns, uint64_t p99, bool first) {
  SchedRig rig(order.policy);
  rig.Add(LoadOf(blocks), order.first).Set(TS_VGPU_SCHED_WEIGHT, 2);
  rig.Add(LoadOf(blocks), order.second).Set(TS_VGPU_SCHED_WEIGHT, 1);
  rig.Run(50 * kMs);
  const uint64_t before = rig.tenant(0).done() + rig.tenant(1).done();
  const auto run = rig.Measure(ns);
  const uint64_t done = rig.tenant(0).done() + rig.tenant(1).done() - before;
  const double ratio = static_cast<double>(run[0]) / static_cast<double>(run[1]);
  std::printf(
      "%s\n    {\"policy\": \"%s\", \"ordered\": %.1f, \"blocks\": %u, \"ratio\": %.4f, "
      "\"error_percent\": %.3f, \"throughput_of_solo\": %.4f, \"p99_us\": %lu}",
      first ? "" : ",", order.policy, order.ordered, blocks, ratio,
      std::abs(ratio / order.ordered - 1) * 100,
      static_cast<double>(done) / static_cast<double>(Solo(blocks, ns)), p99);
}

double SwitchAccesses() {
  SchedRig rig("weighted");
  rig.Add({256 * kUs, 8, 0, 0});
  rig.Add({256 * kUs, 8, 0, 0});
  rig.Run(100 * kMs);
  const auto preemptions = [&] {
    return rig.tenant(0).Figures().preemptions + rig.tenant(1).Figures().preemptions;
  };
  const uint64_t before = preemptions();
  rig.gpu().reads = rig.gpu().writes = 0;
  rig.Run(1'000 * kMs);
  const uint64_t accesses = rig.gpu().reads + rig.gpu().writes;
  return static_cast<double>(accesses) / static_cast<double>(preemptions() - before);
}

}  // namespace
}  // namespace rig

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  if (!(seconds > 0 && seconds <= 1000)) {
    std::fprintf(stderr, "usage: %s [SECONDS]    0 < SECONDS <= 1000\n", argv[0]);
    return 2;
  }
  const auto ns = static_cast<uint64_t>(seconds * 1e9);
  std::printf("{\n  \"rig\": [");
  bool first = true;
  for (const rig::Order& order : rig::kOrders) {
    const uint64_t p99 = rig::LightP99(order.policy);
    for (const uint32_t blocks : rig::kBlocks) {
      rig::PrintPoint(order, blocks, ns, p99, first);
      first = false;
    }
  }
  std::printf("\n  ],\n  \"switch_register_accesses\": %.2f\n}\n", rig::SwitchAccesses());
  return 0;
}
