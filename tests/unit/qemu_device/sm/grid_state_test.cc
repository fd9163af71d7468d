// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Saved grids: moved at any point they give the same result; forged ones are refused or harmless.
#include <random>

#include "grid_fixture.h"
#include "ts104_programs.h"

namespace {

class GridStateTest : public GridFixture {
 protected:
  static std::vector<std::byte> Save(const sm::GridExecutor& grid) {
    std::vector<std::byte> buffer(grid.StateSize());
    EXPECT_EQ(grid.SaveState(buffer), buffer.size());
    return buffer;
  }
  std::unique_ptr<sm::GridExecutor> Restore(std::span<const std::byte> buffer, uint32_t sms = 4) {
    return sm::GridExecutor::RestoreState(buffer, 7, sms, interpreter_, memory_);
  }

  // sgemm of 64 x 64 by 64 x 64: barriers, shared and local memory, floating point.
  void UseSgemm() {
    constexpr uint64_t kBytes = 64 * 64 * 4;
    for (uint32_t i = 0; i < 2 * 64 * 64; ++i) {
      memory_.Put(kData + 4 * i, static_cast<float>(i % 13) - 6.0f);
    }
    UseProgram("sgemm", ts104_sgemm_args{kData, kData + kBytes, kData + 2 * kBytes, 64, 64, 64,
                                         0.5f, 0.0f, 0});
    launch_.grid = {2, 2, 1};
    launch_.cta = {32, 8, 1};
  }
  std::vector<float> Result() {
    std::vector<float> result(64 * 64);
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = memory_.Get<float>(kData + 2 * 64 * 64 * 4 + 4 * i);
      memory_.Put(kData + 2 * 64 * 64 * 4 + 4 * i, -1.0f);
    }
    return result;
  }
};

TEST_F(GridStateTest, MovedAtRandomPointsTheResultIsTheSame) {
  UseSgemm();
  auto grid = Start();
  const uint64_t instructions = RunAll(*grid).instructions;
  const std::vector<float> expected = Result();

  std::mt19937 random(7);
  grid = Start();
  uint64_t moved_instructions = 0;
  uint64_t moves = 0;
  while (grid->state() == sm::GridState::kRunning) {
    moved_instructions += grid->RunQuantum(1 + random() % 20000).instructions;
    if (grid->state() != sm::GridState::kRunning) break;
    const std::vector<std::byte> state = Save(*grid);
    grid = Restore(state);
    ASSERT_NE(grid, nullptr);
    EXPECT_EQ(Save(*grid), state);
    ++moves;
  }
  EXPECT_EQ(grid->state(), sm::GridState::kFinished);
  EXPECT_EQ(moved_instructions, instructions);
  EXPECT_GT(moves, 20u);
  EXPECT_EQ(Result(), expected);
}

TEST_F(GridStateTest, SavedFormKeepsCyclesAndLaunch) {
  UseSgemm();
  auto grid = Start();
  grid->RunQuantum(50'000);
  auto restored = Restore(Save(*grid));
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->cycles(), grid->cycles());
  EXPECT_EQ(restored->ctas_started(), grid->ctas_started());
  EXPECT_EQ(restored->live_ctas(), grid->live_ctas());
  sm::Launch launch = launch_;
  launch.context_id = 7;
  EXPECT_EQ(restored->launch(), launch);
}

TEST_F(GridStateTest, BufferTooSmallWritesNothingPastIt) {
  UseSgemm();
  auto grid = Start();
  grid->RunQuantum(1000);
  std::vector<std::byte> buffer(grid->StateSize() + 8, std::byte{0x5a});
  EXPECT_EQ(grid->SaveState(std::span(buffer).first(buffer.size() - 9)), 0u);
  EXPECT_EQ(buffer.back(), std::byte{0x5a});
}

TEST_F(GridStateTest, DrainedGridIsSmallAndGoesOn) {
  UseSgemm();
  auto grid = Start(1);
  grid->RunQuantum(1000);
  grid->SetDraining(true);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kDrained);
  EXPECT_LT(grid->StateSize(), 256u);
  grid = Restore(Save(*grid), 1);
  ASSERT_NE(grid, nullptr);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
}

TEST_F(GridStateTest, FaultedGridMeetsItsFaultAgain) {
  UseProgram("wild_store", ts104_wild_store_args{0x7777'0000, 1, 0});
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFault);
  grid = Restore(Save(*grid));
  ASSERT_NE(grid, nullptr);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFault);
  EXPECT_EQ(grid->stop().address, 0x7777'0000u);
}

TEST_F(GridStateTest, EveryTruncationIsRefused) {
  UseProgram("trap", ts104_trap_args{1});
  launch_.cta = {4, 1, 1};
  launch_.shared_bytes = 16;
  auto grid = Start();
  grid->RunQuantum(3);
  const std::vector<std::byte> state = Save(*grid);
  for (size_t size = 0; size < state.size(); ++size) {
    EXPECT_EQ(Restore(std::span(state).first(size)), nullptr) << size;
  }
  std::vector<std::byte> longer = state;
  longer.push_back(std::byte{0});
  EXPECT_EQ(Restore(longer), nullptr);
}

// Offsets in the saved form: magic 0, version 8, live 12, launch 16, next CTA 100, cycles 108,
// first slot 116, its CTA 120: index, current, slice, then shared memory and threads.
TEST_F(GridStateTest, ValuesOutOfRangeAreRefused) {
  UseProgram("trap", ts104_trap_args{1});
  launch_.cta = {4, 1, 1};
  auto grid = Start();
  grid->RunQuantum(3);
  const std::vector<std::byte> state = Save(*grid);
  ASSERT_NE(Restore(state), nullptr);
  constexpr size_t kThread = 140;
  constexpr size_t kThreadTail = kThread + 31 * 8 + 32 * 8 + 4 * 8;
  const struct {
    const char* name;
    size_t at;
    uint8_t value;
  } kCases[] = {
      {"magic", 0, 0},
      {"version", 8, 2},
      {"more live CTAs than records", 12, 2},
      {"more live CTAs than SMs", 13, 0xff},
      {"no live CTA but a record", 12, 0},
      {"program address misaligned", 16, 1},
      {"shared window misaligned", 32, 1},
      {"shared bytes too many", 63, 0xff},
      {"local bytes too many", 67, 0xff},
      {"local bytes misaligned", 64, 1},
      {"barriers too many", 68, 17},
      {"grid empty", 76, 0},
      {"CTA too large", 89, 0xff},
      {"next CTA beyond the grid", 100, 2},
      {"live CTA that did not start", 100, 0},
      {"cycles forged", 115, 0xff},
      {"slot beyond the SMs", 116, 4},
      {"CTA index beyond the grid", 120, 1},
      {"current thread beyond the CTA", 132, 4},
      {"slice too long", 138, 1},
      {"reservation size", kThreadTail, 3},
      {"status", kThreadTail + 2, 3},
      {"at a barrier that does not exist", kThreadTail + 2, 1},
  };
  for (const auto& c : kCases) {
    std::vector<std::byte> forged = state;
    forged[c.at] = std::byte{c.value};
    EXPECT_EQ(Restore(forged), nullptr) << c.name;
  }
  std::vector<std::byte> slice_used_up = state;
  slice_used_up[136] = slice_used_up[137] = std::byte{0};
  EXPECT_EQ(Restore(slice_used_up), nullptr);
}

TEST_F(GridStateTest, CtaWhoseThreadsAllEndedOrAllWaitIsRefused) {
  UseProgram("reduce", ts104_reduce_args{kData, kData + 4096, 0});
  launch_.cta = {1, 1, 1};
  auto grid = Start();
  grid->RunQuantum(3);
  const std::vector<std::byte> state = Save(*grid);
  const size_t status = state.size() - 2;
  for (const uint8_t value : {1, 2}) {
    std::vector<std::byte> forged = state;
    forged[status] = std::byte{value};
    EXPECT_EQ(Restore(forged), nullptr);
  }
}

TEST_F(GridStateTest, MoreCtasThanThisMachineHasSmsAreRefused) {
  UseSgemm();
  auto grid = Start(4);
  grid->RunQuantum(100'000);
  ASSERT_EQ(grid->live_ctas(), 4u);
  EXPECT_EQ(Restore(Save(*grid), 2), nullptr);
}

// Whatever a guest writes into the buffer: refused, or a program that stays within its limits.
TEST_F(GridStateTest, RandomForgeriesAreHarmless) {
  UseSgemm();
  launch_.cta = {8, 8, 1};
  auto grid = Start();
  grid->RunQuantum(5000);
  const std::vector<std::byte> state = Save(*grid);
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::byte> forged = state;
    const uint32_t changes = 1 + random() % 8;
    for (uint32_t i = 0; i < changes; ++i) {
      forged[random() % forged.size()] = static_cast<std::byte>(random());
    }
    auto restored = Restore(forged);
    if (restored == nullptr) continue;
    ++accepted;
    restored->RunQuantum(20'000);
    EXPECT_LE(restored->StateSize(), sm::GridExecutor::MaxStateSize(4));
  }
  EXPECT_GT(accepted, 50);
  for (int round = 0; round < 2000; ++round) {  // the header alone, harder
    std::vector<std::byte> forged = state;
    forged[random() % 140] = static_cast<std::byte>(random());
    forged[random() % 140] = static_cast<std::byte>(random());
    auto restored = Restore(forged);
    if (restored != nullptr) restored->RunQuantum(100);
  }
}

}  // namespace
