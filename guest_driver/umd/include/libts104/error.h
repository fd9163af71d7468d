// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace libts104 {

// Whatever goes wrong in libts104; what() is one line that names the cause.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& cause) : std::runtime_error(cause) {}
};

// A deadline passed before the work was done.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// The first error of a channel, as the driver recorded it. Numbers are those of the register map
// (NV_MMU_FAULT_PACKET_*).
struct ChannelFault {
  enum class Kind : uint32_t { kNone = 0, kMmuFault = 1, kEngine = 2, kPbdma = 3, kDeviceLost = 4 };

  Kind kind = Kind::kNone;
  uint32_t type = 0;    // FAULT_TYPE; PBDMA: INTR_0
  uint32_t access = 0;  // ACCESS_TYPE; PBDMA: INTR_1
  uint32_t engine = 0;  // ENGINE_ID
  uint32_t count = 0;   // errors so far
  uint64_t va = 0;      // faulting address, PC, method
  uint64_t gpu_time_ns = 0;
};

// One line: address, access, type, engine.
std::string Describe(const ChannelFault& fault);

// Work of a channel ended with an error. The channel runs nothing more until it is reset.
class FaultError : public Error {
 public:
  explicit FaultError(const ChannelFault& channel_fault)
      : Error(Describe(channel_fault)), fault(channel_fault) {}

  const ChannelFault fault;
};

}  // namespace libts104
