// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What a read or write of a register does.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_REGISTERS_H_
#define TURNSTILE_QEMU_DEVICE_CORE_REGISTERS_H_

#include <cstdint>

#include "device_state.h"
#include "fault_buffer.h"

namespace ts104 {

// 32-bit accesses at aligned BAR0 offsets, but for PRAMIN. Thread context: any, with the state's
// lock held. Unknown offsets read 0 and drop writes. What takes time becomes a request for the
// worker.
class Registers {
 public:
  Registers(DeviceState& state, FaultBuffer& faults) : state_(state), faults_(faults) {}

  uint32_t Read(uint32_t offset);
  void Write(uint32_t offset, uint32_t value);
  // The USERMODE page of a function; `offset` within the page.
  uint32_t ReadUsermode(uint32_t offset) const;
  void WriteUsermode(uint32_t function, uint32_t offset, uint32_t value);

 private:
  // Reads, by unit; registers_read.cc.
  uint32_t ReadInterruptTree(uint32_t offset) const;
  uint32_t ReadDynamic(const hwreg::RegisterInfo& info, uint32_t index, uint32_t stored);
  uint32_t ReadPfifo(uint32_t base, uint32_t index, uint32_t stored) const;
  uint32_t ReadPbdma(uint32_t base, uint32_t index, uint32_t stored) const;
  uint32_t ReadTs104(uint32_t base, uint32_t index, uint32_t stored);
  uint32_t FunctionTime(uint32_t index);
  uint32_t RunlistTime(uint32_t runlist);
  uint32_t EngineStatus(uint32_t engine) const;
  uint32_t SchedStatus() const;
  uint32_t RunlistInfo(uint32_t runlist) const;
  uint32_t DeviceInfo(uint32_t index) const;

  // Writes, by unit; registers_write.cc.
  bool WriteInterruptTree(uint32_t offset, uint32_t value);
  void WriteChannel(uint32_t offset, uint32_t value);
  void OnWritten(const hwreg::RegisterInfo& info, uint32_t index, uint32_t old_value,
                 uint32_t value, uint32_t now);
  void OnPfifoWritten(uint32_t base, uint32_t index, uint32_t old_value, uint32_t value);
  void OnEngineEnable(uint32_t old_value, uint32_t value);
  void OnInvalidate(uint32_t value);
  void OnAlarm(uint32_t value);
  void Doorbell(uint32_t function, uint32_t token);
  void WakeAll();

  DeviceState& state_;
  FaultBuffer& faults_;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_REGISTERS_H_
