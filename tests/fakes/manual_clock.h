// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The clock of tests: time moves only when the test says so, and timers fire in exact order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"

namespace fakes {

// Starts at 0. Single-threaded. A timer's function runs inside Advance, with Now() at its due time;
// it may arm and cancel timers, and one that is due within the same Advance fires in it.
class ManualClock {
 public:
  using TimerId = uint64_t;

  base::Nanoseconds Now() const { return now_; }

  // Fires `expired` once at `due`. A time that is past counts as now, and fires at the next
  // Advance, even Advance(0). Timers of one time fire in the order they were armed.
  TimerId Arm(base::Nanoseconds due, std::function<void()> expired) {
    const TimerId id = next_id_++;
    timers_.emplace(Key{due < now_ ? now_ : due, id}, std::move(expired));
    return id;
  }

  // Whether the timer was still armed.
  bool Cancel(TimerId id) {
    for (auto timer = timers_.begin(); timer != timers_.end(); ++timer) {
      if (timer->first.second == id) {
        timers_.erase(timer);
        return true;
      }
    }
    return false;
  }

  void Advance(base::Nanoseconds by) { AdvanceTo(now_ + by); }

  // Moves to `time`, which must not be past, and fires everything due until then.
  void AdvanceTo(base::Nanoseconds time) {
    while (!timers_.empty() && timers_.begin()->first.first <= time) {
      auto timer = timers_.extract(timers_.begin());
      now_ = timer.key().first;
      timer.mapped()();
    }
    now_ = time;
  }

  // When the next timer is due, if there is one: lets a test jump from event to event.
  std::optional<base::Nanoseconds> NextDue() const {
    if (timers_.empty()) return std::nullopt;
    return timers_.begin()->first.first;
  }

 private:
  using Key = std::pair<base::Nanoseconds, TimerId>;

  base::Nanoseconds now_;
  TimerId next_id_ = 1;
  std::map<Key, std::function<void()>> timers_;
};

}  // namespace fakes
