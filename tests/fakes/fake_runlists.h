// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A GPU with one busy runlist and any number of functions, under a policy: what the model does, as
// far as a policy can see it, without registers, channels and programs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/sched/policy.h"

namespace fakes {

class FakeRunlists final : public turnstile::RunlistHost {
 public:
  static constexpr uint64_t kSwitchNs = 125'000;

  // Functions 1 .. count, none has a list yet.
  FakeRunlists(const std::string& policy, uint32_t count) : states_(count + 1) {
    policy_ = std::move(*turnstile::MakePolicy(policy.c_str(), *this)).release();
    policy_->Start();
  }
  ~FakeRunlists() override { delete policy_; }

  turnstile::Policy& policy() { return *policy_; }
  turnstile::SchedParams& gpu_params() { return params_; }
  turnstile::VgpuSchedParams& tenant_params(uint32_t f) { return states_[f].params; }
  // How long a context stays after its turn: everybody's, or one function's besides.
  void set_late_ns(uint64_t ns) { late_ns_ = ns; }
  void set_late_ns(uint32_t f, uint64_t ns) { states_[f].late = ns; }
  uint64_t now() const { return now_; }
  uint32_t current() const { return current_; }
  uint64_t run(uint32_t f) const { return states_[f].run; }
  uint64_t work(uint32_t f) const { return states_[f].work; }
  const turnstile::SchedAccount& account_of(uint32_t f) const { return states_[f].account; }
  uint64_t switches() const { return switches_; }
  // Time in which nothing ran or was switched although somebody had work.
  uint64_t wasted_ns() const { return wasted_; }
  uint64_t busy_ns() const { return busy_; }

  void SetList(uint32_t f, bool list) {
    states_[f].list = list;
    policy_->ListChanged(base::RunlistId(0), base::FunctionId(f));
  }
  // A doorbell with so much work behind it.
  void AddWork(uint32_t f, uint64_t ns) {
    Sync(now_);
    Function& state = states_[f];
    if (state.work == 0 && f == current_) start_at_ = std::max(start_at_, now_ + LoadCost(f));
    state.work += ns;
    idle_told_ = idle_told_ && f != current_;
    if (!std::exchange(state.armed, false)) return;
    policy_->Doorbell(base::FunctionId(f));
  }
  // The GPU's clock stands still while the host's goes on.
  void StandStill(uint64_t ns) {
    Sync(now_);
    for (const uint64_t end = now_ + ns; now_ < end; FireTimer()) {
      const uint64_t step = std::min(end, std::max(timer_, now_ + 1)) - now_;
      if (start_at_ > now_) start_at_ += step;
      if (leave_end_ > now_) leave_end_ += step;
      now_ += step;
      stood_ns_ += step;
    }
  }
  // It makes up for that: so much of its time passes in none of the host's.
  void CatchUp(uint64_t ns) {
    const uint64_t host = now_;
    Sync(host + ns);
    now_ = host;
    start_at_ -= std::min(start_at_, ns);
    leave_end_ -= std::min(leave_end_, ns);
    stood_ns_ -= ns;
  }
  uint64_t behind_ns() const { return stood_ns_; }
  void AdvanceTo(uint64_t time) {
    while (now_ < time) {
      uint64_t next = std::min(time, std::max(timer_, now_ + 1));
      if (current_ != 0 && states_[current_].work != 0) {
        next =
            std::min(next, std::max(now_ + 1, std::max(start_at_, now_) + states_[current_].work));
      }
      if (leave_end_ > now_) next = std::min(next, leave_end_);
      Sync(next);
      if (watched_ && !idle_told_ && State(base::RunlistId(0)) == turnstile::RunlistState::kIdle) {
        idle_told_ = true;
        policy_->Idle(base::RunlistId(0));
      }
      FireTimer();
    }
  }

  // RunlistHost
  std::span<const uint8_t> Runnable(base::RunlistId) override { return {}; }
  void Submit(base::RunlistId, std::span<const uint8_t>, base::FunctionId) override {}
  void CompleteSubmit(base::RunlistId, base::FunctionId) override {}
  void ArmTimer(base::Nanoseconds delay) override {
    timer_ = delay.value() == 0 ? kNever : now_ + delay.value();
  }
  base::Nanoseconds Now() override { return base::Nanoseconds(now_); }
  uint32_t functions() const override { return static_cast<uint32_t>(states_.size()); }
  bool HasList(base::RunlistId r, base::FunctionId f) override {
    return r.value() == 0 && states_[f.value()].list;
  }
  bool HasWork(base::RunlistId r, base::FunctionId f) override {
    Sync(now_);
    return HasList(r, f) && states_[f.value()].work != 0;
  }
  void Switch(base::RunlistId r, base::FunctionId f) override {
    if (r.value() != 0) return;
    Sync(now_);
    ++switches_;
    leave_end_ = now_;
    if (current_ != 0 && states_[current_].work != 0 && start_at_ <= now_) {
      leaving_ = current_;
      leave_end_ = now_ + std::min(late_ns_ + states_[current_].late, states_[current_].work);
    }
    current_ = f.value();
    start_at_ = leave_end_ + (states_[current_].work != 0 ? kSwitchNs : 0);
    if (states_[current_].work != 0) loaded_ = current_;
    idle_told_ = false;
  }
  void Refresh(base::RunlistId, base::FunctionId) override {}
  base::Nanoseconds RunTime(base::RunlistId r, base::FunctionId f) override {
    Sync(now_);
    return base::Nanoseconds(r.value() == 0 ? states_[f.value()].run : 0);
  }
  uint32_t Clock(base::RunlistId) override { return static_cast<uint32_t>(now_ - stood_ns_); }
  turnstile::RunlistState State(base::RunlistId) override {
    Sync(now_);
    const bool busy = now_ < leave_end_ || (current_ != 0 && states_[current_].work != 0);
    return busy ? turnstile::RunlistState::kBusy : turnstile::RunlistState::kIdle;
  }
  void WatchIdle(base::RunlistId r, bool on) override {
    if (r.value() == 0) watched_ = on;
  }
  void ArmDoorbell(base::RunlistId, base::FunctionId f) override {
    states_[f.value()].armed = true;
  }
  base::Nanoseconds switch_cost() const override { return base::Nanoseconds(kSwitchNs); }
  const turnstile::SchedParams& params() const override { return params_; }
  const turnstile::VgpuSchedParams& vgpu_params(base::FunctionId f) const override {
    return states_[f.value()].params;
  }
  // As if all were of the largest type of which there can be so many.
  uint32_t units(base::FunctionId) const override { return states_.size() - 1 > 8 ? 1 : 2; }
  turnstile::SchedAccount* account(base::RunlistId, base::FunctionId f) override {
    return &states_[f.value()].account;
  }
  void SliceEnded(base::RunlistId, const ts_slice&) override {}
  void Preempted(base::RunlistId, base::FunctionId, base::FunctionId) override {}

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  struct Function {
    bool list = false;
    bool armed = false;
    uint64_t work = 0;
    uint64_t run = 0;
    uint64_t late = 0;
    turnstile::VgpuSchedParams params;
    turnstile::SchedAccount account;
  };

  void FireTimer() {
    if (timer_ > now_) return;
    timer_ = kNever;
    policy_->Timer();
  }
  uint64_t LoadCost(uint32_t f) { return std::exchange(loaded_, f) == f ? 0 : kSwitchNs; }
  void Run(uint32_t f, uint64_t ns) {
    const uint64_t done = std::min(ns, states_[f].work);
    states_[f].work -= done;
    states_[f].run += done;
    busy_ += done;
  }
  void Sync(uint64_t to) {
    const uint64_t from = std::exchange(now_, to);
    if (to == from) return;
    if (from < leave_end_) Run(leaving_, std::min(to, leave_end_) - from);
    const uint64_t start = std::max({from, leave_end_, start_at_});
    if (to <= start) return;
    const uint64_t before = busy_;
    if (current_ != 0) Run(current_, to - start);
    const bool others = std::any_of(states_.begin(), states_.end(),
                                    [](const Function& s) { return s.list && s.work != 0; });
    if (others) wasted_ += to - start - (busy_ - before);
  }

  turnstile::Policy* policy_ = nullptr;
  turnstile::SchedParams params_;
  std::vector<Function> states_;
  uint64_t now_ = 1'000'000'000;
  uint64_t timer_ = kNever;
  uint64_t late_ns_ = 0;
  uint64_t stood_ns_ = 0;
  uint32_t current_ = 0;
  uint32_t leaving_ = 0;
  uint32_t loaded_ = 0;
  uint64_t leave_end_ = 0;
  uint64_t start_at_ = 0;
  bool watched_ = false;
  bool idle_told_ = false;
  uint64_t switches_ = 0;
  uint64_t wasted_ = 0;
  uint64_t busy_ = 0;
};

}  // namespace fakes
