// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Loads for comparing a vGPU with a bare TS104: bound by the GPU, mixed, bound by submission;
// launches one by one, for comparing schedulers; and channels that fault and are used again.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "ts104_programs.h"
#include "workloads.h"

namespace ts104_run {

namespace {

using libts104::Buffer;
using libts104::Dim3;
using libts104::Event;
using libts104::Placement;
using libts104::Program;
using libts104::Stream;

constexpr uint64_t kGroup = 8;
constexpr size_t kGroupsInFlight = 4;

// Calls `record`, which fills one submission, until the time is up; a bounded number is in flight.
template <typename Record>
uint64_t Repeat(Session& session, Record&& record, double* elapsed) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::deque<Event> events;
  uint64_t count = 0;
  while (seconds() < session.options().seconds) {
    record();
    ++count;
    // One interrupt for a group of submissions.
    if (count % kGroup != 0) {
      session.stream().Submit(false);
      continue;
    }
    events.push_back(session.stream().Submit());
    if (events.size() < kGroupsInFlight) continue;
    session.stream().Wait(events.front(), session.timeout_ns());
    events.pop_front();
  }
  session.stream().Synchronize(session.timeout_ns());
  *elapsed = seconds();
  return count;
}

void GpuBound(Session& session, BenchResult* result) {
  const uint32_t n = std::max(session.options().matrix, 32u);
  const uint64_t bytes = uint64_t{n} * n * 4;
  const Program program = session.Load("sgemm");
  const Buffer a = session.Input(bytes);
  const Buffer b = session.Input(bytes);
  const Buffer c = session.Output(bytes);
  ts104_sgemm_args args = {};
  args.a = a.va();
  args.b = b.va();
  args.c = c.va();
  args.m = args.n = args.k = n;
  args.alpha = 1;
  const uint32_t tiles = (n + TS104_SGEMM_TILE - 1) / TS104_SGEMM_TILE;
  result->operations = Repeat(
      session,
      [&] {
        session.stream().Launch(program, {tiles, tiles, 1},
                                {TS104_SGEMM_TILE, TS104_SGEMM_CTA_ROWS, 1}, args);
      },
      &result->seconds);
  result->gigaflops = 2e-9 * n * n * n * static_cast<double>(result->operations) / result->seconds;
}

// Upload, compute, download; system memory on one side whatever the placement is.
void Mixed(Session& session, BenchResult* result) {
  constexpr uint64_t kCount = 65536;
  constexpr uint64_t kBytes = kCount * 4;
  const Program program = session.Load("saxpy");
  const Buffer host_x = session.device().Alloc(kBytes, Placement::kSysmem);
  const Buffer host_y = session.device().Alloc(kBytes, Placement::kSysmem);
  const Buffer x = session.Output(kBytes);
  const Buffer y = session.Output(kBytes);
  const ts104_saxpy_args args = {x.va(), y.va(), kCount, 0.5f, 0};
  result->operations = Repeat(
      session,
      [&] {
        Stream& stream = session.stream();
        stream.Copy(x.va(), host_x.va(), kBytes);
        stream.Copy(y.va(), host_y.va(), kBytes);
        stream.Launch(program, {64, 1, 1}, {128, 1, 1}, args);
        stream.Copy(host_y.va(), y.va(), kBytes);
      },
      &result->seconds);
  result->megabytes_per_s =
      3e-6 * kBytes * static_cast<double>(result->operations) / result->seconds;
}

void SubmissionBound(Session& session, BenchResult* result) {
  constexpr uint64_t kCount = 64;
  const Program program = session.Load("vecadd");
  const Buffer a = session.Input(kCount * 4);
  const Buffer b = session.Input(kCount * 4);
  const Buffer c = session.Output(kCount * 4);
  const ts104_vecadd_args args = {a.va(), b.va(), c.va(), kCount};
  result->operations = Repeat(
      session, [&] { session.stream().Launch(program, {1, 1, 1}, {32, 1, 1}, args); },
      &result->seconds);
}

// What was measured operation by operation since `start`.
void Conclude(std::chrono::steady_clock::time_point start, BenchResult* result) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  result->seconds = seconds.count();
  result->operations = result->latencies_us.size();
  std::sort(result->latencies_us.begin(), result->latencies_us.end());
}

// Every launch is waited for; `depth` of them are in flight.
void Launches(Session& session, BenchResult* result) {
  using Clock = std::chrono::steady_clock;
  struct Launched {
    Event event;
    Clock::time_point at;
  };
  const Options& options = session.options();
  const Program program = session.Load("spin");
  const ts104_spin_args args = {options.rounds, 0};
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(options.seconds);
  std::deque<Launched> launched;
  const auto finish_one = [&] {
    session.stream().Wait(launched.front().event, session.timeout_ns());
    const std::chrono::duration<double, std::micro> us = Clock::now() - launched.front().at;
    result->latencies_us.push_back(us.count());
    launched.pop_front();
  };
  while (Clock::now() < end) {
    while (launched.size() < options.depth) {
      session.stream().Launch(program, {options.blocks, 1, 1}, {1, 1, 1}, args);
      launched.push_back({session.stream().Submit(), Clock::now()});
    }
    finish_one();
    if (options.think_us != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(options.think_us));
    }
  }
  while (!launched.empty()) finish_one();
  Conclude(start, result);
}

// A wild store, then the stream is made usable again and computes: the time of the latter two.
void Recoveries(Session& session, BenchResult* result) {
  using Clock = std::chrono::steady_clock;
  Stream& stream = session.stream();
  const Program wild = session.Load("wild_store");
  const Program add = session.Load("vecadd");
  Buffer data = session.Output(3 * 128);
  const ts104_wild_store_args bad = {session.options().address, 0x600dbad, 0};
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(session.options().seconds);
  for (uint32_t round = 1; round == 1 || Clock::now() < end; ++round) {
    try {
      stream.Launch(wild, {1, 1, 1}, {32, 1, 1}, bad);
      stream.Synchronize(session.timeout_ns());
      throw libts104::Error("recover: a wild store does not fault");
    } catch (const libts104::FaultError&) {
      // As it should.
    }
    const std::span<uint32_t> words = data.as<uint32_t>();
    words[0] = round;
    words[32] = 1;
    const auto begin = Clock::now();
    stream.Reset();
    const ts104_vecadd_args args = {data.va(), data.va() + 128, data.va() + 256, 1};
    stream.Launch(add, {1, 1, 1}, {32, 1, 1}, args);
    stream.Synchronize(session.timeout_ns());
    const std::chrono::duration<double, std::micro> us = Clock::now() - begin;
    if (words[64] != round + 1) throw libts104::Error("recover: a wrong sum after the fault");
    result->latencies_us.push_back(us.count());
  }
  Conclude(start, result);
}

struct Entry {
  const char* name;
  void (*run)(Session&, BenchResult*);
  bool by_name = false;  // it is not among those that "bench" alone runs
};
constexpr Entry kBenches[] = {{"gpu", GpuBound},
                              {"mixed", Mixed},
                              {"submit", SubmissionBound},
                              {"launch", Launches},
                              {"recover", Recoveries, true}};

}  // namespace

std::vector<std::string> AllBenches() {
  std::vector<std::string> names;
  for (const Entry& entry : kBenches) {
    if (!entry.by_name) names.emplace_back(entry.name);
  }
  return names;
}

bool IsBench(const std::string& name) {
  return std::any_of(std::begin(kBenches), std::end(kBenches),
                     [&](const Entry& entry) { return name == entry.name; });
}

BenchResult RunBench(libts104::Device& device, const Options& options, const std::string& name) {
  BenchResult result;
  result.name = name;
  Session session(device, options);
  for (const Entry& entry : kBenches) {
    if (name == entry.name) entry.run(session, &result);
  }
  result.submissions = session.stream().counters().submissions;
  result.gpu_time_ns = session.stream().counters().gpu_time_ns;
  return result;
}

}  // namespace ts104_run
