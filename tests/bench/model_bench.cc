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

void BM_RegisterRead(benchmark::State& state) {
  ModelFixture gpu;
  for (auto _ : state) benchmark::DoNotOptimize(gpu.Read(NV_PFIFO_INTR_0));
}
BENCHMARK(BM_RegisterRead);

}  // namespace
