// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "fakes/manual_clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace fakes {
namespace {

using base::Nanoseconds;

TEST(ManualClockTest, StandsStillUntilMoved) {
  ManualClock clock;
  EXPECT_EQ(clock.Now(), Nanoseconds(0));
  clock.Advance(Nanoseconds(5));
  EXPECT_EQ(clock.Now(), Nanoseconds(5));
}

TEST(ManualClockTest, FiresInOrderOfTimeThenOfArming) {
  ManualClock clock;
  std::vector<int> fired;
  clock.Arm(Nanoseconds(20), [&] { fired.push_back(3); });
  clock.Arm(Nanoseconds(10), [&] { fired.push_back(1); });
  clock.Arm(Nanoseconds(10), [&] { fired.push_back(2); });
  clock.Advance(Nanoseconds(100));
  EXPECT_EQ(fired, (std::vector<int>{1, 2, 3}));
}

TEST(ManualClockTest, TimerSeesItsDueTime) {
  ManualClock clock;
  Nanoseconds seen;
  clock.Arm(Nanoseconds(10), [&] { seen = clock.Now(); });
  clock.Advance(Nanoseconds(100));
  EXPECT_EQ(seen, Nanoseconds(10));
  EXPECT_EQ(clock.Now(), Nanoseconds(100));
}

TEST(ManualClockTest, DoesNotFireEarlyOrTwice) {
  ManualClock clock;
  int fired = 0;
  clock.Arm(Nanoseconds(10), [&] { ++fired; });
  clock.Advance(Nanoseconds(9));
  EXPECT_EQ(fired, 0);
  clock.Advance(Nanoseconds(1));
  EXPECT_EQ(fired, 1);
  clock.Advance(Nanoseconds(10));
  EXPECT_EQ(fired, 1);
}

TEST(ManualClockTest, PeriodicTimerRearmsItself) {
  ManualClock clock;
  int fired = 0;
  std::function<void()> tick = [&] {
    ++fired;
    clock.Arm(clock.Now() + Nanoseconds(10), tick);
  };
  clock.Arm(Nanoseconds(10), tick);
  clock.Advance(Nanoseconds(35));
  EXPECT_EQ(fired, 3);
  EXPECT_EQ(clock.NextDue(), Nanoseconds(40));
}

TEST(ManualClockTest, CancelledTimerDoesNotFire) {
  ManualClock clock;
  int fired = 0;
  const ManualClock::TimerId id = clock.Arm(Nanoseconds(10), [&] { ++fired; });
  EXPECT_TRUE(clock.Cancel(id));
  EXPECT_FALSE(clock.Cancel(id));
  clock.Advance(Nanoseconds(20));
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(clock.NextDue(), std::nullopt);
}

TEST(ManualClockTest, PastTimeFiresAtTheNextAdvance) {
  ManualClock clock;
  clock.Advance(Nanoseconds(50));
  int fired = 0;
  clock.Arm(Nanoseconds(10), [&] { ++fired; });
  clock.Advance(Nanoseconds(0));
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(clock.Now(), Nanoseconds(50));
}

}  // namespace
}  // namespace fakes
