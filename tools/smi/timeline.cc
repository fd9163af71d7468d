// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "text.h"

namespace turnstile_smi {
namespace {

// What a vGPU's events are, by the lane that shows them.
struct LaneOfEvent {
  const char* event;
  const char* lane;
};
constexpr LaneOfEvent kLanes[] = {
    {"irq_inject", "interrupts"},
    {"fault", "faults"},
    {"ctxsw_timeout", "faults"},
    {"csr_access", "exits"},
    {"runlist_submit", "submits"},
    {"shadow_update", "memory"},
    {"pin", "memory"},
    {"unpin", "memory"},
    {"dma_unmap", "memory"},
    {"wake", "life"},
    {"vgpu_create", "life"},
    {"vgpu_destroy", "life"},
    {"vgpu_open", "life"},
    {"vgpu_close", "life"},
    {"vgpu_reset", "life"},
};
// The order in which a vGPU's lanes are shown, behind its engines.
constexpr const char* kOrder[] = {"interrupts", "faults", "submits", "exits", "memory", "life"};

class Builder {
 public:
  explicit Builder(const Host& host) {
    for (const Gpu& gpu : host.gpus) {
      gpus_.emplace(gpu.address, std::array<Lane, kEngines.size()>());
      for (const Vgpu& vgpu : gpu.vgpus) Add(vgpu.uuid, Label(vgpu));
      shown_.push_back(gpu.address);
    }
  }

  void Take(const TraceEvent& event) {
    if (event.name == "slice") return TakeSlice(event);
    const std::string gpu = event.fields.Text("gpu");
    const std::string uuid = event.fields.Text("vgpu");
    if (!gpu.empty() && !gpus_.contains(gpu)) return;
    if (event.name == "switch") {
      if (const auto runlist = event.fields.Number("runlist");
          runlist && *runlist < kEngines.size())
        gpus_[gpu][*runlist].marks.push_back({event.time_ns, "switch", event.fields.all()});
      return;
    }
    if (event.name == "vgpu_create" && !vgpus_.contains(uuid)) Add(uuid, uuid);
    const auto found = vgpus_.find(uuid);
    if (found == vgpus_.end()) return;
    VgpuLanes& lanes = found->second;
    if (event.name == "preempt") {
      if (const auto runlist = event.fields.Number("runlist");
          runlist && *runlist < kEngines.size())
        lanes.left_work[*runlist] = true;
      return;
    }
    if (event.name == "wake" && !lanes.woken_ns) lanes.woken_ns = event.time_ns;
    for (const LaneOfEvent& entry : kLanes) {
      if (event.name == entry.event) {
        lanes.others[entry.lane].push_back({event.time_ns, MarkName(event), event.fields.all()});
      }
    }
  }

  Timeline Finish(uint64_t lost) {
    Timeline timeline;
    timeline.lost = lost;
    timeline.refused = refused_;
    for (const std::string& address : shown_) {
      for (size_t i = 0; i < kEngines.size(); ++i) {
        Put(timeline, "GPU " + address, kEngines[i], std::move(gpus_[address][i]));
      }
    }
    for (const std::string& uuid : order_) {
      VgpuLanes& lanes = vgpus_[uuid];
      for (size_t i = 0; i < kEngines.size(); ++i) {
        Put(timeline, "vGPU " + lanes.label, kEngines[i], std::move(lanes.engines[i]));
      }
      for (const char* name : kOrder) {
        Lane lane;
        lane.marks = std::move(lanes.others[name]);
        Put(timeline, "vGPU " + lanes.label, name, std::move(lane));
      }
    }
    return timeline;
  }

 private:
  struct VgpuLanes {
    std::string label;
    std::array<Lane, kEngines.size()> engines;
    std::array<bool, kEngines.size()> left_work{};  // by the turn whose slice comes next
    std::array<bool, kEngines.size()> waits{};      // since its last turn, which left work
    std::optional<uint64_t> woken_ns;               // and has had no turn since
    std::map<std::string, std::vector<Mark>> others;
  };

  static std::string Label(const Vgpu& vgpu) {
    const std::string user = vgpu.user ? Printable(vgpu.user->vm_name) : "";
    return user.empty() ? vgpu.uuid : user + " " + vgpu.uuid;
  }

  static std::string MarkName(const TraceEvent& event) {
    const Fields& fields = event.fields;
    if (event.name == "irq_inject") {
      return fields.Text("kind") + " " + fields.Text("vector");
    }
    if (event.name == "csr_access") {
      return fmt::format("{} {}:{}", fields.Text("access"), fields.Text("region"),
                         fields.Text("offset"));
    }
    if (event.name == "wake") return "wake by " + fields.Text("by");
    return event.name;
  }

  static void Put(Timeline& timeline, const std::string& owner, const char* name, Lane lane) {
    if (lane.spans.empty() && lane.marks.empty()) return;
    lane.owner = owner;
    lane.name = name;
    timeline.lanes.push_back(std::move(lane));
  }

  void Add(const std::string& uuid, const std::string& label) {
    vgpus_[uuid].label = label;
    order_.push_back(uuid);
  }

  void TakeSlice(const TraceEvent& event) {
    const auto slice = ParseSlice(event.fields);
    const auto gpu = gpus_.find(event.fields.Text("gpu"));
    if (!slice || gpu == gpus_.end()) return;
    Lane& engine = gpu->second[slice->runlist];
    if (!engine.spans.empty() && slice->start_ns < engine.spans.back().end_ns) {
      ++refused_;
      return;
    }
    const auto found = vgpus_.find(event.fields.Text("vgpu"));
    std::string name = "idle";
    if (slice->function) name = fmt::format("function {}", slice->function);
    if (found != vgpus_.end()) {
      name = found->second.label;
      TakeTurn(found->second, *slice, event.fields.all());
    }
    engine.spans.push_back({slice->start_ns, slice->end_ns, name, event.fields.all()});
  }

  // The turn itself, and the wait before it.
  static void TakeTurn(VgpuLanes& lanes, const Slice& slice, const Arguments& arguments) {
    std::vector<Span>& spans = lanes.engines[slice.runlist].spans;
    const uint64_t before = spans.empty() ? 0 : spans.back().end_ns;
    std::optional<uint64_t> since;
    if (lanes.waits[slice.runlist]) since = before;
    if (!since && lanes.woken_ns) since = std::max(*lanes.woken_ns, before);
    if (since && *since < slice.start_ns) spans.push_back({*since, slice.start_ns, "waits", {}});
    spans.push_back({slice.start_ns, slice.end_ns, "runs", arguments});
    lanes.woken_ns.reset();
    lanes.waits[slice.runlist] = lanes.left_work[slice.runlist];
    lanes.left_work[slice.runlist] = false;
  }

  std::map<std::string, std::array<Lane, kEngines.size()>> gpus_;
  std::map<std::string, VgpuLanes> vgpus_;
  std::vector<std::string> shown_;
  std::vector<std::string> order_;
  uint64_t refused_ = 0;
};

}  // namespace

Timeline MakeTimeline(const Host& host, const TraceText& trace) {
  Builder builder(host);
  for (const TraceEvent& event : trace.events) builder.Take(event);
  return builder.Finish(trace.lost);
}

}  // namespace turnstile_smi
