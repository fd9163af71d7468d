// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "orphans.h"

#include <fmt/format.h>

#include "text.h"

namespace turnstile_smi {
namespace {

// How mdevctl starts a vGPU of its definitions; "" when it has none of it.
std::string StartOf(const Files& files, const std::string& gpu, const std::string& uuid) {
  const Files::Text file = files.Read("/etc/mdevctl.d/" + gpu + "/" + uuid);
  if (file.error) return "";
  const auto json = nlohmann::json::parse(file.text, nullptr, false);
  const bool automatic = json.is_object() && json.value("start", nlohmann::json()) == "auto";
  return automatic ? "auto" : "manual";
}

}  // namespace

std::vector<Orphan> FindOrphans(const Files& files, const Host& host) {
  std::vector<Orphan> orphans;
  for (const Gpu& gpu : host.gpus) {
    for (const Vgpu& vgpu : gpu.vgpus) {
      if (vgpu.state != State::kUnused) continue;
      orphans.push_back({vgpu.uuid, vgpu.type, gpu.address, vgpu.vram_bytes,
                         StartOf(files, gpu.address, vgpu.uuid)});
    }
  }
  return orphans;
}

std::string ToText(const std::vector<Orphan>& orphans, const Host& host) {
  std::string text;
  if (orphans.empty()) {
    text = "every vGPU that could be looked at is open\n";
  } else {
    std::vector<std::vector<std::string>> rows = {{"vGPU", "GPU", "type", "VRAM", "mdevctl"}};
    for (const Orphan& orphan : orphans) {
      rows.push_back({orphan.uuid, orphan.gpu, ShortType(orphan.type), MiB(orphan.vram_bytes),
                      orphan.start.empty() ? "-" : orphan.start});
    }
    text = Align(rows, "lllrl") + "to take one away: mdevctl stop --uuid UUID\n";
  }
  return text + Notes(host);
}

Json ToJson(const std::vector<Orphan>& orphans, const Host& host) {
  Json json = NewDocument("orphans");
  json["orphans"] = Json::array();
  for (const Orphan& orphan : orphans) {
    json["orphans"].push_back({{"mdev_uuid", orphan.uuid},
                               {"mdev_type", orphan.type},
                               {"pci_bus_id", orphan.gpu},
                               {"vram_bytes", orphan.vram_bytes},
                               {"start", OrNull(orphan.start)}});
  }
  json["notes"] = host.notes;
  return json;
}

}  // namespace turnstile_smi
