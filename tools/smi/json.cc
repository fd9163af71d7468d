// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "json.h"

#include "shares.h"

namespace turnstile_smi {
namespace {

constexpr int kSchemaVersion = 1;

Json ToJson(const VgpuType& type) {
  return {{"mdev_type", type.id},
          {"name", type.name},
          {"vram_bytes", type.vram_bytes},
          {"channels", type.channels},
          {"max_instances", type.max_instances},
          {"available_instances", type.available}};
}

Json ToJson(const Account& account) {
  return {{"run_ns", account.run_ns},
          {"wait_ns", account.wait_ns},
          {"longest_wait_ns", account.longest_wait_ns},
          {"slices", account.slices},
          {"preemptions", account.preemptions},
          {"overshoot_ns", account.overshoot_ns}};
}

// {"gr": …, "ce2": …, "ce3": …}, null without two readings.
Json UtilisationOf(const Vgpu& vgpu) {
  if (!vgpu.usage) return nullptr;
  Json json;
  for (size_t i = 0; i < kEngines.size(); ++i) json[kEngines[i]] = vgpu.usage->engines[i];
  return json;
}

Json UtilisationOf(const Gpu& gpu) {
  Json json;
  for (size_t i = 0; i < kEngines.size(); ++i) json[kEngines[i]] = OrNull(Utilisation(gpu, i));
  return json;
}

Json UserOf(const Vgpu& vgpu) {
  if (!vgpu.user) return nullptr;
  return {{"pid", vgpu.user->pid},
          {"command", vgpu.user->command},
          {"vm_name", OrNull(vgpu.user->vm_name)},
          {"vm_uuid", OrNull(vgpu.user->vm_uuid)}};
}

Json ToJson(const Vgpu& vgpu) {
  Json json = {{"mdev_uuid", vgpu.uuid},
               {"mdev_type", vgpu.type},
               {"state", ToString(vgpu.state)},
               {"user", UserOf(vgpu)},
               {"iommu_group", OrNull(vgpu.iommu_group)},
               {"function", vgpu.function},
               {"vram_bytes", vgpu.vram_bytes},
               {"weight", vgpu.weight},
               {"cap_percent", vgpu.cap_percent},
               {"latency_us", vgpu.latency_us},
               {"share_ordered", OrNull(vgpu.share_ordered)},
               {"share_measured_total", OrNull(vgpu.share_measured)},
               {"share_measured", vgpu.usage ? OrNull(vgpu.usage->share) : Json(nullptr)},
               {"utilisation", UtilisationOf(vgpu)}};
  for (size_t i = 0; i < kEngines.size(); ++i) {
    json["engines"][kEngines[i]] = ToJson(vgpu.accounts[i]);
  }
  json["gpu_time_ns"] = vgpu.gpu_time_ns;
  json["submissions"] = vgpu.submissions;
  json["csr_exits_total"] = vgpu.csr_exits_total;
  json["interrupts_injected"] = vgpu.interrupts_injected;
  json["faults_forwarded"] = vgpu.faults_forwarded;
  json["pages_pinned"] = vgpu.pages_pinned;
  json["memory_bytes"] = vgpu.memory_bytes;
  json["counters"] = nullptr;
  for (const auto& [name, value] : vgpu.counters) json["counters"][name] = value;
  return json;
}

Json Numbers(const Gpu& gpu) {
  Json json = Json::object();
  for (const auto& [name, value] : gpu.numbers) json[name] = value;
  return json;
}

Json ToJson(const Gpu& gpu) {
  Json json = {{"pci_bus_id", gpu.address},
               {"pci_id", gpu.pci_id},
               {"state", gpu.lost ? "lost" : "ok"},
               {"vram_bytes", gpu.vram_bytes},
               {"policy", OrNull(gpu.policy)},
               {"scheduler", Numbers(gpu)},
               {"utilisation", UtilisationOf(gpu)},
               {"types", Json::array()},
               {"vgpus", Json::array()}};
  for (const VgpuType& type : gpu.types) json["types"].push_back(ToJson(type));
  for (const Vgpu& vgpu : gpu.vgpus) json["vgpus"].push_back(ToJson(vgpu));
  return json;
}

Json Document(const char* kind) {
  Json json = NewDocument(kind);
  json["gpus"] = Json::array();
  return json;
}

}  // namespace

Json ToJson(const Host& host) {
  Json json = Document("host");
  for (const Gpu& gpu : host.gpus) json["gpus"].push_back(ToJson(gpu));
  json["notes"] = host.notes;
  return json;
}

Json TypesToJson(const Host& host, bool creatable_only) {
  Json json = Document("types");
  for (const Gpu& gpu : host.gpus) {
    Json types = Json::array();
    for (const VgpuType& type : gpu.types) {
      if (!creatable_only || type.available) types.push_back(ToJson(type));
    }
    json["gpus"].push_back({{"pci_bus_id", gpu.address}, {"types", types}});
  }
  return json;
}

Json UsageToJson(const Host& host) {
  Json json = Document("usage");
  for (const Gpu& gpu : host.gpus) {
    Json vgpus = Json::array();
    for (const Vgpu& vgpu : gpu.vgpus) {
      vgpus.push_back({{"mdev_uuid", vgpu.uuid},
                       {"vm_name", vgpu.user ? OrNull(vgpu.user->vm_name) : Json(nullptr)},
                       {"seconds", vgpu.usage ? Json(vgpu.usage->seconds) : Json(nullptr)},
                       {"utilisation", UtilisationOf(vgpu)},
                       {"share_measured", vgpu.usage ? OrNull(vgpu.usage->share) : Json(nullptr)}});
    }
    json["gpus"].push_back(
        {{"pci_bus_id", gpu.address}, {"utilisation", UtilisationOf(gpu)}, {"vgpus", vgpus}});
  }
  return json;
}

Json SchedToJson(const Host& host) {
  Json json = Document("sched");
  for (const Gpu& gpu : host.gpus) {
    Json vgpus = Json::array();
    for (const Vgpu& vgpu : gpu.vgpus) {
      vgpus.push_back({{"mdev_uuid", vgpu.uuid},
                       {"vm_name", vgpu.user ? OrNull(vgpu.user->vm_name) : Json(nullptr)},
                       {"weight", vgpu.weight},
                       {"cap_percent", vgpu.cap_percent},
                       {"latency_us", vgpu.latency_us},
                       {"share_ordered", OrNull(vgpu.share_ordered)},
                       {"share_measured_total", OrNull(vgpu.share_measured)}});
    }
    json["gpus"].push_back({{"pci_bus_id", gpu.address},
                            {"policy", OrNull(gpu.policy)},
                            {"scheduler", Numbers(gpu)},
                            {"vgpus", vgpus}});
  }
  return json;
}

Json NewDocument(const char* kind) { return {{"schema", kSchemaVersion}, {"document", kind}}; }

Json OrNull(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string Dump(const Json& document, int indent) { return document.dump(indent) + "\n"; }

}  // namespace turnstile_smi
