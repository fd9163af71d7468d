// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The model with its own thread, beside threads that act as vCPUs. Meant for the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "model_abi.h"
#include "ts104/regs.h"

namespace {

constexpr uint64_t kVramBytes = uint64_t{64} << 20;

// Like fakes::ModelFixture, but safe for several threads: the clock is the machine's.
class ThreadedModel {
 public:
  ThreadedModel() : vram_(static_cast<std::byte*>(std::aligned_alloc(4096, kVramBytes))) {
    std::memset(vram_, 0, kVramBytes);
    const ts104_config config = {kVramBytes, 10000, 2, 5};
    const ts104_host_ops ops = {
        [](void*, uint64_t, void*, uint64_t) { return -1; },
        [](void*, uint64_t, const void*, uint64_t) { return -1; },
        [](void*) {
          return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                       std::chrono::nanoseconds(1));
        },
        [](void* opaque, uint32_t msix, bool, bool) {
          static_cast<ThreadedModel*>(opaque)->messages_ += msix != 0 ? 1 : 0;
        },
        nullptr,
        nullptr,
    };
    model_ = ts104_create(&config, vram_, &ops, this, nullptr, 0);
    EXPECT_EQ(ts104_start_thread(model_), 0);
  }
  ~ThreadedModel() {
    ts104_destroy(model_);
    std::free(vram_);
  }
  ts104_model* get() { return model_; }
  uint32_t Read(uint32_t offset) { return ts104_bar0_read(model_, offset, 4); }
  void Write(uint32_t offset, uint32_t value) { ts104_bar0_write(model_, offset, 4, value); }
  uint32_t messages() const { return messages_; }
  // As if the host had not run for so long.
  void JumpClock(uint64_t ns) { jumped_ += ns; }

  // VRAM words as the CPU writes them through BAR1.
  void Poke(uint64_t offset, uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(vram_ + offset), value, __ATOMIC_RELEASE);
  }
  uint32_t Peek(uint64_t offset) {
    return __atomic_load_n(reinterpret_cast<uint32_t*>(vram_ + offset), __ATOMIC_ACQUIRE);
  }
  bool WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  // A channel without helpers: page tables identity-map the first 2 MiB at VA 0x4000'0000 by one
  // large page; instance block, USERD, ring and push buffer lie in it at `base`.
  static constexpr uint64_t kVa = 0x4000'0000;
  void MakeTables() {
    Poke(0x1000, 2 | 0x2 << 8);  // PD3 -> PD2 at 0x2000
    Poke(0x2000, 2 | 0x3 << 8);  // PD2 -> PD1 at 0x3000
    Poke(0x3000 + 2 * 8, 2 | 0x4 << 8);
    Poke(0x4000, 1);  // 2 MiB page at 0
  }
  void MakeChannel(uint32_t chid, uint32_t base) {
    Poke(base + NV_RAMFC_USERD, base + 0x1000);
    Poke(base + NV_RAMFC_SIGNATURE, 0xface);
    Poke(base + NV_RAMFC_ACQUIRE, 0x7ffff902);
    Poke(base + NV_RAMFC_GP_BASE, static_cast<uint32_t>(kVa) + base + 0x2000);
    Poke(base + NV_RAMFC_GP_BASE_HI, 6 << 16);
    Poke(base + NV_RAMFC_PB_HEADER, 0x20400000);
    Poke(base + NV_RAMFC_SUBDEVICE, 0x30000001);
    Poke(base + NV_RAMIN_PAGE_DIR_BASE, 0x1000 | 1 << 10 | 1 << 11);
    Write(NV_PCCSR_CHANNEL_INST(chid), 1u << 31 | base >> 12);
    Write(NV_PCCSR_CHANNEL(chid), 1 << 10);
    Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0x80000fff);
  }
  void Submit(uint32_t runlist, uint32_t chid, uint32_t list) {
    Poke(list, 1 | 3 << 16 | 128u << 24);
    Poke(list + 4, 1);
    Poke(list + 8, chid);
    Poke(list + 16, 0);
    Poke(list + 24, chid);
    Write(NV_PFIFO_RUNLIST_BASE_LO(runlist), list);
    Write(NV_PFIFO_RUNLIST_SUBMIT(runlist), 2);
  }
  // Entry `put` of the ring releases semaphore `value` at base + 0x4000.
  void PushRelease(uint32_t base, uint32_t put, uint32_t value) {
    const uint32_t words[] = {1u << 29 | 5 << 16 | NVC46F_SEM_ADDR_LO >> 2,
                              static_cast<uint32_t>(kVa) + base + 0x4000,
                              0,
                              value,
                              0,
                              1};
    const uint32_t at = base + 0x3000 + put * 32;
    for (uint32_t i = 0; i < 6; ++i) Poke(at + 4 * i, words[i]);
    Poke(base + 0x2000 + put * 8, static_cast<uint32_t>(kVa) + at);
    Poke(base + 0x2000 + put * 8 + 4, 6 << 10);
    Poke(base + 0x1000 + NV_USERD_GP_PUT, (put + 1) % 64);
  }

 private:
  std::byte* vram_;
  ts104_model* model_ = nullptr;
  std::atomic<uint32_t> messages_{0};
  std::atomic<uint64_t> jumped_{0};
};

TEST(Threads, WorkRunsWhileVcpusHammerRegisters) {
  ThreadedModel gpu;
  gpu.MakeTables();
  for (uint32_t r = 1; r < 3; ++r) {
    gpu.MakeChannel(r, 0x1'0000 * r);
    gpu.Submit(r, r, 0x8000 + 0x1000 * r);
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> hammers;
  for (uint32_t t = 0; t < 2; ++t) {
    hammers.emplace_back([&gpu, &stop, t] {
      uint32_t i = 0;
      while (!stop) {
        (void)gpu.Read(NV_PFIFO_INTR_0);
        (void)gpu.Read(NV_PFIFO_ENGINE_STATUS(2));
        (void)gpu.Read(NV_PPBDMA_GP_GET(1));
        (void)gpu.Read(NV_TS104_FUNCTION_TIME_LO(64));
        (void)gpu.Read(0x810080);
        gpu.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
        gpu.Write(NV_CTRL_LEAF_TRIGGER(t + 1), i % 256);
        gpu.Write(NV_CTRL_LEAF(16 * (t + 1) + i % 8), ~0u);
        gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 6);
        if (++i % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  std::vector<std::thread> clients;
  std::atomic<uint32_t> finished{0};
  for (uint32_t r = 1; r < 3; ++r) {
    clients.emplace_back([&gpu, &finished, r] {
      const uint32_t base = 0x1'0000 * r;
      for (uint32_t i = 0; i < 200; ++i) {
        gpu.PushRelease(base, i % 64, i + 1);
        gpu.Write(0x810090, r | r << 16);
        if (!gpu.WaitFor([&] { return gpu.Peek(base + 0x4000) == i + 1; })) return;
      }
      ++finished;
    });
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  for (std::thread& hammer : hammers) hammer.join();
  EXPECT_EQ(finished, 2u);
}

TEST(Threads, ResetFromManyThreadsLeavesNothing) {
  ThreadedModel gpu;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&gpu] {
      for (uint32_t i = 0; i < 3; ++i) {
        // Registers only: VRAM belongs to the model while it is reset.
        gpu.Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0x80000fff);
        gpu.Write(NV_PCCSR_CHANNEL_INST(5), 1u << 31 | 0x10);
        gpu.Write(NV_PCCSR_CHANNEL(5), 1 << 10);
        gpu.Write(NV_PFIFO_RUNLIST_SUBMIT(1), 2);
        gpu.Write(0x810090, 5 | 15 << 16);
        gpu.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
        ts104_reset(gpu.get());
        gpu.Write(NV_PMC_ENABLE, ~(1u << 8));
        gpu.Write(NV_PMC_ENABLE, ~0u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ts104_reset(gpu.get());
  EXPECT_EQ(gpu.Read(NV_PCCSR_CHANNEL_INST(5)), 0u);
  EXPECT_EQ(gpu.Read(NV_PFB_PRI_MMU_INVALIDATE), 0u);
}

TEST(Threads, StopKeepsPendingWorkForTheNextStart) {
  ThreadedModel gpu;
  gpu.MakeTables();
  gpu.MakeChannel(5, 0x1'0000);
  gpu.Submit(1, 5, 0x9000);
  ts104_stop_thread(gpu.get());
  gpu.PushRelease(0x1'0000, 0, 7);
  gpu.Write(0x810090, 5 | 15 << 16);
  EXPECT_EQ(gpu.Peek(0x1'4000), 0u);
  ASSERT_EQ(ts104_start_thread(gpu.get()), 0);
  EXPECT_NE(ts104_start_thread(gpu.get()), 0);  // EBUSY
  EXPECT_TRUE(gpu.WaitFor([&] { return gpu.Peek(0x1'4000) == 7; }));
}

// A grid that the host cannot run as fast as the model says: the lag is counted, and software is
// answered all the same.
TEST(Threads, OverloadCountsLagAndAnswersRequests) {
  ThreadedModel gpu;
  gpu.MakeTables();
  constexpr uint32_t kBase = 0x1'0000;
  constexpr uint32_t kQmd = 0x3'0000;
  constexpr uint32_t kCode = 0x3'1000;
  gpu.MakeChannel(5, kBase);
  gpu.Poke(kBase + NV_RAMIN_ENGINE_WFI_PTR, 4 << 20);  // physical, VRAM
  gpu.Poke(kCode, 0x0000006f);                         // j .
  gpu.Poke(kQmd + 48, 2);                              // grid 2 x 1 x 1
  gpu.Poke(kQmd + 52, 1);
  gpu.Poke(kQmd + 56, 1);
  gpu.Poke(kQmd + 72, 1 << 16 | 0x23);  // version 2.3, CTA 1 x 1 x 1
  gpu.Poke(kQmd + 76, 1 << 16 | 1);
  gpu.Poke(kQmd + 192, static_cast<uint32_t>(ThreadedModel::kVa) + kCode);
  const uint32_t words[] = {1u << 29 | 1 << 16 | 1 << 13 | NVC5C0_SEND_PCAS_A >> 2,
                            (static_cast<uint32_t>(ThreadedModel::kVa) + kQmd) >> 8,
                            1u << 29 | 1 << 16 | 1 << 13 | NVC5C0_SEND_SIGNALING_PCAS_B >> 2, 3};
  for (uint32_t i = 0; i < 4; ++i) gpu.Poke(kBase + 0x3000 + 4 * i, words[i]);
  gpu.Poke(kBase + 0x2000, static_cast<uint32_t>(ThreadedModel::kVa) + kBase + 0x3000);
  gpu.Poke(kBase + 0x2004, 4 << 10);
  gpu.Poke(kBase + 0x1000 + NV_USERD_GP_PUT, 1);
  gpu.Submit(0, 5, 0x9000);
  gpu.Write(0x810090, 5 | 15 << 16);
  ASSERT_TRUE(gpu.WaitFor([&] { return gpu.Read(NV_TS104_LAG_NS_LO) > 20'000'000; }));
  EXPECT_GT(gpu.Read(NV_TS104_INSTRUCTIONS_LO), 0u);
  const uint32_t lagging = gpu.Read(NV_TS104_RUNLIST_TIME_LO(0));
  EXPECT_GT(gpu.Read(NV_PTIMER_TIME_0) - lagging, 20'000'000u);
  gpu.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
  EXPECT_TRUE(gpu.WaitFor([&] { return gpu.Read(NV_PFB_PRI_MMU_INVALIDATE) >> 31 == 0; }));
  gpu.Write(NV_PFIFO_SCHED_DISABLE, 1);
  gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 1);
  EXPECT_TRUE(gpu.WaitFor([&] { return gpu.Read(NV_PFIFO_RUNLIST_PREEMPT) == 0; }));
  EXPECT_EQ(gpu.Read(NV_PFIFO_ENGINE_STATUS(0)), 0u);
  // What was lost stays lost: a reset does not let the runlist's clock jump.
  gpu.Write(NV_PMC_ENABLE, ~(1u << 8));
  const uint32_t after_reset = gpu.Read(NV_TS104_RUNLIST_TIME_LO(0));
  EXPECT_GT(gpu.Read(NV_PTIMER_TIME_0) - after_reset, 20'000'000u);
}

// A preempt counts from when it was written; who reads the time of what runs until the model has
// seen to it reads more.
TEST(Threads, FunctionTimeNeverGoesBack) {
  ThreadedModel gpu;
  gpu.MakeTables();
  constexpr uint32_t kBase = 0x1'0000;
  constexpr uint32_t kMethods = 4000;
  gpu.MakeChannel(5, kBase);
  gpu.Poke(0x3'0000, 3u << 29 | kMethods << 16 | NVC46F_NON_STALL_INTERRUPT >> 2);
  for (uint32_t put = 0; put < 63; ++put) {
    gpu.Poke(kBase + 0x2000 + put * 8, static_cast<uint32_t>(ThreadedModel::kVa) + 0x3'0000);
    gpu.Poke(kBase + 0x2000 + put * 8 + 4, (kMethods + 1) << 10);
  }
  gpu.Poke(kBase + 0x1000 + NV_USERD_GP_PUT, 63);
  gpu.Submit(1, 5, 0x9000);
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> went_back{0};
  std::thread reader([&] {
    uint32_t last = 0;
    while (!stop) {
      const uint32_t time = gpu.Read(NV_TS104_FUNCTION_TIME_LO(64));
      if (static_cast<int32_t>(time - std::exchange(last, time)) < 0) ++went_back;
    }
  });
  gpu.Write(0x810090, 5 | 15 << 16);
  for (uint32_t i = 0; i < 200; ++i) {
    gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 2);
    if (!gpu.WaitFor([&] { return gpu.Read(NV_PFIFO_RUNLIST_PREEMPT) == 0; })) break;
  }
  stop = true;
  reader.join();
  EXPECT_EQ(went_back, 0u);
}

TEST(Threads, WaitingAcquireSurvivesAJumpOfTheClock) {
  ThreadedModel gpu;
  gpu.MakeTables();
  constexpr uint32_t kBase = 0x1'0000;
  gpu.MakeChannel(5, kBase);
  gpu.Submit(1, 5, 0x9000);
  gpu.PushRelease(kBase, 0, 7);
  gpu.Poke(kBase + 0x3000 + 20, 0);  // ACQUIRE instead, without SWITCH_TSG
  gpu.PushRelease(kBase, 1, 8);
  gpu.Write(0x810090, 5 | 15 << 16);
  ASSERT_TRUE(gpu.WaitFor([&] { return (gpu.Read(NV_PCCSR_CHANNEL(5)) >> 24 & 15) == 3; }));
  for (int i = 0; i < 5; ++i) {
    gpu.JumpClock(1'000'000'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  gpu.Poke(kBase + 0x4000, 7);
  EXPECT_TRUE(gpu.WaitFor([&] { return gpu.Peek(kBase + 0x4000) == 8; }));
}

TEST(Threads, AlarmInterrupts) {
  ThreadedModel gpu;
  gpu.Write(NV_CTRL_LEAF_EN_SET(4), 1u << 20);
  gpu.Write(NV_CTRL_TOP_EN_SET(0), 0xf);
  gpu.Write(NV_PTIMER_INTR_EN_0, 1);
  gpu.Write(NV_PTIMER_ALARM_0, gpu.Read(NV_PTIMER_TIME_0) + 5'000'000);
  EXPECT_TRUE(gpu.WaitFor([&] { return gpu.messages() != 0; }));
}

}  // namespace
