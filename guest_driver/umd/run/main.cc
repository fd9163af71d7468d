// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// ts104-run: runs GPU programs on a TS104 and checks what they computed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libts104/device.h"
#include "workloads.h"

namespace ts104_run {
namespace {

using Json = nlohmann::ordered_json;

enum ExitCode { kOk = 0, kWrongResult = 1, kError = 2, kFault = 3 };

constexpr char kFooter[] =
    "PROGRAM: vecadd saxpy sgemm reduce histogram sha256-tree[=FILE], all, elf FILE,\n"
    "  bench [gpu] [mixed] [submit] [launch] [recover]; to see errors: fault-store fault-trap\n"
    "  fault-stack endless;\n"
    "  vram-fill[=TEXT]: writes TEXT all over the VRAM that is free\n"
    "Exit status: 0 all verified, 1 a wrong result, 2 an error, 3 the GPU reported a fault.";

struct CommandLine {
  std::string device;
  std::string transport;
  std::string placement = "vram";
  bool json = false;
  std::vector<std::string> words;
  std::vector<uint32_t> grid = {1};
  std::vector<uint32_t> cta = {1};
  Options options;
};

struct Job {
  enum class Kind { kProgram, kElf, kBench } kind;
  std::string argument;
};

libts104::Dim3 ToDim3(const std::vector<uint32_t>& values) {
  libts104::Dim3 dim;
  if (values.size() > 0) dim.x = values[0];
  if (values.size() > 1) dim.y = values[1];
  if (values.size() > 2) dim.z = values[2];
  return dim;
}

// What the words of the command line ask for. Throws Error naming the wrong one.
std::vector<Job> ParseJobs(const std::vector<std::string>& words) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "all") {
      for (const std::string& name : AllPrograms()) jobs.push_back({Job::Kind::kProgram, name});
    } else if (word == "elf") {
      if (++i == words.size()) throw libts104::Error("elf: which file?");
      jobs.push_back({Job::Kind::kElf, words[i]});
    } else if (word == "bench") {
      std::vector<std::string> names;
      while (i + 1 < words.size() && IsBench(words[i + 1])) names.push_back(words[++i]);
      if (names.empty()) names = AllBenches();
      for (const std::string& name : names) jobs.push_back({Job::Kind::kBench, name});
    } else if (IsProgram(word)) {
      jobs.push_back({Job::Kind::kProgram, word});
    } else {
      throw libts104::Error(fmt::format("no program '{}': see --help", word));
    }
  }
  return jobs;
}

Json ToJson(const libts104::DeviceInfo& info) {
  return {{"transport", info.transport},   {"path", info.path},
          {"vram_bytes", info.vram_bytes}, {"is_vgpu", info.is_vgpu},
          {"sm_count", info.sm_count},     {"engine_mhz", info.engine_mhz}};
}

Json ToJson(const Result& result) {
  Json json = {{"name", result.name},         {"verified", result.verified},
               {"time_s", result.time_s},     {"submissions", result.submissions},
               {"launches", result.launches}, {"gpu_time_ns", result.gpu_time_ns}};
  if (!result.detail.empty()) json["detail"] = result.detail;
  if (!result.error.empty()) json["error"] = result.error;
  if (result.fault) {
    json["fault"] = {{"kind", static_cast<uint32_t>(result.fault->kind)},
                     {"address", fmt::format("{:#x}", result.fault->va)},
                     {"type", result.fault->type},
                     {"access", result.fault->access},
                     {"engine", result.fault->engine}};
  }
  return json;
}

double Percentile(const std::vector<double>& ascending, size_t percent) {
  return ascending[(ascending.size() - 1) * percent / 100];
}

Json ToJson(const BenchResult& result) {
  Json json = {{"name", result.name},
               {"operations", result.operations},
               {"seconds", result.seconds},
               {"operations_per_s", static_cast<double>(result.operations) / result.seconds},
               {"submissions", result.submissions},
               {"gpu_time_ns", result.gpu_time_ns}};
  if (result.gigaflops > 0) json["gigaflops"] = result.gigaflops;
  if (result.megabytes_per_s > 0) json["megabytes_per_s"] = result.megabytes_per_s;
  if (!result.latencies_us.empty()) {
    json["max_us"] = result.latencies_us.back();
    json["p50_us"] = Percentile(result.latencies_us, 50);
    json["p99_us"] = Percentile(result.latencies_us, 99);
  }
  return json;
}

void Print(const Result& result) {
  if (!result.error.empty()) {
    fmt::print(stderr, "ts104-run: {}: {}\n", result.name, result.error);
    return;
  }
  fmt::print("{:<12} {:<8} {:8.3f} s  {:5} submissions  {:10.3f} ms GPU{}{}\n", result.name,
             result.verified ? "verified" : "WRONG", result.time_s, result.submissions,
             static_cast<double>(result.gpu_time_ns) * 1e-6, result.detail.empty() ? "" : "  ",
             result.detail);
}

void Print(const BenchResult& result) {
  fmt::print("{:<8} {:12.1f} operations/s", result.name,
             static_cast<double>(result.operations) / result.seconds);
  if (result.gigaflops > 0) fmt::print("  {:.4f} GFLOP/s", result.gigaflops);
  if (result.megabytes_per_s > 0) fmt::print("  {:.1f} MB/s copied", result.megabytes_per_s);
  if (!result.latencies_us.empty()) {
    fmt::print("  latency p50 {:.0f} us, p99 {:.0f} us", Percentile(result.latencies_us, 50),
               Percentile(result.latencies_us, 99));
  }
  fmt::print("\n");
}

int ExitCodeOf(const Result& result) {
  if (result.fault) return kFault;
  if (!result.error.empty()) return kError;
  return result.verified ? kOk : kWrongResult;
}

int Run(const CommandLine& command) {
  const std::vector<Job> jobs = ParseJobs(command.words);
  const auto device = libts104::Device::Open(command.transport, command.device);
  Json output = {{"device", ToJson(device->info())}, {"placement", command.placement}};
  Json programs = Json::array();
  Json benches = Json::array();
  uint64_t submissions = 0;
  uint64_t gpu_time_ns = 0;
  int exit_code = kOk;
  for (const Job& job : jobs) {
    if (job.kind == Job::Kind::kBench) {
      const BenchResult result = RunBench(*device, command.options, job.argument);
      benches.push_back(ToJson(result));
      if (!command.json) Print(result);
      continue;
    }
    const Result result = job.kind == Job::Kind::kElf
                              ? RunElf(*device, command.options, job.argument)
                              : RunProgram(*device, command.options, job.argument);
    submissions += result.submissions;
    gpu_time_ns += result.gpu_time_ns;
    exit_code = std::max(exit_code, ExitCodeOf(result));
    programs.push_back(ToJson(result));
    if (!command.json || !result.error.empty()) Print(result);
    std::fflush(stdout);
  }
  if (command.json) {
    output["programs"] = programs;
    if (!benches.empty()) output["bench"] = benches;
    output["submissions"] = submissions;
    output["gpu_time_ns"] = gpu_time_ns;
    fmt::print("{}\n", output.dump(2));
  }
  return exit_code;
}

void Describe(CLI::App& app, CommandLine& command) {
  Options& options = command.options;
  app.add_option("--device", command.device,
                 "/dev/dri/renderD*, a PCI address, an mdev's UUID, or a sysfs folder");
  app.add_option("--transport", command.transport, "drm or vfio; without it --device decides")
      ->check(CLI::IsMember({"drm", "vfio"}));
  app.add_option("--placement", command.placement, "where buffers go")
      ->check(CLI::IsMember({"vram", "sysmem", "mixed"}))
      ->capture_default_str();
  app.add_flag("--json", command.json, "results as JSON on standard output");
  app.add_option("--iterations", options.iterations, "submissions per program")
      ->check(CLI::Range(1u, 1000000u))
      ->capture_default_str();
  app.add_option("--elements", options.elements, "size of vectors")->capture_default_str();
  app.add_option("--matrix", options.matrix, "sgemm: rows and columns")->capture_default_str();
  app.add_option("--leaf-bytes", options.leaf_bytes, "sha256-tree: bytes per leaf")
      ->capture_default_str();
  app.add_option("--timeout-ms", options.timeout_ms, "for one submission")->capture_default_str();
  app.add_option("--address", options.address, "fault-store: where it stores");
  app.add_option("--grid", command.grid, "elf: CTAs x,y,z")->delimiter(',')->expected(1, 3);
  app.add_option("--cta", command.cta, "elf: threads per CTA x,y,z")
      ->delimiter(',')
      ->expected(1, 3);
  app.add_option("--buffer", options.buffer_bytes,
                 "elf: bytes of the buffer whose address and size are the first two arguments");
  app.add_option("--seconds", options.seconds, "bench: how long each")
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--blocks", options.blocks, "bench launch: CTAs of a kernel")
      ->check(CLI::Range(1u, 1000000u))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "bench launch: loops of each CTA, two cycles each")
      ->capture_default_str();
  app.add_option("--depth", options.depth, "bench launch: kernels in flight")
      ->check(CLI::Range(1u, 256u))
      ->capture_default_str();
  app.add_option("--think-us", options.think_us,
                 "bench launch: pause between a kernel's end and the next launch");
  app.add_option("PROGRAM", command.words)->required();
  app.footer(kFooter);
}

int Main(int argc, char** argv) {
  CommandLine command;
  CLI::App app("Runs GPU programs on a TS104 and checks what they computed.", "ts104-run");
  Describe(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "ts104-run: {}\n", error.what());
    return kError;
  }
  if (command.placement == "sysmem") command.options.placement = PlacementMode::kSysmem;
  if (command.placement == "mixed") command.options.placement = PlacementMode::kMixed;
  command.options.grid = ToDim3(command.grid);
  command.options.cta = ToDim3(command.cta);
  try {
    return Run(command);
  } catch (const libts104::FaultError& error) {
    fmt::print(stderr, "ts104-run: {}\n", error.what());
    return kFault;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ts104-run: {}\n", error.what());
    return kError;
  }
}

}  // namespace
}  // namespace ts104_run

int main(int argc, char** argv) { return ts104_run::Main(argc, argv); }
