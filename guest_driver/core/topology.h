// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>

#include "base/result.h"
#include "guest_driver/core/os.h"

namespace guest {

// What PTOP says, as far as this driver uses it.
struct Topology {
  uint32_t runlist_mask = 0;
  uint32_t compute_runlist = 0;
  uint32_t copy_runlist_mask = 0;  // runlists without GR
  uint32_t engine_reset_mask = 0;  // NV_PMC_ENABLE bits
  uint32_t nonstall_mask = 0;      // vectors 0-31 that engines use
  uint32_t nonstall_of_runlist[TSG_NUM_RUNLISTS] = {};
};

// kNotSupported: no GR, an engine on a runlist beyond TSG_NUM_RUNLISTS, or a table without an end.
base::Result<Topology> ReadTopology(const Os& os);

}  // namespace guest
