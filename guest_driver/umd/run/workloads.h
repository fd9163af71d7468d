// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The programs that ts104-run knows: data, launches, and the check against the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libts104/device.h"
#include "libts104/stream.h"

namespace ts104_run {

enum class PlacementMode { kVram, kSysmem, kMixed };

struct Options {
  PlacementMode placement = PlacementMode::kVram;
  uint32_t iterations = 1;
  uint64_t elements = 65536;   // vecadd, saxpy, reduce; bytes of histogram and sha256-tree: x 4
  uint32_t matrix = 96;        // sgemm
  uint32_t leaf_bytes = 4096;  // sha256-tree
  uint32_t timeout_ms = 60000;
  uint64_t address = 0xdead0000;  // fault-store
  libts104::Dim3 grid;            // elf
  libts104::Dim3 cta;
  uint64_t buffer_bytes = 65536;
  double seconds = 2;      // bench
  uint32_t blocks = 132;   // bench launch: CTAs of one thread
  uint32_t rounds = 1000;  //   each goes round an empty loop so often
  uint32_t depth = 1;      //   launches in flight
  uint32_t think_us = 0;   //   from the end of one to the next launch
};

struct Result {
  std::string name;
  bool verified = false;
  double time_s = 0;
  uint64_t submissions = 0;
  uint64_t launches = 0;
  uint64_t gpu_time_ns = 0;
  std::string detail;  // a hash, or what differs
  std::string error;
  std::optional<libts104::ChannelFault> fault;
};

struct BenchResult {
  std::string name;
  uint64_t operations = 0;
  double seconds = 0;
  double gigaflops = 0;  // 0: does not apply
  double megabytes_per_s = 0;
  std::vector<double> latencies_us;  // launch to notice, ascending; empty: not measured
  uint64_t submissions = 0;
  uint64_t gpu_time_ns = 0;
};

// What runs a program: the device, one compute stream, and where memory goes.
class Session {
 public:
  Session(libts104::Device& device, const Options& options);

  libts104::Device& device() { return device_; }
  libts104::Stream& stream() { return stream_; }
  const Options& options() const { return options_; }

  // mixed: what the GPU reads lies in system memory, what it writes in VRAM.
  libts104::Buffer Input(uint64_t bytes);
  libts104::Buffer Output(uint64_t bytes);
  libts104::Program Load(const std::string& embedded_name);
  libts104::Program LoadFile(const std::string& path);
  // One submission per iteration of what `record` puts into the stream.
  void Iterate(const std::function<void()>& record);
  int64_t timeout_ns() const { return int64_t{options_.timeout_ms} * 1000000; }

 private:
  libts104::Device& device_;
  const Options& options_;
  const libts104::Placement input_;
  const libts104::Placement output_;
  libts104::Stream stream_;
};

// Names for the command line, without those that fail on purpose.
std::vector<std::string> AllPrograms();
// Whether `name` (up to '=') can be run.
bool IsProgram(const std::string& name);
// Runs one; errors end up in the result. `spec` is "name" or "name=FILE".
Result RunProgram(libts104::Device& device, const Options& options, const std::string& spec);
// The user's own ELF file: a buffer's address and size are its first two arguments.
Result RunElf(libts104::Device& device, const Options& options, const std::string& path);

bool IsBench(const std::string& name);
std::vector<std::string> AllBenches();
BenchResult RunBench(libts104::Device& device, const Options& options, const std::string& name);

}  // namespace ts104_run
