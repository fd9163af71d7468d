// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Channels and runlists: binding, doorbells, submitting, scheduling, preemption, time.
#include <gtest/gtest.h>

#include "fakes/model_fixture.h"

namespace {

using fakes::Immediate;
using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;
using fakes::operator+;

constexpr uint64_t kSemVa = 0x40'0000;
constexpr uint64_t kBufferVa = 0x800'0000;
constexpr uint32_t kPbdmaIntr0 = 0x42108;  // of PBDMA 1

// Everything that the tests of runlist 1 need: page tables with a page for semaphores and 32 MiB
// of VRAM to copy in.
struct Rig {
  explicit Rig(const fakes::ModelOptions& options = {}) : gpu(options), tables(gpu) {
    sem = gpu.AllocateVram(4096);
    tables.Map4K(kSemVa, sem);
    const uint64_t buffer = gpu.AllocateVram(32 * fakes::kMib, 2 * fakes::kMib);
    for (uint64_t at = 0; at < 32 * fakes::kMib; at += 2 * fakes::kMib) {
      tables.Map2M(kBufferVa + at, buffer + at);
    }
  }
  // Engine time of function f on runlist r.
  uint64_t FunctionTime(uint32_t runlist, uint32_t function) {
    const uint32_t lo = gpu.Read(0xf200 + 8 * (64 * runlist + function));
    return uint64_t{gpu.Read(0xf204 + 8 * (64 * runlist + function))} << 32 | lo;
  }
  ModelFixture gpu;
  PageTables tables;
  uint64_t sem = 0;
};

// Copies `bytes` from the start of the buffer to its middle: 6 methods and the launch.
std::vector<uint32_t> Copy(uint32_t bytes) {
  return {Inc(4, NVC5B5_OFFSET_IN_UPPER, 4),
          0,
          kBufferVa,
          0,
          kBufferVa + 16 * fakes::kMib,
          Inc(4, NVC5B5_LINE_LENGTH_IN, 1),
          bytes,
          Inc(4, NVC5B5_LAUNCH_DMA, 1),
          0x182};
}

TEST(Fifo, DoorbellRunsAChannelToItsSemaphore) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  rig.gpu.Settle();
  channel.PushAndRing(fakes::HostRelease(kSemVa, 0x1234));
  EXPECT_EQ(channel.Status(), 1u);  // PENDING
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0x1234u);
  EXPECT_EQ(channel.Status(), 0u);
  EXPECT_EQ(channel.GpGet(), 1u);
}

TEST(Fifo, ReleaseHappensAtItsModelledTime) {
  Rig rig({.ctxsw_us = 125});
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  rig.gpu.Settle();
  const uint64_t start = rig.gpu.now();
  // Timestamped: the time itself is in memory. Context switch, GP entry, then the fifth method.
  channel.PushAndRing(fakes::HostRelease(kSemVa, 7, 1u << 25));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 8), start + 125'000 + 200 + 4 * 10);
}

TEST(Fifo, WarmTsgCostsNoContextSwitch) {
  Rig rig({.ctxsw_us = 125});
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  channel.PushAndRing(fakes::HostRelease(kSemVa, 1));
  rig.gpu.Settle();
  const uint64_t start = rig.gpu.now();
  channel.PushAndRing(fakes::HostRelease(kSemVa, 2, 1u << 25));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 8), start + 240);
}

// Doorbell tokens.

TEST(Doorbell, WrongChidIsIgnored) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  // Window 2 may name CHIDs 0..15, which are system CHIDs 0x40..0x4f.
  rig.gpu.Write(0xb65008, 0x8040000f);
  rig.gpu.WriteBar3(0x20090, 0x15 | 15 << 16);  // beyond the mask
  EXPECT_EQ(channel.Status(), 0u);
  rig.gpu.WriteBar3(0x20090, 0x5 | 15 << 16);
  EXPECT_EQ(channel.Status(), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL(0x45)) >> 24 & 0xf, 1u);
}

TEST(Doorbell, AnyOtherBitOrAnUnknownRunlistIsIgnored) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  for (const uint32_t token : {0x1005u, 0x80000005u | 15 << 16, 5u | 3 << 16, 5u | 14 << 16}) {
    rig.gpu.Write(0x810090, token);
    EXPECT_EQ(channel.Status(), 0u) << token;
  }
  rig.gpu.Write(0xbb0090, 5 | 2 << 16);
  EXPECT_EQ(channel.Status(), 1u);
}

TEST(Doorbell, RunlistMustBeThatOfTheSubmit) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  rig.gpu.Settle();
  channel.Ring(2);
  EXPECT_EQ(channel.Status(), 0u);
  channel.Ring(1);
  EXPECT_EQ(channel.Status(), 1u);
}

TEST(Doorbell, NeedsPendingEnable) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  rig.gpu.Write(0xb65000, 0xfff);
  channel.Ring();
  EXPECT_EQ(channel.Status(), 0u);
}

TEST(Doorbell, NotifyRaisesVector129Once) {
  Rig rig;
  rig.gpu.Write(0xb65004, 0x80000fff);  // window 1
  rig.gpu.Write(0xb65404, 1);           // ARM
  rig.gpu.WriteBar3(0x10090, 5 | 15 << 16);
  EXPECT_EQ(rig.gpu.Leaf(0, 4), 1u << 1);
  EXPECT_EQ(rig.gpu.Read(0xb65404), 2u);  // PENDING, no longer armed
  rig.gpu.Write(NV_CTRL_LEAF(4), 1u << 1);
  rig.gpu.WriteBar3(0x10090, 5 | 15 << 16);
  EXPECT_EQ(rig.gpu.Leaf(0, 4), 0u);
}

TEST(Doorbell, NotifyOfOtherRunlistsIsNotRaised) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  rig.gpu.Advance(1'000'000);
  rig.gpu.Write(0xb65004, 0x80000fff);  // window 1
  rig.gpu.Write(0xb65404, 0x501);       // ARM for runlists 0 and 2
  rig.gpu.WriteBar3(0x10090, 5 | 15 << 16);
  EXPECT_EQ(rig.gpu.Leaf(0, 4) & 1u << 1, 0u);
  EXPECT_EQ(rig.gpu.Read(0xb65404), 0x501u);
  rig.gpu.Write(0xb65404, 0x201);  // and now for runlist 1
  rig.gpu.WriteBar3(0x10090, 5 | 15 << 16);
  EXPECT_EQ(rig.gpu.Leaf(0, 4) & 1u << 1, 1u << 1);
  EXPECT_EQ(rig.gpu.Read(0xb65404), 2u);  // PENDING, nothing armed
  rig.gpu.Write(0xb65404, 0x503);
  rig.gpu.WriteBar3(0x10090, 7 | 15 << 16);  // never was on a runlist: may be meant
  EXPECT_EQ(rig.gpu.Read(0xb65404), 2u);
}

// Binding.

TEST(Pccsr, BindErrors) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  rig.gpu.Write(NV_PCCSR_CHANNEL_INST(5), 0x80000123);
  EXPECT_EQ(rig.gpu.Read(0x252c), 1u);  // BIND_NOT_UNBOUND
  EXPECT_EQ(rig.gpu.Read(0x2100) & 1, 1u);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL_INST(5)), 0x80000000u | channel.inst() >> 12);
  rig.gpu.Write(0x2100, 1);
  EXPECT_EQ(rig.gpu.Read(0x2100), 0u);
  rig.gpu.Write(NV_PCCSR_CHANNEL_INST(6), 0x90000123);
  EXPECT_EQ(rig.gpu.Read(0x252c), 6u);  // INVALID_CTX_TGT
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL_INST(6)), 0u);
}

TEST(Pccsr, UnbindWhileRunningIsAnError) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  channel.PushAndRing(Copy(16 * fakes::kMib));
  rig.gpu.Advance(50'000);
  EXPECT_EQ(channel.Status(), 7u);  // ON_ENG
  EXPECT_TRUE(channel.Busy());
  rig.gpu.Write(NV_PCCSR_CHANNEL_INST(5), 0);
  EXPECT_EQ(rig.gpu.Read(0x252c), 3u);
  rig.gpu.Settle();
  rig.gpu.Write(NV_PCCSR_CHANNEL_INST(5), 0);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL_INST(5)), 0u);
}

TEST(Pccsr, DisabledChannelStaysPendingAndRunsWhenEnabled) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  channel.Disable();
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  channel.PushAndRing(fakes::HostRelease(kSemVa, 9));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  EXPECT_EQ(channel.Status(), 1u);
  channel.Enable();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 9u);
}

TEST(Pccsr, EnableClearSavesARunningCopyOutAndItGoesOnLater) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  channel.PushAndRing(Copy(8 * fakes::kMib) + fakes::HostRelease(kSemVa, 9, 1u << 20));
  rig.gpu.Advance(20'000);
  channel.Disable();
  EXPECT_TRUE(channel.Busy());
  rig.gpu.Advance(3'000);  // a piece of 256 KiB takes 2048 ns
  EXPECT_FALSE(channel.Busy());
  EXPECT_EQ(channel.Status(), 1u);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  channel.Enable();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 9u);
}

// Submitting.

TEST(Submit, RaisesTheEventAlsoForAnEmptyList) {
  Rig rig;
  rig.gpu.Write(NV_PFIFO_RUNLIST_SUBMIT(2), 0);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(2)), 1u << 15);  // PENDING
  EXPECT_EQ(rig.gpu.Read(0x2a00), 0u);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(2)), 0u);
  EXPECT_EQ(rig.gpu.Read(0x2a00), 4u);
  EXPECT_EQ(rig.gpu.Read(0x2100), 1u << 30);
  rig.gpu.Write(0x2a00, 4);
  EXPECT_EQ(rig.gpu.Read(0x2100), 0u);
}

TEST(Submit, SecondWhilePendingReplacesTheFirst) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(fakes::HostRelease(kSemVa, 1));
  b.PushAndRing(fakes::HostRelease(kSemVa + 16, 2));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  fakes::Submit(rig.gpu, 1, {{.tsgid = 2, .chids = {2}}});
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  EXPECT_EQ(rig.gpu.Vram(rig.sem + 16), 2u);
}

TEST(Submit, BadTsgEndsTheList) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(fakes::HostRelease(kSemVa, 1));
  b.PushAndRing(fakes::HostRelease(kSemVa + 16, 2));
  auto entries = fakes::RunlistEntries({{.tsgid = 1, .chids = {1}}, {.tsgid = 2, .chids = {2}}});
  entries[2][1] = 0;  // LENGTH 0
  fakes::SubmitEntries(rig.gpu, 1, entries);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(0x254c), 0x20u);
  EXPECT_EQ(rig.gpu.Read(0x2100) & 1u << 8, 1u << 8);
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 1u);
  EXPECT_EQ(rig.gpu.Vram(rig.sem + 16), 0u);
}

TEST(Submit, EveryMalformedListIsBadTsg) {
  using Entries = std::vector<std::array<uint32_t, 4>>;
  const Entries cases[] = {
      {{0, 0, 1, 0}},                              // channel outside a TSG
      {{1 | 64 << 4, 1, 1, 0}, {0, 0, 1, 0}},      // GFID 64
      {{1, 2, 1, 0}, {0, 0, 1, 0}},                // shorter than LENGTH
      {{1, 2, 1, 0}, {0, 0, 1, 0}, {0, 0, 1, 0}},  // a CHID twice
      {{1, 1, 1, 0}, {1, 1, 2, 0}},                // header inside a TSG
      {{1, 129, 1, 0}},                            // LENGTH beyond 128
  };
  for (const Entries& entries : cases) {
    Rig rig;
    fakes::SubmitEntries(rig.gpu, 0, entries);
    rig.gpu.Settle();
    EXPECT_EQ(rig.gpu.Read(0x254c), 0x20u);
    EXPECT_EQ(rig.gpu.Read(0x2a00), 1u);
  }
}

TEST(Submit, UnreadableListCountsAsEmptyAndBad) {
  Rig rig;
  rig.gpu.Write(NV_PFIFO_RUNLIST_BASE_LO(1), 0xfffff000);  // VRAM ends before
  rig.gpu.Write(NV_PFIFO_RUNLIST_SUBMIT(1), 2);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(0x254c), 0x20u);
  EXPECT_EQ(rig.gpu.Read(0x2a00), 2u);
}

TEST(Submit, OffsetNamesTheFirstTsg) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  TestChannel c(rig.gpu, rig.tables, 3);
  uint32_t next = 0;
  for (TestChannel* channel : {&a, &b, &c}) {
    channel->PushAndRing(fakes::HostRelease(kSemVa + 16 * next++, 1, 1u << 25));
  }
  // Entry 1 is the first TSG's channel: rounded up to the header of the second.
  fakes::Submit(
      rig.gpu, 1,
      {{.tsgid = 1, .chids = {1}}, {.tsgid = 2, .chids = {2}}, {.tsgid = 3, .chids = {3}}}, 1);
  rig.gpu.Settle();
  const auto time = [&](uint32_t i) { return rig.gpu.Vram<uint64_t>(rig.sem + 16 * i + 8); };
  EXPECT_LT(time(1), time(2));
  EXPECT_LT(time(2), time(0));
}

// Round robin, exactly: a piece of a copy takes 2048 ns, a slice is 8192 ns, a switch 10 us.

TEST(RoundRobin, TimeslicesAreExact) {
  Rig rig({.ctxsw_us = 10});
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(Copy(16 * fakes::kMib));
  b.PushAndRing(Copy(16 * fakes::kMib));
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 1,
                {{.tsgid = 1, .chids = {1}, .timeout = 8, .scale = 0, .gfid = 1},
                 {.tsgid = 2, .chids = {2}, .timeout = 8, .scale = 0, .gfid = 2}});
  // First slice: GP entry 200 ns, six methods, launch 500 ns, four pieces: 750 + 4 * 2048. The
  // slice ends inside the fourth.
  rig.gpu.AdvanceTo(start + 10'000 + 8942);
  EXPECT_EQ(rig.FunctionTime(1, 1), 8942u);
  EXPECT_EQ(rig.FunctionTime(1, 2), 0u);
  rig.gpu.AdvanceTo(start + 2 * (10'000 + 8942));
  EXPECT_EQ(rig.FunctionTime(1, 2), 8942u);
  // From then on nothing but pieces: every slice is exactly four of them.
  const uint64_t round = 2 * (10'000 + 8192);
  rig.gpu.AdvanceTo(start + 2 * (10'000 + 8942) + 3 * round);
  EXPECT_EQ(rig.FunctionTime(1, 1), 8942u + 3 * 8192);
  EXPECT_EQ(rig.FunctionTime(1, 2), 8942u + 3 * 8192);
}

TEST(RoundRobin, AloneItGoesOnWithNewSlices) {
  Rig rig({.ctxsw_us = 10});
  TestChannel a(rig.gpu, rig.tables, 1);
  a.PushAndRing(Copy(16 * fakes::kMib));
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}, .timeout = 8, .scale = 0, .gfid = 1}});
  rig.gpu.Settle();
  // 64 pieces of 2048 ns without an interruption.
  EXPECT_EQ(rig.FunctionTime(1, 1), 750u + 64 * 2048);
  EXPECT_EQ(rig.gpu.now(), start + 10'000 + 750 + 64 * 2048);
}

TEST(RoundRobin, ChannelsOfATsgRunInListOrder) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(fakes::HostRelease(kSemVa, 1, 1u << 25));
  b.PushAndRing(fakes::HostRelease(kSemVa + 16, 1, 1u << 25));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {2, 1}}});
  rig.gpu.Settle();
  EXPECT_LT(rig.gpu.Vram<uint64_t>(rig.sem + 24), rig.gpu.Vram<uint64_t>(rig.sem + 8));
}

TEST(RoundRobin, FaultedChannelKeepsItsWholeTsgOut) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(fakes::HostRelease(kSemVa, 1));
  rig.gpu.Write(NV_PCCSR_CHANNEL(2), 1u << 21);  // FORCE_ENG_FAULTED
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1, 2}}});
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  rig.gpu.Write(NV_PCCSR_CHANNEL(2), 1u << 23);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 1u);
}

// Preemption.

TEST(Preempt, RunlistPreemptSavesOutAndSaysWhere) {
  Rig rig({.ctxsw_us = 10});
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  b.PushAndRing(Copy(16 * fakes::kMib) + fakes::HostRelease(kSemVa, 9, 1u << 20));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}, {.tsgid = 22, .chids = {2}}});
  rig.gpu.Advance(50'000);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_ENGINE_STATUS(2)), 22u | 1 << 12 | 1 << 13 | 1 << 28 | 1u << 31);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PBDMA_STATUS(1)) & 0xffff, 22u | 1 << 12 | 1 << 13);
  rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 2);
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 2);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 2u);
  rig.gpu.Advance(2048);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  // Header of TSG 22 is entry 2.
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(1)), 22u | 1 << 14 | 2u << 16);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_ENGINE_STATUS(2)), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PBDMA_STATUS(1)), 0u);
  EXPECT_FALSE(b.Busy());
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 0);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 9u);
}

TEST(Preempt, RunlistPreemptOfAnIdleRunlistIsDoneAtOnce) {
  Rig rig;
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}, {.tsgid = 2, .chids = {2}}}, 2);
  rig.gpu.Settle();
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 2);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(1)), 2u << 16);  // VALID 0: the cursor
}

TEST(Preempt, TsgPreemptReportsWhenUnmasked) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  a.PushAndRing(Copy(16 * fakes::kMib));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 7, .chids = {1}}});
  rig.gpu.Write(NV_PFIFO_INTR_0_MASK_SET, 1u << 28);
  rig.gpu.Advance(20'000);
  rig.gpu.Write(NV_PFIFO_PREEMPT, 7u | 1 << 24);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PREEMPT), 7u | 1 << 20 | 1 << 24);
  rig.gpu.Advance(2048);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PREEMPT), 7u | 1 << 24);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_0) & 1u << 28, 1u << 28);
}

TEST(Preempt, TsgThatIsNotLoadedIsPreemptedAtOnce) {
  Rig rig;
  rig.gpu.Write(NV_PFIFO_INTR_0_MASK_SET, 1u << 28);
  rig.gpu.Write(NV_PFIFO_PREEMPT, 99u | 1 << 24);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PREEMPT), 99u | 1 << 24);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_0) & 1u << 28, 1u << 28);
}

TEST(Preempt, ChannelTypeIsNoOperation) {
  Rig rig;
  rig.gpu.Write(NV_PFIFO_PREEMPT, 99u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_PREEMPT), 99u);
}

TEST(Preempt, SubmitEvictsWhatIsNotInTheNewList) {
  Rig rig({.ctxsw_us = 10});
  TestChannel a(rig.gpu, rig.tables, 1);
  TestChannel b(rig.gpu, rig.tables, 2);
  a.PushAndRing(Copy(16 * fakes::kMib));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(50'000);
  b.PushAndRing(fakes::HostRelease(kSemVa, 5));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 2, .chids = {2}}});
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 5u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(1)), 1u | 1 << 14);
  EXPECT_EQ(a.Status(), 1u);
}

TEST(Preempt, SubmitOfTheSameTsgKeepsItLoaded) {
  Rig rig({.ctxsw_us = 10});
  TestChannel a(rig.gpu, rig.tables, 1);
  a.PushAndRing(Copy(16 * fakes::kMib));
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(50'000);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.now(), start + 10'000 + 750 + 64 * 2048);
}

// Idle.

TEST(Idle, ConditionsAreReportedOnTheChange) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  rig.gpu.Write(NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET, 2);
  rig.gpu.Write(NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE_EN_SET, 2);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET), 2u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_INFO(1)), 1u | 1 << 4 | 1 << 8 | 1 << 9);
  a.PushAndRing(Copy(16 * fakes::kMib));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(20'000);
  // Everything is fetched, the engine works on.
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_IDLE), 2u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE), 0u);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_AND_ENG_IDLE), 2u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_0) & 0xf0, 0x30u);
  rig.gpu.Write(NV_PFIFO_INTR_RUNLIST_IDLE_EN_CLEAR, 2);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET), 0u);
}

TEST(Idle, FailingAcquireIsItsOwnCondition) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  rig.gpu.Write(NV_PFIFO_INTR_RUNLIST_ACQUIRE_EN_SET, 2);
  rig.gpu.Write(NV_PFIFO_INTR_RUNLIST_IDLE_EN_SET, 2);
  a.PushAndRing(fakes::HostAcquire(kSemVa, 1, 1u << 12));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(5'000);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_ACQUIRE), 2u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_RUNLIST_IDLE), 0u);
  EXPECT_EQ(a.Status(), 3u);  // PENDING_ACQUIRE
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_INFO(1)) >> 12 & 1, 1u);
}

// Resets of parts.

TEST(PmcEnable, EngineResetDropsTheCopyAndRaisesEngReset) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  a.PushAndRing(Copy(16 * fakes::kMib) + fakes::HostRelease(kSemVa, 3, 1u << 20));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(20'000);
  rig.gpu.Write(NV_PMC_ENABLE, ~(1u << 7));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kPbdmaIntr0), 1u << 24);
  rig.gpu.Write(NV_PMC_ENABLE, ~0u);
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  rig.gpu.Write(kPbdmaIntr0, 1u << 24);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 3u);
}

TEST(PmcEnable, PfifoResetForgetsChannelsAndLists) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  a.PushAndRing(Copy(16 * fakes::kMib));
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}}});
  rig.gpu.Advance(20'000);
  rig.gpu.Write(NV_PMC_ENABLE, ~(1u << 8));
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL_INST(1)), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL(1)), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_ENGINE_STATUS(2)), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_BASE_LO(1)), 0u);
}

TEST(FunctionTime, IdleAndSwitchingAreNotCounted) {
  Rig rig({.ctxsw_us = 125});
  TestChannel a(rig.gpu, rig.tables, 1);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}, .gfid = 9}});
  a.PushAndRing(fakes::HostRelease(kSemVa, 1));
  rig.gpu.Settle();
  EXPECT_EQ(rig.FunctionTime(1, 9), 250u);  // a GP entry and five methods
  rig.gpu.Advance(1'000'000);
  EXPECT_EQ(rig.FunctionTime(1, 9), 250u);
}

TEST(RunlistTime, IsThePtimerOfAModelThatKeepsUp) {
  Rig rig;
  TestChannel a(rig.gpu, rig.tables, 1);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 1, .chids = {1}, .gfid = 9}});
  rig.gpu.Settle();
  const uint32_t busy = rig.gpu.Read(0xf048);
  a.PushAndRing(fakes::HostRelease(kSemVa, 1));
  rig.gpu.Settle();
  rig.gpu.Advance(1'000'000);
  EXPECT_EQ(rig.gpu.Read(0xf048) & ~31u, rig.gpu.Read(NV_PTIMER_TIME_0));
  EXPECT_GE(rig.gpu.Read(0xf048) - busy, 1'000'000u);
  EXPECT_EQ(rig.gpu.Read(0xf04c), rig.gpu.Read(NV_PTIMER_TIME_1));
  EXPECT_EQ(rig.gpu.Read(0xf040), rig.gpu.Read(0xf048));
}

}  // namespace
