// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "reader.h"
#include "text.h"

namespace turnstile_smi {
namespace {

using Findings = std::vector<Finding>;

constexpr char kDriver[] = "turnstile";
constexpr char kTs104Vendor[] = "0x1234";  // register_map.md, PCI configuration space
constexpr char kTs104Device[] = "0x7510";
// Less than this left to lock: the next buffer of a guest may be the one that fails.
constexpr uint64_t kLockHeadroom = 64ull << 20;

constexpr std::array<const char*, 2> kBinFolders = {"/usr/bin/", "/usr/sbin/"};

void Add(Findings& findings, const char* what, Verdict verdict, std::string text,
         std::string mend = "") {
  findings.push_back({what, verdict, std::move(text), std::move(mend)});
}

bool HasProgram(const Files& files, const std::string& name) {
  return std::any_of(kBinFolders.begin(), kBinFolders.end(),
                     [&](const char* folder) { return files.Exists(folder + name); });
}

void ExamineKernel(const Files& files, const std::string& release, Findings& findings) {
  // A module's folder is there when it is loaded or built in.
  if (files.Exists("/sys/module/mdev") || files.Exists("/sys/class/mdev_bus")) {
    return Add(findings, "kernel", Verdict::kOk, release + ", with mediated devices");
  }
  const std::string modules = "/lib/modules/" + release;
  if (files.Exists(modules + "/kernel/drivers/vfio/mdev")) {
    return Add(findings, "kernel", Verdict::kWrong,
               release + ": mdev, the kernel's mediated devices, is not loaded", "modprobe mdev");
  }
  Add(findings, "kernel", Verdict::kWrong,
      release + ": this kernel has no mediated devices (CONFIG_VFIO_MDEV)",
      release.find("cloud") != std::string::npos
          ? "apt install linux-image-amd64, and boot it: cloud kernels have none"
          : "boot a kernel that has them");
}

void ExamineModule(const Files& files, const std::string& release, Findings& findings) {
  if (files.Exists("/sys/module/turnstile")) {
    const std::string version = files.Read("/sys/module/turnstile/version").text;
    return Add(findings, "module", Verdict::kOk,
               version.empty() ? "turnstile is loaded" : "turnstile " + version + " is loaded");
  }
  const std::string modules = "/lib/modules/" + release;
  for (const char* folder : {"/updates/", "/updates/dkms/", "/extra/"}) {
    if (files.Exists(modules + folder + "turnstile.ko") ||
        files.Exists(modules + folder + "turnstile.ko.xz")) {
      return Add(findings, "module", Verdict::kWrong, "turnstile is installed and not loaded",
                 "modprobe turnstile");
    }
  }
  Add(findings, "module", Verdict::kWrong, "turnstile is not installed for kernel " + release,
      "build it for this kernel (guide: libvirt.md), then depmod -a");
}

void ExamineGpu(const Files& files, const std::string& address, Findings& findings) {
  const std::string device = "/sys/bus/pci/devices/" + address;
  const std::string driver = BaseName(files.ReadLink(device + "/driver"));
  if (driver != kDriver) {
    const std::string release =
        driver.empty() ? "" : fmt::format("echo {} > {}/driver/unbind; ", address, device);
    return Add(findings, "GPU", Verdict::kWrong,
               fmt::format("{} is bound to {}", address, driver.empty() ? "no driver" : driver),
               fmt::format("{}echo {} > {}/driver_override; echo {} > /sys/bus/pci/drivers_probe",
                           release, kDriver, device, address));
  }
  const Files::Text policy = files.Read(GpuAttributes(address) + "/policy");
  if (policy.error) {
    return Add(findings, "GPU", Verdict::kWrong,
               fmt::format("{} is gone or was reset: {}", address, std::strerror(policy.error)),
               fmt::format("remove its vGPUs; echo {0} > /sys/bus/pci/drivers/turnstile/unbind; "
                           "echo {0} > /sys/bus/pci/drivers/turnstile/bind",
                           address));
  }
  Add(findings, "GPU", Verdict::kOk, fmt::format("{}, policy {}", address, policy.text));
  // One bad type makes libvirt drop all of this GPU's.
  const std::string types = device + "/mdev_supported_types";
  const std::vector<std::string> names = files.List(types);
  for (const std::string& name : names) {
    for (const char* attribute : {"name", "device_api", "available_instances"}) {
      if (!files.Read(types + "/" + name + "/" + attribute).error) continue;
      return Add(findings, "types", Verdict::kWrong,
                 fmt::format("{}: {}/{} cannot be read", address, name, attribute),
                 "dmesg | grep turnstile says why");
    }
  }
  if (names.empty()) {
    return Add(findings, "types", Verdict::kWrong, address + " offers no type of vGPU",
               "dmesg | grep turnstile says why");
  }
  Add(findings, "types", Verdict::kOk, fmt::format("{} of {}", names.size(), address));
}

void ExamineGpus(const Files& files, Findings& findings) {
  bool any = false;
  for (const std::string& address : files.List("/sys/bus/pci/devices")) {
    const std::string device = "/sys/bus/pci/devices/" + address;
    if (files.Read(device + "/vendor").text != kTs104Vendor) continue;
    if (files.Read(device + "/device").text != kTs104Device) continue;
    any = true;
    ExamineGpu(files, address, findings);
  }
  if (!any) {
    Add(findings, "GPU", Verdict::kWrong, "this machine has no TS104 (lspci -d 1234:7510)",
        "give it one: -device ts104 on the QEMU that it runs in");
  }
}

void ExamineVfio(const Files& files, Findings& findings) {
  if (files.Exists("/dev/vfio/vfio")) {
    Add(findings, "VFIO", Verdict::kOk, "/dev/vfio/vfio is there");
  } else {
    Add(findings, "VFIO", Verdict::kWrong, "there is no /dev/vfio/vfio",
        "modprobe vfio_iommu_type1 vfio");
  }
  const size_t count = files.List("/sys/class/iommu").size();
  Add(findings, "IOMMU", Verdict::kOk,
      count ? fmt::format("{} of this machine", count)
            : "none; a vGPU needs none, passing a whole GPU to a guest does");
}

// The folder of definitions holds PARENT/UUID, JSON as mdevctl writes it.
void ExamineDefinitions(const Files& files, Findings& findings) {
  size_t defined = 0;
  for (const std::string& parent : files.List("/etc/mdevctl.d")) {
    for (const std::string& uuid : files.List("/etc/mdevctl.d/" + parent)) {
      const std::string path = "/etc/mdevctl.d/" + parent + "/" + uuid;
      const auto json = nlohmann::json::parse(files.Read(path).text, nullptr, false);
      if (!json.is_object()) {
        Add(findings, "definitions", Verdict::kWrong, path + " is no definition",
            "mdevctl undefine --uuid " + uuid);
        continue;
      }
      ++defined;
      const auto start = json.find("start");
      const bool automatic = start != json.end() && *start == "auto";
      if (!automatic || files.Exists("/sys/bus/mdev/devices/" + uuid)) continue;
      Add(findings, "definitions", Verdict::kWarning,
          fmt::format("vGPU {} is to start by itself and does not exist", uuid),
          fmt::format("systemctl restart turnstile-autostart@{}", parent));
    }
  }
  Add(findings, "definitions", Verdict::kOk, fmt::format("{} vGPUs are defined", defined));
}

void ExamineMdevctl(const Files& files, Findings& findings) {
  if (!HasProgram(files, "mdevctl")) {
    return Add(findings, "mdevctl", Verdict::kWarning,
               "not installed: vGPUs are not kept over a reboot, and libvirt cannot make any",
               "apt install mdevctl");
  }
  Add(findings, "mdevctl", Verdict::kOk, "installed");
  if (!files.Exists("/etc/mdevctl.d")) {
    return Add(findings, "mdevctl", Verdict::kWrong, "there is no /etc/mdevctl.d",
               "apt install --reinstall mdevctl");
  }
  constexpr char kUnit[] =
      "/etc/systemd/system/multi-user.target.wants/turnstile-autostart.service";
  if (files.ReadLink(kUnit).empty()) {
    Add(findings, "autostart", Verdict::kWarning,
        "vGPUs with \"start: auto\" do not start when the host boots",
        "systemctl enable turnstile-autostart.service");
  } else {
    Add(findings, "autostart", Verdict::kOk, "turnstile-autostart.service is enabled");
  }
  ExamineDefinitions(files, findings);
}

void ExamineLibvirt(const Files& files, Findings& findings) {
  const bool one = HasProgram(files, "libvirtd");
  const bool many = HasProgram(files, "virtqemud");
  if (!one && !many) {
    return Add(findings, "libvirt", Verdict::kWarning, "not installed",
               "apt install libvirt-daemon-system libvirt-daemon-driver-nodedev");
  }
  if (files.Exists("/run/libvirt/libvirt-sock")) {
    Add(findings, "libvirt", Verdict::kOk, "libvirtd listens");
  } else if (files.Exists("/run/libvirt/virtqemud-sock")) {
    Add(findings, "libvirt", Verdict::kOk, "virtqemud listens");
  } else {
    Add(findings, "libvirt", Verdict::kWrong, "installed, and nobody listens in /run/libvirt",
        one ? "systemctl start libvirtd.socket" : "systemctl start virtqemud.socket");
  }
  bool nodedev = false;
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
    nodedev |=
        files.Exists(std::string(folder) + "/libvirt/connection-driver/libvirt_driver_nodedev.so");
  }
  if (!nodedev) {
    Add(findings, "libvirt", Verdict::kWrong, "its node device driver is missing: it sees no GPU",
        "apt install libvirt-daemon-driver-nodedev, and restart libvirtd");
  }
}

// "Max locked memory       8388608              8388608              bytes": the soft limit.
// nullopt: there is none, or it cannot be read.
std::optional<uint64_t> LockLimit(std::string_view limits) {
  constexpr std::string_view kName = "Max locked memory";
  const size_t line = limits.find(kName);
  if (line == std::string_view::npos) return std::nullopt;
  limits.remove_prefix(line + kName.size());
  limits.remove_prefix(std::min(limits.find_first_not_of(' '), limits.size()));
  return ParseNumber(limits.substr(0, limits.find(' ')));
}

// The word after "NAME:" in /proc/PID/status; "" without it.
std::string_view StatusWord(std::string_view status, std::string_view name) {
  const size_t line = status.find(name);
  if (line == std::string_view::npos) return "";
  status.remove_prefix(line + name.size());
  status.remove_prefix(std::min(status.find_first_not_of(" \t"), status.size()));
  return status.substr(0, status.find_first_of(" \n"));
}

// "VmLck:\t    1024 kB" in bytes; 0 without it.
uint64_t LockedBytes(std::string_view status) {
  return ParseNumber(StatusWord(status, "VmLck:")).value_or(0) << 10;
}

// Whether VFIO does not ask for the limit: "CapEff:\t000001ffffffffff" has CAP_IPC_LOCK.
bool MayLockEverything(std::string_view status) {
  constexpr int kCapIpcLock = 14;
  const std::string_view word = StatusWord(status, "CapEff:");
  uint64_t capabilities = 0;
  std::from_chars(word.data(), word.data() + word.size(), capabilities, 16);
  return (capabilities >> kCapIpcLock) & 1;
}

void ExamineUsers(const Files& files, Findings& findings) {
  const Host host = ReadHost(files);
  for (const std::string& note : host.notes) {
    Add(findings, "not seen", Verdict::kWarning, note, "run this as root");
  }
  for (const Gpu& gpu : host.gpus) {
    for (const Vgpu& vgpu : gpu.vgpus) {
      if (!vgpu.user) continue;
      const std::string process = fmt::format("/proc/{}", vgpu.user->pid);
      const auto limit = LockLimit(files.Read(process + "/limits").text);
      const std::string status = files.Read(process + "/status").text;
      const uint64_t locked = LockedBytes(status);
      const std::string name = vgpu.user->vm_name.empty() ? vgpu.user->command : vgpu.user->vm_name;
      const std::string who = fmt::format("{} (process {})", Printable(name), vgpu.user->pid);
      if (!limit || *limit >= locked + kLockHeadroom || MayLockEverything(status)) {
        Add(findings, "memlock", Verdict::kOk, who + " has room to lock memory");
        continue;
      }
      Add(findings, "memlock", Verdict::kWarning,
          fmt::format("{} may lock {} MiB and has locked {} MiB: its guest will see faults", who,
                      *limit >> 20, locked >> 20),
          fmt::format("prlimit --memlock=unlimited --pid {}; in libvirt <memtune><hard_limit>",
                      vgpu.user->pid));
    }
  }
}

// The version of an installed package in dpkg's status file; "": it is not installed.
std::string PackageVersion(const std::string& status, const std::string& package) {
  const std::string head = "Package: " + package + "\n";
  for (size_t at = status.find(head); at != std::string::npos; at = status.find(head, at + 1)) {
    if (at != 0 && status[at - 1] != '\n') continue;
    const std::string entry = status.substr(at, status.find("\n\n", at) - at);
    if (entry.find("\nStatus: install ok installed\n") == std::string::npos) return "";
    const size_t version = entry.find("\nVersion: ");
    if (version == std::string::npos) return "";
    const size_t begin = version + 10;
    return entry.substr(begin, entry.find('\n', begin) - begin);
  }
  return "";
}

void ExamineVersions(const Files& files, Findings& findings) {
  const Files::Text status = files.Read("/var/lib/dpkg/status", std::numeric_limits<size_t>::max());
  if (status.error) return;  // not a Debian: nothing to say, and nothing wrong
  std::string text;
  for (const char* package : {"qemu-system-x86", "libvirt-daemon", "mdevctl", "nova-compute"}) {
    const std::string version = PackageVersion(status.text, package);
    if (!version.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", package, version);
  }
  Add(findings, "versions", Verdict::kOk, text.empty() ? "no package of a host's" : text);
}

const char* ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kWrong: break;
  }
  return "wrong";
}

}  // namespace

std::vector<Finding> Examine(const Files& files, const std::string& kernel_release) {
  Findings findings;
  ExamineKernel(files, kernel_release, findings);
  ExamineModule(files, kernel_release, findings);
  ExamineGpus(files, findings);
  ExamineVfio(files, findings);
  ExamineMdevctl(files, findings);
  ExamineLibvirt(files, findings);
  ExamineUsers(files, findings);
  ExamineVersions(files, findings);
  return findings;
}

std::string ToText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:8} {:12} {}\n", ToString(finding.verdict), finding.what, finding.text);
    if (!finding.mend.empty()) text += fmt::format("{:8} {:12} {}\n", "", "", "-> " + finding.mend);
  }
  const auto count = [&](Verdict verdict) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  };
  return text +
         fmt::format("{} wrong, {} warnings\n", count(Verdict::kWrong), count(Verdict::kWarning));
}

Json ToJson(const std::vector<Finding>& findings) {
  Json json = NewDocument("doctor");
  json["findings"] = Json::array();
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"what", finding.what},
                                {"verdict", ToString(finding.verdict)},
                                {"text", finding.text},
                                {"mend", OrNull(finding.mend)}});
  }
  return json;
}

}  // namespace turnstile_smi
