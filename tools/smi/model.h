// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What turnstile-smi knows of a host: plain values, as read. Everything that is printed comes from
// here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace turnstile_smi {

// The three runlists, by the prefix of their attributes (docs/sysfs-abi.md).
inline constexpr std::array<const char*, 3> kEngines = {"gr", "ce2", "ce3"};
inline constexpr size_t kGr = 0;

// What the scheduler accounted for a vGPU on one runlist since it was made.
struct Account {
  uint64_t run_ns = 0;
  uint64_t wait_ns = 0;
  uint64_t longest_wait_ns = 0;
  uint64_t slices = 0;
  uint64_t preemptions = 0;
  uint64_t overshoot_ns = 0;
};

// The process that has a vGPU open.
struct User {
  int pid = 0;
  std::string command;  // name of its program
  std::string vm_name;  // QEMU's -name; "": it has none, or is no QEMU
  std::string vm_uuid;  // QEMU's -uuid
};

enum class State {
  kUnused,   // nobody has it open
  kOpen,     // a process has it open, its guest has no channel
  kActive,   // and its guest has channels
  kInUse,    // open; whether there are channels could not be read
  kUnknown,  // the processes of others could not be looked at
};
const char* ToString(State state);

// What happened between two readings.
struct Usage {
  double seconds = 0;
  std::array<double, kEngines.size()> engines{};  // part of the time that it ran, 0 to 1
  std::optional<double>
      share;  // of the GR time that all vGPUs of the GPU had; none had any: nullopt
};

struct Vgpu {
  std::string uuid;
  std::string type;  // as "turnstile-ts104_v4"
  std::string iommu_group;
  std::string vfio_device;  // as "vfio0", "" without VFIO's own device nodes
  uint64_t vram_bytes = 0;  // of its type
  uint64_t function = 0;
  uint64_t weight = 0;
  uint64_t cap_percent = 0;
  uint64_t latency_us = 0;
  uint64_t csr_exits_total = 0;
  uint64_t submissions = 0;
  uint64_t interrupts_injected = 0;
  uint64_t faults_forwarded = 0;
  uint64_t gpu_time_ns = 0;
  uint64_t pages_pinned = 0;
  uint64_t memory_bytes = 0;
  std::array<Account, kEngines.size()> accounts;
  // debugfs, in its order; empty when it could not be read.
  std::vector<std::pair<std::string, uint64_t>> counters;
  State state = State::kUnknown;
  std::optional<User> user;
  // Of the GPU under the policy in force, 0 to 1; nullopt: the policy orders none, or it takes no
  // part.
  std::optional<double> share_ordered;
  // Of the GR time that all vGPUs of the GPU had since they were made.
  std::optional<double> share_measured;
  std::optional<Usage> usage;
};

struct VgpuType {
  std::string id;
  std::string name;
  uint64_t vram_bytes = 0;
  uint64_t max_instances = 0;
  uint64_t channels = 0;
  uint64_t available = 0;  // how many more can be made now
};

struct Gpu {
  std::string address;  // as "0000:00:10.0"
  std::string pci_id;   // as "1234:7510"
  bool lost = false;    // gone or reset: the driver must be bound anew
  uint64_t vram_bytes = 0;
  std::string policy;
  // Numbers of the scheduler, as docs/sysfs-abi.md lists them.
  std::vector<std::pair<std::string, uint64_t>> numbers;
  std::vector<VgpuType> types;
  // Of all its vGPUs, also when only some are shown.
  uint64_t vgpu_count = 0;
  uint64_t vram_given_bytes = 0;
  // Part of the time between two readings that each engine ran for them; nullopt without two.
  std::optional<std::array<double, kEngines.size()>> utilisation;
  std::vector<Vgpu> vgpus;  // by their function number
};

struct Host {
  bool driver_loaded = false;
  uint64_t time_ns = 0;  // when it was read, by a clock that does not jump
  std::vector<Gpu> gpus;
  std::vector<std::string> notes;  // what could not be read and why, a sentence each
};

}  // namespace turnstile_smi
