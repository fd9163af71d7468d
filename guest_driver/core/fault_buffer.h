// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>

#include "base/result.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {

// The non-replayable fault buffer, in VRAM. Not synchronized: the device mutex guards it.
class FaultBuffer {
 public:
  FaultBuffer(const Os& os, VramAllocator& vram) : os_(os), vram_(vram) {}
  ~FaultBuffer();
  FaultBuffer(const FaultBuffer&) = delete;
  FaultBuffer& operator=(const FaultBuffer&) = delete;

  // Allocates and enables it. Once. kNoSpace.
  base::Status Init();
  void Disable();

  struct Packet {
    tsg_error error;  // chid not filled in
    uint64_t inst;    // address of the instance block
    uint32_t inst_aperture;
  };

  // The oldest packet; kNotFound when there is none. Reads PUT once per batch: call until
  // kNotFound.
  base::Result<Packet> Pop();
  // Whether packets were dropped since the last call. Also lets the hardware go on.
  bool TakeOverflow();

 private:
  static constexpr uint32_t kPackets = 256;

  const Os& os_;
  VramAllocator& vram_;
  uint64_t offset_ = 0;
  bool allocated_ = false;
  uint32_t get_ = 0;
  uint32_t put_ = 0;
};

// A packet's words as the hardware wrote them.
FaultBuffer::Packet DecodeFaultPacket(const uint32_t (&words)[8]);

}  // namespace guest
