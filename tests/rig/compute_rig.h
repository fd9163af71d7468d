// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Scheduling experiments with compute: guests that launch grids through libts104, as processes of
// real guests do, or copy, on the model with its clock moved by hand. All figures are exact and the
// same in every run.
//
// Blocks are those of the H200 readings in docs/scheduling.md: 132 of them, which are one wave
// there, take 96 us here (twelve waves of 11), 2112 take 1.5 ms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "libts104/stream.h"
#include "rig/sched_rig.h"
#include "ts104_programs.h"

namespace rig {

// At 16 MHz the start of a CTA takes 6.25 us; the rounds and the way in and out are the rest of 8.
inline constexpr uint32_t kSms = 11;
inline constexpr uint32_t kBlockRounds = 10;
inline RigConfig ComputeConfig() { return {256u << 20, 16, kSms, 125}; }

struct Work {
  enum class Kind : uint8_t {
    kGrid,    // blocks on GR
    kGrCopy,  // a copy by GRCE: same runlist as the grids
    kCopy,    // a copy by CE2: a runlist of its own
  } kind = Kind::kGrid;
  uint32_t blocks = 132;  // of 8 us, kSms at a time
  uint32_t depth = 1;     // launches in flight; 1: launch and wait
  uint64_t think_ns = 0;  // from the end of one (noticed) to the next launch
  uint32_t rounds = kBlockRounds;
  uint32_t copy_bytes = 64u << 10;  // at 2048 bytes per us
};

inline Work Blocks(uint32_t blocks, uint32_t depth = 1) {
  Work work;
  work.blocks = blocks;
  work.depth = depth;
  return work;
}

// Two tenants, and the ratio of the first one's share to the second one's that a policy promises
// them when their weights are 2 and 1.
struct Order {
  const char* policy;
  double ratio;
  VgpuMachine::Type first;
  VgpuMachine::Type second;
};
// Of the policies that have shares.
inline constexpr Order kOrders[] = {
    {"equal_share", 1, VgpuMachine::kV4, VgpuMachine::kV4},
    {"fixed_share", 2, VgpuMachine::kV2, VgpuMachine::kV4},
    {"weighted", 2, VgpuMachine::kV4, VgpuMachine::kV4},
    {"latency", 2, VgpuMachine::kV4, VgpuMachine::kV4},
};

// The light tenant: a kernel of 1 ms every 20 ms.
inline Work LightWork() {
  Work work;
  work.blocks = kSms;
  work.rounds = 7950;  // of two cycles; the rest is the start
  work.think_ns = 20 * kMs;
  return work;
}

// By how many nanoseconds of run time somebody is further than 0.5 % away from its share of what
// all have run: the worst of them. 0: nobody.
inline double BeyondHalfPercent(const std::vector<uint64_t>& run,
                                const std::vector<double>& weights) {
  double all = 0;
  double sum = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    all += static_cast<double>(run[i]);
    sum += weights[i];
  }
  double worst = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    const double ordered = all * weights[i] / sum;
    const double off = std::abs(static_cast<double>(run[i]) - ordered);
    worst = std::max(worst, off - ordered * 0.005);
  }
  return worst;
}

// A vGPU with one process that launches for ever.
class ComputeTenant {
 public:
  ComputeTenant(ModelGpu& gpu, VgpuMachine::Type type, const Work& work)
      : gpu_(gpu),
        work_(work),
        machine_(gpu, type, 2048),
        device_(fakes::OpenOn(machine_)),
        stream_(*device_, work.kind == Work::Kind::kCopy ? libts104::Engine::kCopy
                                                         : libts104::Engine::kCompute),
        program_(libts104::Program::Embedded(*device_, "spin", libts104::Placement::kVram)),
        data_(device_->Alloc(2u << 20, libts104::Placement::kVram)) {}

  // The runlist it works on.
  uint32_t runlist() const { return work_.kind == Work::Kind::kCopy ? 1 : 0; }
  // Notices what is done and launches what is due.
  void Tick() {
    while (!launches_.empty() && stream_.IsDone(launches_.front().event)) {
      latencies_.push_back(gpu_.now_ns - launches_.front().at);
      launches_.pop_front();
      ++done_;
      next_launch_ = gpu_.now_ns + work_.think_ns;
    }
    while (!stopped_ && launches_.size() < work_.depth && gpu_.now_ns >= next_launch_) Launch();
  }
  void Stop() { stopped_ = true; }
  uint64_t done() const { return done_; }
  // Launch to notice, of every launch so far.
  std::vector<uint64_t>& latencies() { return latencies_; }
  uint64_t Percentile(uint32_t percent) {
    if (latencies_.empty()) return 0;
    std::sort(latencies_.begin(), latencies_.end());
    return latencies_[(latencies_.size() - 1) * percent / 100];
  }
  ts_sched_figures Figures() {
    ts_sched_figures figures = {};
    ts_vgpu_sched_figures(machine_.core(), runlist(), &figures);
    return figures;
  }
  uint64_t RunNs() { return Figures().run_ns; }
  int Set(ts_vgpu_sched_param param, uint32_t value) {
    return ts_vgpu_set_sched_param(machine_.core(), param, value);
  }

 private:
  struct Pending {
    libts104::Event event;
    uint64_t at;
  };

  void Launch() {
    if (work_.kind == Work::Kind::kGrid) {
      const ts104_spin_args args = {work_.rounds, 0};
      stream_.Launch(program_, {work_.blocks, 1, 1}, {1, 1, 1}, args);
    } else {
      stream_.Copy(data_.va() + (1u << 20), data_.va(), work_.copy_bytes);
    }
    launches_.push_back({stream_.Submit(false), gpu_.now_ns});
  }

  ModelGpu& gpu_;
  const Work work_;
  VgpuMachine machine_;
  std::unique_ptr<libts104::Device> device_;
  libts104::Stream stream_;
  libts104::Program program_;
  libts104::Buffer data_;
  std::deque<Pending> launches_;
  std::vector<uint64_t> latencies_;
  uint64_t done_ = 0;
  uint64_t next_launch_ = 0;
  bool stopped_ = false;
};

class ComputeRig : public PolicyRig<ComputeTenant, Work, VgpuMachine::kV16> {
 public:
  explicit ComputeRig(const char* policy) : PolicyRig(ComputeConfig(), policy) {}
};

}  // namespace rig
