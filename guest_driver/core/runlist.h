// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/vector.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {

// What a runlist needs to know of a channel. Each channel is alone in a TSG of the same number.
struct RunlistChannel {
  uint32_t chid = 0;
  uint64_t inst = 0;  // VRAM
  uint32_t userd_aperture = TSG_APERTURE_VRAM;
  uint64_t userd = 0;
  uint32_t timeslice_scale = 3;
  uint32_t timeslice_timeout = 128;
};

// TIMEOUT << SCALE in units of 1024 ns, closest from below; 0 gives the hardware's default.
void EncodeTimeslice(uint32_t us, RunlistChannel* channel);
// The two entries, eight words, of one channel.
void EncodeRunlistEntries(const RunlistChannel& channel, std::span<uint32_t, 8> words);

// The image of one runlist in VRAM and its registers. The device mutex guards it.
class Runlist {
 public:
  Runlist(const Os& os, VramAllocator& vram, uint32_t id) : os_(os), vram_(vram), id_(id) {}
  ~Runlist();
  Runlist(const Runlist&) = delete;
  Runlist& operator=(const Runlist&) = delete;

  // Once. Room for `max_channels`. kNoSpace.
  base::Status Init(uint32_t max_channels);
  uint32_t max_channels() const { return max_channels_; }

  // Makes the hardware schedule exactly these channels, and returns when it has read the list. Does
  // not wait until an evicted channel has stopped. kNoSpace, kTimeout, kIo (lost).
  base::Status Submit(std::span<RunlistChannel* const> channels);

 private:
  uint64_t Bytes() const;

  const Os& os_;
  VramAllocator& vram_;
  const uint32_t id_;
  uint32_t max_channels_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace guest
