// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest that does its worst with one thing, as fast as it can, beside one that works: the second
// keeps its share and its latency. Weighted policy, equal weights. Figures are printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "hostile/storms.h"
#include "rig/compute_rig.h"

namespace rig {
namespace {

// 12.8 GB/s: a preemption point of a copy is 20 us away.
constexpr RigConfig kConfig = {256u << 20, 100, 1, 125};
constexpr uint64_t kSliceUs = 2000;
constexpr uint64_t kStep = 80 * kUs;
constexpr uint64_t kLatencyWindow = 150 * kMs;
// The policy promises shares but for a slice at each end of the window (docs/scheduling.md): of
// this window a slice is half a percent.
constexpr uint64_t kShareWindow = 400 * kMs;
// Tenant counts the bytes of a copy for an engine of 1 MHz: 57 600 bytes, 4.5 us here. 24 of them
// outlast a step, so the saturating neighbour never runs out of work.
constexpr Load kSaturated = {450 * kUs, 24, 0, 0};
constexpr Load kLight = {16 * kUs, 1, 300 * kUs, 0};
// A context that stays is dropped after so long. The default, 500 ms, is longer than the windows.
constexpr uint64_t kCtxswTimeoutMs = 3;

// The attacker's exits may sleep; its neighbour's CPU goes on meanwhile, which in a rig of one
// thread has to be said.
class StormGpu : public ModelGpu {
 public:
  StormGpu() : ModelGpu(kConfig) {}

  void Sleep(uint64_t ns) override {
    const bool outermost = !std::exchange(asleep_, true);
    for (uint64_t done = 0; done < ns; done += kPiece) {
      ModelGpu::Sleep(std::min(ns - done, kPiece));
      if (outermost && neighbour) neighbour();
      // Short sleeps may hold the GPU's lock (waits for the MMU): nobody else's timer gets it then.
      // Long ones hold a vGPU's alone (docs/locking.md), and the policy goes on.
      if (outermost && ns >= kMs) PumpGpu();
    }
    if (outermost) asleep_ = false;
  }
  void Pump() override {
    if (!asleep_) ModelGpu::Pump();
  }

  std::function<void()> neighbour;  // its CPU

 private:
  static constexpr uint64_t kPiece = 10 * kUs;

  // Timer, interrupts and the GPU's work, of no vGPU.
  void PumpGpu() {
    if (timer_due != 0 && timer_due <= now_ns) {
      timer_due = 0;
      ts_gpu_timer(core);
    }
    if (TakeInterrupt() && ts_gpu_irq(core) == TS_IRQ_WAKE) ts_gpu_irq_thread(core);
    if (std::exchange(gpu_work_queued, false)) ts_gpu_work(core);
  }

  bool asleep_ = false;
};

// Kernels of the same length for neighbours on the graphics engine: two cycles a round.
Work Kernels(uint64_t ns, uint32_t depth, uint64_t think_ns) {
  return {Work::Kind::kGrid, 1, depth, think_ns, static_cast<uint32_t>(ns / 20), 0};
}

class StormTest : public testing::TestWithParam<hostile::Storm> {
 protected:
  StormTest() {
    EXPECT_EQ(ts_gpu_set_policy(gpu_.core, "weighted"), 0);
    EXPECT_EQ(ts_gpu_set_sched_param(gpu_.core, TS_SCHED_TIMESLICE_US, kSliceUs), 0);
    EXPECT_EQ(ts_gpu_set_sched_param(gpu_.core, TS_SCHED_CTXSW_TIMEOUT_MS, kCtxswTimeoutMs), 0);
  }

  hostile::Attacker::Means MeansOf(VgpuMachine& machine) {
    return {Tenant::kRunlist, 0, [&machine] { ts_vgpu_reset(machine.core()); },
            [&machine] {
              ts_vgpu_dma_unmap(machine.core(), 0, hostile::Attacker::kMemoryPages * TS_PAGE_SIZE);
              return uint64_t{0};
            }};
  }

  // The storm beside the tenant.
  template <typename TenantType>
  void Run(TenantType& tenant, hostile::Attacker& attacker, uint64_t ns) {
    tenant.Tick();  // a first launch allocates, which traps
    gpu_.neighbour = [&tenant] { tenant.Tick(); };
    const uint64_t end = gpu_.now_ns + ns;
    while (gpu_.now_ns < end) {
      tenant.Tick();
      ++attacker.round;
      GetParam().tick(attacker);
      gpu_.AdvanceTo(std::min(gpu_.now_ns + kStep, end));
    }
    gpu_.neighbour = nullptr;
  }

  template <typename TenantType>
  void ExpectLatency(TenantType& tenant) {
    hostile::Attacker attacker(attacker_, MeansOf(attacker_));
    Run(tenant, attacker, 20 * kMs);
    tenant.latencies().clear();
    Run(tenant, attacker, kLatencyWindow);
    ASSERT_GT(tenant.latencies().size(), 20u);
    const uint64_t p99 = tenant.Percentile(99);
    std::printf("%s: p99 %lu us of %zu\n", GetParam().name, static_cast<unsigned long>(p99 / kUs),
                tenant.latencies().size());
    // Docs/scheduling.md: the other's slice, its way to a preemption point (or until it is
    // dropped), two switches, the work.
    const bool stays = std::string(GetParam().name) == "ContextsThatStay";
    const uint64_t leaving_us = stays ? 1000 * kCtxswTimeoutMs : 50;
    EXPECT_LE(p99, (kSliceUs + leaving_us + 2 * 125 + 16) * kUs + 2 * kStep);
    EXPECT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray();
  }

  template <typename TenantType>
  void ExpectShare(TenantType& tenant) {
    hostile::Attacker attacker(attacker_, MeansOf(attacker_));
    Run(tenant, attacker, 20 * kMs);
    const uint64_t before = tenant.RunNs();
    const uint64_t slices = tenant.Figures().slices;
    const uint64_t done = tenant.done();
    Run(tenant, attacker, kShareWindow);
    const auto run = static_cast<double>(tenant.RunNs() - before);
    // Half of what is left of the time after the switches that this policy makes.
    const double switches = 2.0 * static_cast<double>(tenant.Figures().slices - slices) * 125 * kUs;
    const double share = (static_cast<double>(kShareWindow) - switches) / 2;
    std::printf("%s: %.1f %% of its share, %lu pieces of work\n", GetParam().name,
                100 * run / share, static_cast<unsigned long>(tenant.done() - done));
    EXPECT_GE(run, 0.97 * share);
    EXPECT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray();
  }

  StormGpu gpu_;
  VgpuMachine attacker_{gpu_, VgpuMachine::kV16, 64};
};

TEST_P(StormTest, NeighbourKeepsItsLatency) {
  if (GetParam().graphics) {
    ComputeTenant tenant(gpu_, VgpuMachine::kV16, Kernels(16 * kUs, 1, 300 * kUs));
    ExpectLatency(tenant);
  } else {
    Tenant tenant(gpu_, VgpuMachine::kV16, kLight);
    ExpectLatency(tenant);
    EXPECT_TRUE(tenant.guest().TakeFaults().empty());
  }
}

TEST_P(StormTest, NeighbourKeepsItsShare) {
  if (GetParam().graphics) {
    ComputeTenant tenant(gpu_, VgpuMachine::kV16, Kernels(450 * kUs, 24, 0));
    ExpectShare(tenant);
  } else {
    Tenant tenant(gpu_, VgpuMachine::kV16, kSaturated);
    ExpectShare(tenant);
    EXPECT_TRUE(tenant.guest().TakeFaults().empty());
  }
}

TEST(StormsTest, MmuFaultsAreOfEveryType) {
  ModelGpu gpu;
  VgpuMachine machine(gpu, VgpuMachine::kV16, 64);
  hostile::Attacker attacker(machine, {});
  for (attacker.round = 1; attacker.round <= 30; ++attacker.round) {
    hostile::FindStorm("MmuFaults")->tick(attacker);
    machine.Advance(kMs);
  }
  // PDE, PTE, PRIV, RO, UNSUPPORTED_APERTURE, UNSUPPORTED_KIND, REGION, ATOMIC.
  for (const char* type : {"0", "2", "5", "6", "10", "12", "13", "15"}) {
    EXPECT_TRUE(gpu.Logged(std::string("fault of type ") + type + " at")) << type;
  }
}

INSTANTIATE_TEST_SUITE_P(Storms, StormTest,
                         testing::ValuesIn(hostile::Storms().begin(), hostile::Storms().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rig
