// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/topology.h"

#include "ts104/typed.h"

namespace guest {

namespace {

using base::Status;
using ts104::ptop::DeviceInfo;

// The words of one engine.
struct Engine {
  DeviceInfo enumeration;
  DeviceInfo type;
};

Status AddEngine(const Engine& engine, Topology* topology) {
  const uint32_t type = engine.type.Get<DeviceInfo::TypeEnum>();
  const bool graphics = type == DeviceInfo::kTypeEnumGraphics;
  if (!graphics && type != DeviceInfo::kTypeEnumLce) return Status::kOk;  // of no use here
  if (!engine.enumeration.Test<DeviceInfo::EnumRunlistValid>()) return Status::kOk;
  const uint32_t runlist = engine.enumeration.Get<DeviceInfo::EnumRunlist>();
  if (runlist >= TSG_NUM_RUNLISTS) return Status::kNotSupported;

  topology->runlist_mask |= 1u << runlist;
  if (graphics) topology->compute_runlist = runlist;
  if (engine.enumeration.Test<DeviceInfo::EnumResetValid>()) {
    topology->engine_reset_mask |= 1u << engine.enumeration.Get<DeviceInfo::EnumReset>();
  }
  if (engine.enumeration.Test<DeviceInfo::EnumIntrValid>()) {
    const uint32_t vector = 1u << engine.enumeration.Get<DeviceInfo::EnumIntr>();
    topology->nonstall_mask |= vector;
    topology->nonstall_of_runlist[runlist] |= vector;
  }
  if (graphics) {
    topology->copy_runlist_mask &= ~(1u << runlist);
  } else if (runlist != topology->compute_runlist) {
    topology->copy_runlist_mask |= 1u << runlist;
  }
  return Status::kOk;
}

}  // namespace

base::Result<Topology> ReadTopology(const Os& os) {
  Topology topology;
  topology.compute_runlist = TSG_NUM_RUNLISTS;
  Engine engine;
  for (uint32_t i = 0; i < DeviceInfo::kCount; ++i) {
    const auto word = DeviceInfo::ReadFrom(os, i);
    switch (word.Get<DeviceInfo::Entry>()) {
      case DeviceInfo::kEntryEnum: engine.enumeration = word; break;
      case DeviceInfo::kEntryEngineType: engine.type = word; break;
      case DeviceInfo::kEntryNotValid: continue;
      default: break;
    }
    if (word.Test<DeviceInfo::Chain>()) continue;
    TS_TRY_STATUS(AddEngine(engine, &topology));
    engine = Engine();
  }
  if (topology.compute_runlist >= TSG_NUM_RUNLISTS) return Status::kNotSupported;
  return topology;
}

}  // namespace guest
