// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "control.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "reader.h"

namespace turnstile_smi {
namespace {

// Names and legal values as docs/sysfs-abi.md has them.
struct Attribute {
  const char* name;
  const char* legal;
};

constexpr std::array<Attribute, 8> kGpuAttributes = {{
    {"policy", "best_effort, equal_share, fixed_share, weighted or latency"},
    {"arr", "0 or 1"},
    {"frequency_hz", "63 to 960, or 0"},
    {"averaging_factor", "1 to 60"},
    {"timeslice_us", "1000 to 30000, or 0"},
    {"hold_us", "0 to 10000"},
    {"ctxsw_timeout_ms", "1 to 10000"},
    {"strict", "0 or 1"},
}};

constexpr std::array<Attribute, 3> kVgpuAttributes = {{
    {"weight", "1 to 10000"},
    {"cap_percent", "1 to 100"},
    {"latency_us", "200 to 1000000, or 0"},
}};

std::span<const Attribute> AttributesOf(const Target& target) {
  if (target.uuid.empty()) return kGpuAttributes;
  return kVgpuAttributes;
}

const Attribute* Find(std::span<const Attribute> attributes, const std::string& name) {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

std::string Names(const Target& target) {
  std::string names;
  for (const Attribute& attribute : AttributesOf(target)) {
    names += (names.empty() ? "" : ", ") + std::string(attribute.name);
  }
  return names;
}

std::string Describe(const Target& target) {
  return target.uuid.empty() ? "GPU " + target.gpu : "vGPU " + target.uuid;
}

std::string Path(const Target& target, const std::string& name) {
  const std::string folder =
      target.uuid.empty() ? GpuAttributes(target.gpu) : VgpuAttributes(target.uuid);
  return folder + "/" + name;
}

std::string Explain(int error, const Attribute& attribute) {
  switch (error) {
    case EINVAL: return fmt::format("not legal: {}", attribute.legal);
    case EACCES:
    case EPERM: return "only root may change it";
    case EIO: return "the GPU is gone or was reset: bind its driver anew";
    case ENOENT:
    case ENODEV: return "it is not there any more";
    default: return std::strerror(error);
  }
}

}  // namespace

Setting ParseSetting(const std::string& text, const Target& target, std::string& problem) {
  Setting setting;
  const size_t equals = text.find('=');
  setting.name = text.substr(0, equals);
  if (equals == std::string::npos || equals + 1 == text.size()) {
    problem = fmt::format("{}: write it as NAME=VALUE", text);
  } else if (!Find(AttributesOf(target), setting.name)) {
    problem = fmt::format("{}: a {} has no such setting; it has {}", setting.name,
                          target.uuid.empty() ? "GPU" : "vGPU", Names(target));
  } else {
    setting.value = text.substr(equals + 1);
  }
  return setting;
}

std::string Apply(const Files& files, const Target& target, const Setting& setting) {
  const Attribute* attribute = Find(AttributesOf(target), setting.name);
  const int error = files.Write(Path(target, setting.name), setting.value);
  if (error == 0) return "";
  return fmt::format("{}: {}={} was refused: {}", Describe(target), setting.name, setting.value,
                     Explain(error, *attribute));
}

std::string Current(const Files& files, const Target& target, const std::string& name) {
  return files.Read(Path(target, name)).text;
}

}  // namespace turnstile_smi
