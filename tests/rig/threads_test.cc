// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The host-driver core with all its threads at once: vCPUs of three guests, the interrupt thread,
// the work queue, unmaps and resets, on a model that has a thread of its own and a real clock. For
// the thread sanitizer, and for the lock ranks, which are checked at every acquisition.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

constexpr uint32_t kRunlist = 1;
constexpr uint64_t kSystemVa = 0x100000;
constexpr int kRounds = 60;

class ThreadedGpu : public ModelGpu {
 public:
  ThreadedGpu() : ModelGpu(RigConfig{.ctxsw_us = 5}) {
    ts104_start_thread(model());
    interrupts_ = std::thread([this] {
      while (!stop_) {
        if (TakeInterrupt() && ts_gpu_irq(core) == TS_IRQ_WAKE) ts_gpu_irq_thread(core);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
    work_ = std::thread([this] {
      while (!stop_) {
        RunWork();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  ~ThreadedGpu() override { Stop(); }
  void Stop() {
    stop_ = true;
    if (interrupts_.joinable()) interrupts_.join();
    if (work_.joinable()) work_.join();
    ts104_stop_thread(model());
  }

  uint64_t Now() override {
    return 1'700'000'000'000'000'000 +
           static_cast<uint64_t>(
               std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch())
                   .count());
  }
  void Sleep(uint64_t ns) override { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
  void Pump() override {}

 private:
  std::atomic<bool> stop_{false};
  std::thread interrupts_;
  std::thread work_;
};

// A copy from scattered guest memory to VRAM, mapped anew each round.
void Compute(VgpuMachine& machine, RawGuest& guest, std::atomic<int>& done) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t gpa = 0x10000 + static_cast<uint64_t>(round) * 4096;
    guest.MapSystem(kSystemVa, gpa);
    guest.MapSystem(kSystemVa + 0x8000, 0x80000 + static_cast<uint64_t>(round) * 4096);
    guest.Invalidate();
    machine.TakeInterrupts();
    guest.Push(0, kRunlist,
               RawGuest::Copy(kSystemVa, RawGuest::kData, 4096, RawGuest::kData + 0x1000,
                              static_cast<uint32_t>(round)));
    bool came = false;
    for (int i = 0; i < 100000 && !came; ++i) {
      came = (machine.TakeInterrupts() & 1) != 0;
      if (!came) machine.Advance(100'000);
    }
    guest.Write(NV_CTRL_LEAF(0), ~0u);
    // The message comes after the semaphore, and there is one for each copy.
    const uint32_t semaphore = guest.Vram32(RawGuest::kData + 0x1000);
    EXPECT_TRUE(came) << "round " << round;
    EXPECT_EQ(semaphore, static_cast<uint32_t>(round));
    if (!came) return;
    ++done;
  }
}

TEST(ThreadsTest, GuestsInterruptsWorkUnmapsAndResetsTogether) {
  ThreadedGpu gpu;
  VgpuMachine first(gpu, VgpuMachine::kV4, 1024);
  VgpuMachine second(gpu, VgpuMachine::kV4, 1024);
  VgpuMachine third(gpu, VgpuMachine::kV4, 1024);
  RawGuest first_guest(first);
  RawGuest second_guest(second);
  first_guest.StartChannel(0, kRunlist);
  second_guest.StartChannel(0, kRunlist);

  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] { Compute(first, first_guest, done); });
  threads.emplace_back([&] { Compute(second, second_guest, done); });
  // Memory that was mapped, but is not in use, goes away.
  threads.emplace_back([&] {
    while (!stop) {
      ts_vgpu_dma_unmap(first.core(), 0x80000, 0x100000);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  // A guest that is reset over and over, and makes errors in between.
  threads.emplace_back([&] {
    while (!stop) {
      RawGuest guest(third);
      guest.StartChannel(0, kRunlist);
      guest.Push(0, kRunlist, {RawGuest::Inc(NVC46F_ILLEGAL, 1), 0});
      guest.Push(0, kRunlist, RawGuest::Copy(0x1f0000, 0x1f1000, 4, RawGuest::kData, 1));
      third.Advance(2'000'000);
      ts_vgpu_reset(third.core());
    }
  });
  // A second vCPU of the first guest, and the administrator.
  threads.emplace_back([&] {
    while (!stop) {
      first.Read32(NV_PFIFO_INTR_0);
      first.Read32(NV_PCCSR_CHANNEL(0));
      first.Read32(NV_PFIFO_PBDMA_STATUS(1));
      first.Counters();
      ts_gpu_available(gpu.core, 0);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  threads[0].join();
  threads[1].join();
  stop = true;
  for (size_t i = 2; i < threads.size(); ++i) threads[i].join();
  EXPECT_EQ(done, 2 * kRounds);
  first.Close();
  second.Close();
  third.Close();
  gpu.Stop();
  EXPECT_EQ(first_guest.Vram32(RawGuest::kData + 0x1000), 0u);  // cleared at close
  EXPECT_TRUE(first.host().pinned.empty());
  EXPECT_TRUE(second.host().pinned.empty());
  EXPECT_EQ(gpu.stray_accesses(), 0u);
}

}  // namespace
}  // namespace rig
