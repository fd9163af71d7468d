// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// vGPU types and what is left of a GPU.
#pragma once

#include <cstdint>

#include "base/bitmap.h"
#include "base/result.h"
#include "base/units.h"
#include "core/core_abi.h"

namespace turnstile {

using base::Status;

// A vGPU type is 1/N of the VRAM, of the CHIDs and of the TSGIDs. Names and order never change.
struct VgpuType {
  const char* name;
  uint32_t divisor;
};

inline constexpr VgpuType kVgpuTypes[TS_TYPE_COUNT] = {
    {"ts104_v1", 1}, {"ts104_v2", 2}, {"ts104_v4", 4}, {"ts104_v8", 8}, {"ts104_v16", 16},
};

// The share of one vGPU. VRAM and CHID ranges are aligned to their size, which is what
// VIRTUAL_CHANNEL_CFG's mask and set can express.
struct Partition {
  base::FunctionId function;
  base::VramOffset vram;
  uint64_t vram_bytes = 0;
  uint32_t first_chid = 0;  // also the first TSGID
  uint32_t channels = 0;    // a power of two
};

// Which sixteenths of the GPU and which functions are taken. Not synchronized.
class PartitionMap {
 public:
  static constexpr uint32_t kUnits = 16;
  static constexpr uint32_t kFunctions = 64;

  // `vram_bytes`: a multiple of 16 * 2 MiB. kNoMemory.
  static base::Result<PartitionMap> Create(uint64_t vram_bytes, uint32_t channels);

  // kInvalidArgument: no such type. kNoSpace.
  base::Result<Partition> Allocate(uint32_t type_index);
  void Free(const Partition& partition);

  // How many of this type fit now, if nothing else is created.
  uint32_t Available(uint32_t type_index) const;

  uint64_t VramBytes(uint32_t type_index) const {
    return vram_bytes_ / kVgpuTypes[type_index].divisor;
  }
  uint64_t free_vram_bytes() const { return units_.available() * (vram_bytes_ / kUnits); }
  uint32_t free_functions() const { return static_cast<uint32_t>(functions_.available()); }
  bool unused() const { return units_.available() == kUnits; }

 private:
  static uint32_t UnitsOf(uint32_t type_index) { return kUnits / kVgpuTypes[type_index].divisor; }

  uint64_t vram_bytes_ = 0;
  uint32_t channels_ = 0;
  base::Bitmap units_;
  base::Bitmap functions_;  // function 0 is the physical driver's
};

}  // namespace turnstile
