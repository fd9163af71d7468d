// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What a guest can do at its worst, one thing at a time and as often as it can. The rig lets it
// loose on the model (tests/rig/storms_test.cc), ts104-hostile on a vGPU of a real kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "fakes/model_transport.h"
#include "rig/raw_guest.h"

namespace hostile {

// The guest that misbehaves: channel 0 alone in a list of a runlist of choice, and for storms that
// compute channel 2, with a GR context, on runlist 0.
class Attacker {
 public:
  static constexpr uint32_t kGraphicsRunlist = 0;
  static constexpr uint32_t kGraphicsChannel = 2;
  static constexpr uint32_t kMemoryPages = 64;

  // What depends on where it runs.
  struct Means {
    // Of channel 0: a copy engine's, or that of graphics.
    uint32_t runlist = 1;
    // Guest-physical address of kMemoryPages pages that the device may reach.
    uint64_t memory = 0;
    // FLR.
    std::function<void()> reset;
    // Takes the memory away and gives it back; returns where it is now.
    std::function<uint64_t()> unmap;
  };

  Attacker(fakes::GuestHardware& hardware, Means means);

  // Faults of channel 0 and errors of its PBDMA are cleared; it is enabled again.
  void Recover() { Recover(0, means.runlist); }
  void Recover(uint32_t channel, uint32_t runlist);
  // Channel 0 taken off and made anew.
  void Restart();
  // Channel 2 set up and, with `cilp`, preemptible between instructions, else between grids only.
  void StartGraphics(bool cilp);
  // A kernel that never ends, on channel 2.
  void LaunchEndless();

  rig::RawGuest guest;
  Means means;
  uint32_t round = 0;
};

struct Storm {
  const char* name;
  // Whether it needs the graphics engine.
  bool graphics;
  // One round of it; Attacker::round counts them from 1.
  void (*tick)(Attacker&);
};

std::span<const Storm> Storms();
// Null: there is none of that name.
const Storm* FindStorm(std::string_view name);

}  // namespace hostile
