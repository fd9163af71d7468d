// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Channels: from the CHID to the runlist and back, and what went wrong with them.
#pragma once

#include <cstdint>
#include <span>

#include "base/bitmap.h"
#include "base/lock.h"
#include "base/result.h"
#include "base/unique_ptr.h"
#include "base/vector.h"
#include "guest_driver/core/fault_buffer.h"
#include "guest_driver/core/instance_block.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/runlist.h"
#include "guest_driver/core/topology.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {

// One channel. Members are guarded by the Fifo's mutex, but for `on_list.chid` and `token`, which
// never change.
struct Channel {
  enum class State : uint8_t {
    kStopped,
    kRunning,
    kStuck,  // the hardware did not let go of it: its CHID and memory must stay
  };

  State state = State::kStopped;
  RunlistChannel on_list;
  InstanceBlockParams block;
  uint32_t runlist = 0;
  uint32_t token = 0;
  uint64_t context_bytes = 0;
  tsg_error first_error = {};
  uint32_t error_count = 0;
  bool unreported = false;  // first_error was not yet returned by ServiceErrors
};

// All functions may sleep and take mutex_.
class Fifo {
 public:
  Fifo(const Os& os, VramAllocator& vram, const Topology& topology)
      : os_(os),
        vram_(vram),
        topology_(topology),
        faults_(os, vram),
        runlists_{{os, vram, 0}, {os, vram, 1}, {os, vram, 2}} {}
  ~Fifo();

  // Once, with the hardware in its reset state. kNoMemory, kNoSpace.
  base::Status Init(uint32_t num_chids, uint32_t context_bytes);
  // No new interrupts from PFIFO and the fault buffer, empty runlists.
  base::Status Shutdown() TS_EXCLUDES(mutex_);

  // `params` were checked; the page directory is that of the channel's address space.
  base::Result<Channel*> Create(const tsg_channel_params& params, uint32_t root_aperture,
                                uint64_t root_address) TS_EXCLUDES(mutex_);
  void Destroy(Channel* channel) TS_EXCLUDES(mutex_);
  base::Status Stop(Channel& channel) TS_EXCLUDES(mutex_);
  base::Status Restart(Channel& channel) TS_EXCLUDES(mutex_);
  base::Status GetStatus(const Channel& channel, tsg_channel_status* out) TS_EXCLUDES(mutex_);

  // Also returns errors that a Stop of another channel came across.
  uint32_t ServiceErrors(std::span<tsg_error> records) TS_EXCLUDES(mutex_);

 private:
  base::Status AllocMemory(Channel& channel) TS_REQUIRES(mutex_);
  void FreeMemory(Channel& channel) TS_REQUIRES(mutex_);
  base::Status StartLocked(Channel& channel) TS_REQUIRES(mutex_);
  base::Status StopLocked(Channel& channel) TS_REQUIRES(mutex_);
  base::Status SubmitList(uint32_t runlist) TS_REQUIRES(mutex_);
  base::Status WaitUntilOff(const Channel& channel) TS_REQUIRES(mutex_);
  void Unlist(const Channel& channel) TS_REQUIRES(mutex_);

  void DrainFaults() TS_REQUIRES(mutex_);
  void FindLostFaults() TS_REQUIRES(mutex_);
  void ServicePfifo() TS_REQUIRES(mutex_);
  void ServicePbdma(uint32_t pbdma) TS_REQUIRES(mutex_);
  void Record(Channel* channel, tsg_error error) TS_REQUIRES(mutex_);
  Channel* FindByInst(uint64_t inst) TS_REQUIRES(mutex_);

  const Os& os_;
  VramAllocator& vram_;
  const Topology& topology_;
  base::Mutex mutex_;
  uint32_t context_bytes_ = 0;
  FaultBuffer faults_ TS_GUARDED_BY(mutex_);
  Runlist runlists_[TSG_NUM_RUNLISTS] TS_GUARDED_BY(mutex_);
  // Channels on each runlist, in its order.
  base::Vector<RunlistChannel*> listed_[TSG_NUM_RUNLISTS] TS_GUARDED_BY(mutex_);
  base::Bitmap chids_ TS_GUARDED_BY(mutex_);
  base::DynArray<Channel*> channels_ TS_GUARDED_BY(mutex_);  // by CHID; owned
};

}  // namespace guest
