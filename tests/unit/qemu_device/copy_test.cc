// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Copy engine, class C5B5.
#include <gtest/gtest.h>

#include <numeric>

#include "copy_layout.h"
#include "fakes/model_fixture.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;
using fakes::operator+;

constexpr uint64_t kSrcVa = 0x100'0000;
constexpr uint64_t kDstVa = 0x200'0000;
constexpr uint64_t kSemVa = 0x40'0000;
constexpr uint64_t kBytes = 1024 * 1024;

// LAUNCH_DMA bits.
constexpr uint32_t kPitchBoth = 1u << 7 | 1u << 8;
constexpr uint32_t kNonPipelined = 2;
constexpr uint32_t kMultiLine = 1u << 9;
constexpr uint32_t kRemap = 1u << 10;
constexpr uint32_t kOneWord = 1u << 3;
constexpr uint32_t kFourWord = 2u << 3;

struct Rig {
  explicit Rig(const fakes::ChannelOptions& options = {}, bool system_source = false)
      : tables(gpu),
        src(gpu.AllocateVram(kBytes)),
        dst(gpu.AllocateVram(kBytes)),
        sem(gpu.AllocateVram(4096)),
        faults(gpu),
        channel(gpu, tables, 5, options) {
    system_src = gpu.AllocateSystem(kBytes);
    if (system_source) {
      tables.MapRange(kSrcVa, system_src, kBytes, fakes::kPteSys | fakes::kPteGeneric);
    } else {
      tables.MapRange(kSrcVa, src, kBytes);
    }
    tables.MapRange(kDstVa, dst, kBytes);
    tables.Map4K(kSemVa, sem);
    for (uint64_t i = 0; i < kBytes; ++i) {
      const auto value = static_cast<std::byte>(i * 7 + i / 251);
      gpu.vram()[src + i] = value;
      gpu.system()[system_src + i] = value;
    }
    fakes::Submit(gpu, 1, {{.tsgid = 3, .chids = {5}, .gfid = 2}});
    gpu.Settle();
  }
  void Run(const std::vector<uint32_t>& words) {
    channel.PushAndRing(words);
    gpu.Settle(100'000'000);
  }
  std::byte Dst(uint64_t i) { return gpu.vram()[dst + i]; }
  std::byte Src(uint64_t i) { return gpu.vram()[src + i]; }

  ModelFixture gpu;
  PageTables tables;
  uint64_t src, dst, sem, system_src;
  fakes::TestFaultBuffer faults;
  TestChannel channel;
};

std::vector<uint32_t> Addresses(uint64_t src, uint64_t dst) {
  return {Inc(4, NVC5B5_OFFSET_IN_UPPER, 4), static_cast<uint32_t>(src >> 32),
          static_cast<uint32_t>(src), static_cast<uint32_t>(dst >> 32), static_cast<uint32_t>(dst)};
}
std::vector<uint32_t> Lines(uint32_t length, uint32_t count, uint32_t pitch_in,
                            uint32_t pitch_out) {
  return {Inc(4, NVC5B5_PITCH_IN, 4), pitch_in, pitch_out, length, count};
}
std::vector<uint32_t> Launch(uint32_t bits) { return {Inc(4, NVC5B5_LAUNCH_DMA, 1), bits}; }
std::vector<uint32_t> SemaphoreMethods(uint32_t payload) {
  return {Inc(4, NVC5B5_SET_SEMAPHORE_A, 3), 0, static_cast<uint32_t>(kSemVa), payload};
}

TEST(Copy, OneLineWithoutMultiLine) {
  Rig rig;
  rig.Run(Addresses(kSrcVa + 3, kDstVa + 5) + Lines(70'000, 9, 0, 0) +
          Launch(kNonPipelined | kPitchBoth));
  EXPECT_EQ(std::memcmp(rig.gpu.vram() + rig.dst + 5, rig.gpu.vram() + rig.src + 3, 70'000), 0);
  EXPECT_EQ(rig.Dst(4), std::byte{0});
  EXPECT_EQ(rig.Dst(70'005), std::byte{0});
}

TEST(Copy, LinesWithPitches) {
  Rig rig;
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(100, 50, 300, 128) +
          Launch(kNonPipelined | kPitchBoth | kMultiLine));
  for (uint64_t line = 0; line < 50; ++line) {
    for (uint64_t x = 0; x < 128; ++x) {
      EXPECT_EQ(rig.Dst(line * 128 + x), x < 100 ? rig.Src(line * 300 + x) : std::byte{0});
    }
  }
}

TEST(Copy, NegativePitchTurnsTheImageOver) {
  Rig rig;
  rig.Run(Addresses(kSrcVa + 3 * 64, kDstVa) + Lines(64, 4, static_cast<uint32_t>(-64), 64) +
          Launch(kNonPipelined | kPitchBoth | kMultiLine));
  for (uint64_t line = 0; line < 4; ++line) {
    EXPECT_EQ(rig.Dst(line * 64), rig.Src((3 - line) * 64));
  }
}

TEST(Copy, FromSystemMemory) {
  Rig rig({}, true);
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(200'000, 1, 0, 0) + Launch(kNonPipelined | kPitchBoth));
  EXPECT_EQ(std::memcmp(rig.gpu.vram() + rig.dst, rig.gpu.system() + rig.system_src, 200'000), 0);
}

TEST(Copy, OverlapRunsForward) {
  Rig rig;
  rig.Run(Addresses(kSrcVa, kSrcVa + 1) + Lines(5'000, 1, 0, 0) +
          Launch(kNonPipelined | kPitchBoth));
  for (uint64_t i = 1; i <= 5'000; ++i) ASSERT_EQ(rig.Src(i), rig.Src(0));
}

TEST(Copy, CostsTimeByItsBytes) {
  Rig rig;
  const uint64_t start = rig.gpu.now();
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(kBytes, 1, 0, 0) + SemaphoreMethods(1) +
          Launch(kNonPipelined | kPitchBoth | kFourWord));
  // GP entry, 11 methods before the launch, launch, 1 MiB at 128 bytes per ns.
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 8), start + 200 + 110 + 500 + 8192);
}

TEST(Copy, SecondLaunchWaitsForTheFirst) {
  Rig rig;
  const uint64_t start = rig.gpu.now();
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(kBytes, 1, 0, 0) + Launch(kNonPipelined | kPitchBoth) +
          SemaphoreMethods(1) + Launch(kFourWord));
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 8), start + 200 + 80 + 500 + 8192 + 30 + 500);
}

TEST(Copy, Semaphores) {
  Rig rig;
  rig.gpu.SetVram(rig.sem, ~uint64_t{0});
  rig.Run(SemaphoreMethods(0x55) + Launch(kOneWord));
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), 0xffffffff'00000055u);
  rig.Run(SemaphoreMethods(0x56) + Launch(kFourWord));
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), 0x56u);
  // Reductions: IADD unsigned, then FADD.
  rig.Run(SemaphoreMethods(4) + Launch(kOneWord | 1u << 19 | 5u << 14 | 1u << 18));
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0x5au);
  rig.gpu.SetVram(rig.sem, 1.5f);
  rig.Run(SemaphoreMethods(0x40200000) + Launch(kOneWord | 1u << 19 | 10u << 14));  // 2.5f
  EXPECT_EQ(rig.gpu.Vram<float>(rig.sem), 4.0f);
}

TEST(Copy, BothInterruptTypesPulseTheFunctionsVector) {
  for (const uint32_t type : {1u, 2u}) {
    Rig rig;
    rig.Run(Launch(type << 5));
    EXPECT_EQ(rig.gpu.Leaf(2, 0), 1u << 7);
    EXPECT_EQ(rig.gpu.Read(0x104410 + 2 * 0x80), type == 1 ? 1u : 2u);
  }
}

TEST(Copy, RenderEnable) {
  struct Case {
    uint32_t mode, first, second;
    bool copies;
  };
  const Case cases[] = {{0, 0, 0, false}, {1, 0, 0, true},  {2, 0, 0, false}, {2, 3, 0, true},
                        {3, 4, 4, true},  {3, 4, 5, false}, {4, 4, 5, true},  {4, 4, 4, false}};
  for (const Case& c : cases) {
    Rig rig;
    rig.gpu.SetVram(rig.sem + 64, c.first);
    rig.gpu.SetVram(rig.sem + 80, c.second);
    rig.Run({Inc(4, NVC5B5_SET_RENDER_ENABLE_A, 3), 0, static_cast<uint32_t>(kSemVa + 64), c.mode});
    rig.Run(Addresses(kSrcVa + 1, kDstVa) + Lines(64, 1, 0, 0) + SemaphoreMethods(9) +
            Launch(kNonPipelined | kPitchBoth | kOneWord));
    EXPECT_EQ(rig.Dst(0) != std::byte{0}, c.copies) << c.mode;
    EXPECT_EQ(rig.gpu.Vram(rig.sem), 9u);
  }
}

TEST(Copy, RemapFillsAndSwizzles) {
  Rig rig;
  // Four bytes per component; X = constant A, Y = constant B, Z = source X; W is not there.
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(10, 1, 0, 0) +
          std::vector<uint32_t>{Inc(4, NVC5B5_SET_REMAP_CONST_A, 3), 0x11111111, 0x22222222,
                                4u | 5u << 4 | 0u << 8 | 3u << 16 | 0u << 20 | 2u << 24} +
          Launch(kNonPipelined | kPitchBoth | kRemap));
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(rig.gpu.Vram(rig.dst + 12 * i), 0x11111111u);
    EXPECT_EQ(rig.gpu.Vram(rig.dst + 12 * i + 4), 0x22222222u);
    EXPECT_EQ(rig.gpu.Vram(rig.dst + 12 * i + 8), rig.gpu.Vram(rig.src + 4 * i));
  }
  EXPECT_EQ(rig.gpu.Vram(rig.dst + 120), 0u);
}

TEST(Copy, RemapNoWriteKeepsTheDestination) {
  Rig rig;
  rig.gpu.SetVram(rig.dst, uint64_t{0x0807060504030201});
  // One byte components, two of each; X stays, Y = source X.
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(4, 1, 0, 0) +
          std::vector<uint32_t>{Inc(4, NVC5B5_SET_REMAP_COMPONENTS, 1),
                                6u | 0u << 4 | 0u << 16 | 1u << 20 | 1u << 24} +
          Launch(kNonPipelined | kPitchBoth | kRemap));
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.Dst(2 * i), static_cast<std::byte>(2 * i + 1));
    EXPECT_EQ(rig.Dst(2 * i + 1), rig.Src(2 * i));
  }
}

TEST(Copy, BlockLinearThereAndBackAgain) {
  Rig rig;
  const auto surface = [](uint32_t first) {
    // Blocks of two GOBs; 192 bytes wide, 40 rows, 1 layer; origin (0, 0).
    return std::vector<uint32_t>{Inc(4, first, 5), 1u << 4 | 1u << 12, 192, 40, 1, 0};
  };
  rig.Run(Addresses(kSrcVa, kDstVa) + Lines(192, 40, 192, 0) + surface(NVC5B5_SET_DST_BLOCK_SIZE) +
          Launch(kNonPipelined | 1u << 7 | kMultiLine));
  // Row 8 is the second GOB of the block, column 64 the next block.
  EXPECT_EQ(rig.Dst(512), rig.Src(8 * 192));
  EXPECT_EQ(rig.Dst(1024), rig.Src(64));
  EXPECT_EQ(rig.Dst(3 * 1024), rig.Src(16 * 192));
  // Inside a GOB: row 1 lies 16 bytes on, column 16 32 bytes, column 32 256 bytes.
  EXPECT_EQ(rig.Dst(16), rig.Src(192));
  EXPECT_EQ(rig.Dst(32), rig.Src(16));
  EXPECT_EQ(rig.Dst(256), rig.Src(32));
  rig.Run(Addresses(kDstVa, kDstVa + 0x2'0000) + Lines(192, 40, 0, 192) +
          surface(NVC5B5_SET_SRC_BLOCK_SIZE) + Launch(kNonPipelined | 1u << 8 | kMultiLine));
  EXPECT_EQ(std::memcmp(rig.gpu.vram() + rig.dst + 0x2'0000, rig.gpu.vram() + rig.src, 192 * 40),
            0);
}

TEST(Copy, PhysicalNeedsHcePrivilege) {
  Rig rig;
  rig.Run(Launch(kNonPipelined | kPitchBoth | 1u << 12));
  EXPECT_EQ(rig.gpu.Read(0x42148), 1u << 2);
  EXPECT_EQ(rig.gpu.Read(0x42150), 0x300u);
  rig.gpu.Write(0x42148, 1u << 2);
  rig.Run(Launch(kOneWord) + SemaphoreMethods(0));  // goes on
  EXPECT_EQ(rig.gpu.Read(0x42148), 0u);

  Rig allowed({.hce_privileged = true});
  allowed.Run(Addresses(allowed.src, allowed.dst) + Lines(64, 1, 0, 0) +
              Launch(kNonPipelined | kPitchBoth | 3u << 12));
  EXPECT_EQ(allowed.Dst(5), allowed.Src(5));
}

TEST(Copy, UnknownMethodRaisesHceIllegalMethod) {
  Rig rig;
  rig.Run({Inc(4, 0x500, 1), 0x12});
  EXPECT_EQ(rig.gpu.Read(0x42148), 1u << 3);
  EXPECT_EQ(rig.gpu.Read(0x42150), 0x500u);
  EXPECT_EQ(rig.gpu.Read(0x42154), 0x12u);
}

TEST(Copy, FaultNamesTheEngineAndLosesTheCopy) {
  Rig rig;
  rig.Run(Addresses(kSrcVa, kDstVa + kBytes - 4096) + Lines(8192, 1, 0, 0) + SemaphoreMethods(1) +
          Launch(kNonPipelined | kPitchBoth | kOneWord));
  ASSERT_EQ(rig.faults.count(), 1u);
  const auto packet = rig.faults.at(0);
  EXPECT_EQ(packet.engine, 17u);  // CE2
  EXPECT_EQ(packet.client, 3u);   // HUB CE0 + 2
  EXPECT_EQ(packet.va, kDstVa + kBytes);
  EXPECT_EQ(packet.access, 1u);
  EXPECT_EQ(packet.gfid, 2u);
  EXPECT_TRUE(rig.channel.EngFaulted());
  EXPECT_FALSE(rig.channel.Busy());
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0u);
  // After W1C it goes on with the next method.
  rig.gpu.Write(NV_PCCSR_CHANNEL(5), 1u << 23);
  rig.Run(SemaphoreMethods(2) + Launch(kOneWord));
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 2u);
  EXPECT_EQ(rig.faults.count(), 1u);
}

TEST(Copy, LaunchErrors) {
  struct Case {
    std::vector<uint32_t> methods;
    uint32_t launch;
    uint32_t code;
  };
  const Case cases[] = {
      {{}, 3, 9},                                                       // transfer type 3
      {{}, 3u << 3, 9},                                                 // conditional interrupt
      {{}, kOneWord | 1u << 19 | 9u << 14, 0xb},                        // no such reduction
      {{Inc(4, NVC5B5_SET_SEMAPHORE_B, 1), kSemVa + 8}, kFourWord, 2},  // alignment
      {{Inc(4, NVC5B5_SET_REMAP_COMPONENTS, 1), 7}, kNonPipelined | kPitchBoth | kRemap, 9},
      {{Inc(4, NVC5B5_SET_REMAP_COMPONENTS, 1), 3}, kNonPipelined | kPitchBoth | kRemap, 9},
      {{Inc(4, NVC5B5_SET_DST_BLOCK_SIZE, 5), 1u << 12, 64, 8, 1, 1}, kNonPipelined | 1u << 7, 1},
      {{Inc(4, NVC5B5_SET_DST_BLOCK_SIZE, 5), 1u << 12, 8, 8, 1, 0}, kNonPipelined | 1u << 7, 3},
      {{Inc(4, NVC5B5_SET_DST_BLOCK_SIZE, 5), 0, 64, 8, 1, 0}, kNonPipelined | 1u << 7, 0xd},
  };
  for (const Case& c : cases) {
    Rig rig;
    rig.Run(Addresses(kSrcVa, kDstVa) + Lines(16, 1, 64, 64) + c.methods + Launch(c.launch));
    EXPECT_EQ(rig.gpu.Read(0x104418 + 2 * 0x80), c.code) << std::hex << c.launch;
    EXPECT_EQ(rig.gpu.Read(0x104410 + 2 * 0x80), 4u);
    ASSERT_EQ(rig.faults.count(), 1u);
    EXPECT_EQ(rig.faults.at(0).type, 0x17u);
    EXPECT_TRUE(rig.channel.EngFaulted());
    // The engine's stalling vector: 192 + 7.
    EXPECT_EQ(rig.gpu.Leaf(0, 6) & 1u << 7, 1u << 7);
  }
}

TEST(Copy, ForgedSavedCopyIsBadContext) {
  Rig rig;
  // Engine words live at 0x100: word 34 is the phase, word 8 LAUNCH_DMA.
  rig.channel.SetInst(0x100 + 34 * 4, 1);
  rig.channel.SetInst(0x100 + 8 * 4, kNonPipelined | kPitchBoth | 1u << 12);  // physical
  rig.Run({0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0x18u);
}

TEST(CopyLayout, ForwardCopyIsByteByByte) {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  ts104::CopyForward(bytes.data() + 3, bytes.data(), 90);
  for (size_t i = 0; i < 93; ++i) EXPECT_EQ(bytes[i], static_cast<std::byte>(i % 3));
  ts104::CopyForward(bytes.data(), bytes.data() + 50, 50);
  EXPECT_EQ(bytes[0], static_cast<std::byte>(50 % 3));
}

}  // namespace
