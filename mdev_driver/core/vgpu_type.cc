// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/vgpu_type.h"

#include <utility>

namespace turnstile {

base::Result<PartitionMap> PartitionMap::Create(uint64_t vram_bytes, uint32_t channels) {
  PartitionMap map;
  map.vram_bytes_ = vram_bytes;
  map.channels_ = channels;
  TS_TRY(map.units_, base::Bitmap::Create(kUnits));
  TS_TRY(map.functions_, base::Bitmap::Create(kFunctions));
  TS_TRY_STATUS(map.functions_.Reserve(0, 1));
  return base::Result<PartitionMap>(std::move(map));
}

base::Result<Partition> PartitionMap::Allocate(uint32_t type_index) {
  if (type_index >= TS_TYPE_COUNT) return Status::kInvalidArgument;
  const uint32_t count = UnitsOf(type_index);
  TS_TRY(const size_t function, functions_.AllocRange(1));
  const base::Result<size_t> unit = units_.AllocRange(count, count);
  if (!unit.ok()) {
    TS_TRY_STATUS(functions_.Free(function, 1));
    return unit.status();
  }
  Partition partition;
  partition.function = base::FunctionId(function);
  partition.vram = base::VramOffset(*unit * (vram_bytes_ / kUnits));
  partition.vram_bytes = count * (vram_bytes_ / kUnits);
  partition.first_chid = static_cast<uint32_t>(*unit) * (channels_ / kUnits);
  partition.channels = count * (channels_ / kUnits);
  return partition;
}

void PartitionMap::Free(const Partition& partition) {
  const uint64_t unit_bytes = vram_bytes_ / kUnits;
  TS_CHECK(units_.Free(partition.vram.value() / unit_bytes, partition.vram_bytes / unit_bytes) ==
           Status::kOk);
  TS_CHECK(functions_.Free(partition.function.value(), 1) == Status::kOk);
}

uint32_t PartitionMap::Available(uint32_t type_index) const {
  if (type_index >= TS_TYPE_COUNT) return 0;
  const uint32_t count = UnitsOf(type_index);
  uint32_t fitting = 0;
  for (uint32_t first = 0; first < kUnits; first += count) {
    bool taken = false;
    for (uint32_t unit = first; unit < first + count; ++unit) taken = taken || units_.Test(unit);
    fitting += taken ? 0 : 1;
  }
  return fitting < free_functions() ? fitting : free_functions();
}

}  // namespace turnstile
