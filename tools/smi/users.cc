// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "users.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace turnstile_smi {
namespace {

// What follows "-OPTION" or "--OPTION"; "" without it. As for QEMU, the last one counts.
std::string OptionValue(const std::vector<std::string>& arguments, const std::string& option) {
  std::string value;
  for (size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "-" + option || arguments[i] == "--" + option) value = arguments[i + 1];
  }
  return value;
}

// "a=b,,c,d" as {"a=b,c", "d"}.
std::vector<std::string> SplitQemuList(const std::string& text) {
  std::vector<std::string> items(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      items.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      items.back() += text[i++];
    } else {
      items.emplace_back();
    }
  }
  return items;
}

// `text` with U+FFFD for what is no UTF-8: another's command line holds whatever it likes.
std::string ValidUtf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

User ReadUser(const Files& files, const std::string& pid) {
  User user;
  user.pid = static_cast<int>(ParseNumber(pid).value_or(0));
  const auto arguments = SplitCommandLine(ValidUtf8(files.Read("/proc/" + pid + "/cmdline").text));
  if (!arguments.empty()) user.command = BaseName(arguments[0]);
  if (user.command.starts_with("qemu") || user.command == "kvm") {
    user.vm_name = VmName(arguments);
    user.vm_uuid = OptionValue(arguments, "uuid");
  }
  return user;
}

bool IsPid(const std::string& name) { return ParseNumber(name).has_value(); }

// Vgpus by the device node that their user has open.
std::multimap<std::string, Vgpu*> VgpusByNode(Host& host) {
  std::multimap<std::string, Vgpu*> nodes;
  for (Gpu& gpu : host.gpus) {
    for (Vgpu& vgpu : gpu.vgpus) {
      if (!vgpu.iommu_group.empty()) nodes.emplace("/dev/vfio/" + vgpu.iommu_group, &vgpu);
      if (!vgpu.vfio_device.empty()) nodes.emplace("/dev/vfio/devices/" + vgpu.vfio_device, &vgpu);
    }
  }
  return nodes;
}

// One process's descriptors; returns the errno of listing them.
int LookAt(const Files& files, const std::string& pid,
           const std::multimap<std::string, Vgpu*>& nodes) {
  const std::string folder = "/proc/" + pid + "/fd";
  int error = 0;
  for (const std::string& fd : files.List(folder, &error)) {
    const std::string target = files.ReadLink(folder + "/" + fd);
    if (!target.starts_with("/dev/vfio/")) continue;
    const auto [first, last] = nodes.equal_range(target);
    for (auto it = first; it != last; ++it) {
      if (!it->second->user) it->second->user = ReadUser(files, pid);
    }
  }
  return error;
}

State StateOf(const Vgpu& vgpu, bool all_seen) {
  if (!vgpu.user) return all_seen ? State::kUnused : State::kUnknown;
  for (const auto& [name, value] : vgpu.counters) {
    if (name == "channels") return value ? State::kActive : State::kOpen;
  }
  return State::kInUse;
}

}  // namespace

std::vector<std::string> SplitCommandLine(const std::string& text) {
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

std::string VmName(const std::vector<std::string>& arguments) {
  std::string name;
  const std::vector<std::string> items = SplitQemuList(OptionValue(arguments, "name"));
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].starts_with("guest=")) {
      name = items[i].substr(6);
    } else if (i == 0 && items[i].find('=') == std::string::npos) {
      name = items[i];
    }
  }
  return name;
}

void FindUsers(const Files& files, Host& host) {
  const std::multimap<std::string, Vgpu*> nodes = VgpusByNode(host);
  // Who may not look at the first process may not look at others either, or does not even see them.
  bool all_seen = false;
  for (const std::string& name : files.List("/proc")) {
    if (!IsPid(name)) continue;
    const int error = LookAt(files, name, nodes);
    if (name == "1") all_seen = error == 0;
  }
  size_t unknown = 0;
  for (Gpu& gpu : host.gpus) {
    for (Vgpu& vgpu : gpu.vgpus) {
      vgpu.state = StateOf(vgpu, all_seen);
      if (vgpu.state == State::kUnknown) ++unknown;
    }
  }
  if (unknown) {
    host.notes.push_back(fmt::format(
        "VM and state of {} vGPUs: only root may look at the processes of others", unknown));
  }
}

}  // namespace turnstile_smi
