// SPDX-License-Identifier: GPL-2.0-only OR MIT
// PCCSR: what the chip knows of each channel besides its instance block.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_CHANNEL_RAM_H_
#define TURNSTILE_QEMU_DEVICE_CORE_CHANNEL_RAM_H_

#include <array>
#include <cstdint>

#include "ts104/regs.h"

namespace ts104 {

inline constexpr uint32_t kNoRunlist = ~uint32_t{0};

struct Channel {
  uint32_t inst = 0;  // CHANNEL_INST as it reads
  bool enabled = false;
  bool next = false;       // NEXT, stored
  bool pending = false;    // may have work
  bool rang = false;       // doorbell since GP_PUT was last read
  bool acquiring = false;  // waits in a failing acquire
  bool pbdma_faulted = false;
  bool eng_faulted = false;
  bool on_pbdma = false;
  bool on_engine = false;           // an engine works for it
  uint32_t runlist = kNoRunlist;    // on which its TSG was last submitted
  uint32_t loaded_on = kNoRunlist;  // whose PBDMA or engine holds it

  bool bound() const { return TS104_GET(NV_PCCSR_CHANNEL_INST_BIND, inst) != 0; }
  bool faulted() const { return pbdma_faulted || eng_faulted; }
  bool busy() const { return on_pbdma || on_engine; }
  // Could be put on the PBDMA of `on` and find something to do there.
  bool Runnable(uint32_t on) const {
    return enabled && pending && !acquiring && bound() && !faulted() && runlist == on &&
           (loaded_on == kNoRunlist || loaded_on == on);
  }
};

// BIND_ERROR codes; kNone: the write was taken.
enum class BindError : uint8_t {
  kNone = NV_PFIFO_BIND_ERROR_CODE_NONE,
  kBindNotUnbound = NV_PFIFO_BIND_ERROR_CODE_BIND_NOT_UNBOUND,
  kUnbindWhileRunning = NV_PFIFO_BIND_ERROR_CODE_UNBIND_WHILE_RUNNING,
  kInvalidContextTarget = NV_PFIFO_BIND_ERROR_CODE_INVALID_CTX_TGT,
};

// Thread context: any, under the model's lock. `chid` is below NV CFG1's 4096; more traps nothing
// and means channel chid % 4096, so callers check what comes from outside.
class ChannelRam {
 public:
  static constexpr uint32_t kChannels = TS104_PCI_NUM_CHANNELS;

  Channel& operator[](uint32_t chid) { return channels_[chid % kChannels]; }
  const Channel& operator[](uint32_t chid) const { return channels_[chid % kChannels]; }

  BindError WriteInst(uint32_t chid, uint32_t value);
  void WriteChannel(uint32_t chid, uint32_t value);
  uint32_t ReadInst(uint32_t chid) const { return (*this)[chid].inst; }
  uint32_t ReadChannel(uint32_t chid) const;

  void Reset() { channels_ = {}; }

 private:
  std::array<Channel, kChannels> channels_{};
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_CHANNEL_RAM_H_
