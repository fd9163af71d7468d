// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// turnstile-smi: what a host's GPUs and vGPUs are and do, and the scheduler's settings.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "doctor.h"
#include "failure.h"
#include "json.h"
#include "metrics.h"
#include "orphans.h"
#include "output.h"
#include "reader.h"
#include "sched_log.h"
#include "shares.h"
#include "text.h"
#include "top_command.h"
#include "trace_command.h"

namespace turnstile_smi {
namespace {

constexpr char kFooter[] =
    "Exit status: 0 all is well, 1 a setting was refused, doctor found something wrong, a trace "
    "or\n"
    "  standard output failed, 2 wrong use, 3 the driver turnstile is not loaded, 4 it has no "
    "GPU,\n"
    "  5 there is no such ID.";

constexpr double kDefaultInterval = 1;
// Lines of -u between two headings.
constexpr int kSamplesPerHeader = 20;

struct CommandLine {
  bool report = false;
  bool supported = false;
  bool creatable = false;
  bool usage = false;
  bool json = false;
  std::string id;
  std::optional<double> loop_seconds;
  uint32_t sample_ms = 0;
  uint64_t count = 0;
  std::string root;
  CLI::App* sched = nullptr;
  CLI::App* sched_show = nullptr;
  CLI::App* sched_set = nullptr;
  CLI::App* sched_log = nullptr;
  CLI::App* metrics = nullptr;
  CLI::App* top = nullptr;
  CLI::App* trace = nullptr;
  CLI::App* orphans = nullptr;
  CLI::App* doctor = nullptr;
  TraceOptions trace_options;
  std::vector<std::string> settings;
};

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Leaves in `host` the GPU or the vGPU that `id` names: a PCI address, with or without its domain,
// or a UUID. Throws Failure when there is none.
void Select(Host& host, const std::string& given) {
  const std::string id = Lower(given);
  std::vector<Gpu> found;
  for (Gpu& gpu : host.gpus) {
    if (gpu.address == id || gpu.address == "0000:" + id) found.push_back(gpu);
    std::erase_if(gpu.vgpus, [&](const Vgpu& vgpu) { return vgpu.uuid != id; });
    if (!gpu.vgpus.empty()) found.push_back(gpu);
  }
  if (found.empty()) {
    throw Failure{kNoSuchId,
                  fmt::format("{}: no GPU has this PCI address and no vGPU this UUID", given)};
  }
  host.gpus = found;
}

// A reading of the host. Throws Failure when there is no driver or no GPU.
Host Read(const Files& files) {
  Host host = ReadHost(files);
  if (!host.driver_loaded) {
    throw Failure{kNoDriver, "the driver is not loaded: modprobe turnstile"};
  }
  if (host.gpus.empty()) throw Failure{kNoGpu, "the driver turnstile has no GPU"};
  return host;
}

// What one reading looks like. `number` counts them from 0.
std::string Show(const CommandLine& command, const Host& host, uint64_t number) {
  const int indent = command.loop_seconds || command.usage ? -1 : 2;
  const bool types = command.supported || command.creatable;
  const bool sched = command.sched_show->parsed();
  if (command.json) {
    if (sched) return Dump(SchedToJson(host), indent);
    if (types) return Dump(TypesToJson(host, command.creatable), indent);
    return Dump(command.usage ? UsageToJson(host) : ToJson(host), indent);
  }
  if (command.metrics->parsed()) return OpenMetrics(HostMetrics(host));
  if (command.usage) {
    return (number % kSamplesPerHeader ? "" : UsageHeader()) + UsageLines(host);
  }
  const std::string between = number ? "\n" : "";
  if (sched) return between + Sched(host);
  if (types) return between + Types(host, command.creatable);
  return between + (command.report ? Report(host) : Table(host));
}

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Reads and prints, once or again and again.
void Watch(const CommandLine& command, const Files& files) {
  const bool again = command.loop_seconds || command.usage;
  const double interval = command.loop_seconds.value_or(kDefaultInterval);
  std::optional<Host> before;
  if (command.usage || command.sample_ms) {
    before = Read(files);
    Sleep(command.sample_ms ? command.sample_ms * 1e-3 : interval);
  }
  for (uint64_t number = 0;; ++number) {
    Host now = Read(files);
    if (before) SetUsage(*before, now);
    before = now;
    if (!command.id.empty()) Select(now, command.id);
    Print(Show(command, now, number));
    if (!again || number + 1 == command.count) return;
    Sleep(interval);
  }
}

// What -i names, or without it the only GPU.
Target FindTarget(const CommandLine& command, Host host) {
  if (command.id.empty()) {
    if (host.gpus.size() == 1) return {host.gpus[0].address, ""};
    throw Failure{kUsage, fmt::format("there are {} GPUs: name one with -i", host.gpus.size())};
  }
  Select(host, command.id);
  const Gpu& gpu = host.gpus[0];
  const bool is_gpu = gpu.address.ends_with(Lower(command.id));
  return is_gpu ? Target{gpu.address, ""} : Target{"", gpu.vgpus[0].uuid};
}

// All settings are understood before the first is written.
void Set(const CommandLine& command, const Files& files) {
  const Target target = FindTarget(command, Read(files));
  std::vector<Setting> settings;
  for (const std::string& text : command.settings) {
    std::string problem;
    settings.push_back(ParseSetting(text, target, problem));
    if (!problem.empty()) throw Failure{kUsage, problem};
  }
  for (const Setting& setting : settings) {
    const std::string before = Current(files, target, setting.name);
    const std::string problem = Apply(files, target, setting);
    if (!problem.empty()) throw Failure{kFailed, problem};
    Print(
        fmt::format("{}: {} -> {}\n", setting.name, before, Current(files, target, setting.name)));
  }
}

// Of what -i selects.
Host ReadSelected(const CommandLine& command, const Files& files) {
  Host host = Read(files);
  if (!command.id.empty()) Select(host, command.id);
  return host;
}

void ShowOrphans(const CommandLine& command, const Files& files) {
  const Host host = ReadSelected(command, files);
  const std::vector<Orphan> orphans = FindOrphans(files, host);
  Print(command.json ? Dump(ToJson(orphans, host), 2) : ToText(orphans, host));
}

void ShowSchedLog(const CommandLine& command, const Files& files) {
  const Host host = ReadSelected(command, files);
  std::vector<SliceLog> logs;
  for (const Gpu& gpu : host.gpus) logs.push_back(ReadSliceLog(files, gpu));
  Print(command.json ? Dump(ToJson(logs, host), 2) : ToText(logs, host));
}

// Works on a host without the driver as well: that is what it is for.
ExitCode ShowDoctor(const CommandLine& command, const Files& files) {
  utsname name = {};
  ::uname(&name);
  const std::vector<Finding> findings = Examine(files, name.release);
  Print(command.json ? Dump(ToJson(findings), 2) : ToText(findings));
  const bool wrong = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::kWrong;
  });
  return wrong ? kFailed : kOk;
}

ExitCode Run(const CommandLine& command, const Files& files) {
  if (command.doctor->parsed()) return ShowDoctor(command, files);
  if (command.sched_set->parsed()) {
    Set(command, files);
  } else if (command.sched_log->parsed()) {
    ShowSchedLog(command, files);
  } else if (command.orphans->parsed()) {
    ShowOrphans(command, files);
  } else if (command.trace->parsed()) {
    Print(Trace(files, ReadSelected(command, files), command.trace_options));
  } else if (command.top->parsed()) {
    Top(files, [&] { return ReadSelected(command, files); },
        {command.loop_seconds.value_or(kDefaultInterval), command.count});
  } else {
    Watch(command, files);
  }
  return kOk;
}

void DescribeCommands(CLI::App& app, CommandLine& command) {
  const auto add = [](CLI::App& parent, const char* name, const char* what) {
    CLI::App* added = parent.add_subcommand(name, what);
    added->fallthrough();
    return added;
  };
  command.sched = add(app, "sched", "the scheduler's settings and decisions");
  command.sched->require_subcommand(1);
  command.sched_show = add(*command.sched, "show", "shows the settings");
  command.sched_set = add(*command.sched, "set",
                          "changes those of a GPU, or with -i UUID of a vGPU, while guests run");
  command.sched_set->add_option("SETTING", command.settings, "as policy=weighted or weight=200")
      ->required()
      ->type_name("NAME=VALUE ...");
  command.sched_log = add(*command.sched, "log", "the last turns of every engine");
  command.top = add(app, "top", "a full screen of vGPUs, again and again");
  command.trace = add(app, "trace", "records who was on which engine when, for Perfetto");
  command.trace->add_option("--seconds", command.trace_options.seconds, "for how long; 5")
      ->type_name("N")
      ->check(CLI::Range(0.1, 600.0));
  command.trace_options.output = "turnstile-trace.json";
  command.trace
      ->add_option("-o,--output", command.trace_options.output,
                   "where to; turnstile-trace.json, - is standard output")
      ->type_name("FILE");
  command.orphans = add(app, "orphans", "vGPUs that nobody has open");
  command.doctor =
      add(app, "doctor", "what is wrong with this host, and the command that mends it");
  command.metrics = add(app, "metrics", "OpenMetrics text");
}

void Describe(CLI::App& app, CommandLine& command) {
  auto* report = app.add_flag("-q,--query", command.report, "everything that is known");
  auto* supported = app.add_flag("-s,--supported", command.supported, "types of vGPUs");
  auto* creatable =
      app.add_flag("-c,--creatable", command.creatable, "types of which one can be made now");
  auto* usage = app.add_flag("-u,--utilisation", command.usage,
                             "a line for each vGPU every second, until it is stopped");
  for (auto* option : {supported, creatable, usage}) option->excludes(report);
  for (auto* option : {creatable, usage}) option->excludes(supported);
  usage->excludes(creatable);
  app.add_option("-i,--id", command.id, "only this one: a PCI address or a vGPU's UUID");
  app.add_option("-l,--loop", command.loop_seconds, "again every SEC seconds")
      ->type_name("SEC")
      ->check(CLI::Range(0.05, 86400.0));
  app.add_option("-n,--count", command.count, "with -l, -u or top: so often, then end")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--sample", command.sample_ms,
                 "read twice, so far apart, and show what happened in between")
      ->type_name("MS")
      ->check(CLI::Range(1u, 60000u));
  app.add_flag("--json", command.json, "JSON; with -l and -u a document per line");
  app.add_option("--root", command.root, "look for /sys and /proc below this folder")
      ->type_name("DIR");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  app.fallthrough();
  DescribeCommands(app, command);
}

// Options that do not go together, beyond what CLI11 knows. Throws Failure.
void Check(const CommandLine& command) {
  const bool view = command.report || command.supported || command.creatable || command.usage;
  const bool metrics = command.metrics->parsed();
  const bool once = command.trace->parsed() || command.orphans->parsed() ||
                    command.doctor->parsed() || command.sched_log->parsed();
  const bool any = once || metrics || command.sched->parsed() || command.top->parsed();
  if (any && view) throw Failure{kUsage, "-q, -s, -c and -u do not go with a command"};
  if (command.count && !command.loop_seconds && !command.usage && !command.top->parsed()) {
    throw Failure{kUsage, "-n goes with -l, -u or top"};
  }
  if (once && (command.loop_seconds || command.sample_ms)) {
    throw Failure{kUsage, "this command is one reading: no -l or --sample"};
  }
  if ((command.trace->parsed() || command.top->parsed()) && command.json) {
    throw Failure{kUsage, "no --json here: a trace is JSON, and top is for people"};
  }
  if (command.doctor->parsed() && !command.id.empty()) {
    throw Failure{kUsage, "doctor looks at the whole host: no -i"};
  }
  if (metrics && (command.json || command.loop_seconds || command.sample_ms)) {
    throw Failure{kUsage, "metrics are one reading, as OpenMetrics: no --json, -l or --sample"};
  }
  if (command.sched_set->parsed() &&
      (command.json || command.loop_seconds || command.sample_ms || command.count)) {
    throw Failure{kUsage, "sched set takes no --json, -l, -n or --sample"};
  }
}

int Main(int argc, char** argv) {
  CommandLine command;
  CLI::App app(
      "Shows the GPUs and vGPUs of this host: types, VMs, shares, utilisation, VRAM, state.",
      "turnstile-smi");
  Describe(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "turnstile-smi: {}\n", error.what());
    return kUsage;
  }
  try {
    Check(command);
    const Files files(command.root);
    return Run(command, files);
  } catch (const Failure& failure) {
    fmt::print(stderr, "turnstile-smi: {}\n", failure.message);
    return failure.code;
  }
}

}  // namespace
}  // namespace turnstile_smi

int main(int argc, char** argv) { return turnstile_smi::Main(argc, argv); }
