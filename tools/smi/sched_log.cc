// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sched_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "reader.h"
#include "text.h"

namespace turnstile_smi {
namespace {

// 600 lines of a GPU; one has some 250 bytes.
constexpr size_t kLargestLog = 1 << 20;

const Gpu* FindGpu(const Host& host, const std::string& address) {
  for (const Gpu& gpu : host.gpus) {
    if (gpu.address == address) return &gpu;
  }
  return nullptr;
}

const Vgpu* FindVgpu(const Gpu* gpu, uint64_t function) {
  if (gpu == nullptr) return nullptr;
  for (const Vgpu& vgpu : gpu->vgpus) {
    if (vgpu.function == function) return &vgpu;
  }
  return nullptr;
}

std::string Whose(const Vgpu* vgpu, uint64_t function) {
  if (function == 0) return "(idle)";
  return vgpu ? vgpu->uuid : fmt::format("function {}, gone", function);
}

// When the last turn of each runlist ended.
std::array<uint64_t, kEngines.size()> LastEnds(const SliceLog& log) {
  std::array<uint64_t, kEngines.size()> ends{};
  for (const Slice& slice : log.slices) {
    ends[slice.runlist] = std::max(ends[slice.runlist], slice.end_ns);
  }
  return ends;
}

std::string Why(const SliceLog& log) {
  if (log.error == EACCES || log.error == EPERM) return "only root may look at it";
  return std::strerror(log.error);
}

}  // namespace

SliceLog ReadSliceLog(const Files& files, const Gpu& gpu) {
  const Files::Text file = files.Read(GpuDebugfs(gpu.address) + "/slices", kLargestLog);
  return {gpu.address, file.error, ParseSlices(file.text)};
}

std::string ToText(const std::vector<SliceLog>& logs, const Host& host) {
  std::string text;
  for (const SliceLog& log : logs) {
    text += fmt::format("GPU {}\n", log.gpu);
    if (log.error) {
      text += fmt::format("not shown: the log of turns: {}\n", Why(log));
      continue;
    }
    const Gpu* gpu = FindGpu(host, log.gpu);
    std::vector<std::vector<std::string>> rows = {
        {"began", "engine", "vGPU", "VM", "turn", "planned", "ran"}};
    const auto ends = LastEnds(log);
    for (const Slice& slice : log.slices) {
      const Vgpu* vgpu = FindVgpu(gpu, slice.function);
      const uint64_t ago = ends[slice.runlist] - slice.start_ns;
      rows.push_back({"-" + Milliseconds(ago), kEngines[slice.runlist], Whose(vgpu, slice.function),
                      vgpu ? UserName(*vgpu) : "-", Milliseconds(slice.end_ns - slice.start_ns),
                      Milliseconds(slice.target_ns), Milliseconds(slice.run_ns)});
    }
    if (rows.size() > 1) {
      text += Align(rows, "rlllrrr");
    } else {
      text += gpu && gpu->policy == "best_effort"
                  ? "  no turns: with best_effort the GPU goes round by itself\n"
                  : "  no turn has ended yet\n";
    }
  }
  return text + Notes(host);
}

Json ToJson(const std::vector<SliceLog>& logs, const Host& host) {
  Json json = NewDocument("sched_log");
  json["gpus"] = Json::array();
  for (const SliceLog& log : logs) {
    const Gpu* gpu = FindGpu(host, log.gpu);
    Json slices = Json::array();
    for (const Slice& slice : log.slices) {
      const Vgpu* vgpu = FindVgpu(gpu, slice.function);
      slices.push_back({{"engine", kEngines[slice.runlist]},
                        {"function", slice.function},
                        {"mdev_uuid", vgpu ? Json(vgpu->uuid) : Json(nullptr)},
                        {"start_ns", slice.start_ns},
                        {"end_ns", slice.end_ns},
                        {"target_ns", slice.target_ns},
                        {"run_ns", slice.run_ns}});
    }
    json["gpus"].push_back({{"pci_bus_id", log.gpu},
                            {"error", log.error ? Json(Why(log)) : Json(nullptr)},
                            {"slices", slices}});
  }
  json["notes"] = host.notes;
  return json;
}

}  // namespace turnstile_smi
