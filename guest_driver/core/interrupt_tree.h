// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>

#include "guest_driver/core/os.h"
#include "guest_driver/core/topology.h"

namespace guest {

// The interrupt tree of this function (register_map.md §3). Only leaves 0 (engines' non-stalling
// vectors) and 4 (MMU faults 132 and 133, PFIFO 136) are used.
class InterruptTree {
 public:
  InterruptTree(const Os& os, const Topology& topology) : os_(os), topology_(topology) {}

  void Enable();
  void Disable();

  // See tsg_irq. A register access is an exit in a virtual machine: MSI-X entry 0, which engines
  // use, costs one.
  uint32_t Handle(int vector);
  // Lets vector 136 through again, which Handle masked because it is a level.
  void UnmaskPfifo();

 private:
  uint32_t ClearEngines();
  uint32_t HandleEngines();
  uint32_t HandleErrors();

  const Os& os_;
  const Topology& topology_;
};

}  // namespace guest
