// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// How many RISC-V instructions per second the SMs retire on one host core. The counter
// `items_per_second` is that number; the goal on sgemm is 150 million.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>

#include "embedded_programs.h"
#include "fakes/flat_sm_memory.h"
#include "sm/grid_executor.h"
#include "ts104_programs.h"

namespace {

constexpr uint64_t kProgram = 0x1'0000;
constexpr uint64_t kArguments = 0x10'0000;
constexpr uint64_t kData = 0x1000'0000;
constexpr uint64_t kLocal = 0x7000'0000;
constexpr uint32_t kSms = 8;

class Machine {
 public:
  explicit Machine(const char* program) {
    program_ = fakes::LoadProgram(memory_, kProgram, ts104::FindEmbeddedProgram(program));
    memory_.Map(kArguments, sm::kPageSize);
    memory_.Map(kLocal, uint64_t{kSms} * sm::kMaxCtaThreads * program_.local_bytes);
  }

  template <typename Arguments>
  void SetArguments(const Arguments& arguments) {
    memory_.Put(kArguments, arguments);
  }

  // Runs one grid to its end and returns the instructions retired.
  uint64_t Run(sm::Dim3 grid, sm::Dim3 cta) {
    sm::Launch launch;
    launch.program_address = program_.entry;
    launch.constant_buffer_address = kArguments;
    launch.constant_buffer_bytes = program_.argument_bytes;
    launch.shared_bytes = program_.shared_bytes;
    launch.local_bytes = program_.local_bytes;
    launch.local_memory = kLocal;
    launch.barrier_count = program_.barriers;
    launch.grid = grid;
    launch.cta = cta;
    auto executor = sm::GridExecutor::Create(launch, kSms, interpreter_, memory_);
    uint64_t instructions = 0;
    while (executor->state() == sm::GridState::kRunning) {
      instructions += executor->RunQuantum(1'000'000).instructions;
    }
    return executor->state() == sm::GridState::kFinished ? instructions : 0;
  }

  fakes::FlatSmMemory& memory() { return memory_; }

 private:
  fakes::FlatSmMemory memory_;
  sm::Interpreter interpreter_;
  fakes::LoadedProgram program_;
};

void Report(benchmark::State& state, uint64_t instructions) {
  if (instructions == 0) state.SkipWithError("the grid did not finish");
  state.SetItemsProcessed(static_cast<int64_t>(instructions));
}

void BM_Sgemm(benchmark::State& state) {
  const auto size = static_cast<uint32_t>(state.range(0));
  const uint64_t bytes = uint64_t{size} * size * sizeof(float);
  Machine machine("sgemm");
  machine.memory().Map(kData, 3 * bytes);
  for (uint64_t i = 0; i < uint64_t{2} * size * size; ++i) {
    machine.memory().Put(kData + 4 * i, static_cast<float>(i % 17) * 0.25f);
  }
  machine.SetArguments(
      ts104_sgemm_args{kData, kData + bytes, kData + 2 * bytes, size, size, size, 1.0f, 0.0f, 0});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({size / 32, size / 32, 1}, {32, 8, 1});
  Report(state, instructions);
}
BENCHMARK(BM_Sgemm)->Arg(128)->Arg(256)->Unit(benchmark::kMillisecond);

void BM_Vecadd(benchmark::State& state) {
  constexpr uint64_t kCount = 1 << 20;
  Machine machine("vecadd");
  machine.memory().Map(kData, 12 * kCount);
  machine.SetArguments(ts104_vecadd_args{kData, kData + 4 * kCount, kData + 8 * kCount, kCount});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({64, 1, 1}, {256, 1, 1});
  Report(state, instructions);
}
BENCHMARK(BM_Vecadd)->Unit(benchmark::kMillisecond);

// Data in system memory, which the SMs reach by calls.
void BM_VecaddSlowMemory(benchmark::State& state) {
  constexpr uint64_t kCount = 1 << 18;
  Machine machine("vecadd");
  machine.memory().Map(kData, 12 * kCount, {.pointer = false});
  machine.SetArguments(ts104_vecadd_args{kData, kData + 4 * kCount, kData + 8 * kCount, kCount});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({64, 1, 1}, {256, 1, 1});
  Report(state, instructions);
}
BENCHMARK(BM_VecaddSlowMemory)->Unit(benchmark::kMillisecond);

void BM_Histogram(benchmark::State& state) {
  constexpr uint64_t kCount = 1 << 20;
  Machine machine("histogram");
  machine.memory().Map(kData, kCount + 1024);
  machine.SetArguments(ts104_histogram_args{kData, kData + kCount, kCount});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({64, 1, 1}, {256, 1, 1});
  Report(state, instructions);
}
BENCHMARK(BM_Histogram)->Unit(benchmark::kMillisecond);

void BM_Sha256Leaves(benchmark::State& state) {
  constexpr uint64_t kCount = 1 << 20;
  Machine machine("sha256_tree");
  machine.memory().Map(kData, kCount + 32 * 1024);
  machine.SetArguments(
      ts104_sha256_tree_args{kData, kData + kCount, kCount, 1024, TS104_SHA256_MODE_LEAVES});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({8, 1, 1}, {128, 1, 1});
  Report(state, instructions);
}
BENCHMARK(BM_Sha256Leaves)->Unit(benchmark::kMillisecond);

// A launch as small as they get: what the machinery costs.
void BM_TinyLaunch(benchmark::State& state) {
  Machine machine("vecadd");
  machine.memory().Map(kData, 3 * sm::kPageSize);
  machine.SetArguments(
      ts104_vecadd_args{kData, kData + sm::kPageSize, kData + 2 * sm::kPageSize, 32});
  uint64_t instructions = 0;
  for (auto _ : state) instructions += machine.Run({1, 1, 1}, {32, 1, 1});
  Report(state, instructions);
}
BENCHMARK(BM_TinyLaunch)->Unit(benchmark::kMicrosecond);

}  // namespace
