// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/bits.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace base {
namespace {

TEST(BitsTest, GetBitsOfOneWord) {
  EXPECT_EQ((GetBits<31, 28>(0xa0000000u)), 0xau);
  EXPECT_EQ((GetBits<0, 0>(uint32_t{1})), 1u);
  EXPECT_EQ((GetBits<31, 0>(0xdeadbeefu)), 0xdeadbeefu);
  EXPECT_EQ((GetBits<63, 32>(uint64_t{0x1234567800000000})), 0x12345678u);
}

TEST(BitsTest, SetBitsOfOneWordKeepsTheOthers) {
  EXPECT_EQ((SetBits<15, 8>(0xffffffffu, 0)), 0xffff00ffu);
  EXPECT_EQ((SetBits<15, 8>(0u, 0x1ff)), 0xff00u);
  EXPECT_EQ((SetBits<31, 0>(0u, 0xdeadbeef)), 0xdeadbeefu);
}

TEST(BitsTest, GetBitsWithinOneOfManyWords) {
  const std::array<uint32_t, 2> words = {0, 0xabcd0000};
  EXPECT_EQ(GetBits(words, 63, 48), 0xabcdu);
}

TEST(BitsTest, GetBitsAcrossTwoWords) {
  const std::array<uint32_t, 2> words = {0xf0000000, 0x0000000a};
  EXPECT_EQ(GetBits(words, 35, 28), 0xafu);
}

TEST(BitsTest, GetBitsAcrossThreeWords) {
  const std::array<uint32_t, 3> words = {0x80000000, 0xffffffff, 0x7fffffff};
  EXPECT_EQ(GetBits(words, 94, 31), UINT64_MAX);
  EXPECT_EQ(GetBits(words, 95, 32), 0x7fffffffffffffffu);
}

TEST(BitsTest, WordsBeyondTheEndReadZero) {
  const std::array<uint32_t, 1> words = {0xffffffff};
  EXPECT_EQ(GetBits(words, 63, 16), 0xffffu);
  EXPECT_EQ(GetBits(words, 95, 64), 0u);
}

TEST(BitsTest, ImpossibleFieldIsZeroAndNotWritten) {
  std::array<uint32_t, 4> words = {1, 1, 1, 1};
  EXPECT_EQ(GetBits(words, 0, 1), 0u);
  EXPECT_EQ(GetBits(words, 64, 0), 0u);
  SetBits(words, 64, 0, UINT64_MAX);
  SetBits(words, 0, 1, UINT64_MAX);
  EXPECT_EQ(words, (std::array<uint32_t, 4>{1, 1, 1, 1}));
}

TEST(BitsTest, SetBitsAcrossWordsKeepsTheOthers) {
  std::array<uint32_t, 3> words = {0xffffffff, 0xffffffff, 0xffffffff};
  SetBits(words, 67, 28, 0);
  EXPECT_EQ(words, (std::array<uint32_t, 3>{0x0fffffff, 0x00000000, 0xfffffff0}));
}

TEST(BitsTest, SetBitsDropsWhatDoesNotFit) {
  std::array<uint32_t, 2> words = {0, 0};
  SetBits(words, 35, 28, 0xfff);
  EXPECT_EQ(words, (std::array<uint32_t, 2>{0xf0000000, 0x0000000f}));
}

TEST(BitsTest, SetBitsBeyondTheEndWritesOnlyWhatIsThere) {
  std::array<uint32_t, 1> words = {0};
  SetBits(words, 47, 16, 0xffffffff);
  EXPECT_EQ(words[0], 0xffff0000u);
}

TEST(BitsTest, WhatIsSetIsReadBack) {
  std::mt19937_64 random(1);
  std::array<uint32_t, 5> words = {};
  for (int step = 0; step < 10000; ++step) {
    const size_t lo = random() % 96;
    const size_t width = 1 + random() % 64;
    const uint64_t value = random() & LowMask(static_cast<unsigned>(width));
    SetBits(words, lo + width - 1, lo, value);
    ASSERT_EQ(GetBits(words, lo + width - 1, lo), value) << lo << " " << width;
  }
}

TEST(BitsTest, LowMask) {
  EXPECT_EQ(LowMask(0), 0u);
  EXPECT_EQ(LowMask(1), 1u);
  EXPECT_EQ(LowMask(63), 0x7fffffffffffffffu);
  EXPECT_EQ(LowMask(64), UINT64_MAX);
}

TEST(BitsTest, PowersOfTwo) {
  EXPECT_TRUE(IsPowerOfTwo(1));
  EXPECT_TRUE(IsPowerOfTwo(uint64_t{1} << 63));
  EXPECT_FALSE(IsPowerOfTwo(0));
  EXPECT_FALSE(IsPowerOfTwo(6));
  EXPECT_EQ(RoundUpToPowerOfTwo(0), 1u);
  EXPECT_EQ(RoundUpToPowerOfTwo(5), 8u);
  EXPECT_EQ(RoundUpToPowerOfTwo(8), 8u);
  EXPECT_EQ(RoundUpToPowerOfTwo((uint64_t{1} << 63) + 1), 0u);
}

TEST(BitsTest, Log2IsTheFloor) {
  EXPECT_EQ(Log2(0), 0u);
  EXPECT_EQ(Log2(1), 0u);
  EXPECT_EQ(Log2(4095), 11u);
  EXPECT_EQ(Log2(4096), 12u);
  EXPECT_EQ(Log2(UINT64_MAX), 63u);
}

TEST(BitsTest, LowestSetBit) {
  EXPECT_EQ(LowestSetBit(0), 64u);
  EXPECT_EQ(LowestSetBit(0x50), 4u);
  EXPECT_EQ(LowestSetBit(uint64_t{1} << 63), 63u);
}

TEST(BitsTest, PopCount) {
  EXPECT_EQ(PopCount(0), 0u);
  EXPECT_EQ(PopCount(0xff00ff), 16u);
  EXPECT_EQ(PopCount(UINT64_MAX), 64u);
}

TEST(BitsTest, LoadsAreLittleEndianAtAnyAlignment) {
  const uint8_t bytes[] = {0xff, 0x01, 0x02, 0x03, 0x84, 0x05, 0x06, 0x07, 0x88};
  EXPECT_EQ(LoadLe16(bytes + 1), 0x0201u);
  EXPECT_EQ(LoadLe32(bytes + 1), 0x84030201u);
  EXPECT_EQ(LoadLe64(bytes + 1), 0x8807060584030201u);
}

TEST(BitsTest, StoresAreLittleEndianAndTouchOnlyTheirBytes) {
  std::array<uint8_t, 10> bytes = {};
  StoreLe64(bytes.data() + 1, 0x8807060504030201u);
  EXPECT_EQ(bytes, (std::array<uint8_t, 10>{0, 1, 2, 3, 4, 5, 6, 7, 0x88, 0}));
  StoreLe32(bytes.data() + 1, 0xddccbbaau);
  StoreLe16(bytes.data() + 5, 0x2211);
  EXPECT_EQ(bytes, (std::array<uint8_t, 10>{0, 0xaa, 0xbb, 0xcc, 0xdd, 0x11, 0x22, 7, 0x88, 0}));
}

}  // namespace
}  // namespace base
