// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Scheduling experiments: guests whose only work is copies of a known length on one copy engine, on
// the model with its clock moved by hand. All figures are exact and the same in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {

inline constexpr uint64_t kUs = 1000;
inline constexpr uint64_t kMs = 1000 * kUs;

// At 1 MHz a copy takes 1 us for 128 bytes, and is not preempted in its middle up to 256 KiB.
inline RigConfig SchedConfig() { return {256u << 20, 1, 1, 125}; }

// What a guest does on the copy engine.
struct Load {
  uint64_t copy_ns = 128 * kUs;  // 1 us .. 500 us
  uint32_t depth = 1;            // copies in flight; 1: launch and wait
  uint64_t think_ns = 0;         // from the end of one (noticed) to the next launch
  uint64_t start_ns = 0;         // first launch
};

// A vGPU that works through copies for ever.
class Tenant {
 public:
  static constexpr uint32_t kRunlist = 1;

  Tenant(ModelGpu& gpu, VgpuMachine::Type type, const Load& load)
      : gpu_(gpu), load_(load), machine_(gpu, type, 16), guest_(machine_) {
    guest_.StartChannel(0, kRunlist);
    next_launch_ = gpu.now_ns + load.start_ns;
  }

  void set_load(const Load& load) { load_ = load; }
  // Notices what is done and launches what is due.
  void Tick() {
    if (stopped_) return;
    const uint32_t done = guest_.Vram32(RawGuest::kData);
    for (; done_ != done; ++done_) {
      next_launch_ = gpu_.now_ns + load_.think_ns;
      latencies_.push_back(gpu_.now_ns - launched_at_[(done_ + 1) % kRing]);
    }
    while (launched_ - done_ < load_.depth && gpu_.now_ns >= next_launch_) Launch();
  }
  // Neither notices nor launches from now on.
  void Stop() { stopped_ = true; }
  uint64_t done() const { return done_; }
  // Launch to notice, of every copy so far.
  std::vector<uint64_t>& latencies() { return latencies_; }
  uint64_t Percentile(uint32_t percent) {
    if (latencies_.empty()) return 0;
    std::sort(latencies_.begin(), latencies_.end());
    return latencies_[(latencies_.size() - 1) * percent / 100];
  }
  ts_sched_figures Figures() {
    ts_sched_figures figures = {};
    ts_vgpu_sched_figures(machine_.core(), kRunlist, &figures);
    return figures;
  }
  uint64_t RunNs() { return Figures().run_ns; }
  int Set(ts_vgpu_sched_param param, uint32_t value) {
    return ts_vgpu_set_sched_param(machine_.core(), param, value);
  }
  VgpuMachine& machine() { return machine_; }
  RawGuest& guest() { return guest_; }

 private:
  static constexpr uint32_t kRing = 64;

  void Launch() {
    const uint32_t slot = ++launched_ % kRing;
    launched_at_[slot] = gpu_.now_ns;
    auto words = RawGuest::Copy(RawGuest::kData + 4096, RawGuest::kData + 4096,
                                static_cast<uint32_t>(load_.copy_ns / kUs * 128), RawGuest::kData,
                                launched_);
    words.back() &= ~0x60u;  // no interrupt: the guest looks at the semaphore
    // 64 slots of 64 bytes: a segment is reused long after it has been read.
    const uint64_t segment = RawGuest::kPush + slot * 64;
    for (size_t i = 0; i < words.size(); ++i) guest_.SetVram32(segment + i * 4, words[i]);
    guest_.SetVram64(RawGuest::kRing + put_ * 8, segment | uint64_t{words.size()} << 42);
    put_ = (put_ + 1) % kRing;
    guest_.SetVram32(RawGuest::kUserd + NV_USERD_GP_PUT, put_);
    guest_.Ring(0, kRunlist);
  }

  ModelGpu& gpu_;
  Load load_;
  VgpuMachine machine_;
  RawGuest guest_;
  bool stopped_ = false;
  uint32_t launched_ = 0;
  uint32_t done_ = 0;
  uint32_t put_ = 0;
  uint64_t next_launch_ = 0;
  uint64_t launched_at_[kRing] = {};
  std::vector<uint64_t> latencies_;
};

// Counts what the core does to the registers.
class CountingGpu final : public ModelGpu {
 public:
  using ModelGpu::ModelGpu;
  uint32_t Read32(uint32_t offset) override {
    ++reads;
    return ModelGpu::Read32(offset);
  }
  void Write32(uint32_t offset, uint32_t value) override {
    ++writes;
    ModelGpu::Write32(offset, value);
  }
  uint64_t reads = 0;
  uint64_t writes = 0;
};

// The GPU under a policy, its tenants, who do work of type `Task`, and the time.
template <typename TenantType, typename Task, VgpuMachine::Type kDefaultType>
class PolicyRig {
 public:
  PolicyRig(const RigConfig& config, const char* policy) : gpu_(config) {
    if (ts_gpu_set_policy(gpu_.core, policy) != 0) throw std::runtime_error(policy);
  }

  TenantType& Add(const Task& task, VgpuMachine::Type type = kDefaultType) {
    tenants_.push_back(std::make_unique<TenantType>(gpu_, type, task));
    return *tenants_.back();
  }
  TenantType& AddWeighted(const Task& task, uint32_t weight,
                          VgpuMachine::Type type = kDefaultType) {
    TenantType& tenant = Add(task, type);
    tenant.Set(TS_VGPU_SCHED_WEIGHT, weight);
    return tenant;
  }
  void Remove(size_t index) { tenants_.erase(tenants_.begin() + static_cast<ptrdiff_t>(index)); }
  TenantType& tenant(size_t index) { return *tenants_[index]; }
  size_t size() const { return tenants_.size(); }
  CountingGpu& gpu() { return gpu_; }
  int Set(ts_sched_param param, uint32_t value) {
    return ts_gpu_set_sched_param(gpu_.core, param, value);
  }

  // Guests look every `step`.
  void Run(uint64_t ns, uint64_t step = 10 * kUs) {
    const uint64_t end = gpu_.now_ns + ns;
    while (gpu_.now_ns < end) {
      for (auto& tenant : tenants_) tenant->Tick();
      gpu_.AdvanceTo(std::min(gpu_.now_ns + step, end));
    }
  }
  // Run time of everybody during the next `ns`.
  std::vector<uint64_t> Measure(uint64_t ns) {
    std::vector<uint64_t> before;
    for (auto& tenant : tenants_) before.push_back(tenant->RunNs());
    Run(ns);
    for (size_t i = 0; i < before.size(); ++i) before[i] = tenants_[i]->RunNs() - before[i];
    return before;
  }
  // Pieces of work of all that have ended so far.
  uint64_t Done() const {
    uint64_t done = 0;
    for (const auto& tenant : tenants_) done += tenant->done();
    return done;
  }
  struct SwitchCount {
    uint64_t accesses;  // to the GPU's registers, whatever they are for
    uint64_t switches;  // away from who has work left
  };
  // Of the next `ns`.
  SwitchCount CountSwitches(uint64_t ns) {
    const auto preemptions = [this] {
      uint64_t all = 0;
      for (auto& tenant : tenants_) all += tenant->Figures().preemptions;
      return all;
    };
    const uint64_t before = preemptions();
    gpu_.reads = gpu_.writes = 0;
    Run(ns);
    const uint64_t accesses = gpu_.reads + gpu_.writes;
    return {accesses, preemptions() - before};
  }

 private:
  CountingGpu gpu_;
  std::vector<std::unique_ptr<TenantType>> tenants_;
};

class SchedRig : public PolicyRig<Tenant, Load, VgpuMachine::kV8> {
 public:
  explicit SchedRig(const char* policy = "best_effort") : PolicyRig(SchedConfig(), policy) {}
};

}  // namespace rig
