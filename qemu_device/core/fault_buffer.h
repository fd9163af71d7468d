// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Fault packets and the non-replayable fault buffer.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_FAULT_BUFFER_H_
#define TURNSTILE_QEMU_DEVICE_CORE_FAULT_BUFFER_H_

#include <array>
#include <cstdint>

#include "device_state.h"
#include "memory_port.h"
#include "mmu.h"

namespace ts104 {

// CLIENT of the packet, of the hub unless said otherwise.
inline constexpr uint32_t kClientHost = NV_MMU_FAULT_PACKET_CLIENT_HUB_HOST;
inline constexpr uint32_t kClientFrontEnd = NV_MMU_FAULT_PACKET_CLIENT_HUB_FE;
inline constexpr uint32_t kClientContext = NV_MMU_FAULT_PACKET_CLIENT_HUB_FECS;
inline constexpr uint32_t kClientSm = NV_MMU_FAULT_PACKET_CLIENT_GPC_SM;

struct FaultRecord {
  uint32_t inst_target = 0;   // TARGET of the channel's instance block
  uint64_t inst_address = 0;  // its address
  uint64_t va = 0;            // or PC, method offset, QMD address for types of 0x10 and more
  uint64_t time_ns = 0;
  uint32_t engine_id = 0;
  uint32_t gfid = 0;
  FaultType type = FaultType::kPde;
  AccessKind access = AccessKind::kRead;
  uint32_t client = kClientHost;
  bool from_gpc = false;  // MMU_CLIENT_TYPE
  uint32_t gpc_id = 0;
};

using FaultPacket = std::array<uint32_t, 8>;
FaultPacket EncodeFaultPacket(const FaultRecord& record);

// Thread context: Push from the worker without the lock, the others under it from any thread.
class FaultBuffer {
 public:
  FaultBuffer(DeviceState& state, const MemoryPort& memory) : state_(state), memory_(memory) {}

  // Writes the packet and raises vector 132; or, when the buffer is full, off or not to be written,
  // drops it, sets OVERFLOW and raises vector 133.
  void Push(const FaultRecord& record);

  // Side effects of register writes, called after the value is stored.
  void OnGetWritten(uint32_t index, uint32_t old_value, uint32_t written);
  void OnSizeWritten(uint32_t index, uint32_t old_value);
  uint32_t ReadStatus() const;

 private:
  void Overflow();

  DeviceState& state_;
  const MemoryPort& memory_;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_FAULT_BUFFER_H_
