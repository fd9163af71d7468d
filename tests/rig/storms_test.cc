// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest that does its worst with one thing, as fast as it can, beside one that works: the second
// keeps its share and its latency. Weighted policy, equal weights. Figures are printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <utility>

#include "rig/sched_rig.h"

namespace rig {
namespace {

// 12.8 GB/s: a preemption point of a copy is 20 us away.
constexpr RigConfig kConfig = {256u << 20, 100, 1, 125};
constexpr uint64_t kSliceUs = 2000;
constexpr uint64_t kStep = 80 * kUs;
constexpr uint64_t kLatencyWindow = 100 * kMs;
// The policy promises shares but for a slice at each end of the window (docs/scheduling.md): of
// this window a slice is half a percent.
constexpr uint64_t kShareWindow = 400 * kMs;
// Tenant counts the bytes of a copy for an engine of 1 MHz: 57 600 bytes, 4.5 us here. 24 of them
// outlast a step, so the saturating neighbour never runs out of work.
constexpr Load kSaturated = {450 * kUs, 24, 0, 0};
constexpr Load kLight = {16 * kUs, 1, 300 * kUs, 0};
constexpr uint32_t kRunlist = Tenant::kRunlist;
constexpr uint64_t kNowhere = 0x1ff000;  // mapped to nothing

// The attacker's exits may sleep; its neighbour's CPU goes on meanwhile, which in a rig of one
// thread has to be said.
class StormGpu : public ModelGpu {
 public:
  StormGpu() : ModelGpu(kConfig) {}

  void Sleep(uint64_t ns) override {
    const bool outermost = !std::exchange(asleep_, true);
    for (uint64_t done = 0; done < ns; done += kPiece) {
      ModelGpu::Sleep(std::min(ns - done, kPiece));
      if (outermost && neighbour != nullptr) neighbour->Tick();
      // Short sleeps may hold the GPU's lock (waits for the MMU): nobody else's timer gets it then.
      // Long ones hold a vGPU's alone (docs/locking.md), and the policy goes on.
      if (outermost && ns >= kMs) PumpGpu();
    }
    if (outermost) asleep_ = false;
  }
  void Pump() override {
    if (!asleep_) ModelGpu::Pump();
  }

  Tenant* neighbour = nullptr;

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

// The guest that misbehaves. Channel 0 in a list of its own.
struct Attacker {
  explicit Attacker(ModelGpu& physical)
      : gpu(physical), machine(gpu, VgpuMachine::kV16, 64), guest(machine) {
    guest.StartChannel(0, kRunlist);
  }
  void Recover() {
    guest.Write(NV_PPBDMA_INTR_0(kRunlist), ~0u);
    guest.Write(NV_PPBDMA_INTR_1(kRunlist), ~0u);
    guest.Write(NV_PCCSR_CHANNEL(0), 3u << 22 | 1u << 10);
  }

  ModelGpu& gpu;
  VgpuMachine machine;
  RawGuest guest;
  uint32_t round = 0;
};

// 64 KiB again and again: seconds of work in one launch.
std::vector<uint32_t> EndlessCopy() {
  std::vector<uint32_t> words =
      RawGuest::Copy(RawGuest::kData, RawGuest::kData, 0x8000, RawGuest::kData, 1);
  words[7] = 0x100000;                               // lines
  words.back() = (words.back() & ~0x60u) | 1u << 9;  // several lines, no interrupt
  return words;
}

void SubmitGarbage(Attacker& a) {
  constexpr uint64_t kList = RawGuest::kList + 0x3000;
  for (uint64_t i = 0; i < 64; ++i) a.guest.SetVram32(kList + i * 4, 0x80030001u + a.round);
  a.guest.Write(NV_PFIFO_RUNLIST_BASE_LO(kRunlist), static_cast<uint32_t>(kList));
  a.guest.Write(NV_PFIFO_RUNLIST_SUBMIT(kRunlist), 16);
  a.guest.Write(NV_PFIFO_INTR_0, ~0u);
}

struct Storm {
  const char* name;
  void (*tick)(Attacker&);
};

const Storm kStorms[] = {
    {"Interrupts",
     [](Attacker& a) {
       std::vector<uint32_t> words(33, 0);
       words[0] = 3u << 29 | 32u << 16 | NVC46F_NON_STALL_INTERRUPT / 4;  // one method 32 times
       a.guest.Push(0, kRunlist, words);
       a.guest.Write(NV_CTRL_LEAF(0), ~0u);
     }},
    {"Doorbells",
     [](Attacker& a) {
       for (uint32_t i = 0; i < 50; ++i) a.guest.Ring(i % 3, i % 4);
     }},
    {"Invalidates",
     [](Attacker& a) {
       for (uint64_t page = 0; page < 64; ++page) {
         a.guest.MapSystem(0x100000 + page * 4096, (page ^ a.round) % 64 * 4096);
       }
       a.guest.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
     }},
    {"Submits", [](Attacker& a) { a.guest.Write(NV_PFIFO_RUNLIST_SUBMIT(kRunlist), 2); }},
    {"BadLists", SubmitGarbage},
    {"Preempts",
     [](Attacker& a) {
       a.guest.Write(NV_PFIFO_RUNLIST_PREEMPT, 7);
       a.guest.Write(NV_PFIFO_PREEMPT, 1u << 24);
     }},
    {"MmuFaults",
     [](Attacker& a) {
       a.Recover();
       a.guest.Push(0, kRunlist, RawGuest::Release(kNowhere, 1));
       a.guest.TakeFaults();
     }},
    {"FaultBufferOverflow",
     [](Attacker& a) {
       a.Recover();
       a.guest.Push(0, kRunlist, RawGuest::Release(kNowhere, 1));
     }},
    {"PbdmaErrors",
     [](Attacker& a) {
       a.Recover();
       a.guest.Push(0, kRunlist, {RawGuest::Inc(NVC46F_ILLEGAL, 1), a.round});
     }},
    {"IllegalClasses",
     [](Attacker& a) {
       a.Recover();
       a.guest.Push(0, kRunlist, {RawGuest::Inc(NVC46F_SET_OBJECT, 1, 4), 0x1234});
     }},
    {"NeverReleased",
     [](Attacker& a) {
       a.guest.Push(0, kRunlist,
                    {RawGuest::Inc(NVC46F_SEM_ADDR_LO, 5), RawGuest::kData + 64, 0, 1, 0, 0});
     }},
    {"EndlessCopies",
     [](Attacker& a) {
       if (a.round % 8 == 1) a.guest.Push(0, kRunlist, EndlessCopy());
     }},
    {"Resets",
     [](Attacker& a) {
       if (a.round % 16 == 8) ts_vgpu_reset(a.machine.core());
       if (a.round % 16 == 0) a.guest.StartChannel(0, kRunlist);
       if (a.round % 16 == 1) a.guest.Push(0, kRunlist, EndlessCopy());
     }},
    {"BindAndUnbind",
     [](Attacker& a) {
       a.guest.Write(NV_PCCSR_CHANNEL(1), 1u << 11);
       a.guest.Write(NV_PCCSR_CHANNEL_INST(1), 0);
       a.guest.WriteInstance(1);
       a.guest.Bind(1);
       a.guest.Enable(1);
     }},
    {"Unmaps",
     [](Attacker& a) {
       a.guest.MapSystem(0x100000, 0x5000);
       a.guest.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
       ts_vgpu_dma_unmap(a.machine.core(), 0, 64 * 4096);
     }},
};

class StormTest : public testing::TestWithParam<Storm> {
 protected:
  StormTest() {
    EXPECT_EQ(ts_gpu_set_policy(gpu_.core, "weighted"), 0);
    EXPECT_EQ(ts_gpu_set_sched_param(gpu_.core, TS_SCHED_TIMESLICE_US, kSliceUs), 0);
  }

  // The storm beside the tenant.
  void Run(Tenant& tenant, Attacker& attacker, uint64_t ns) {
    gpu_.neighbour = &tenant;
    const uint64_t end = gpu_.now_ns + ns;
    while (gpu_.now_ns < end) {
      tenant.Tick();
      ++attacker.round;
      GetParam().tick(attacker);
      gpu_.AdvanceTo(std::min(gpu_.now_ns + kStep, end));
    }
    gpu_.neighbour = nullptr;
  }

  StormGpu gpu_;
};

TEST_P(StormTest, NeighbourKeepsItsLatency) {
  Tenant tenant(gpu_, VgpuMachine::kV16, kLight);
  Attacker attacker(gpu_);
  Run(tenant, attacker, 20 * kMs);
  tenant.latencies().clear();
  Run(tenant, attacker, kLatencyWindow);
  ASSERT_GT(tenant.latencies().size(), 20u);
  const uint64_t p99 = tenant.Percentile(99);
  std::printf("%s: p99 %lu us of %zu copies\n", GetParam().name,
              static_cast<unsigned long>(p99 / kUs), tenant.latencies().size());
  // Docs/scheduling.md: the other's slice, its way to a preemption point, two switches, the copy.
  EXPECT_LE(p99, (kSliceUs + 50 + 2 * 125 + 16) * kUs + 2 * kStep);
  EXPECT_TRUE(tenant.guest().TakeFaults().empty());
  EXPECT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray();
}

TEST_P(StormTest, NeighbourKeepsItsShare) {
  Tenant tenant(gpu_, VgpuMachine::kV16, kSaturated);
  Attacker attacker(gpu_);
  Run(tenant, attacker, 20 * kMs);
  const uint64_t before = tenant.RunNs();
  const uint64_t slices = tenant.Figures().slices;
  const uint64_t done = tenant.done();
  Run(tenant, attacker, kShareWindow);
  const auto run = static_cast<double>(tenant.RunNs() - before);
  // Half of what is left of the time after the switches that this policy makes.
  const double switches = 2.0 * static_cast<double>(tenant.Figures().slices - slices) * 125 * kUs;
  const double share = (static_cast<double>(kShareWindow) - switches) / 2;
  std::printf("%s: %.1f %% of its share, %lu copies\n", GetParam().name, 100 * run / share,
              static_cast<unsigned long>(tenant.done() - done));
  EXPECT_GE(run, 0.97 * share);
  EXPECT_TRUE(tenant.guest().TakeFaults().empty());
  EXPECT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray();
}

INSTANTIATE_TEST_SUITE_P(Storms, StormTest, testing::ValuesIn(kStorms),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rig
