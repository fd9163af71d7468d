// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Time of one decision: the slice of one function has ended, the next is chosen, its turn begun,
// the timer set. All functions have work. The hardware costs nothing here.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/sched/policy.h"

namespace {

class NoHardware final : public turnstile::RunlistHost {
 public:
  explicit NoHardware(uint32_t count) : run_(count + 1), params_(count + 1), accounts_(count + 1) {
    for (turnstile::SliceLog& log : logs_) (void)log.Init();
    for (uint32_t f = 1; f <= count; ++f) params_[f].weight = 1 + f % 7;
  }

  std::span<const uint8_t> Runnable(base::RunlistId) override { return {}; }
  void Submit(base::RunlistId, std::span<const uint8_t>, base::FunctionId) override {}
  void CompleteSubmit(base::RunlistId, base::FunctionId) override {}
  void ArmTimer(base::Nanoseconds delay) override { delay_ = delay.value(); }
  base::Nanoseconds Now() override { return base::Nanoseconds(now_); }
  uint32_t functions() const override { return static_cast<uint32_t>(run_.size()); }
  bool HasList(base::RunlistId r, base::FunctionId f) override {
    return r.value() == 0 && f.value() != 0;
  }
  bool HasWork(base::RunlistId r, base::FunctionId f) override { return HasList(r, f); }
  void Switch(base::RunlistId, base::FunctionId f) override { current_ = f.value(); }
  void Refresh(base::RunlistId, base::FunctionId) override {}
  base::Nanoseconds RunTime(base::RunlistId, base::FunctionId f) override {
    return base::Nanoseconds(run_[f.value()]);
  }
  uint32_t Clock(base::RunlistId) override { return static_cast<uint32_t>(now_); }
  turnstile::RunlistState State(base::RunlistId) override { return turnstile::RunlistState::kBusy; }
  void WatchIdle(base::RunlistId, bool) override {}
  void ArmDoorbell(base::RunlistId, base::FunctionId) override {}
  base::Nanoseconds switch_cost() const override { return base::Nanoseconds(125'000); }
  const turnstile::SchedParams& params() const override { return gpu_params_; }
  const turnstile::VgpuSchedParams& vgpu_params(base::FunctionId f) const override {
    return params_[f.value()];
  }
  uint32_t units(base::FunctionId) const override { return 1; }
  turnstile::SchedAccount* account(base::RunlistId, base::FunctionId f) override {
    return &accounts_[f.value()];
  }
  void SliceEnded(base::RunlistId r, const ts_slice& slice) override {
    logs_[r.value()].Add(slice);
  }
  void Preempted(base::RunlistId, base::FunctionId, base::FunctionId) override {}

  // To the end of the slice; whoever has the turn has run all but the context switch.
  void NextSliceEnd() {
    now_ += delay_;
    if (delay_ > 125'000) run_[current_] += delay_ - 125'000;
  }

 private:
  std::vector<uint64_t> run_;
  std::vector<turnstile::VgpuSchedParams> params_;
  std::vector<turnstile::SchedAccount> accounts_;
  turnstile::SchedParams gpu_params_;
  turnstile::SliceLog logs_[3];
  uint64_t now_ = 1'000'000'000;
  uint64_t delay_ = 0;
  uint32_t current_ = 0;
};

constexpr int kCounted = 20000;

void Decision(benchmark::State& state, const char* name) {
  NoHardware host(static_cast<uint32_t>(state.range(0)));
  auto policy = std::move(*turnstile::MakePolicy(name, host));
  policy->Start();
  for (auto _ : state) {
    host.NextSliceEnd();
    policy->Timer();
  }
  state.SetComplexityN(state.range(0));
}

// Other work of the machine shows in the time, through its caches. So the same decisions once more,
// a known number of them, for counting instructions: "Collected", divided by 20000, of
// valgrind --tool=callgrind --toggle-collect='turnstile::TimeShare::Timer()' sched_bench
// with --benchmark_filter=Counted/weighted/8/
int Register() {
  for (const char* name : {"equal_share", "fixed_share", "weighted", "latency"}) {
    benchmark::RegisterBenchmark((std::string("Decision/") + name).c_str(), Decision, name)
        ->RangeMultiplier(2)
        ->Range(8, 1024)
        ->Complexity();
    benchmark::RegisterBenchmark((std::string("Counted/") + name).c_str(), Decision, name)
        ->Arg(8)
        ->Arg(1024)
        ->Iterations(kCounted);
  }
  return 0;
}
[[maybe_unused]] const int registered = Register();

}  // namespace
