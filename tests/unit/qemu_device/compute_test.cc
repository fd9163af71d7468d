// SPDX-License-Identifier: GPL-2.0-only OR MIT
// GR: launches, inline-to-memory, faults of programs, preemption.
#include <gtest/gtest.h>

#include <span>

#include "base/bits.h"
#include "fakes/model_fixture.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::NonInc;
using fakes::PageTables;
using fakes::TestChannel;
using fakes::operator+;

constexpr uint64_t kDataVa = 0x100'0000;  // 64 KiB
constexpr uint64_t kCodeVa = 0x200'0000;  // 16 KiB
constexpr uint64_t kQmdVa = 0x300'0000;   // 16 KiB
constexpr uint64_t kSemOffset = 0x8000;   // in the data

constexpr uint32_t kExit0 = 0x00000893;  // li a7, 0
constexpr uint32_t kEcall = 0x00000073;

// Every thread stores its number in the grid to the array that constant buffer 0 names.
const std::vector<uint32_t> kStoreIds = {
    0x00053283,  // ld   t0, 0(a0)
    0xccc02373,  // csrr t1, thread
    0xcc3023f3,  // csrr t2, CTA x
    0xcc602e73,  // csrr t3, CTA size x
    0x03c383b3,  // mul  t2, t2, t3
    0x00730333,  // add  t1, t1, t2
    0x00231e93,  // slli t4, t1, 2
    0x01d282b3,  // add  t0, t0, t4
    0x0062a023,  // sw   t1, 0(t0)
    kExit0,     kEcall,
};
constexpr uint32_t kEndless = 0x0000006f;

// Counts `pages` * 4096 down, two instructions a step, then stores 77.
std::vector<uint32_t> CountDown(uint32_t pages) {
  return {
      pages << 12 | 6 << 7 | 0x37,  // lui  t1, pages
      0xfff30313,                   // addi t1, t1, -1
      0xfe031ee3,                   // bnez t1, -4
      0x00053283,                   // ld   t0, 0(a0)
      0x04d00313,                   // li   t1, 77
      0x0062a023,                   // sw   t1, 0(t0)
      kExit0,
      kEcall,
  };
}

class Qmd {
 public:
  Qmd() {
    Set(579, 576, 3);
    Set(583, 580, 2);
    Grid(1, 1, 1);
    Cta(1);
    Set(640, 640, 1);    // constant buffer 0
    Set(1087, 1075, 1);  // of 16 bytes
    Program(kCodeVa);
  }
  Qmd& Set(size_t hi, size_t lo, uint64_t value) {
    base::SetBits(std::span<uint32_t>(words_), hi, lo, value);
    return *this;
  }
  Qmd& Grid(uint32_t x, uint32_t y, uint32_t z) {
    return Set(415, 384, x).Set(431, 416, y).Set(463, 448, z);
  }
  Qmd& Cta(uint32_t threads) { return Set(607, 592, threads).Set(623, 608, 1).Set(639, 624, 1); }
  Qmd& Program(uint64_t va) { return Set(1567, 1536, va).Set(1584, 1568, va >> 32); }
  Qmd& ConstantBuffer(uint64_t va) { return Set(1055, 1024, va).Set(1072, 1056, va >> 32); }
  // Release 0: four words at `va`.
  Qmd& Release(uint64_t va, uint32_t payload) {
    return Set(138, 138, 1).Set(767, 736, va).Set(775, 768, va >> 32).Set(831, 800, payload);
  }
  const std::array<uint32_t, 64>& words() const { return words_; }

 private:
  std::array<uint32_t, 64> words_{};
};

// A client of the GPU: an address space of its own with code, data and QMDs, and a channel on
// runlist 0. Slot 0 of the data is the constant buffer: a pointer to byte 0x100.
struct Client {
  Client(ModelFixture& rig, uint32_t chid,
         const fakes::ChannelOptions& options = {.gr_context = true})
      : gpu(rig),
        tables(rig),
        data(rig.AllocateVram(0x1'0000)),
        code(rig.AllocateVram(0x4000)),
        qmds(rig.AllocateVram(0x4000)),
        channel(rig, tables, chid, options) {
    tables.MapRange(kDataVa, data, 0x1'0000);
    tables.MapRange(kCodeVa, code, 0x4000, fakes::kPteGeneric | fakes::kPteReadOnly);
    tables.MapRange(kQmdVa, qmds, 0x4000);
    gpu.SetVram(data, kDataVa + 0x100);
  }
  void Program(const std::vector<uint32_t>& words) {
    std::memcpy(gpu.vram() + code, words.data(), words.size() * 4);
  }
  void Write(const Qmd& qmd) { std::memcpy(gpu.vram() + qmds, qmd.words().data(), 256); }
  static std::vector<uint32_t> Launch() {
    return {Inc(1, NVC5C0_SEND_PCAS_A, 1), static_cast<uint32_t>(kQmdVa >> 8),
            Inc(1, NVC5C0_SEND_SIGNALING_PCAS_B, 1), 3};
  }
  void Start(Qmd qmd) {
    Write(qmd.ConstantBuffer(kDataVa));
    channel.PushAndRing(Launch());
  }
  uint32_t Result(uint32_t i = 0) { return gpu.Vram(data + 0x100 + 4 * i); }
  uint32_t Sem() { return gpu.Vram(data + kSemOffset); }
  uint64_t SemTime() { return gpu.Vram<uint64_t>(data + kSemOffset + 8); }

  ModelFixture& gpu;
  PageTables tables;
  uint64_t data, code, qmds;
  TestChannel channel;
};

struct Rig {
  explicit Rig(const fakes::ModelOptions& options = {},
               const fakes::ChannelOptions& channel = {.gr_context = true})
      : gpu(options), faults(gpu), client(gpu, 5, channel) {
    fakes::Submit(gpu, 0, {{.tsgid = 3, .chids = {5}, .gfid = 2}});
    gpu.Settle();
  }
  void Run(const std::vector<uint32_t>& words) {
    client.channel.PushAndRing(words);
    gpu.Settle(100'000'000);
  }
  ModelFixture gpu;
  fakes::TestFaultBuffer faults;
  Client client;
};

TEST(Compute, GridStoresItsThreadNumbersAndReleases) {
  Rig rig;
  rig.client.Program(kStoreIds);
  rig.client.Start(Qmd().Grid(6, 1, 1).Cta(32).Release(kDataVa + kSemOffset, 0x99));
  rig.gpu.Settle();
  for (uint32_t i = 0; i < 6 * 32; ++i) ASSERT_EQ(rig.client.Result(i), i);
  EXPECT_EQ(rig.client.Sem(), 0x99u);
  EXPECT_EQ(rig.client.channel.Status(), 0u);
  EXPECT_EQ(rig.gpu.Read(0xf028), 6u * 32 * 11);  // INSTRUCTIONS_LO
  EXPECT_EQ(rig.faults.count(), 0u);
}

TEST(Compute, TimeIsCyclesOfTheSlowestSm) {
  Rig rig;  // 1000 MHz, 4 SMs
  rig.client.Program(kStoreIds);
  const uint64_t start = rig.gpu.now();
  rig.client.Start(Qmd().Grid(8, 1, 1).Release(kDataVa + kSemOffset, 1));
  rig.gpu.Settle();
  // GP entry and one method before the launch; then two CTAs per SM, each 100 + 11 cycles.
  EXPECT_EQ(rig.client.SemTime(), start + 200 + 10 + 2 * 111);
}

TEST(Compute, InlineQmd) {
  Rig rig;
  rig.client.Program(kStoreIds);
  Qmd qmd;
  qmd.ConstantBuffer(kDataVa).Cta(3);
  std::vector<uint32_t> words = {Inc(1, NVC5C0_SET_INLINE_QMD_ADDRESS_A, 2), 0,
                                 static_cast<uint32_t>(kQmdVa >> 8),
                                 Inc(1, NVC5C0_LOAD_INLINE_QMD_DATA(0), 64)};
  words.insert(words.end(), qmd.words().begin(), qmd.words().end());
  rig.Run(words + Client::Launch());
  EXPECT_EQ(rig.client.Result(2), 2u);
}

TEST(Compute, SecondLaunchWaitsForTheFirst) {
  Rig rig;
  rig.client.Program(CountDown(1));
  rig.client.Write(Qmd().ConstantBuffer(kDataVa).Release(kDataVa + kSemOffset, 1));
  const uint64_t start = rig.gpu.now();
  rig.Run(Client::Launch() + Client::Launch());
  const uint64_t grid = 100 + 1 + 2 * 4096 + 5;
  EXPECT_EQ(rig.client.SemTime(), start + 200 + 10 + 2 * grid + 10);
}

TEST(Compute, WfiOfHostWaitsForTheGrid) {
  Rig rig;
  rig.client.Program(CountDown(1));
  rig.client.Write(Qmd().ConstantBuffer(kDataVa));
  // The first release does not wait, the second (RELEASE_WFI) does.
  const uint64_t start = rig.gpu.now();
  rig.Run(Client::Launch() + fakes::HostRelease(kDataVa + kSemOffset, 1, 1u << 25) +
          fakes::HostRelease(kDataVa + kSemOffset + 16, 1, 1u << 25 | 1u << 20));
  const uint64_t launch = start + 200 + 10;
  EXPECT_EQ(rig.client.SemTime(), launch + 10 + 40);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.client.data + kSemOffset + 24),
            launch + 100 + 1 + 2 * 4096 + 5);
}

TEST(Compute, BadQmdIsBadLaunch) {
  const Qmd cases[] = {Qmd().Set(579, 576, 2),
                       Qmd().Grid(0, 1, 1),
                       Qmd().Cta(0),
                       Qmd().Cta(1025).Set(607, 592, 1025),
                       Qmd().Set(561, 544, 0x1'0004),
                       Qmd().Release(kDataVa + 4, 1),
                       Qmd().Program(kCodeVa + 2)};
  for (const Qmd& qmd : cases) {
    Rig rig;
    rig.client.Start(qmd);
    rig.gpu.Settle();
    ASSERT_EQ(rig.faults.count(), 1u);
    EXPECT_EQ(rig.faults.at(0).type, 0x15u);
    EXPECT_EQ(rig.faults.at(0).engine, 64u);
    EXPECT_EQ(rig.faults.at(0).va, kQmdVa);
    EXPECT_TRUE(rig.client.channel.EngFaulted());
  }
}

TEST(Compute, MissingQmdIsAnMmuFault) {
  Rig rig;
  rig.Run({Inc(1, NVC5C0_SEND_PCAS_A, 1), 0x77'0000, Inc(1, NVC5C0_SEND_SIGNALING_PCAS_B, 1), 3});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0u);
  EXPECT_EQ(rig.faults.at(0).va, 0x7700'0000u);
  EXPECT_EQ(rig.faults.at(0).client, 4u);  // FE
}

TEST(Compute, UnknownMethodIsIllegal) {
  Rig rig;
  rig.Run({Inc(1, 0x1fec, 1), 0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x16u);
  EXPECT_EQ(rig.faults.at(0).va, 0x1000u);
}

TEST(Compute, MethodsThatTs104HasNoUseForAreAccepted) {
  Rig rig;
  for (const uint32_t method :
       {0x100u, 0x110u, 0x21cu, 0x248u, 0x298u, 0x2b0u, 0x2b8u, 0x2e4u, 0x2e8u, 0x2ecu, 0x310u}) {
    rig.Run({Inc(1, method, 1), 1});
  }
  EXPECT_EQ(rig.faults.count(), 0u);
}

TEST(Compute, ChannelWithoutAContextHasNoComputeMethods) {
  Rig rig({}, {});
  rig.Run({Inc(1, 0x100, 1), 0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x16u);
}

TEST(Compute, SubchannelsZeroAndThreeAreIllegal) {
  for (const uint32_t subchannel : {0u, 3u}) {
    Rig rig;
    rig.Run({Inc(subchannel, 0x100, 1), 0});
    EXPECT_EQ(rig.gpu.Read(0x40148), 1u << 3);
  }
}

// Programs that go wrong.

TEST(Program, WildStoreIsAFaultPacketForThatChannelAlone) {
  Rig rig;
  Client neighbour(rig.gpu, 9);
  fakes::Submit(rig.gpu, 0,
                {{.tsgid = 3, .chids = {5}, .gfid = 2}, {.tsgid = 4, .chids = {9}, .gfid = 3}});
  rig.client.Program({0x123452b7, 0x0062a023});  // lui t0, 0x12345; sw t1, 0(t0)
  neighbour.Program(kStoreIds);
  rig.client.Start(Qmd().Release(kDataVa + kSemOffset, 1));
  neighbour.Start(Qmd().Cta(4).Release(kDataVa + kSemOffset, 1));
  rig.gpu.Settle();
  ASSERT_EQ(rig.faults.count(), 1u);
  const auto packet = rig.faults.at(0);
  EXPECT_EQ(packet.inst, rig.client.channel.inst());
  EXPECT_EQ(packet.va, 0x1234'5000u);
  EXPECT_EQ(packet.access, 1u);
  EXPECT_EQ(packet.engine, 64u);
  EXPECT_EQ(packet.client, 0u);  // GPC SM
  EXPECT_FALSE(packet.hub);
  EXPECT_EQ(packet.gfid, 2u);
  EXPECT_TRUE(rig.client.channel.EngFaulted());
  EXPECT_EQ(rig.client.Sem(), 0u);
  EXPECT_EQ(neighbour.Sem(), 1u);
  EXPECT_EQ(neighbour.Result(3), 3u);
  // After the fault is cleared the channel goes on.
  rig.client.Program(kStoreIds);
  rig.gpu.Write(NV_PCCSR_CHANNEL(5), 1u << 23);
  rig.client.Start(Qmd().Release(kDataVa + kSemOffset, 2));
  rig.gpu.Settle();
  EXPECT_EQ(rig.client.Sem(), 2u);
}

TEST(Program, CodePagesAreReadOnly) {
  Rig rig;
  rig.client.Program({0x020002b7, 0x0062a023});  // lui t0, 0x2000: its own code
  rig.client.Start(Qmd());
  rig.gpu.Settle();
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 6u);  // RO_VIOLATION
}

TEST(Program, TrapCodeIsInTheContextImage) {
  Rig rig;
  rig.client.Program({0x00200893, 0x02100513, kEcall});  // trap 33
  rig.client.Start(Qmd());
  rig.gpu.Settle();
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x11u);
  EXPECT_EQ(rig.faults.at(0).va, kCodeVa);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.client.channel.context() + 0x48), 33u);
}

TEST(Program, IllegalInstruction) {
  Rig rig;
  rig.client.Program({0});
  rig.client.Start(Qmd());
  rig.gpu.Settle();
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x10u);
}

// Preemption.

TEST(Cilp, TwoEndlessGridsShareByTimeslices) {
  Rig rig({.sms = 1, .ctxsw_us = 10});
  Client other(rig.gpu, 9);
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 0,
                {{.tsgid = 3, .chids = {5}, .timeout = 100, .scale = 0, .gfid = 2},
                 {.tsgid = 4, .chids = {9}, .timeout = 100, .scale = 0, .gfid = 3}});
  for (Client* client : {&rig.client, &other}) {
    client->Program({kEndless});
    client->Start(Qmd());
  }
  rig.gpu.AdvanceTo(start + 4 * (10'000 + 102'400));
  EXPECT_EQ(rig.gpu.Read(0xf200 + 8 * 2), 2u * 102'400);
  EXPECT_EQ(rig.gpu.Read(0xf200 + 8 * 3), 2u * 102'400);
}

TEST(Cilp, PreemptedGridResumesWithTheSameResult) {
  Rig rig({.sms = 2, .ctxsw_us = 10});
  Client other(rig.gpu, 9);
  fakes::Submit(rig.gpu, 0,
                {{.tsgid = 3, .chids = {5}, .timeout = 20, .scale = 0},
                 {.tsgid = 4, .chids = {9}, .timeout = 20, .scale = 0}});
  for (Client* client : {&rig.client, &other}) {
    client->Program(CountDown(16));
    client->Start(Qmd().Grid(5, 1, 1).Cta(2).Release(kDataVa + kSemOffset, 1));
  }
  rig.gpu.Advance(100'000);
  // One of the two is saved: its instance block says so, and its image has the magic.
  const uint32_t marks = rig.client.channel.Inst(0x1fc) + other.channel.Inst(0x1fc);
  EXPECT_GE(marks, 1u);
  EXPECT_EQ(rig.gpu.Vram(rig.client.channel.context() + 0xfc), 0x600dc0deu);
  rig.gpu.Settle(1'000'000'000);
  EXPECT_EQ(rig.client.Result(), 77u);
  EXPECT_EQ(other.Result(), 77u);
  EXPECT_EQ(rig.client.Sem(), 1u);
  EXPECT_EQ(other.Sem(), 1u);
  EXPECT_EQ(rig.client.channel.Inst(0x1fc), 0u);
  EXPECT_EQ(rig.faults.count(), 0u);
}

TEST(Cilp, SlicesAreExactAlsoOnASlowEngineWithManySms) {
  Rig rig({.engine_mhz = 25, .sms = 4, .ctxsw_us = 10});
  Client other(rig.gpu, 9);
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 0,
                {{.tsgid = 3, .chids = {5}, .timeout = 100, .scale = 0, .gfid = 2},
                 {.tsgid = 4, .chids = {9}, .timeout = 100, .scale = 0, .gfid = 3}});
  for (Client* client : {&rig.client, &other}) {
    client->Program({kEndless});
    client->Start(Qmd().Grid(8, 1, 1));
  }
  // A cycle is 40 ns. The first launch comes 210 ns into its slice, so that the slice ends inside
  // a cycle, which is finished; afterwards slices are whole cycles.
  const uint64_t first = 102'410;
  rig.gpu.AdvanceTo(start + 4 * 10'000 + 2 * first + 2 * 102'400);
  EXPECT_EQ(rig.gpu.Read(0xf200 + 8 * 2), first + 102'400);
  EXPECT_EQ(rig.gpu.Read(0xf200 + 8 * 3), first + 102'400);
}

TEST(Cilp, RunlistPreemptSavesWithin50us) {
  Rig rig({.engine_mhz = 25, .sms = 4});
  rig.client.Program({kEndless});
  rig.client.Start(Qmd().Grid(9, 1, 1));
  rig.gpu.Advance(100'000);
  rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 1);
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 1);
  const uint64_t start = rig.gpu.now();
  while (rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT) != 0) rig.gpu.Advance(1'000);
  EXPECT_LE(rig.gpu.now() - start, 50'000u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(0)), 3u | 1 << 14);
  EXPECT_EQ(rig.client.channel.Status(), 1u);  // has to be loaded again
}

TEST(Wfi, ContextSwitchTimeoutDropsTheGrid) {
  Rig rig({.sms = 1});
  // The image selects WFI: magic and options as software writes them.
  rig.gpu.SetVram(rig.client.channel.context() + 0xfc, 0x600dc0deu);
  rig.gpu.SetVram(rig.client.channel.context() + 0x84, 0u);
  rig.gpu.Write(NV_PFIFO_ENG_CTXSW_TIMEOUT, 1u << 31 | 200);
  rig.client.Program({kEndless});
  rig.client.Start(Qmd());
  rig.gpu.Advance(100'000);
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 1);
  rig.gpu.Advance(204'000);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_CTXSW_TIMEOUT), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 1u);
  rig.gpu.Advance(1'000);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_CTXSW_TIMEOUT), 1u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_0) & 2, 2u);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO(0)), 3u | 2u << 14 | 3u << 30);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x19u);
  EXPECT_TRUE(rig.client.channel.EngFaulted());
  EXPECT_FALSE(rig.client.channel.Busy());
}

TEST(Wfi, GridRunsToItsEndBeforeItLeaves) {
  for (const uint32_t mode : {0u, 1u}) {
    Rig rig({.sms = 1});
    rig.gpu.SetVram(rig.client.channel.context() + 0xfc, 0x600dc0deu);
    rig.gpu.SetVram(rig.client.channel.context() + 0x84, mode);
    rig.client.Program(CountDown(16));
    rig.client.Start(Qmd().Grid(3, 1, 1).Release(kDataVa + kSemOffset, 1));
    rig.gpu.Advance(10'000);
    rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 1);
    rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 1);
    while (rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT) != 0) rig.gpu.Advance(10'000);
    // WFI waits for all three CTAs; CTA mode for the one that was live.
    EXPECT_EQ(rig.client.Sem(), mode == 0 ? 1u : 0u);
    rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 0);
    rig.gpu.Settle(1'000'000'000);
    EXPECT_EQ(rig.client.Sem(), 1u);
    EXPECT_EQ(rig.faults.count(), 0u);
  }
}

TEST(Context, ImageThatDoesNotValidateIsBadContext) {
  struct Case {
    uint64_t offset;
    uint32_t value;
  };
  for (const Case& c : {Case{0, 2}, Case{0x84, 3}, Case{4, 8}, Case{8, 0xffffffff}}) {
    Rig rig;
    const uint64_t image = rig.client.channel.context();
    rig.gpu.SetVram(image, 1u);
    rig.gpu.SetVram(image + 0xfc, 0x600dc0deu);
    rig.gpu.SetVram(image + c.offset, c.value);
    rig.Run({Inc(1, 0x100, 1), 0});
    ASSERT_EQ(rig.faults.count(), 1u);
    EXPECT_EQ(rig.faults.at(0).type, 0x18u);
  }
}

TEST(Context, ForgedGridIsBadContextAndDoesNotComeBack) {
  Rig rig;
  const uint64_t image = rig.client.channel.context();
  rig.gpu.SetVram(image, 1u);
  rig.gpu.SetVram(image + 4, 1u);
  rig.gpu.SetVram(image + 8, uint64_t{256});
  rig.gpu.SetVram(image + 0xfc, 0x600dc0deu);
  rig.client.channel.SetInst(0x1fc, 1);
  rig.Run({0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x18u);
  rig.gpu.Write(NV_PCCSR_CHANNEL(5), 1u << 23);
  rig.gpu.Settle();
  EXPECT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.client.channel.Status(), 0u);
}

TEST(Context, VirtualPointer) {
  Rig rig({}, {});
  constexpr uint64_t kContextVa = 0x4000'0000;
  const uint64_t bytes = rig.gpu.Read(NV_TS104_CTX_SIZE);
  const uint64_t context = rig.gpu.AllocateVram(bytes);
  rig.client.tables.MapRange(kContextVa, context, bytes);
  rig.client.channel.SetInst(NV_RAMIN_ENGINE_WFI_PTR, kContextVa | 4);
  rig.client.Program(kStoreIds);
  rig.client.Start(Qmd().Release(kDataVa + kSemOffset, 3));
  rig.gpu.Settle();
  EXPECT_EQ(rig.client.Sem(), 3u);
  EXPECT_EQ(rig.gpu.Vram(context + 0xfc), 0x600dc0deu);
}

TEST(Context, PhysicalSystemPointerIsBadContext) {
  Rig rig({}, {});
  rig.client.channel.SetInst(NV_RAMIN_ENGINE_WFI_PTR, 0x10'0000 | 2);
  rig.Run({Inc(1, 0x100, 1), 0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x18u);
}

// Inline-to-memory and reports.

TEST(InlineToMemory, LinesWithPitchAndSemaphore) {
  Rig rig;
  const auto va = static_cast<uint32_t>(kDataVa + 0x200);
  const auto sem = static_cast<uint32_t>(kDataVa + kSemOffset);
  rig.Run({Inc(2, NVC5C0_LINE_LENGTH_IN, 5), 6, 2, 0, va, 16, Inc(2, NVC5C0_SET_I2M_SEMAPHORE_A, 3),
           0, sem, 0x44, Inc(2, NVC5C0_LAUNCH_DMA, 1), 1 | 2 << 4 | 1 << 12 | 1 << 8,
           NonInc(2, NVC5C0_LOAD_INLINE_DATA, 3), 0x03020100, 0x07060504, 0x0b0a0908});
  for (uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(rig.gpu.vram()[rig.client.data + 0x200 + i / 6 * 16 + i % 6], std::byte(i));
  }
  EXPECT_EQ(rig.client.Sem(), 0x44u);
  EXPECT_EQ(rig.gpu.Leaf(2, 0), 1u << 12);
}

TEST(Report, SemaphoreAndAwaken) {
  Rig rig;
  const auto sem = static_cast<uint32_t>(kDataVa + kSemOffset);
  rig.Run({Inc(1, NVC5C0_SET_REPORT_SEMAPHORE_A, 4), 0, sem, 7, 1u << 20});
  EXPECT_EQ(rig.client.Sem(), 7u);
  EXPECT_NE(rig.client.SemTime(), 0u);
  EXPECT_EQ(rig.gpu.Leaf(2, 0), 1u << 12);
  // Reduction ADD on one word.
  rig.Run({Inc(1, NVC5C0_SET_REPORT_SEMAPHORE_A, 4), 0, sem, 5, 1u << 3 | 1u << 28});
  EXPECT_EQ(rig.client.Sem(), 12u);
}

TEST(Grce, CopiesOnSubchannel4OfRunlist0) {
  Rig rig;
  rig.gpu.SetVram(rig.client.data + 0x400, 0x12345678u);
  rig.Run({Inc(4, NVC5B5_OFFSET_IN_UPPER, 4), 0, kDataVa + 0x400, 0, kDataVa + 0x500,
           Inc(4, NVC5B5_LINE_LENGTH_IN, 1), 4, Inc(4, NVC5B5_LAUNCH_DMA, 1), 0x182 | 2 << 5});
  EXPECT_EQ(rig.gpu.Vram(rig.client.data + 0x500), 0x12345678u);
  EXPECT_EQ(rig.gpu.Leaf(2, 0), 1u << 5);  // CE0
}

TEST(Grce, WaitsForTheGridOfItsOwnChannel) {
  Rig rig;
  rig.client.Program(CountDown(4));
  rig.client.Write(Qmd().ConstantBuffer(kDataVa));
  // Copies what the grid stores: only right if it waits.
  rig.Run(Client::Launch() + std::vector<uint32_t>{Inc(4, NVC5B5_OFFSET_IN_UPPER, 4), 0,
                                                   kDataVa + 0x100, 0, kDataVa + 0x500,
                                                   Inc(4, NVC5B5_LINE_LENGTH_IN, 1), 4,
                                                   Inc(4, NVC5B5_LAUNCH_DMA, 1), 0x182});
  EXPECT_EQ(rig.gpu.Vram(rig.client.data + 0x500), 77u);
}

}  // namespace
