// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "metrics.h"

#include <fmt/format.h>

#include <functional>

namespace turnstile_smi {
namespace {

constexpr uint64_t kPageBytes = 4096;

std::string Seconds(uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1000000000, ns % 1000000000);
}

// One family after the other, as the format demands: all samples of one stand together.
class Writer {
 public:
  explicit Writer(const Host& host) : host_(host) {}

  // `name` as the family has it; a family of unit u must be called NAME_u.
  void Begin(std::string_view name, std::string_view type, std::string_view unit,
             std::string_view help) {
    name_ = name;
    suffix_ = type == "counter" ? "_total" : type == "info" ? "_info" : "";
    text_ += fmt::format("# TYPE {} {}\n", name, type);
    if (!unit.empty()) text_ += fmt::format("# UNIT {} {}\n", name, unit);
    text_ += fmt::format("# HELP {} {}\n", name, help);
  }
  void Sample(const std::string& labels, const std::string& value) {
    text_ += fmt::format("{}{}{{{}}} {}\n", name_, suffix_, labels, value);
  }

  void ForGpus(const std::function<std::string(const Gpu&)>& value) {
    for (const Gpu& gpu : host_.gpus) Sample(GpuLabels(gpu), value(gpu));
  }
  void ForVgpus(const std::function<std::string(const Vgpu&)>& value) {
    for (const Gpu& gpu : host_.gpus) {
      for (const Vgpu& vgpu : gpu.vgpus) {
        const std::string text = value(vgpu);
        if (!text.empty()) Sample(VgpuLabels(gpu, vgpu), text);
      }
    }
  }
  void ForEngines(const std::function<std::string(const Account&)>& value) {
    for (const Gpu& gpu : host_.gpus) {
      for (const Vgpu& vgpu : gpu.vgpus) {
        for (size_t i = 0; i < kEngines.size(); ++i) {
          Sample(fmt::format("{},engine=\"{}\"", VgpuLabels(gpu, vgpu), kEngines[i]),
                 value(vgpu.accounts[i]));
        }
      }
    }
  }

  static std::string GpuLabels(const Gpu& gpu) {
    return fmt::format("pci_bus_id=\"{}\"", EscapeLabel(gpu.address));
  }
  static std::string VgpuLabels(const Gpu& gpu, const Vgpu& vgpu) {
    return fmt::format("{},mdev_uuid=\"{}\",mdev_type=\"{}\",vm_name=\"{}\"", GpuLabels(gpu),
                       EscapeLabel(vgpu.uuid), EscapeLabel(vgpu.type),
                       EscapeLabel(vgpu.user ? vgpu.user->vm_name : ""));
  }

  std::string Take() { return std::move(text_); }

 private:
  const Host& host_;
  std::string name_;
  std::string suffix_;
  std::string text_;
};

void WriteGpus(const Host& host, Writer& writer) {
  writer.Begin("turnstile_gpu", "info", "", "A GPU and its scheduling policy.");
  for (const Gpu& gpu : host.gpus) {
    writer.Sample(fmt::format("{},pci_id=\"{}\",policy=\"{}\"", Writer::GpuLabels(gpu),
                              EscapeLabel(gpu.pci_id), EscapeLabel(gpu.policy)),
                  "1");
  }
  writer.Begin("turnstile_gpu_up", "gauge", "", "0: the GPU is gone or was reset.");
  writer.ForGpus([](const Gpu& gpu) { return std::string(gpu.lost ? "0" : "1"); });
  writer.Begin("turnstile_gpu_vram_bytes", "gauge", "bytes", "VRAM of the GPU.");
  writer.ForGpus([](const Gpu& gpu) { return fmt::to_string(gpu.vram_bytes); });
  writer.Begin("turnstile_gpu_vgpus", "gauge", "", "vGPUs there are.");
  writer.ForGpus([](const Gpu& gpu) { return fmt::to_string(gpu.vgpu_count); });
  writer.Begin("turnstile_type_available_instances", "gauge", "",
               "How many more vGPUs of the type can be made now.");
  for (const Gpu& gpu : host.gpus) {
    for (const VgpuType& type : gpu.types) {
      writer.Sample(
          fmt::format("{},mdev_type=\"{}\"", Writer::GpuLabels(gpu), EscapeLabel(type.id)),
          fmt::to_string(type.available));
    }
  }
}

void WriteEngines(Writer& writer) {
  writer.Begin("turnstile_vgpu_engine_run_seconds", "counter", "seconds",
               "Time that the vGPU ran on the engine.");
  writer.ForEngines([](const Account& account) { return Seconds(account.run_ns); });
  writer.Begin("turnstile_vgpu_engine_wait_seconds", "counter", "seconds",
               "Time that it had work and waited for the engine.");
  writer.ForEngines([](const Account& account) { return Seconds(account.wait_ns); });
  writer.Begin("turnstile_vgpu_engine_longest_wait_seconds", "gauge", "seconds",
               "The longest time that it waited at once.");
  writer.ForEngines([](const Account& account) { return Seconds(account.longest_wait_ns); });
  writer.Begin("turnstile_vgpu_engine_slices", "counter", "", "Turns that it had.");
  writer.ForEngines([](const Account& account) { return fmt::to_string(account.slices); });
  writer.Begin("turnstile_vgpu_engine_preemptions", "counter", "",
               "Turns that ended while it had work.");
  writer.ForEngines([](const Account& account) { return fmt::to_string(account.preemptions); });
}

void WriteScheduler(Writer& writer) {
  writer.Begin("turnstile_vgpu_weight", "gauge", "", "Its weight, for weighted and latency.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.weight); });
  writer.Begin("turnstile_vgpu_cap_ratio", "gauge", "ratio", "Never more of an engine than this.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return fmt::format("{:.2f}", static_cast<double>(vgpu.cap_percent) / 100);
  });
  writer.Begin("turnstile_vgpu_share_ordered_ratio", "gauge", "ratio",
               "Part of the GPU that the policy orders for it; none: no sample.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return vgpu.share_ordered ? fmt::format("{:.6f}", *vgpu.share_ordered) : std::string();
  });
}

void WriteFigures(Writer& writer) {
  writer.Begin("turnstile_vgpu_open", "gauge", "",
               "1: a process has it open, 0: none; not known: no sample.");
  writer.ForVgpus([](const Vgpu& vgpu) {
    return vgpu.state == State::kUnknown ? std::string() : std::string(vgpu.user ? "1" : "0");
  });
  writer.Begin("turnstile_vgpu_vram_bytes", "gauge", "bytes", "VRAM of its type.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.vram_bytes); });
  writer.Begin("turnstile_vgpu_pinned_bytes", "gauge", "bytes", "Memory of the VM that is pinned.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.pages_pinned * kPageBytes); });
  writer.Begin("turnstile_vgpu_host_memory_bytes", "gauge", "bytes",
               "Memory that the driver uses for it.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.memory_bytes); });
  writer.Begin("turnstile_vgpu_gpu_seconds", "counter", "seconds",
               "GPU time of all engines, by the GPU's clock.");
  writer.ForVgpus([](const Vgpu& vgpu) { return Seconds(vgpu.gpu_time_ns); });
  writer.Begin("turnstile_vgpu_exits", "counter", "", "Register accesses that trapped.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.csr_exits_total); });
  writer.Begin("turnstile_vgpu_submissions", "counter", "", "Runlists that its guest submitted.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.submissions); });
  writer.Begin("turnstile_vgpu_interrupts", "counter", "", "Interrupts injected into the guest.");
  writer.ForVgpus([](const Vgpu& vgpu) { return fmt::to_string(vgpu.interrupts_injected); });
  writer.Begin("turnstile_vgpu_faults", "counter", "", "Faults forwarded to the guest.");
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

std::string Metrics(const Host& host) {
  Writer writer(host);
  WriteGpus(host, writer);
  WriteEngines(writer);
  WriteScheduler(writer);
  WriteFigures(writer);
  return writer.Take() + "# EOF\n";
}

}  // namespace turnstile_smi
