// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Policies against a GPU that is a few variables: more functions than hardware has, and random
// patterns with what must hold in every one of them.
#include <gtest/gtest.h>

#include <queue>
#include <random>
#include <utility>

#include "core/sched/function_heap.h"
#include "fakes/allocation_limit.h"
#include "fakes/fake_runlists.h"

namespace turnstile {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kForever = uint64_t{1} << 60;
constexpr uint64_t kSlice = 2 * kMs;
constexpr uint64_t kLate = 50'000;

TEST(FunctionHeapTest, PopsInOrderOfKeyThenNumber) {
  FunctionHeap heap;
  ASSERT_EQ(heap.Init(1025), base::Status::kOk);
  std::mt19937 random(1);
  std::vector<std::pair<uint64_t, uint32_t>> expected;
  for (uint32_t f = 0; f < 1025; ++f) {
    heap.Push(f, 999);
    const uint64_t key = random() % 100;
    heap.Push(f, key);
    if (f % 7 == 3) {
      heap.Remove(f);
    } else {
      expected.emplace_back(key, f);
    }
  }
  std::sort(expected.begin(), expected.end());
  for (const auto& [key, function] : expected) {
    ASSERT_EQ(heap.min_key(), key);
    ASSERT_EQ(heap.Pop(), function);
  }
  EXPECT_TRUE(heap.empty());
}

TEST(PolicyTest, ThousandWeightedFunctionsGetTheirShares) {
  constexpr uint32_t kCount = 1024;
  fakes::FakeRunlists gpu("weighted", kCount);
  std::mt19937 random(2);
  uint64_t sum = 0;
  for (uint32_t f = 1; f <= kCount; ++f) {
    gpu.tenant_params(f).weight = 1 + random() % 10;
    sum += gpu.tenant_params(f).weight;
    gpu.AddWork(f, kForever);
    gpu.SetList(f, true);
  }
  gpu.AdvanceTo(gpu.now() + 600'000 * kMs);
  const auto total = static_cast<double>(gpu.busy_ns());
  for (uint32_t f = 1; f <= kCount; ++f) {
    const double fair = total * gpu.tenant_params(f).weight / static_cast<double>(sum);
    EXPECT_NEAR(static_cast<double>(gpu.run(f)), fair, 2.0 * kSlice) << f;
  }
}

// Two that always have work; what one ran over what the other did must be 1.
class StandstillTest : public testing::TestWithParam<const char*> {
 protected:
  StandstillTest() {
    for (uint32_t f = 1; f <= 2; ++f) {
      gpu_.AddWork(f, kForever);
      gpu_.SetList(f, true);
    }
  }
  double Ratio() const {
    return static_cast<double>(gpu_.run(1)) / static_cast<double>(gpu_.run(2));
  }

  fakes::FakeRunlists gpu_{GetParam(), 2};
};

// A GPU that is late by its own doing has not been used by whoever is on it.
TEST_P(StandstillTest, IsNobodysUse) {
  const uint64_t begin = gpu_.now();
  // What is owed at the end is bounded, whatever the time.
  while (gpu_.now() < begin + 40'000 * kMs) {
    gpu_.AdvanceTo(gpu_.now() + kMs);
    if (gpu_.current() == 1) gpu_.StandStill(3 * kMs);
  }
  EXPECT_NEAR(Ratio(), 1, 0.005);
}

// As a model on a busy host is: late in one turn, and faster than its clock in the next.
TEST_P(StandstillTest, IsNobodysUseWhenItIsMadeUpForInTheTurnOfAnother) {
  const uint64_t begin = gpu_.now();
  while (gpu_.now() < begin + 40'000 * kMs) {
    gpu_.AdvanceTo(gpu_.now() + kMs);
    if (gpu_.current() != 1) {
      gpu_.CatchUp(gpu_.behind_ns());
    } else if (gpu_.behind_ns() == 0) {
      gpu_.StandStill(6 * kMs);
    }
  }
  EXPECT_NEAR(Ratio(), 1, 0.01);
}

// One leaves twenty milliseconds late, on a GPU that is late itself when that begins.
TEST_P(StandstillTest, DoesNotHideThatThePredecessorStays) {
  gpu_.set_late_ns(1, 20 * kMs);
  const uint64_t begin = gpu_.now();
  uint32_t last = 0;
  // What is owed at the end is bounded, whatever the time.
  while (gpu_.now() < begin + 80'000 * kMs) {
    gpu_.AdvanceTo(gpu_.now() + kMs / 10);
    if (std::exchange(last, gpu_.current()) == 1 && gpu_.current() == 2) gpu_.StandStill(30 * kMs);
  }
  EXPECT_NEAR(Ratio(), 1, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Policies, StandstillTest,
                         testing::Values("equal_share", "fixed_share", "weighted", "latency"));

class RandomPatternTest : public testing::TestWithParam<std::tuple<const char*, uint32_t>> {};

// Some functions always have work, others come and go in bursts, in gaps from microseconds to
// tens of milliseconds.
TEST_P(RandomPatternTest, InvariantsHold) {
  const auto [policy, seed] = GetParam();
  std::mt19937 random(seed);
  const uint32_t count = 2 + random() % 12;
  const uint32_t backlogged = 2 + random() % (count - 1);
  fakes::FakeRunlists gpu(policy, count);
  gpu.set_late_ns(random() % kLate);
  double weights = 0;
  uint32_t smallest = 10000;
  for (uint32_t f = 1; f <= count; ++f) {
    VgpuSchedParams& params = gpu.tenant_params(f);
    params.weight = 1 + random() % 8;
    if (random() % 2 == 0) params.latency_us = 500;
    weights += params.weight;
    smallest = std::min(smallest, params.weight);
  }
  for (uint32_t f = 1; f <= count; ++f) gpu.SetList(f, true);
  for (uint32_t f = 1; f <= backlogged; ++f) gpu.AddWork(f, kForever);
  const uint64_t begin = gpu.now();
  uint64_t arrivals = 0;
  while (gpu.now() < begin + 20'000 * kMs) {
    gpu.AdvanceTo(gpu.now() + 10'000 + random() % (20 * kMs));
    if (count == backlogged) continue;
    ++arrivals;
    gpu.AddWork(backlogged + 1 + random() % (count - backlogged), 1000 + random() % (3 * kMs));
  }
  const uint64_t elapsed = gpu.now() - begin;
  const double slice = static_cast<double>(count > 8 ? kSlice / 2 : kSlice) + kLate;

  // Who always has work gets its weight; a turn more or less for each of the two.
  for (uint32_t i = 1; i <= backlogged; ++i) {
    for (uint32_t j = 1; j < i; ++j) {
      const double wi = gpu.tenant_params(i).weight;
      const double wj = gpu.tenant_params(j).weight;
      EXPECT_NEAR(static_cast<double>(gpu.run(i)) / wi, static_cast<double>(gpu.run(j)) / wj,
                  2 * slice * (1 / wi + 1 / wj))
          << i << " " << j;
    }
  }
  // Nobody starves.
  for (uint32_t f = 1; f <= count; ++f) {
    const double turns = weights / gpu.tenant_params(f).weight + count + 2;
    EXPECT_LE(static_cast<double>(gpu.account_of(f).longest_wait_ns),
              turns * (slice + fakes::FakeRunlists::kSwitchNs))
        << f;
  }
  // The GPU waits for nobody longer than the hold time, once a switch.
  EXPECT_LE(gpu.wasted_ns(), gpu.switches() * 160'000);
  // Every nanosecond is somebody's, a switch, or such a wait.
  uint64_t run = 0;
  for (uint32_t f = 1; f <= count; ++f) run += gpu.run(f);
  EXPECT_EQ(run, gpu.busy_ns());
  EXPECT_LE(run + gpu.wasted_ns(), elapsed);
  EXPECT_GE(run + gpu.wasted_ns() + (gpu.switches() + arrivals) * fakes::FakeRunlists::kSwitchNs,
            elapsed - 1 * kMs);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPatternTest,
                         testing::Combine(testing::Values("weighted", "latency"),
                                          testing::Range(1u, 41u)));

// Half a slice is the most that adaptive round robin takes off; this one always overruns by more.
TEST(PolicyTest, OverrunsLongerThanASlicePayBackInWholeTurns) {
  fakes::FakeRunlists gpu("equal_share", 3);
  gpu.set_late_ns(1, 5 * kMs);
  for (uint32_t f = 1; f <= 3; ++f) {
    gpu.SetList(f, true);
    gpu.AddWork(f, kForever);
  }
  gpu.AdvanceTo(gpu.now() + 1'000 * kMs);
  const uint64_t before[] = {gpu.run(1), gpu.run(2), gpu.run(3)};
  gpu.AdvanceTo(gpu.now() + 30'000 * kMs);
  const auto other = static_cast<double>(gpu.run(2) - before[1]);
  EXPECT_NEAR(static_cast<double>(gpu.run(1) - before[0]) / other, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(gpu.run(3) - before[2]) / other, 1, 0.01);
}

// A policy's memory is all there from the start: turns, wakes, preemptions, new weights and members
// that come and go need no more.
TEST(PolicyTest, DecisionsAllocateNothing) {
  for (const char* policy : {"equal_share", "fixed_share", "weighted", "latency"}) {
    fakes::FakeRunlists gpu(policy, 1024);
    std::mt19937 random(4);
    for (uint32_t f = 1; f <= 1024; ++f) {
      gpu.tenant_params(f).latency_us = f % 2 == 0 ? 500 : 0;
      gpu.tenant_params(f).cap_percent = f % 3 == 0 ? 50 : 100;
    }
    const size_t before = fakes::TotalAllocations();
    for (uint32_t f = 1; f <= 1024; ++f) {
      gpu.SetList(f, true);
      gpu.AddWork(f, f % 5 == 0 ? 100'000 : kForever);
    }
    for (int i = 0; i < 2000; ++i) {
      gpu.AdvanceTo(gpu.now() + random() % (2 * kMs));
      gpu.AddWork(1 + random() % 1024, 100'000);
    }
    gpu.policy().ParamsChanged();
    for (uint32_t f = 1; f <= 1024; f += 2) gpu.SetList(f, false);
    gpu.AdvanceTo(gpu.now() + 100 * kMs);
    EXPECT_EQ(fakes::TotalAllocations(), before) << policy;
    EXPECT_GT(gpu.switches(), 1000u) << policy;
  }
}

TEST(PolicyTest, LostDoorbellsAreNotLost) {
  fakes::FakeRunlists gpu("weighted", 2);
  gpu.SetList(1, true);
  gpu.SetList(2, true);
  gpu.AddWork(1, kForever);
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    gpu.AddWork(2, 1000);
    gpu.AdvanceTo(gpu.now() + random() % 400'000);
  }
  gpu.AdvanceTo(gpu.now() + 20 * kMs);
  EXPECT_EQ(gpu.work(2), 0u);
}

}  // namespace
}  // namespace turnstile
