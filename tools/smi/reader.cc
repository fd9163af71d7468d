// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <tuple>

#include "settings.h"
#include "shares.h"
#include "users.h"

namespace turnstile_smi {
namespace {

constexpr char kPciDriver[] = "/sys/bus/pci/drivers/turnstile";
constexpr char kModule[] = "/sys/module/turnstile";
constexpr char kDebugfs[] = "/sys/kernel/debug/turnstile";

std::string PciDevice(const std::string& address) { return "/sys/bus/pci/devices/" + address; }
std::string MdevDevice(const std::string& uuid) { return "/sys/bus/mdev/devices/" + uuid; }

// The number after `key` in "framebuffer=256M, max_instance=4, channels=1024"; 0: there is none.
uint64_t NumberAfter(const std::string& text, const std::string& key) {
  const size_t begin = text.find(key);
  if (begin == std::string::npos) return 0;
  const size_t first = begin + key.size();
  const size_t end = text.find_first_not_of("0123456789", first);
  return ParseNumber(text.substr(first, end == std::string::npos ? end : end - first)).value_or(0);
}

std::vector<VgpuType> ReadTypes(const Files& files, const std::string& address) {
  std::vector<VgpuType> types;
  const std::string folder = PciDevice(address) + "/mdev_supported_types";
  for (const std::string& id : files.List(folder)) {
    const std::string path = folder + "/" + id;
    const std::string description = files.Read(path + "/description").text;
    VgpuType type;
    type.id = id;
    type.name = files.Read(path + "/name").text;
    type.vram_bytes = NumberAfter(description, "framebuffer=") << 20;
    type.max_instances = NumberAfter(description, "max_instance=");
    type.channels = NumberAfter(description, "channels=");
    type.available = files.ReadNumber(path + "/available_instances").value_or(0);
    types.push_back(type);
  }
  std::sort(types.begin(), types.end(), [](const VgpuType& a, const VgpuType& b) {
    return std::tie(a.max_instances, a.id) < std::tie(b.max_instances, b.id);
  });
  return types;
}

// Reads numbers below one folder; remembers whether one was missing.
class Numbers {
 public:
  Numbers(const Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  uint64_t operator()(const std::string& name) {
    const std::optional<uint64_t> value = files_.ReadNumber(folder_ + "/" + name);
    if (!value && missing_.empty()) missing_ = name;
    return value.value_or(0);
  }
  const std::string& missing() const { return missing_; }

 private:
  const Files& files_;
  const std::string folder_;
  std::string missing_;
};

Account ReadAccount(Numbers& number, const std::string& engine) {
  Account account;
  account.run_ns = number(engine + "_run_ns");
  account.wait_ns = number(engine + "_wait_ns");
  account.longest_wait_ns = number(engine + "_longest_wait_ns");
  account.slices = number(engine + "_slices");
  account.preemptions = number(engine + "_preemptions");
  account.overshoot_ns = number(engine + "_overshoot_ns");
  return account;
}

void ReadCounters(const Files& files, const Gpu& gpu, Vgpu& vgpu) {
  const std::string path = fmt::format("{}/{}/counters", GpuDebugfs(gpu.address), vgpu.uuid);
  const std::string text = files.Read(path).text;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t equals = text.find('=', begin);
    if (equals < end) {
      const std::string_view value = std::string_view(text).substr(equals + 1, end - equals - 1);
      if (const auto number = ParseNumber(value)) {
        vgpu.counters.emplace_back(text.substr(begin, equals - begin), *number);
      }
    }
    begin = end + 1;
  }
}

// nullopt: it went meanwhile, or `notes` says what is wrong with it.
std::optional<Vgpu> ReadVgpu(const Files& files, const Gpu& gpu, const std::string& uuid,
                             std::vector<std::string>& notes) {
  const std::string device = MdevDevice(uuid);
  Numbers number(files, VgpuAttributes(uuid));
  Vgpu vgpu;
  vgpu.uuid = uuid;
  vgpu.type = BaseName(files.ReadLink(device + "/mdev_type"));
  vgpu.iommu_group = BaseName(files.ReadLink(device + "/iommu_group"));
  for (const std::string& name : files.List(device + "/vfio-dev")) vgpu.vfio_device = name;
  vgpu.function = number("function");
  vgpu.weight = number("weight");
  vgpu.cap_percent = number("cap_percent");
  vgpu.latency_us = number("latency_us");
  vgpu.csr_exits_total = number("csr_exits_total");
  vgpu.submissions = number("submissions");
  vgpu.interrupts_injected = number("interrupts_injected");
  vgpu.faults_forwarded = number("faults_forwarded");
  vgpu.gpu_time_ns = number("gpu_time_ns");
  vgpu.pages_pinned = number("pages_pinned");
  vgpu.memory_bytes = number("memory_bytes");
  for (size_t i = 0; i < kEngines.size(); ++i) {
    vgpu.accounts[i] = ReadAccount(number, kEngines[i]);
  }
  if (!number.missing().empty()) {
    if (files.Exists(device)) {
      notes.push_back(
          fmt::format("vGPU {}: turnstile/{} cannot be read: is the driver another version?", uuid,
                      number.missing()));
    }
    return std::nullopt;
  }
  for (const VgpuType& type : gpu.types) {
    if (type.id == vgpu.type) vgpu.vram_bytes = type.vram_bytes;
  }
  ReadCounters(files, gpu, vgpu);
  return vgpu;
}

Gpu ReadGpu(const Files& files, const std::string& address, std::vector<std::string>& notes) {
  Gpu gpu;
  gpu.address = address;
  const auto hex = [&](const char* name) {
    const std::string text = files.Read(PciDevice(address) + "/" + name).text;
    return text.starts_with("0x") ? text.substr(2) : text;
  };
  gpu.pci_id = hex("vendor") + ":" + hex("device");
  const Files::Text policy = files.Read(GpuAttributes(address) + "/policy");
  gpu.lost = policy.error != 0;
  gpu.policy = policy.text;
  if (gpu.lost) {
    notes.push_back(fmt::format("GPU {} is gone or was reset ({}): bind its driver anew", address,
                                std::strerror(policy.error)));
  }
  gpu.vram_bytes = files.ReadNumber(GpuAttributes(address) + "/vram_bytes").value_or(0);
  for (const Attribute& attribute : std::span(kGpuAttributes).subspan(1)) {
    const auto value = files.ReadNumber(GpuAttributes(address) + "/" + attribute.name);
    if (value) gpu.numbers.emplace_back(attribute.name, *value);
  }
  gpu.types = ReadTypes(files, address);
  return gpu;
}

// The address of the GPU that a vGPU is on: the folder above it.
std::string ParentOf(const Files& files, const std::string& uuid) {
  std::string link = files.ReadLink(MdevDevice(uuid));
  link.resize(link.rfind('/') == std::string::npos ? 0 : link.rfind('/'));
  return BaseName(link);
}

void ReadVgpus(const Files& files, Host& host) {
  for (const std::string& uuid : files.List("/sys/bus/mdev/devices")) {
    const std::string parent = ParentOf(files, uuid);
    for (Gpu& gpu : host.gpus) {
      if (gpu.address != parent) continue;
      if (auto vgpu = ReadVgpu(files, gpu, uuid, host.notes)) gpu.vgpus.push_back(*vgpu);
    }
  }
  for (Gpu& gpu : host.gpus) {
    std::sort(gpu.vgpus.begin(), gpu.vgpus.end(), [](const Vgpu& a, const Vgpu& b) {
      return std::tie(a.function, a.uuid) < std::tie(b.function, b.uuid);
    });
  }
}

void NoteDebugfs(const Files& files, Host& host) {
  int error = 0;
  files.List(kDebugfs, &error);
  if (error == EACCES || error == EPERM) {
    host.notes.push_back(
        "counters of debugfs and whether a guest has channels: only root sees them");
  } else if (error != 0) {
    host.notes.push_back(fmt::format("counters of debugfs and whether a guest has channels: {}: {}",
                                     kDebugfs, std::strerror(error)));
  }
}

}  // namespace

std::string GpuAttributes(const std::string& address) { return PciDevice(address) + "/turnstile"; }
std::string VgpuAttributes(const std::string& uuid) { return MdevDevice(uuid) + "/turnstile"; }
std::string GpuDebugfs(const std::string& address) { return kDebugfs + ("/" + address); }

const char* ToString(State state) {
  switch (state) {
    case State::kUnused: return "unused";
    case State::kOpen: return "open";
    case State::kActive: return "active";
    case State::kInUse: return "in use";
    case State::kUnknown: break;
  }
  return "unknown";
}

Host ReadHost(const Files& files) {
  Host host;
  host.driver_loaded = files.Exists(kModule);
  host.time_ns = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           std::chrono::steady_clock::now().time_since_epoch())
                                           .count());
  for (const std::string& name : files.List(kPciDriver)) {
    if (name.find(':') == std::string::npos || name.find('.') == std::string::npos) continue;
    host.gpus.push_back(ReadGpu(files, name, host.notes));
  }
  ReadVgpus(files, host);
  const bool any = std::any_of(host.gpus.begin(), host.gpus.end(),
                               [](const Gpu& gpu) { return !gpu.vgpus.empty(); });
  if (any) {
    NoteDebugfs(files, host);
    FindUsers(files, host);
  }
  for (Gpu& gpu : host.gpus) SetShares(gpu);
  return host;
}

}  // namespace turnstile_smi
