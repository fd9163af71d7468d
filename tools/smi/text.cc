// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "text.h"

#include <fmt/format.h>

#include <algorithm>

#include "shares.h"

namespace turnstile_smi {
namespace {

constexpr char kNone[] = "-";

std::string Percent(std::optional<double> part) {
  return part ? fmt::format("{:.1f} %", *part * 100) : kNone;
}

std::string Pad(const std::string& text, size_t width, bool right) {
  const std::string blanks(width > Width(text) ? width - Width(text) : 0, ' ');
  return right ? blanks + text : text + blanks;
}

std::string GpuLine(const Gpu& gpu) {
  if (gpu.lost) return fmt::format("GPU {}  lost\n", gpu.address);
  return fmt::format("GPU {}  policy {}  VRAM {} of {} given out  {} vGPUs  utilisation {}\n",
                     gpu.address, gpu.policy, MiB(gpu.vram_given_bytes), MiB(gpu.vram_bytes),
                     gpu.vgpu_count, Percent(Utilisation(gpu, kGr)));
}

// "name   value" with the names in one column.
void Line(std::string& text, size_t indent, std::string_view name, const std::string& value) {
  std::string line = fmt::format("{:{}}{:<{}} {}", "", indent, name, 30 - indent, value);
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

void AppendUser(std::string& text, const Vgpu& vgpu) {
  Line(text, 4, "state", ToString(vgpu.state));
  if (!vgpu.user) return;
  Line(text, 4, "VM name", vgpu.user->vm_name.empty() ? kNone : Printable(vgpu.user->vm_name));
  Line(text, 4, "VM UUID", vgpu.user->vm_uuid.empty() ? kNone : Printable(vgpu.user->vm_uuid));
  Line(text, 4, "process", fmt::format("{} ({})", vgpu.user->pid, Printable(vgpu.user->command)));
}

void AppendEngine(std::string& text, const Vgpu& vgpu, size_t engine) {
  const Account& account = vgpu.accounts[engine];
  Line(text, 4, fmt::format("engine {}", kEngines[engine]), "");
  Line(text, 6, "utilisation", Percent(Utilisation(vgpu, engine)));
  Line(text, 6, "ran", Milliseconds(account.run_ns));
  Line(text, 6, "waited", Milliseconds(account.wait_ns));
  Line(text, 6, "longest wait", Milliseconds(account.longest_wait_ns));
  Line(text, 6, "slices", fmt::to_string(account.slices));
  Line(text, 6, "preemptions", fmt::to_string(account.preemptions));
  Line(text, 6, "overshoot", Milliseconds(account.overshoot_ns));
}

void AppendVgpu(std::string& text, const Vgpu& vgpu) {
  text += fmt::format("  vGPU {}\n", vgpu.uuid);
  Line(text, 4, "type", vgpu.type);
  Line(text, 4, "VRAM", MiB(vgpu.vram_bytes));
  Line(text, 4, "function", fmt::to_string(vgpu.function));
  Line(text, 4, "IOMMU group", vgpu.iommu_group.empty() ? kNone : vgpu.iommu_group);
  AppendUser(text, vgpu);
  Line(text, 4, "weight", fmt::to_string(vgpu.weight));
  Line(text, 4, "cap", fmt::format("{} %", vgpu.cap_percent));
  Line(text, 4, "latency bound", vgpu.latency_us ? fmt::format("{} us", vgpu.latency_us) : "none");
  Line(text, 4, "share ordered", Percent(vgpu.share_ordered));
  Line(text, 4, "share measured", Percent(ShareMeasured(vgpu)));
  for (size_t i = 0; i < kEngines.size(); ++i) AppendEngine(text, vgpu, i);
  Line(text, 4, "submissions", fmt::to_string(vgpu.submissions));
  Line(text, 4, "exits", fmt::to_string(vgpu.csr_exits_total));
  Line(text, 4, "interrupts", fmt::to_string(vgpu.interrupts_injected));
  Line(text, 4, "faults", fmt::to_string(vgpu.faults_forwarded));
  Line(text, 4, "pages pinned", fmt::to_string(vgpu.pages_pinned));
  Line(text, 4, "host memory", fmt::format("{} KiB", vgpu.memory_bytes >> 10));
  if (vgpu.counters.empty()) return;
  Line(text, 4, "counters (debugfs)", "");
  for (const auto& [name, value] : vgpu.counters) Line(text, 6, name, fmt::to_string(value));
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return result;
}

size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string MiB(uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

std::string Milliseconds(uint64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) * 1e-6);
}

std::string Align(const std::vector<std::vector<std::string>>& rows, std::string_view right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += " " + Pad(row[i], widths[i], right[i] == 'r') + " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string ShortType(const std::string& id) {
  constexpr std::string_view kPrefix = "turnstile-";
  return id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
}

std::string UserName(const Vgpu& vgpu) {
  if (!vgpu.user) return kNone;
  if (!vgpu.user->vm_name.empty()) return Printable(vgpu.user->vm_name);
  return "(" + Printable(vgpu.user->command) + ")";
}

std::string Notes(const Host& host) {
  std::string text;
  for (const std::string& note : host.notes) text += "not shown: " + note + "\n";
  return text;
}

std::string Table(const Host& host) {
  std::string text;
  for (const Gpu& gpu : host.gpus) {
    text += GpuLine(gpu);
    if (gpu.vgpus.empty()) continue;
    std::vector<std::vector<std::string>> rows = {
        {"vGPU", "type", "VM", "VRAM", "ordered", "measured", "utilisation", "state"}};
    for (const Vgpu& vgpu : gpu.vgpus) {
      rows.push_back({vgpu.uuid, ShortType(vgpu.type), UserName(vgpu), MiB(vgpu.vram_bytes),
                      Percent(vgpu.share_ordered), Percent(ShareMeasured(vgpu)),
                      Percent(Utilisation(vgpu, kGr)), ToString(vgpu.state)});
    }
    text += Align(rows, "lllrrrrl");
  }
  const bool any = std::any_of(host.gpus.begin(), host.gpus.end(),
                               [](const Gpu& gpu) { return !gpu.vgpus.empty(); });
  const bool used = std::any_of(host.gpus.begin(), host.gpus.end(), [](const Gpu& gpu) {
    return Utilisation(gpu, kGr).has_value() && !gpu.vgpus.empty();
  });
  if (any && !used) {
    text += "not shown: utilisation, which takes two readings: --sample MS, -l SEC or -u\n";
  }
  return text + Notes(host);
}

std::string Report(const Host& host) {
  std::string text;
  for (const Gpu& gpu : host.gpus) {
    text += fmt::format("GPU {}\n", gpu.address);
    Line(text, 2, "PCI id", gpu.pci_id);
    Line(text, 2, "state", gpu.lost ? "lost" : "ok");
    Line(text, 2, "VRAM", MiB(gpu.vram_bytes));
    Line(text, 2, "VRAM given out", MiB(gpu.vram_given_bytes));
    for (size_t i = 0; i < kEngines.size(); ++i) {
      Line(text, 2, fmt::format("utilisation {}", kEngines[i]), Percent(Utilisation(gpu, i)));
    }
    Line(text, 2, "policy", gpu.policy.empty() ? kNone : gpu.policy);
    for (const auto& [name, value] : gpu.numbers) Line(text, 2, name, fmt::to_string(value));
    for (const Vgpu& vgpu : gpu.vgpus) AppendVgpu(text, vgpu);
  }
  return text + Notes(host);
}

std::string Types(const Host& host, bool creatable_only) {
  std::string text;
  for (const Gpu& gpu : host.gpus) {
    std::vector<std::vector<std::string>> rows = {
        {"type", "name", "VRAM", "channels", "at most", "available"}};
    for (const VgpuType& type : gpu.types) {
      if (creatable_only && type.available == 0) continue;
      rows.push_back({type.id, type.name, MiB(type.vram_bytes), fmt::to_string(type.channels),
                      fmt::to_string(type.max_instances), fmt::to_string(type.available)});
    }
    text += fmt::format("GPU {}\n", gpu.address);
    text += rows.size() > 1 ? Align(rows, "llrrrr") : "  no vGPU can be made now\n";
  }
  return text;
}

std::string UsageHeader() {
  return fmt::format("{:12}  {:36}  {:16}", "# GPU", "vGPU", "VM") +
         "   gr %  ce2 %  ce3 %  share %\n";
}

std::string UsageLines(const Host& host) {
  std::string text;
  const auto number = [](std::optional<double> part) {
    return part ? fmt::format("{:.1f}", *part * 100) : std::string(kNone);
  };
  for (const Gpu& gpu : host.gpus) {
    for (const Vgpu& vgpu : gpu.vgpus) {
      text +=
          fmt::format("{:12}  {:36}  {}", gpu.address, vgpu.uuid, Pad(UserName(vgpu), 16, false));
      for (size_t i = 0; i < kEngines.size(); ++i) {
        text += fmt::format("  {:>5}", number(Utilisation(vgpu, i)));
      }
      text += fmt::format("  {:>7}\n", vgpu.usage ? number(vgpu.usage->share) : kNone);
    }
  }
  return text;
}

std::string Sched(const Host& host) {
  std::string text;
  for (const Gpu& gpu : host.gpus) {
    text += fmt::format("GPU {}\n", gpu.address);
    Line(text, 2, "policy", gpu.policy.empty() ? kNone : gpu.policy);
    for (const auto& [name, value] : gpu.numbers) Line(text, 2, name, fmt::to_string(value));
    if (gpu.vgpus.empty()) continue;
    std::vector<std::vector<std::string>> rows = {
        {"vGPU", "VM", "weight", "cap_percent", "latency_us", "ordered", "measured"}};
    for (const Vgpu& vgpu : gpu.vgpus) {
      rows.push_back({vgpu.uuid, UserName(vgpu), fmt::to_string(vgpu.weight),
                      fmt::to_string(vgpu.cap_percent), fmt::to_string(vgpu.latency_us),
                      Percent(vgpu.share_ordered), Percent(ShareMeasured(vgpu))});
    }
    text += Align(rows, "llrrrrr");
  }
  return text + Notes(host);
}

}  // namespace turnstile_smi
