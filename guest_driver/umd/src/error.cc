// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "libts104/error.h"

#include <fmt/format.h>

#include "guest_driver/core/guest_abi.h"
#include "ts104/regs.h"

namespace libts104 {

namespace {

std::string EngineName(uint32_t engine) {
  if (engine >= NV_MMU_FAULT_PACKET_ENGINE_ID_GRAPHICS) return "GR";
  if (engine >= NV_MMU_FAULT_PACKET_ENGINE_ID_HOST0) {
    return fmt::format("PBDMA {}", engine - NV_MMU_FAULT_PACKET_ENGINE_ID_HOST0);
  }
  if (engine >= NV_MMU_FAULT_PACKET_ENGINE_ID_CE0) {
    return fmt::format("CE{}", engine - NV_MMU_FAULT_PACKET_ENGINE_ID_CE0);
  }
  return fmt::format("engine {}", engine);
}

}  // namespace

std::string Describe(const ChannelFault& fault) {
  switch (fault.kind) {
    case ChannelFault::Kind::kNone: return "no fault";
    case ChannelFault::Kind::kMmuFault:
      return fmt::format("fault at address {:#x}, access {}, type {} ({:#x}), {}", fault.va,
                         tsg_access_type_name(fault.access), tsg_fault_type_name(fault.type),
                         fault.type, EngineName(fault.engine));
    case ChannelFault::Kind::kEngine:
      return fmt::format("program error at {:#x}, access {}, type {} ({:#x}), {}", fault.va,
                         tsg_access_type_name(fault.access), tsg_fault_type_name(fault.type),
                         fault.type, EngineName(fault.engine));
    case ChannelFault::Kind::kPbdma:
      return fmt::format("push buffer error: INTR_0 {:#x}, INTR_1 {:#x}, method {:#x}, {}",
                         fault.type, fault.access, fault.va, EngineName(fault.engine));
    case ChannelFault::Kind::kDeviceLost: return "the device was reset or is gone";
  }
  return "unknown error";
}

}  // namespace libts104
