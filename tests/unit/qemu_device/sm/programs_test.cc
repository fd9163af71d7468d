// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The programs of libts104, compiled by the stock clang, on the SMs.
#include <cmath>
#include <string>

#include "grid_fixture.h"
#include "ts104_programs.h"

namespace {

class ProgramsTest : public GridFixture {
 protected:
  std::string Hex(uint64_t va) {
    std::string text;
    for (uint64_t i = 0; i < 32; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = memory_.Get<uint8_t>(va + i);
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }
  void FillBytes(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      memory_.Put<uint8_t>(kData + i, static_cast<uint8_t>(i * 7 + 3));
    }
  }
};

TEST_F(ProgramsTest, Vecadd) {
  constexpr uint64_t kCount = 1000;
  for (uint32_t i = 0; i < kCount; ++i) {
    memory_.Put<uint32_t>(kData + 4 * i, i * 3);
    memory_.Put<uint32_t>(kData + 4096 + 4 * i, 0xffffffff - i);
  }
  UseProgram("vecadd", ts104_vecadd_args{kData, kData + 4096, kData + 8192, kCount});
  launch_.grid = {3, 1, 1};
  launch_.cta = {64, 1, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  for (uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(memory_.Get<uint32_t>(kData + 8192 + 4 * i), 2 * i - 1);
  }
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 8192 + 4 * kCount), 0u);
}

TEST_F(ProgramsTest, SaxpyRoundsOnce) {
  // 1.0000001 * 1.0000001 - 1.0000002 = 2^-46, which two roundings would lose.
  memory_.Put<uint32_t>(kData, 0x3f800001);
  memory_.Put<uint32_t>(kData + 4096, 0xbf800002);
  UseProgram("saxpy",
             ts104_saxpy_args{kData, kData + 4096, 1, std::bit_cast<float>(0x3f800001), 0});
  launch_.cta = {32, 1, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 4096), 0x28800000u);
}

TEST_F(ProgramsTest, SgemmOfOddSizesMatchesTheCpuBitForBit) {
  constexpr uint32_t kM = 45, kN = 37, kK = 70;
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 29) * 0.37f - 4.0f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 31) * 0.11f - 1.0f;
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 7);
  const uint64_t at_b = kData + 0x10000, at_c = kData + 0x20000;
  memory_.Copy(kData, std::as_bytes(std::span(a)));
  memory_.Copy(at_b, std::as_bytes(std::span(b)));
  memory_.Copy(at_c, std::as_bytes(std::span(c)));
  UseProgram("sgemm", ts104_sgemm_args{kData, at_b, at_c, kM, kN, kK, 1.5f, 0.25f, 0});
  launch_.grid = {2, 2, 1};
  launch_.cta = {32, 8, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  for (uint32_t row = 0; row < kM; ++row) {
    for (uint32_t column = 0; column < kN; ++column) {
      float sum = 0;
      for (uint32_t k = 0; k < kK; ++k) {
        sum = std::fmaf(a[row * kK + k], b[k * kN + column], sum);
      }
      const float scaled = 0.25f * c[row * kN + column];
      const float expected = std::fmaf(1.5f, sum, scaled);
      EXPECT_EQ(memory_.Get<float>(at_c + 4 * (row * kN + column)), expected);
    }
  }
}

TEST_F(ProgramsTest, ReduceSums) {
  for (uint32_t i = 0; i < 5000; ++i) memory_.Put<uint32_t>(kData + 4 * i, 0xfffffff0);
  UseProgram("reduce", ts104_reduce_args{kData, kData + 0x10000, 5000});
  launch_.grid = {3, 1, 1};
  launch_.cta = {TS104_REDUCE_CTA, 1, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 0x10000), 21'474'836'400'000u);
}

TEST_F(ProgramsTest, HistogramCounts) {
  FillBytes(10'000);  // each byte value 39 times, and the first 16 of the sequence once more
  UseProgram("histogram", ts104_histogram_args{kData, kData + 0x10000, 10'000});
  launch_.grid = {4, 1, 1};
  launch_.cta = {100, 1, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 0x10000 + 4 * 3), 40u);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 0x10000 + 4 * 108), 40u);  // 15 * 7 + 3
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 0x10000 + 4 * 115), 39u);
  uint32_t total = 0;
  for (uint64_t i = 0; i < 256; ++i) total += memory_.Get<uint32_t>(kData + 0x10000 + 4 * i);
  EXPECT_EQ(total, 10'000u);
}

TEST_F(ProgramsTest, Sha256TreeOfThreeLeaves) {
  FillBytes(2500);
  const uint64_t leaves = kData + 0x10000, nodes = kData + 0x11000, root = kData + 0x12000;
  const ts104_sha256_tree_args kLevels[] = {
      {kData, leaves, 2500, 1024, TS104_SHA256_MODE_LEAVES},
      {leaves, nodes, 3, 0, TS104_SHA256_MODE_NODES},
      {nodes, root, 2, 0, TS104_SHA256_MODE_NODES},
  };
  for (const ts104_sha256_tree_args& level : kLevels) {
    UseProgram("sha256_tree", level);
    launch_.cta = {2, 1, 1};
    auto grid = Start();
    EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  }
  EXPECT_EQ(Hex(leaves + 64), "8bfa1b7ec8de098e9ae20415db87a83a0da44bf089d2fa658509371b40ef1ce5");
  EXPECT_EQ(Hex(nodes + 32), Hex(leaves + 64));  // without a partner it moves up
  EXPECT_EQ(Hex(root), "3a94f3a790ed251305db4577a4d00d26ec441e8276c153f4497f61feee6eefde");
}

TEST_F(ProgramsTest, Sha256PadsAtEveryBlockBoundary) {
  FillBytes(64);
  constexpr struct {
    uint64_t bytes;
    const char* hash;
  } kCases[] = {
      {54, "fc875bf6f5deaa548d92f2b0408e772c4b5f90da297663ae616d3025d3c0e97c"},
      {55, "9929b65aa9eaf19f9e3402ea53728f96b933fff4d8936222573ed3703373c08e"},
      {56, "14a03c0788b115ec5ed69541b8a4cb450df81cc9a91e72a56c17ff81f793057b"},
      {62, "e95d76348e81e74d8c27cefd44c780e69a882280a6dd13c661534ff4a858ed9c"},
      {63, "d7f422b617f5c7bfa8183095e9c9b55726bb2bee9c9589c48e87a621fd026079"},
      {64, "d7b08e9ac5d272bfe86bd0c16c033defd3cc6bacadd05622f63bdcb0b0286c4f"},
  };
  for (const auto& c : kCases) {
    UseProgram("sha256_tree", ts104_sha256_tree_args{kData, kData + 0x10000, c.bytes, 1024,
                                                     TS104_SHA256_MODE_LEAVES});
    auto grid = Start();
    EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
    EXPECT_EQ(Hex(kData + 0x10000), c.hash) << c.bytes;
  }
}

TEST_F(ProgramsTest, EndlessLoopIsPreemptible) {
  UseProgram("endless_loop", ts104_endless_loop_args{kData});
  launch_.cta = {32, 1, 1};
  auto grid = Start();
  EXPECT_EQ(grid->RunQuantum(500'000).instructions, 500'000u);
  EXPECT_EQ(grid->state(), sm::GridState::kRunning);
  EXPECT_GT(memory_.Get<uint32_t>(kData), 200'000u);
}

TEST_F(ProgramsTest, WildStoreFaults) {
  UseProgram("wild_store", ts104_wild_store_args{0x1'2345'6780, 1, 0});
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFault);
  EXPECT_EQ(grid->stop().address, 0x1'2345'6780u);
  EXPECT_EQ(grid->stop().access, sm::Access::kWrite);
}

TEST_F(ProgramsTest, StackOverrunIsALocalAddressOutOfRange) {
  UseProgram("stack_overrun", ts104_stack_overrun_args{0});
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kException);
  EXPECT_EQ(grid->stop().exception, sm::ExceptionKind::kLocalOutOfRange);
  EXPECT_GE(grid->stop().address, sm::kDefaultLocalWindow - 64);
  EXPECT_LT(grid->stop().address, sm::kDefaultLocalWindow);
}

TEST_F(ProgramsTest, TrapReportsItsCode) {
  UseProgram("trap", ts104_trap_args{0x1234});
  launch_.cta = {8, 1, 1};
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kException);
  EXPECT_EQ(grid->stop().exception, sm::ExceptionKind::kTrap);
  EXPECT_EQ(grid->stop().code, 0x1234u);
}

}  // namespace
