// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "metrics.h"

#include <fmt/format.h>

#include <array>
#include <functional>

namespace turnstile_smi {
namespace {

constexpr uint64_t kPageBytes = 4096;

std::string Seconds(uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1000000000, ns % 1000000000);
}

using Kind = MetricFamily::Kind;
using Labels = std::vector<std::pair<std::string, std::string>>;

// One family after the other, as the formats demand: all samples of one stand together.
class Writer {
 public:
  explicit Writer(const Host& host) : host_(host) {}

  // A family of unit u must be called NAME_u.
  void Begin(std::string name, Kind kind, std::string unit, std::string help) {
    families_.push_back({std::move(name), kind, std::move(unit), std::move(help), {}});
  }
  void Sample(Labels labels, std::string value) {
    families_.back().samples.push_back({std::move(labels), std::move(value)});
  }

  void ForGpus(const std::function<std::string(const Gpu&)>& value) {
    for (const Gpu& gpu : host_.gpus) Sample(GpuLabels(gpu), value(gpu));
  }
  void ForVgpus(const std::function<std::string(const Vgpu&)>& value) {
    for (const Gpu& gpu : host_.gpus) {
      for (const Vgpu& vgpu : gpu.vgpus) {
        std::string text = value(vgpu);
        if (!text.empty()) Sample(VgpuLabels(gpu, vgpu), std::move(text));
      }
    }
  }
  void ForEngines(const std::function<std::string(const Account&)>& value) {
    for (const Gpu& gpu : host_.gpus) {
      for (const Vgpu& vgpu : gpu.vgpus) {
        for (size_t i = 0; i < kEngines.size(); ++i) {
          Labels labels = VgpuLabels(gpu, vgpu);
          labels.emplace_back("engine", kEngines[i]);
          Sample(std::move(labels), value(vgpu.accounts[i]));
        }
      }
    }
  }

  static Labels GpuLabels(const Gpu& gpu) { return {{"pci_bus_id", gpu.address}}; }
  static Labels VgpuLabels(const Gpu& gpu, const Vgpu& vgpu) {
    return {{"pci_bus_id", gpu.address},
            {"mdev_uuid", vgpu.uuid},
            {"mdev_type", vgpu.type},
            {"vm_name", vgpu.user ? vgpu.user->vm_name : ""}};
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  const Host& host_;
  std::vector<MetricFamily> families_;
};

void WriteGpus(const Host& host, Writer& writer) {
  writer.Begin("turnstile_gpu", Kind::kInfo, "", "A GPU and its scheduling policy.");
  for (const Gpu& gpu : host.gpus) {
    Labels labels = Writer::GpuLabels(gpu);
    labels.emplace_back("pci_id", gpu.pci_id);
    labels.emplace_back("policy", gpu.policy);
    writer.Sample(std::move(labels), "1");
  }
  writer.Begin("turnstile_gpu_up", Kind::kGauge, "", "0: the GPU is gone or was reset.");
  writer.ForGpus([](const Gpu& gpu) { return std::string(gpu.lost ? "0" : "1"); });
  writer.Begin("turnstile_gpu_vram_bytes", Kind::kGauge, "bytes", "VRAM of the GPU.");
  writer.ForGpus([](const Gpu& gpu) { return fmt::to_string(gpu.vram_bytes); });
  writer.Begin("turnstile_gpu_vgpus", Kind::kGauge, "", "vGPUs there are.");
  writer.ForGpus([](const Gpu& gpu) { return fmt::to_string(gpu.vgpu_count); });
  writer.Begin("turnstile_type_available_instances", Kind::kGauge, "",
               "How many more vGPUs of the type can be made now.");
  for (const Gpu& gpu : host.gpus) {
    for (const VgpuType& type : gpu.types) {
      Labels labels = Writer::GpuLabels(gpu);
      labels.emplace_back("mdev_type", type.id);
      writer.Sample(std::move(labels), fmt::to_string(type.available));
    }
  }
}

void WriteEngines(Writer& writer) {
  writer.Begin("turnstile_vgpu_engine_run_seconds", Kind::kCounter, "seconds",
               "Time that the vGPU ran on the engine.");
  writer.ForEngines([](const Account& account) { return Seconds(account.run_ns); });
  writer.Begin("turnstile_vgpu_engine_wait_seconds", Kind::kCounter, "seconds",
               "Time that it had work and waited for the engine.");
  writer.ForEngines([](const Account& account) { return Seconds(account.wait_ns); });
  writer.Begin("turnstile_vgpu_engine_longest_wait_seconds", Kind::kGauge, "seconds",
               "The longest time that it waited at once.");
  writer.ForEngines([](const Account& account) { return Seconds(account.longest_wait_ns); });
  writer.Begin("turnstile_vgpu_engine_slices", Kind::kCounter, "", "Turns that it had.");
  writer.ForEngines([](const Account& account) { return fmt::to_string(account.slices); });
  writer.Begin("turnstile_vgpu_engine_preemptions", Kind::kCounter, "",
               "Turns that ended while it had work.");
  writer.ForEngines([](const Account& account) { return fmt::to_string(account.preemptions); });
}

void WriteScheduler(Writer& writer) {
  writer.Begin("turnstile_vgpu_weight", Kind::kGauge, "", "Its weight, for weighted and latency.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.weight); });
  writer.Begin("turnstile_vgpu_cap_ratio", Kind::kGauge, "ratio",
               "Never more of an engine than this.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return fmt::format("{:.2f}", static_cast<double>(vgpu.cap_percent) / 100);
  });
  writer.Begin("turnstile_vgpu_share_ordered_ratio", Kind::kGauge, "ratio",
               "Part of the GPU that the policy orders for it; none: no sample.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return vgpu.share_ordered ? fmt::format("{:.6f}", *vgpu.share_ordered) : std::string();
  });
}

void WriteFigures(Writer& writer) {
  writer.Begin("turnstile_vgpu_open", Kind::kGauge, "",
               "1: a process has it open, 0: none; not known: no sample.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return vgpu.state == State::kUnknown ? std::string() : std::string(vgpu.user ? "1" : "0");
  });
  writer.Begin("turnstile_vgpu_vram_bytes", Kind::kGauge, "bytes", "VRAM of its type.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.vram_bytes); });
  writer.Begin("turnstile_vgpu_pinned_bytes", Kind::kGauge, "bytes",
               "Memory of the VM that is pinned.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.pages_pinned * kPageBytes); });
  writer.Begin("turnstile_vgpu_host_memory_bytes", Kind::kGauge, "bytes",
               "Memory that the driver uses for it.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.memory_bytes); });
  writer.Begin("turnstile_vgpu_gpu_seconds", Kind::kCounter, "seconds",
               "GPU time of all engines, by the GPU's clock.");
  writer.ForVgpus([](const Vgpu& vgpu) { return Seconds(vgpu.gpu_time_ns); });
  writer.Begin("turnstile_vgpu_exits", Kind::kCounter, "", "Register accesses that trapped.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.csr_exits_total); });
  writer.Begin("turnstile_vgpu_submissions", Kind::kCounter, "",
               "Runlists that its guest submitted.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.submissions); });
  writer.Begin("turnstile_vgpu_interrupts", Kind::kCounter, "",
               "Interrupts injected into the guest.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.interrupts_injected); });
  writer.Begin("turnstile_vgpu_faults", Kind::kCounter, "", "Faults forwarded to the guest.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.faults_forwarded); });
}

}  // namespace

std::string EscapeLabel(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

std::string MetricFamily::SampleName() const {
  return name + (kind == Kind::kCounter ? "_total" : kind == Kind::kInfo ? "_info" : "");
}

std::vector<MetricFamily> HostMetrics(const Host& host) {
  Writer writer(host);
  WriteGpus(host, writer);
  WriteEngines(writer);
  WriteScheduler(writer);
  WriteFigures(writer);
  return writer.Take();
}

std::string OpenMetrics(const std::vector<MetricFamily>& families) {
  constexpr std::array<std::string_view, 3> kKinds = {"gauge", "counter", "info"};
  std::string text;
  for (const MetricFamily& family : families) {
    text += fmt::format("# TYPE {} {}\n", family.name, kKinds[static_cast<size_t>(family.kind)]);
    if (!family.unit.empty()) text += fmt::format("# UNIT {} {}\n", family.name, family.unit);
    text += fmt::format("# HELP {} {}\n", family.name, family.help);
    for (const MetricFamily::Sample& sample : family.samples) {
      std::string labels;
      for (const auto& [name, value] : sample.labels) {
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name, EscapeLabel(value));
      }
      text += fmt::format("{}{{{}}} {}\n", family.SampleName(), labels, sample.value);
    }
  }
  return text + "# EOF\n";
}

}  // namespace turnstile_smi
