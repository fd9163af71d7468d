// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Garbage in every structure that a guest can write. The model must survive and stay bounded; what
// exactly happens is for the other tests. Run it with the sanitizers.
#include <gtest/gtest.h>

#include <random>

#include "fakes/model_fixture.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;

constexpr uint64_t kSemVa = 0x40'0000;

using Random = std::mt19937;

uint32_t Word(Random& random) {
  // Small numbers and single bits find more than uniform noise does.
  switch (random() % 4) {
    case 0: return static_cast<uint32_t>(random());
    case 1: return static_cast<uint32_t>(random() % 64);
    case 2: return 1u << random() % 32;
    default: return static_cast<uint32_t>(random() & random());
  }
}

// After whatever happened, a fresh device works.
void ExpectAliveAfterReset(ModelFixture& gpu) {
  ts104_reset(gpu.model());
  ts104_bus_master(gpu.model(), true);
  gpu.Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 0x80000fff);
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 1);
  const uint64_t page = gpu.AllocateVram(4096);
  tables.Map4K(kSemVa, page);
  fakes::Submit(gpu, 1, {{.tsgid = 1, .chids = {1}}});
  channel.PushAndRing(fakes::HostRelease(kSemVa, 42));
  gpu.Settle();
  EXPECT_EQ(gpu.Vram(page), 42u);
}

TEST(Hostile, RandomRegisterWrites) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Random random(seed);
    ModelFixture gpu;
    const uint32_t bases[] = {0x0,      0x100,    0x1700,   0x2100,   0x2600,   0x2a00,   0x2b00,
                              0x9100,   0x9400,   0xf000,   0xf200,   0x40000,  0x42100,  0x100c00,
                              0x100e00, 0x104400, 0x700000, 0x800000, 0x810000, 0xb60000, 0xb65000,
                              0xb66800, 0xb73400, 0xb74000, 0xb78000, 0xb81000, 0xb83000, 0xbb0000};
    for (int i = 0; i < 4'000; ++i) {
      const uint32_t offset =
          bases[random() % std::size(bases)] + static_cast<uint32_t>(random() % 256) * 4;
      gpu.Write(offset, Word(random));
      (void)gpu.Read(offset);
      (void)ts104_bar0_read(gpu.model(), offset + 1, 1);
      gpu.WriteBar3(static_cast<uint32_t>(random()) & 0x3ffffc, Word(random));
      if (i % 16 == 0) gpu.Advance(random() % 100'000);
    }
    ExpectAliveAfterReset(gpu);
  }
}

TEST(Hostile, RandomPushBuffers) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    ModelFixture gpu({.sms = 2});
    PageTables tables(gpu);
    tables.MapRange(kSemVa, gpu.AllocateVram(0x1'0000), 0x1'0000);
    fakes::TestFaultBuffer faults(gpu);
    TestChannel channel(
        gpu, tables, 5,
        {.privileged = seed % 2 == 0, .hce_privileged = seed % 3 == 0, .gr_context = true});
    const uint32_t runlist = seed % 3;
    fakes::Submit(gpu, runlist, {{.tsgid = 1, .chids = {5}}});
    for (int round = 0; round < 20; ++round) {
      std::vector<uint32_t> words;
      while (words.size() < 200) {
        const auto subchannel = static_cast<uint32_t>(random() % 6);
        const auto method =
            static_cast<uint32_t>(random() % 2 != 0 ? random() % 0x100 : random() % 0x800) & ~3u;
        const auto count = static_cast<uint32_t>(random() % 8);
        words.push_back(random() % 16 == 0 ? Word(random) : Inc(subchannel, method, count));
        for (uint32_t i = 0; i < count; ++i) {
          // Addresses that are mapped, now and then.
          words.push_back(random() % 4 == 0 ? static_cast<uint32_t>(kSemVa) : Word(random));
        }
      }
      channel.PushAndRing(words);
      gpu.Settle(500'000);
      // A driver that clears whatever has come and goes on.
      for (uint32_t p = 0; p < 3; ++p) {
        if (random() % 2 == 0) gpu.Write(NV_PPBDMA_METHOD0(p), 0);
        gpu.Write(NV_PPBDMA_INTR_0(p), ~0u);
        gpu.Write(NV_PPBDMA_INTR_1(p), ~0u);
      }
      gpu.Write(NV_PCCSR_CHANNEL(5), 3u << 22);
      gpu.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0), gpu.Read(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0)));
    }
    ExpectAliveAfterReset(gpu);
  }
}

TEST(Hostile, RandomInstanceBlocksAndLists) {
  for (uint32_t seed = 0; seed < 36; ++seed) {
    Random random(seed);
    ModelFixture gpu({.sms = 2});
    PageTables tables(gpu);
    fakes::TestFaultBuffer faults(gpu);
    TestChannel channel(gpu, tables, 5, {.gr_context = true});
    for (int i = 0; i < 12; ++i) {
      channel.SetInst(static_cast<uint32_t>(random() % 0x220) & ~3u, Word(random));
    }
    if (seed % 2 == 0) channel.SetInst(NV_RAMFC_SIGNATURE, 0xface);
    auto entries = fakes::RunlistEntries({{.tsgid = 1, .chids = {5}}, {.tsgid = 2, .chids = {6}}});
    entries[random() % entries.size()][random() % 4] ^= seed % 4 == 0 ? Word(random) : 0;
    fakes::SubmitEntries(gpu, seed % 3, entries, static_cast<uint32_t>(random() % 4));
    channel.PushAndRing({0, 0, 0});
    gpu.Settle(500'000);
    gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 7);
    gpu.Settle(500'000);
    ExpectAliveAfterReset(gpu);
  }
}

TEST(Hostile, RandomPageTables) {
  for (uint32_t seed = 0; seed < 18; ++seed) {
    Random random(seed);
    ModelFixture gpu;
    PageTables tables(gpu);
    fakes::TestFaultBuffer faults(gpu);
    TestChannel channel(gpu, tables, 5);
    tables.Map4K(kSemVa, gpu.AllocateVram(4096));
    const uint64_t pd0 = tables.Pd0EntryOf(kSemVa);
    // Any of the entries on the way, with a table that may be its own child.
    for (int i = 0; i < 6; ++i) {
      const uint64_t at = pd0 - 16 * 8 + random() % 64 * 8;
      gpu.SetVram(at, uint64_t{Word(random)} << 32 | Word(random));
    }
    fakes::Submit(gpu, 1, {{.tsgid = 1, .chids = {5}}});
    channel.PushAndRing(fakes::HostRelease(kSemVa + (random() % 512) * 4096, 1));
    gpu.Settle(500'000);
    ExpectAliveAfterReset(gpu);
  }
}

TEST(Hostile, RandomQmdsAndContextImages) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    ModelFixture gpu({.sms = 2});
    PageTables tables(gpu);
    fakes::TestFaultBuffer faults(gpu);
    TestChannel channel(gpu, tables, 5, {.gr_context = true});
    const uint64_t memory = gpu.AllocateVram(0x1'0000);
    tables.MapRange(kSemVa, memory, 0x1'0000);
    for (uint64_t i = 0; i < 0x1'0000; i += 4) gpu.SetVram(memory + i, Word(random));
    // A QMD that looks right in its version and its program address.
    gpu.SetVram(memory + 72, (gpu.Vram(memory + 72) & ~0xffu) | 0x23);
    gpu.SetVram(memory + 192, static_cast<uint32_t>(kSemVa + 0x1000));
    gpu.SetVram(memory + 196, 0u);
    if (seed % 2 == 0) {
      for (uint64_t i = 0; i < 0x2000; i += 4) gpu.SetVram(channel.context() + i, Word(random));
      gpu.SetVram(channel.context() + 0xfc, 0x600dc0deu);
      gpu.SetVram(channel.context(), seed % 4 == 0 ? 1u : 0u);
      channel.SetInst(0x1fc, seed % 3);
    }
    fakes::Submit(gpu, 0, {{.tsgid = 1, .chids = {5}}});
    channel.PushAndRing({Inc(1, NVC5C0_SEND_PCAS_A, 1), static_cast<uint32_t>(kSemVa >> 8),
                         Inc(1, NVC5C0_SEND_SIGNALING_PCAS_B, 1), 3});
    gpu.Settle(300'000);
    gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 1);
    gpu.Settle(300'000);
    ExpectAliveAfterReset(gpu);
  }
}

TEST(Hostile, OneChidInTwoRunlists) {
  ModelFixture gpu;
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 5);
  const uint64_t page = gpu.AllocateVram(4096);
  tables.Map4K(kSemVa, page);
  fakes::Submit(gpu, 1, {{.tsgid = 1, .chids = {5}}});
  gpu.Settle();
  fakes::Submit(gpu, 2, {{.tsgid = 1, .chids = {5}}});
  channel.PushAndRing(fakes::HostRelease(kSemVa, 3));
  gpu.Settle();
  EXPECT_EQ(gpu.Vram(page), 3u);
}

}  // namespace
