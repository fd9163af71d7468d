// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Literal bit positions of clc5c0qmd.h, V02_03.
#include "compute/qmd.h"

#include <gtest/gtest.h>

#include <array>

namespace {

using compute::ParseQmd;
using compute::QmdError;

class QmdTest : public testing::Test {
 protected:
  QmdTest() {
    words_[18] = 0x23;         // 583:576 version 2.3
    words_[12] = 10;           // 415:384 width
    words_[13] = 20;           // 431:416 height
    words_[14] = 30;           // 463:448 depth
    words_[18] |= 8 << 16;     // 607:592 threads x
    words_[19] = 4 | 2 << 16;  // 623:608 y, 639:624 z
    words_[48] = 0x89ab'c000;  // 1567:1536 program address low
    words_[49] = 0x1'0123;     // 1584:1568 high
  }
  QmdError Parse() { return ParseQmd(words_, state_, qmd_); }

  std::array<uint32_t, 64> words_{};
  compute::ClassState state_;
  compute::Qmd qmd_;
};

TEST_F(QmdTest, GridAndProgram) {
  ASSERT_EQ(Parse(), QmdError::kNone);
  EXPECT_EQ(qmd_.launch.grid, (sm::Dim3{10, 20, 30}));
  EXPECT_EQ(qmd_.launch.cta, (sm::Dim3{8, 4, 2}));
  EXPECT_EQ(qmd_.launch.program_address, 0x1'0123'89ab'c000u);
  EXPECT_EQ(qmd_.launch.shared_bytes, 0u);
  EXPECT_EQ(qmd_.launch.constant_buffer_address, 0u);
  EXPECT_FALSE(qmd_.releases[0].enabled);
  EXPECT_FALSE(qmd_.releases[1].enabled);
}

TEST_F(QmdTest, MemorySizesAndBarriers) {
  words_[17] = 0x8000;           // 561:544 shared memory size
  words_[29] = 1000 | 5u << 27;  // 951:928 local low size, 959:955 barriers
  ASSERT_EQ(Parse(), QmdError::kNone);
  EXPECT_EQ(qmd_.launch.shared_bytes, 0x8000u);
  EXPECT_EQ(qmd_.launch.local_bytes, 1008u);  // rounded up to 16
  EXPECT_EQ(qmd_.launch.barrier_count, 5u);
}

TEST_F(QmdTest, ClassStateIsTakenOver) {
  state_.shared_window = 0x1'0000'0000;
  state_.local_window = 0x2'0000'0000;
  state_.local_memory = 0x3'0000'0000;
  state_.context_id = 9;
  ASSERT_EQ(Parse(), QmdError::kNone);
  EXPECT_EQ(qmd_.launch.shared_window, 0x1'0000'0000u);
  EXPECT_EQ(qmd_.launch.local_window, 0x2'0000'0000u);
  EXPECT_EQ(qmd_.launch.local_memory, 0x3'0000'0000u);
  EXPECT_EQ(qmd_.launch.context_id, 9u);
}

TEST_F(QmdTest, ConstantBuffers) {
  words_[20] = 1 | 1 << 7;              // 640 valid 0, 647 valid 7
  words_[32] = 0x1234'5600;             // 1055:1024 address low 0
  words_[33] = 0x1'00ff | 0x40u << 19;  // 1072:1056 high, 1087:1075 size >> 4
  words_[32 + 14] = 0x7000;             // buffer 7
  words_[33 + 14] = 0x1fffu << 19;
  ASSERT_EQ(Parse(), QmdError::kNone);
  EXPECT_EQ(qmd_.launch.constant_buffer_address, 0x1'00ff'1234'5600u);
  EXPECT_EQ(qmd_.launch.constant_buffer_bytes, 0x400u);
  EXPECT_FALSE(qmd_.constant_buffers[1].valid);
  EXPECT_TRUE(qmd_.constant_buffers[7].valid);
  EXPECT_EQ(qmd_.constant_buffers[7].address, 0x7000u);
  EXPECT_EQ(qmd_.constant_buffers[7].bytes, 0x1fff0u);
}

TEST_F(QmdTest, Releases) {
  words_[4] = 1 << 10 | 1 << 11;                       // 138, 139 enables
  words_[23] = 0x8765'4320;                            // 767:736 release 0 address low
  words_[24] = 0xab | 2u << 20 | 1u << 24 | 1u << 26;  // high, op MAX, signed, reduction
  words_[25] = 0xdeadbeef;                             // 831:800 payload
  words_[26] = 0x1004;                                 // 863:832 release 1
  words_[27] = 0x01 | 1u << 31;                        // high; 895 one word
  words_[28] = 77;
  ASSERT_EQ(Parse(), QmdError::kNone);
  const compute::SemaphoreRelease& first = qmd_.releases[0];
  EXPECT_TRUE(first.enabled);
  EXPECT_EQ(first.address, 0xab'8765'4320u);
  EXPECT_EQ(first.payload, 0xdeadbeefu);
  EXPECT_FALSE(first.one_word);
  EXPECT_TRUE(first.reduction);
  EXPECT_TRUE(first.reduction_signed);
  EXPECT_EQ(first.reduction_op, 2u);
  const compute::SemaphoreRelease& second = qmd_.releases[1];
  EXPECT_TRUE(second.enabled);
  EXPECT_EQ(second.address, 0x01'0000'1004u);
  EXPECT_EQ(second.payload, 77u);
  EXPECT_TRUE(second.one_word);
  EXPECT_FALSE(second.reduction);
}

TEST_F(QmdTest, Flags) {
  words_[5] = 1u << 30;              // 190 invalidate instruction cache
  words_[11] = 1u << 14 | 1u << 18;  // 366 release membar, 370 sequential CTAs
  ASSERT_EQ(Parse(), QmdError::kNone);
  EXPECT_TRUE(qmd_.invalidate_instruction_cache);
  EXPECT_TRUE(qmd_.release_membar);
  EXPECT_TRUE(qmd_.launch.sequential);
}

TEST_F(QmdTest, ErrorsAreNamed) {
  const struct {
    QmdError error;
    size_t word;
    uint32_t value;
  } kCases[] = {
      {QmdError::kBadVersion, 18, 0x22 | 8 << 16},
      {QmdError::kBadVersion, 18, 0x33 | 8 << 16},
      {QmdError::kQueue, 4, 1 << 8},
      {QmdError::kDependentQmd, 4, 1 << 13},
      {QmdError::kResume, 6, 1},
      {QmdError::kResume, 7, 1u << 31},
      {QmdError::kLocalHighSize, 30, 1},
      {QmdError::kLaunch, 12, 0},  // no CTA
      {QmdError::kLaunch, 18, 0x23 | 1025u << 16},
      {QmdError::kLaunch, 17, 0x10001},    // shared memory
      {QmdError::kLaunch, 29, 0x10001},    // local memory
      {QmdError::kLaunch, 29, 17u << 27},  // barriers
      {QmdError::kLaunch, 48, 2},          // program misaligned
  };
  const std::array<uint32_t, 64> good = words_;
  for (const auto& c : kCases) {
    words_ = good;
    words_[c.word] = c.value;
    EXPECT_EQ(Parse(), c.error) << compute::QmdErrorName(c.error) << " word " << c.word;
  }
}

TEST_F(QmdTest, LaunchErrorTellsMore) {
  words_[12] = 0;
  EXPECT_EQ(Parse(), QmdError::kLaunch);
  EXPECT_EQ(qmd_.launch_error, sm::LaunchError::kGridEmpty);
}

TEST_F(QmdTest, ReleaseMustBeAligned) {
  words_[4] = 1 << 10;
  words_[23] = 0x1008;
  EXPECT_EQ(Parse(), QmdError::kReleaseMisaligned);
  words_[24] = 1u << 31;  // one word: 4 bytes are enough
  EXPECT_EQ(Parse(), QmdError::kNone);
  words_[23] = 0x1002;
  EXPECT_EQ(Parse(), QmdError::kReleaseMisaligned);
}

TEST_F(QmdTest, UndefinedReductionFormatIsRefused) {
  words_[4] = 1 << 10;
  words_[24] = 2u << 24 | 1u << 26;
  EXPECT_EQ(Parse(), QmdError::kBadReduction);
}

}  // namespace
