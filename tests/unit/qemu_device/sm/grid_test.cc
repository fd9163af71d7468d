// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// CTAs, barriers, scheduling, the cost model and what stops a grid.
#include "grid_fixture.h"

namespace {

using namespace riscv;

class GridTest : public GridFixture {
 protected:
  static constexpr uint32_t kExit[] = {Addi(kA7, kZero, 0), kEcall};

  static std::vector<uint32_t> WithExit(std::vector<uint32_t> words) {
    words.insert(words.end(), std::begin(kExit), std::end(kExit));
    return words;
  }
  static std::vector<uint32_t> Barrier(uint32_t id) {
    return {Addi(kA7, kZero, 1), Addi(kA0, kZero, static_cast<int32_t>(id)), kEcall};
  }
  static std::vector<uint32_t> Join(std::initializer_list<std::vector<uint32_t>> parts) {
    std::vector<uint32_t> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
};

TEST_F(GridTest, ThreadsStartAsTheAbiSays) {
  launch_.shared_bytes = 4096;
  launch_.local_bytes = 512;
  launch_.constant_buffer_bytes = 48;
  // Stores a0, a1, sp, tp, t0 + fcsr to the data page.
  UseCode(WithExit({Lui(kT1, kData >> 12), Csrr(kT2, 3), Add(kT0, kT0, kT2), Sd(kA0, kT1, 0),
                    Sd(kA1, kT1, 8), Sd(kSp, kT1, 16), Sd(kTp, kT1, 24), Sd(kT0, kT1, 32)}));
  memory_.Put<uint64_t>(kData + 32, 1);
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 0), kArguments);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 8), 48u);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 16), 0x0000'ff00'0000'0200u);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 24), 0x0000'fe00'0000'0000u);
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 32), 0u);
}

TEST_F(GridTest, EveryThreadOfEveryCtaRunsOnceWithItsOwnIds) {
  launch_.grid = {3, 2, 2};
  launch_.cta = {4, 3, 2};
  // index = ((z * 2 + y) * 3 + x) * 24 + linear; data[index] += 1 + tid sums.
  UseCode(WithExit(
      {Csrr(kT0, 0xcc5), Slli(kT0, kT0, 1), Csrr(kT1, 0xcc4), Add(kT0, kT0, kT1), Slli(kT1, kT0, 1),
       Add(kT0, kT0, kT1), Csrr(kT1, 0xcc3), Add(kT0, kT0, kT1), Slli(kT1, kT0, 4),
       Slli(kT0, kT0, 3), Add(kT0, kT0, kT1), Csrr(kT1, 0xccc), Add(kT0, kT0, kT1),
       Slli(kT0, kT0, 2), Lui(kT1, kData >> 12), Add(kT0, kT0, kT1),
       // t2 = 1 + x * 256 + y * 16 + z
       Csrr(kT2, 0xcc0), Slli(kT2, kT2, 4), Csrr(kT1, 0xcc1), Add(kT2, kT2, kT1), Slli(kT2, kT2, 4),
       Csrr(kT1, 0xcc2), Add(kT2, kT2, kT1), Addi(kT2, kT2, 1), AmoAddW(kZero, kT0, kT2)}));
  auto grid = Start();
  const sm::QuantumResult result = RunAll(*grid, 777);
  EXPECT_EQ(result.state, sm::GridState::kFinished);
  EXPECT_EQ(result.ctas_finished, 12u);
  EXPECT_EQ(result.instructions, 12u * 24 * 27);
  for (uint32_t cta = 0; cta < 12; ++cta) {
    for (uint32_t thread = 0; thread < 24; ++thread) {
      const uint32_t x = thread % 4, y = thread / 4 % 3, z = thread / 12;
      EXPECT_EQ(memory_.Get<uint32_t>(kData + 4 * (cta * 24 + thread)), 1 + x * 256 + y * 16 + z);
    }
  }
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 4 * 12 * 24), 0u);
}

TEST_F(GridTest, BarrierMakesSharedWritesVisible) {
  launch_.cta = {64, 1, 1};
  launch_.shared_bytes = 64 * 4;
  launch_.barrier_count = 1;
  // shared[tid] = tid; barrier; data[tid] = shared[63 - tid].
  UseCode(Join({{Csrr(kT0, 0xcc0), Slli(kT1, kT0, 2), Add(kT2, kTp, kT1), Sw(kT0, kT2, 0)},
                Barrier(0),
                {Addi(kA1, kTp, 63 * 4), R(0x20, kT1, kA1, 0, kA1, 0x33), Lw(kA2, kA1, 0),
                 Lui(kA3, kData >> 12), Add(kA3, kA3, kT1), Sw(kA2, kA3, 0)},
                WithExit({})}));
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(memory_.Get<uint32_t>(kData + 4 * i), 63 - i);
}

TEST_F(GridTest, BarrierCountsOnlyLiveThreads) {
  launch_.cta = {8, 1, 1};
  launch_.barrier_count = 2;
  // Threads 0-3 exit at once, the others meet at barrier 1; then each adds 1 to data[0].
  UseCode(Join({{Csrr(kT0, 0xcc0), Addi(kT1, kZero, 4), Blt(kT0, kT1, 6 * 4)},
                Barrier(1),
                {Lui(kT2, kData >> 12), AmoAddW(kZero, kT2, kT1)},
                WithExit({})}));
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 16u);
}

TEST_F(GridTest, ThreadsAtDifferentBarriersAreADeadlock) {
  launch_.cta = {2, 1, 1};
  launch_.barrier_count = 2;
  // barrier(tid)
  UseCode(WithExit({Csrr(kA0, 0xcc0), Addi(kA7, kZero, 1), kEcall}));
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kException);
  EXPECT_EQ(grid->stop().exception, sm::ExceptionKind::kBarrierDeadlock);
  EXPECT_EQ(grid->stop().pc, kCode + 8);
}

TEST_F(GridTest, BarrierBeyondTheCountIsAnException) {
  launch_.barrier_count = 1;
  UseCode(Join({Barrier(1), WithExit({})}));
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kException);
  EXPECT_EQ(grid->stop().exception, sm::ExceptionKind::kBadBarrier);
  EXPECT_EQ(grid->stop().code, 1u);
  EXPECT_EQ(grid->stop().pc, kCode + 8);
}

TEST_F(GridTest, SharedMemoryStartsAtZeroForEveryCta) {
  launch_.grid = {3, 1, 1};
  launch_.shared_bytes = 8;
  // data[ctaid] = shared[0]++
  UseCode(
      WithExit({Addi(kT0, kZero, 1), AmoAddW(kT1, kTp, kT0), Csrr(kT2, 0xcc3), Slli(kT2, kT2, 2),
                Lui(kA1, kData >> 12), Add(kA1, kA1, kT2), Addi(kT1, kT1, 5), Sw(kT1, kA1, 0)}));
  auto grid = Start(1);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(memory_.Get<uint32_t>(kData + 4 * i), 5u);
}

TEST_F(GridTest, LocalMemoryLiesWhereTheAbiSays) {
  launch_.grid = {2, 1, 1};
  launch_.cta = {3, 1, 1};
  launch_.local_bytes = 64;
  memory_.Map(kLocalMemory, 2 * 1024 * 64);
  // local[top - 8] = 100 * sm + tid, as seen through sp.
  UseCode(WithExit({Csrr(kT0, 0xccd), Addi(kT1, kZero, 100), R(1, kT1, kT0, 0, kT0, 0x33),
                    Csrr(kT1, 0xccc), Add(kT0, kT0, kT1), Sd(kT0, kSp, -8)}));
  auto grid = Start(2);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  for (uint64_t sm = 0; sm < 2; ++sm) {
    for (uint64_t thread = 0; thread < 3; ++thread) {
      EXPECT_EQ(memory_.Get<uint64_t>(kLocalMemory + (sm * 1024 + thread) * 64 + 56),
                100 * sm + thread);
    }
  }
}

TEST_F(GridTest, SpinningThreadLetsTheOthersOn) {
  launch_.cta = {2, 1, 1};
  // Thread 0 spins until data[0] != 0; thread 1 sets it.
  UseCode(WithExit({Lui(kT1, kData >> 12), Csrr(kT0, 0xcc0), Bne(kT0, kZero, 16), Lw(kT2, kT1, 0),
                    Beq(kT2, kZero, -4), Jal(kZero, 8), Sw(kT0, kT1, 0)}));
  auto grid = Start();
  EXPECT_EQ(RunAll(*grid, 100'000, 1'000'000).state, sm::GridState::kFinished);
}

TEST_F(GridTest, SpinningCtaLetsTheOthersOn) {
  launch_.grid = {2, 1, 1};
  UseCode(WithExit({Lui(kT1, kData >> 12), Csrr(kT0, 0xcc3), Bne(kT0, kZero, 16), Lw(kT2, kT1, 0),
                    Beq(kT2, kZero, -4), Jal(kZero, 8), Sw(kT0, kT1, 0)}));
  auto grid = Start(2);
  EXPECT_EQ(RunAll(*grid, 1'000'000, 2'000'000).state, sm::GridState::kFinished);
}

TEST_F(GridTest, QuantumRetiresExactlyWhatItMay) {
  UseCode({Jal(kZero, 0)});
  auto grid = Start();
  for (const uint64_t quantum : {1u, 2u, 3u, 4095u, 4097u, 100'000u}) {
    const sm::QuantumResult result = grid->RunQuantum(quantum);
    EXPECT_EQ(result.instructions, quantum);
    EXPECT_EQ(result.state, sm::GridState::kRunning);
  }
}

TEST_F(GridTest, CyclesAreThoseOfTheBusiestSm) {
  launch_.grid = {5, 1, 1};
  UseCode(WithExit(std::vector<uint32_t>(8, Addi(kT0, kT0, 1))));
  // 10 instructions and 100 cycles of start per CTA; on 2 SMs the busier one has three CTAs.
  auto grid = Start(2);
  const sm::QuantumResult result = RunAll(*grid);
  EXPECT_EQ(result.instructions, 50u);
  EXPECT_EQ(result.cycles, 330u);
  EXPECT_EQ(grid->cycles(), 330u);
}

TEST_F(GridTest, MoreSmsTakeFewerCycles) {
  launch_.grid = {8, 1, 1};
  UseCode(WithExit(std::vector<uint32_t>(898, Addi(kT0, kT0, 1))));
  uint64_t cycles[2];
  for (const uint32_t sms : {1u, 8u}) {
    auto grid = Start(sms);
    RunAll(*grid);
    cycles[sms == 8] = grid->cycles();
  }
  EXPECT_EQ(cycles[0], 8000u);
  EXPECT_EQ(cycles[1], 1000u);
}

TEST_F(GridTest, SequentialLaunchUsesOneSm) {
  launch_.grid = {4, 1, 1};
  launch_.sequential = true;
  UseCode(WithExit(std::vector<uint32_t>(898, Addi(kT0, kT0, 1))));
  auto grid = Start(8);
  RunAll(*grid);
  EXPECT_EQ(grid->cycles(), 4000u);
}

TEST_F(GridTest, DrainingEndsAtCtaBoundariesAndGoesOnLater) {
  launch_.grid = {6, 1, 1};
  UseCode(WithExit({Lui(kT1, kData >> 12), Addi(kT0, kZero, 1), AmoAddW(kZero, kT1, kT0)}));
  auto grid = Start(2);
  grid->RunQuantum(1);
  grid->SetDraining(true);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kDrained);
  EXPECT_EQ(grid->live_ctas(), 0u);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 2u);
  grid->SetDraining(false);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 6u);
}

TEST_F(GridTest, FaultNamesThreadAndStaysUntilRetried) {
  launch_.grid = {2, 1, 1};
  launch_.cta = {4, 2, 1};
  // Thread (2, 1) of CTA 1 loads from 0x7000000.
  UseCode(WithExit({Csrr(kT0, 0xccc), Csrr(kT1, 0xcc3), Slli(kT1, kT1, 3), Add(kT0, kT0, kT1),
                    Addi(kT2, kZero, 14), Bne(kT0, kT2, 12), Lui(kA1, 0x7000), Ld(kA2, kA1, 0)}));
  auto grid = Start(1);
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFault);
  EXPECT_EQ(grid->stop().address, 0x700'0000u);
  EXPECT_EQ(grid->stop().pc, kCode + 28);
  EXPECT_EQ(grid->stop().cta, (sm::Dim3{1, 0, 0}));
  EXPECT_EQ(grid->stop().thread, (sm::Dim3{2, 1, 0}));
  EXPECT_EQ(grid->RunQuantum(1000).instructions, 0u);
  memory_.Map(0x700'0000, sm::kPageSize);
  grid->Retry();
  EXPECT_EQ(RunAll(*grid).state, sm::GridState::kFinished);
}

TEST_F(GridTest, ProgramChangedBetweenLaunchesRunsAnew) {
  UseCode(WithExit({Lui(kT1, kData >> 12), Addi(kT0, kZero, 1), Sw(kT0, kT1, 0)}));
  auto grid = Start();
  RunAll(*grid);
  memory_.Put<uint32_t>(kCode + 4, Addi(kT0, kZero, 2));
  grid = Start();
  RunAll(*grid);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 2u);
}

TEST_F(GridTest, InvalidateBetweenQuantaTakesEffect) {
  UseCode({Lui(kT1, kData >> 12), Lw(kT0, kT1, 0), Jal(kZero, -4)});
  auto grid = Start();
  EXPECT_EQ(grid->RunQuantum(1000).state, sm::GridState::kRunning);
  memory_.Unmap(kData);
  EXPECT_EQ(grid->RunQuantum(1000).state, sm::GridState::kRunning);  // stale until invalidated
  memory_.Invalidate();
  EXPECT_EQ(grid->RunQuantum(1000).state, sm::GridState::kFault);
}

TEST_F(GridTest, TwoGridsShareOneInterpreter) {
  UseCode(WithExit({Lui(kT1, kData >> 12), Addi(kT0, kZero, 1), AmoAddW(kZero, kT1, kT0)}));
  launch_.grid = {50, 1, 1};
  auto first = Start(1);
  launch_.context_id = 1;
  auto second = Start(1);
  while (first->state() == sm::GridState::kRunning || second->state() == sm::GridState::kRunning) {
    first->RunQuantum(7);
    second->RunQuantum(11);
  }
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 100u);
}

struct BadLaunch {
  sm::LaunchError error;
  void (*spoil)(sm::Launch&);
};

template <uint32_t kX, uint32_t kY, uint32_t kZ>
void SetCta(sm::Launch& launch) {
  launch.cta = {kX, kY, kZ};
}

TEST_F(GridTest, BadLaunchesAreRefusedWithTheirReason) {
  UseCode(WithExit({}));
  const BadLaunch kCases[] = {
      {sm::LaunchError::kGridEmpty, [](sm::Launch& l) { l.grid.x = 0; }},
      {sm::LaunchError::kGridEmpty, [](sm::Launch& l) { l.grid.z = 0; }},
      {sm::LaunchError::kGridTooLarge, [](sm::Launch& l) { l.grid.y = 65536; }},
      {sm::LaunchError::kCtaEmpty, [](sm::Launch& l) { l.cta.y = 0; }},
      {sm::LaunchError::kCtaTooLarge, SetCta<1025, 1, 1>},
      {sm::LaunchError::kCtaTooLarge, SetCta<32, 32, 2>},
      {sm::LaunchError::kCtaTooLarge, SetCta<0x80000000, 0x80000000, 0x80000000>},
      {sm::LaunchError::kSharedTooLarge, [](sm::Launch& l) { l.shared_bytes = 65537; }},
      {sm::LaunchError::kLocalTooLarge, [](sm::Launch& l) { l.local_bytes = 65552; }},
      {sm::LaunchError::kLocalMisaligned, [](sm::Launch& l) { l.local_bytes = 8; }},
      {sm::LaunchError::kTooManyBarriers, [](sm::Launch& l) { l.barrier_count = 17; }},
      {sm::LaunchError::kProgramMisaligned, [](sm::Launch& l) { l.program_address += 2; }},
      {sm::LaunchError::kAddressTooLarge,
       [](sm::Launch& l) { l.program_address = uint64_t{1} << 49; }},
      {sm::LaunchError::kBadWindow, [](sm::Launch& l) { l.shared_window += 2048; }},
      {sm::LaunchError::kBadWindow,
       [](sm::Launch& l) { l.local_window = (uint64_t{1} << 49) - 4096; }},
      {sm::LaunchError::kBadWindow, [](sm::Launch& l) { l.local_window = l.shared_window + 4096; }},
  };
  for (const BadLaunch& c : kCases) {
    sm::Launch launch = launch_;
    c.spoil(launch);
    EXPECT_EQ(launch.Validate(), c.error) << sm::LaunchErrorName(c.error);
    EXPECT_EQ(sm::GridExecutor::Create(launch, 4, interpreter_, memory_), nullptr);
  }
  EXPECT_EQ(sm::GridExecutor::Create(launch_, 0, interpreter_, memory_), nullptr);
  EXPECT_EQ(sm::GridExecutor::Create(launch_, 65, interpreter_, memory_), nullptr);
}

TEST_F(GridTest, LargestGridStartsAndIsPreemptible) {
  launch_.grid = {0xffffffff, 65535, 65535};
  launch_.cta = {1024, 1, 1};
  launch_.shared_bytes = 65536;
  launch_.local_bytes = 65536;
  launch_.barrier_count = 16;
  UseCode(WithExit({}));
  auto grid = Start(4);
  EXPECT_EQ(grid->RunQuantum(1'000'000).instructions, 1'000'000u);
  EXPECT_EQ(grid->state(), sm::GridState::kRunning);
  EXPECT_LE(grid->StateSize(), sm::GridExecutor::MaxStateSize(4));
}

}  // namespace
