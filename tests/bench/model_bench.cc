// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What the host pays for the model: copies, small submissions, register accesses.
#include <benchmark/benchmark.h>

#include "fakes/model_fixture.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;

constexpr uint64_t kSrcVa = 0x1000'0000;
constexpr uint64_t kDstVa = 0x2000'0000;
constexpr uint64_t kSemVa = 0x40'0000;
constexpr uint64_t kCopyBytes = 16 * fakes::kMib;

// Bytes per second of a copy engine: VRAM to VRAM with 2 MiB pages and with 4 KiB pages, and from
// system memory.
void BM_Copy(benchmark::State& state) {
  const bool large_pages = state.range(0) == 0;
  const bool system = state.range(0) == 2;
  ModelFixture gpu({.system_bytes = 32 * fakes::kMib});
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 5);
  const uint64_t src = gpu.AllocateVram(kCopyBytes, 2 * fakes::kMib);
  const uint64_t dst = gpu.AllocateVram(kCopyBytes, 2 * fakes::kMib);
  if (system) {
    tables.MapRange(kSrcVa, gpu.AllocateSystem(kCopyBytes), kCopyBytes,
                    fakes::kPteSys | fakes::kPteGeneric);
  }
  for (uint64_t at = 0; at < kCopyBytes; at += 2 * fakes::kMib) {
    if (large_pages) {
      tables.Map2M(kSrcVa + at, src + at);
      tables.Map2M(kDstVa + at, dst + at);
    } else {
      if (!system) tables.MapRange(kSrcVa + at, src + at, 2 * fakes::kMib);
      tables.MapRange(kDstVa + at, dst + at, 2 * fakes::kMib);
    }
  }
  fakes::Submit(gpu, 1, {{.tsgid = 1, .chids = {5}}});
  for (auto _ : state) {
    channel.PushAndRing({Inc(4, NVC5B5_OFFSET_IN_UPPER, 4), 0, kSrcVa, 0, kDstVa,
                         Inc(4, NVC5B5_LINE_LENGTH_IN, 1), kCopyBytes, Inc(4, NVC5B5_LAUNCH_DMA, 1),
                         0x182});
    gpu.Settle(1'000'000'000);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kCopyBytes));
}
BENCHMARK(BM_Copy)->ArgName("2M_4K_system")->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

// One doorbell with one semaphore release, to its end; N TSGs in the list, one of them at work.
void BM_Submission(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  ModelFixture gpu;
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 0);
  tables.Map4K(kSemVa, gpu.AllocateVram(4096));
  std::vector<fakes::TestTsg> list;
  for (uint32_t i = 0; i < count; ++i) list.push_back({.tsgid = i, .chids = {i}});
  fakes::Submit(gpu, 1, list);
  for (auto _ : state) {
    channel.PushAndRing(fakes::HostRelease(kSemVa, 1));
    gpu.Settle();
  }
}
BENCHMARK(BM_Submission)->Arg(1)->Arg(64)->Arg(1024);

// Instructions per second of a grid that runs in the model: what quanta, scheduling and publishing
// cost on top of the interpreter. The lab's engine: 25 MHz, 4 SMs.
void BM_Grid(benchmark::State& state) {
  ModelFixture gpu({.engine_mhz = 25, .sms = 4});
  PageTables tables(gpu);
  TestChannel channel(gpu, tables, 5, {.gr_context = true});
  const uint64_t code = gpu.AllocateVram(4096);
  const uint64_t qmd = gpu.AllocateVram(4096);
  tables.Map4K(kSrcVa, code);
  tables.Map4K(kDstVa, qmd);
  // addi t0, t0, 1; addi t1, t1, 2; addi t2, t2, 3; j -12
  const uint32_t program[] = {0x00128293, 0x00230313, 0x00338393, 0xff5ff06f};
  std::memcpy(gpu.vram() + code, program, sizeof(program));
  const std::pair<uint32_t, uint32_t> words[] = {
      {48, 4}, {52, 1}, {56, 1}, {72, 1 << 16 | 0x23}, {76, 1 << 16 | 1}, {192, kSrcVa}};
  for (const auto& [at, value] : words) gpu.SetVram(qmd + at, value);
  fakes::Submit(gpu, 0, {{.tsgid = 1, .chids = {5}}});
  channel.PushAndRing(
      {Inc(1, NVC5C0_SEND_PCAS_A, 1), kDstVa >> 8, Inc(1, NVC5C0_SEND_SIGNALING_PCAS_B, 1), 3});
  const uint32_t before = gpu.Read(NV_TS104_INSTRUCTIONS_LO);
  for (auto _ : state) gpu.Advance(10'000'000);
  state.counters["instructions"] =
      benchmark::Counter(gpu.Read(NV_TS104_INSTRUCTIONS_LO) - before, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Grid)->Unit(benchmark::kMillisecond);

void BM_RegisterRead(benchmark::State& state) {
  ModelFixture gpu;
  for (auto _ : state) benchmark::DoNotOptimize(gpu.Read(NV_PFIFO_INTR_0));
}
BENCHMARK(BM_RegisterRead);

}  // namespace
