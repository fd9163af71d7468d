// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "top.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "text.h"

namespace turnstile_smi {
namespace {

constexpr char kGpu[] = "0000:00:10.0";
constexpr uint64_t kMs = 1'000'000;

Slice Turn(uint64_t function, uint64_t start_ms, uint64_t end_ms) {
  return {0, function, start_ms * kMs, end_ms * kMs, 0, 0, 0};
}

// alpha and beta, which used a quarter and a half of the last second; each was ordered a half.
class TopTest : public testing::Test {
 protected:
  TopTest() {
    Gpu& gpu = host_.gpus.emplace_back();
    gpu.address = kGpu;
    gpu.policy = "weighted";
    gpu.vgpu_count = 2;
    for (const uint64_t number : {1, 2}) {
      Vgpu& vgpu = gpu.vgpus.emplace_back();
      vgpu.uuid = number == 1 ? "u-1" : "u-2";
      vgpu.type = "turnstile-ts104_v2";
      vgpu.function = number;
      vgpu.user = User{1, "qemu", number == 1 ? "alpha" : "beta", ""};
      vgpu.share_ordered = 0.5;
      vgpu.usage = Usage{1.0, {number * 0.25, 0, 0}, number / 3.0};
    }
  }
  std::vector<std::string> Frame(SortBy sort = SortBy::kFunction, Screen screen = {87, 24, false}) {
    std::istringstream text(TopFrame(host_, history_, 2000 * kMs, sort, screen));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  Host host_;
  SliceHistory history_;
};

TEST_F(TopTest, LineHasABarWithAMarkAtTheOrderedShare) {
  const auto lines = Frame();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(
      lines[2],
      "A alpha              ts104_v2    25.0 %   33.3 %   50.0 %  unknown #####.....|.........");
  EXPECT_EQ(
      lines[3],
      "B beta               ts104_v2    50.0 %   66.7 %   50.0 %  unknown ##########|.........");
}

TEST_F(TopTest, SortsByUtilisationAndByVm) {
  EXPECT_TRUE(Frame(SortBy::kUtilisation)[2].starts_with("B beta"));
  host_.gpus[0].vgpus[1].user->vm_name = "aaa";
  EXPECT_TRUE(Frame(SortBy::kVm)[2].starts_with("B aaa"));
  EXPECT_TRUE(Frame(SortBy::kFunction)[2].starts_with("A alpha"));
}

// 80 columns of 12.5 ms from 1 s to 2 s.
TEST_F(TopTest, StripHasTheLetterOfWhoWasOnTheGpu) {
  history_.Add(kGpu, {Turn(1, 1500, 1750), Turn(0, 1750, 1875), Turn(2, 1875, 2000)});
  EXPECT_EQ(Frame()[1], "-1 s [" + std::string(40, ' ') + std::string(20, 'A') +
                            std::string(10, '.') + std::string(10, 'B') + "]");
}

// 80 columns of 12.5 ms: in each of them a turn of 10 ms, then one of 2.5 ms.
TEST_F(TopTest, StripHasAsManyLettersOfEachAsItHadTime) {
  std::vector<Slice> slices;
  for (uint64_t i = 0; i < 80; ++i) {
    const uint64_t begin = 1'000'000'000 + i * 12'500'000;
    slices.push_back({0, 2, begin, begin + 10'000'000, 0, 0, 0});
    slices.push_back({0, 1, begin + 10'000'000, begin + 12'500'000, 0, 0, 0});
  }
  history_.Add(kGpu, slices);
  const std::string strip = Frame()[1];
  EXPECT_EQ(std::count(strip.begin(), strip.end(), 'A'), 16);
  EXPECT_EQ(std::count(strip.begin(), strip.end(), 'B'), 64);
}

TEST_F(TopTest, NoTurnsNoStrip) { EXPECT_EQ(Frame().size(), 4u); }

TEST_F(TopTest, ReadingsThatOverlapAreOneHistory) {
  history_.Add(kGpu, {Turn(1, 1000, 1100), Turn(2, 1100, 1200)});
  history_.Add(kGpu, {Turn(2, 1100, 1200), Turn(1, 1200, 1300)});
  EXPECT_EQ(history_.Of(kGpu, 0).size(), 3u);
  EXPECT_TRUE(history_.Of(kGpu, 1).empty());
}

TEST_F(TopTest, WhatIsOlderThanASecondIsForgotten) {
  history_.Add(kGpu, {Turn(1, 0, 100), Turn(1, 100, 2000)});
  EXPECT_EQ(history_.Of(kGpu, 0).size(), 1u);
}

TEST_F(TopTest, NoLineIsWiderAndNoFrameLongerThanTheScreen) {
  history_.Add(kGpu, {Turn(1, 1000, 2000)});
  host_.notes = {std::string(300, 'x')};
  host_.gpus[0].vgpus[0].user->vm_name = "a very long name of a machine, \u00e9\u00e9\u00e9";
  for (const size_t columns : {20, 66, 77, 200}) {
    for (const std::string& line : Frame(SortBy::kVm, {columns, 24, false})) {
      EXPECT_LE(Width(line), columns) << line;
    }
  }
  EXPECT_EQ(Frame(SortBy::kVm, {80, 3, false}).size(), 3u);
}

TEST_F(TopTest, ColoursTellVgpusApart) {
  history_.Add(kGpu, {Turn(1, 1000, 1500), Turn(2, 1500, 2000)});
  const auto lines = Frame(SortBy::kFunction, {87, 24, true});
  EXPECT_NE(lines[1].find("\033[32mA"), std::string::npos);
  EXPECT_NE(lines[1].find("\033[36mB"), std::string::npos);
}

TEST_F(TopTest, ControlCharactersOfANameDoNotReachTheTerminal) {
  host_.gpus[0].vgpus[0].user->vm_name = "a\033[2Jb";
  EXPECT_TRUE(Frame()[2].starts_with("A a?[2Jb "));
}

}  // namespace
}  // namespace turnstile_smi
