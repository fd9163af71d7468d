// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The device as a whole: identity, access rules, PRAMIN, time, reset.
#include <gtest/gtest.h>

#include <string>

#include "fakes/model_fixture.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;

constexpr uint32_t kUnusedOffset = 0xe000;

TEST(Identity, RegistersSayWhatItIs) {
  ModelFixture gpu({.vram_bytes = 128 * fakes::kMib, .engine_mhz = 900, .sms = 6, .ctxsw_us = 125});
  EXPECT_EQ(gpu.Read(0x0), 0x164000a1u);
  EXPECT_EQ(gpu.Read(0x4), 0u);
  EXPECT_EQ(gpu.Read(0xa00), 0x16400000u);
  EXPECT_EQ(gpu.Read(0xf000), 0x34305354u);
  EXPECT_EQ(gpu.Read(0xf004), 128u);
  EXPECT_EQ(gpu.Read(0xf008), 6u);
  EXPECT_EQ(gpu.Read(0xf00c), 900u);
  EXPECT_EQ(gpu.Read(0xf010), 125u);
  EXPECT_EQ(gpu.Read(0xf014) % 4096, 0u);
  EXPECT_GT(gpu.Read(0xf014), 6u * 65536);
  EXPECT_EQ(gpu.Read(0xf018), 4096u);
  EXPECT_EQ(gpu.Read(0x2004), 0x200003u);
  EXPECT_EQ(gpu.Read(0x200c), 0xc46fu);
  EXPECT_EQ(gpu.Read(0x810000), 0xc461u);
  EXPECT_EQ(gpu.Read(0x2394), 2u);  // PBDMA_MAP(1)
  EXPECT_EQ(gpu.Read(0x124), ~0u);  // INTR_MODE(1): edges
}

TEST(Identity, TopologyTable) {
  ModelFixture gpu;
  // GR: fault id 64, PRI base 0x400; bit 12, runlist 0, engine 0; type 0.
  EXPECT_EQ(gpu.Read(0x22700), 0x80000000u | 1 | 1 << 2 | 64 << 3 | 0x400 << 12);
  EXPECT_EQ(gpu.Read(0x22704), 0x80000000u | 2 | 0xf << 2 | 12 << 9 | 12 << 15);
  EXPECT_EQ(gpu.Read(0x22708), 3u);
  // CE3: instance 3, fault id 18; bit 10, runlist 2, engine 3; type 19.
  EXPECT_EQ(gpu.Read(0x22724), 0x80000000u | 1 | 1 << 2 | 18 << 3 | 0x104 << 12 | 3 << 26);
  EXPECT_EQ(gpu.Read(0x22728), 0x80000000u | 2 | 0xf << 2 | 10 << 9 | 10 << 15 | 2 << 21 | 3 << 26);
  EXPECT_EQ(gpu.Read(0x2272c), 3u | 19 << 2);
  EXPECT_EQ(gpu.Read(0x22730), 0u);
}

TEST(Access, NarrowReadsGiveTheirPartAndNarrowWritesAreDropped) {
  ModelFixture gpu;
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x0, 1), 0xa1u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x2, 2), 0x1640u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x3, 1), 0x16u);
  ts104_bar0_write(gpu.model(), 0x1700, 2, 0x1234);
  ts104_bar0_write(gpu.model(), 0x1700, 1, 0x12);
  EXPECT_EQ(gpu.Read(0x1700), 0u);
  ts104_bar0_write(gpu.model(), 0x1700, 4, 0x123);
  EXPECT_EQ(gpu.Read(0x1700), 0x123u);
}

TEST(Access, UnknownMisalignedAndBeyondTheEndReadZero) {
  ModelFixture gpu;
  EXPECT_EQ(gpu.Read(kUnusedOffset), 0u);
  gpu.Write(kUnusedOffset, 5);
  EXPECT_EQ(gpu.Read(kUnusedOffset), 0u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x2, 4), 0u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x1000000, 4), 0u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x0, 8), 0u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), ~uint64_t{3}, 4), 0u);
  EXPECT_EQ(ts104_bar3_read(gpu.model(), 0x400000, 4), 0u);
  ts104_bar0_write(gpu.model(), 0x1000000, 4, 1);
  ts104_bar3_write(gpu.model(), 0x400000, 4, 1);
}

TEST(Access, ReadOnlyBitsKeepTheirValue) {
  ModelFixture gpu;
  gpu.Write(0x0, 0);
  EXPECT_EQ(gpu.Read(0x0), 0x164000a1u);
  gpu.Write(0x140, ~0u);
  EXPECT_EQ(gpu.Read(0x140), 0u);
}

TEST(Bar3, EveryWindowShowsUsermode) {
  ModelFixture gpu;
  for (const uint32_t f : {0u, 1u, 63u}) {
    EXPECT_EQ(gpu.ReadBar3(f << 16), 0xc461u);
    EXPECT_EQ(gpu.ReadBar3((f << 16) + 0x80), static_cast<uint32_t>(gpu.now()) & ~31u);
    EXPECT_EQ(gpu.ReadBar3((f << 16) + 0x90), 0u);
  }
}

TEST(Pramin, WindowMovesInSteps) {
  ModelFixture gpu;
  gpu.SetVram(0x12'3456u & ~3u, 0xabcd0123u);
  gpu.Write(0x1700, 0x12);
  EXPECT_EQ(gpu.Read(0x700000 + (0x3456 & ~3u)), 0xabcd0123u);
  EXPECT_EQ(ts104_bar0_read(gpu.model(), 0x700000 + 0x3456, 1), 0xcdu);
  gpu.Write(0x700000, 0x77);
  EXPECT_EQ(gpu.Vram(0x12'0000), 0x77u);
  gpu.SetSystem(0x2'0000, 0x5a5a5a5au);
  gpu.Write(0x1700, 2u << 24 | 2);
  EXPECT_EQ(gpu.Read(0x700000), 0x5a5a5a5au);
  gpu.Write(0x700004, 0x99);
  EXPECT_EQ(gpu.System(0x2'0004), 0x99u);
}

TEST(Pramin, BeyondVramReadsOnes) {
  ModelFixture gpu;
  gpu.Write(0x1700, 64 * fakes::kMib >> 16);
  EXPECT_EQ(gpu.Read(0x700000), ~0u);
  gpu.Write(0x700000, 1);
  gpu.Write(0x1700, (64 * fakes::kMib >> 16) - 1);
  EXPECT_EQ(gpu.Read(0x70fffc), 0u);
  EXPECT_EQ(gpu.Read(0x710000), ~0u);
}

TEST(Time, IsTheClockIn32NsSteps) {
  ModelFixture gpu;
  gpu.AdvanceTo(0x1234'5678'9abf);
  EXPECT_EQ(gpu.Read(0x810080), 0x56789aa0u);
  EXPECT_EQ(gpu.Read(0x810084), 0x1234u);
  EXPECT_EQ(gpu.Read(0x9400), 0x56789aa0u);
  EXPECT_EQ(gpu.Read(0x9410), 0x1234u);
  EXPECT_EQ(gpu.Read(0xbb0084), 0x1234u);
}

TEST(Reset, LeavesNothing) {
  ModelFixture gpu({.ctxsw_us = 10});
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 5);
  const uint64_t buffer = gpu.AllocateVram(4 * fakes::kMib, 2 * fakes::kMib);
  tables.Map2M(0x800'0000, buffer);
  fakes::TestFaultBuffer faults(gpu);
  gpu.EnableLeaf(0, 4, ~0u);
  gpu.Write(0x2140, ~0u);
  gpu.Write(0x9420, static_cast<uint32_t>(gpu.now() + 1'000'000));
  fakes::Submit(gpu, 1, {{.tsgid = 3, .chids = {5}, .gfid = 7}});
  channel.PushAndRing({Inc(4, NVC5B5_OFFSET_IN_UPPER, 4), 0, 0x800'0000, 0, 0x810'0000,
                       Inc(4, NVC5B5_LINE_LENGTH_IN, 1), 0x10'0000, Inc(4, NVC5B5_LAUNCH_DMA, 1),
                       0x182});
  gpu.Advance(15'000);  // in the middle of the copy
  EXPECT_TRUE(channel.Busy());
  ts104_reset(gpu.model());
  EXPECT_FALSE(gpu.intx());
  EXPECT_EQ(ts104_next_event(gpu.model()), UINT64_MAX);
  for (uint64_t at = 0; at < gpu.options().vram_bytes; at += 8) {
    ASSERT_EQ(gpu.Vram<uint64_t>(at), 0u) << at;
  }
  ModelFixture fresh({.ctxsw_us = 10});
  fresh.Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0xfff);
  for (uint32_t offset = 0; offset < 0x1000000; offset += 4) {
    if (offset == 0x700000) offset = 0x800000;  // PRAMIN
    const bool is_runlist_time = offset >= 0xf040 && offset < 0xf058;
    const bool is_time = offset == 0x9400 || (offset & ~0x3a0000u) == 0x810080 || is_runlist_time;
    if (!is_time) {
      ASSERT_EQ(gpu.Read(offset), fresh.Read(offset)) << std::hex << offset;
    }
  }
  // Bus mastering is off, too: PRAMIN to system memory is rejected.
  gpu.Write(0x1700, 2u << 24);
  EXPECT_EQ(gpu.Read(0x700000), ~0u);
}

TEST(Reset, DropsTheTlb) {
  ModelFixture gpu;
  uint64_t pages[2] = {};
  for (int round = 0; round < 2; ++round) {
    // The same VRAM layout both times, but for the page.
    PageTables* tables = nullptr;
    PageTables first(gpu);
    tables = &first;
    pages[round] = gpu.AllocateVram(4096);
    tables->Map4K(0x40'0000, pages[round]);
    TestChannel channel(gpu, *tables, 5);
    gpu.Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0x80000fff);
    fakes::Submit(gpu, 1, {{.tsgid = 3, .chids = {5}}});
    channel.PushAndRing(fakes::HostRelease(0x40'0000, 1 + static_cast<uint32_t>(round)));
    gpu.Settle();
    EXPECT_EQ(gpu.Vram(pages[round]), 1u + static_cast<uint32_t>(round));
    ts104_reset(gpu.model());
  }
}

TEST(Create, SaysWhatIsWrong) {
  struct Case {
    ts104_config config;
    const char* message;
  };
  const Case cases[] = {
      {{100 * fakes::kMib, 1000, 4, 0}, "64 MiB to 16384 MiB"},
      {{32 * fakes::kMib, 1000, 4, 0}, "64 MiB to 16384 MiB"},
      {{64 * fakes::kMib, 0, 4, 0}, "engine-mhz 0 is not within 1 to 10000"},
      {{64 * fakes::kMib, 1000, 65, 0}, "sms 65 is not within 1 to 64"},
      {{64 * fakes::kMib, 1000, 4, 2'000'000}, "ctxsw-us 2000000 is not within 0 to 1000000"},
  };
  alignas(4096) static std::byte page[4096];
  const ts104_host_ops ops = {
      [](void*, uint64_t, void*, uint64_t) { return -1; },
      [](void*, uint64_t, const void*, uint64_t) { return -1; },
      [](void*) -> uint64_t { return 0; },
      [](void*, uint32_t, bool, bool) {},
      nullptr,
      nullptr,
  };
  for (const Case& c : cases) {
    char message[200] = "";
    EXPECT_EQ(ts104_create(&c.config, page, &ops, nullptr, message, sizeof(message)), nullptr);
    EXPECT_NE(std::string(message).find(c.message), std::string::npos) << message;
  }
  const ts104_config good = {64 * fakes::kMib, 1000, 4, 0};
  char message[8] = "";
  EXPECT_EQ(ts104_create(&good, page + 8, &ops, nullptr, message, sizeof(message)), nullptr);
  EXPECT_EQ(std::string(message), "vram is");
}

}  // namespace
