// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "control.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "reader.h"
#include "settings.h"

namespace turnstile_smi {
namespace {

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
