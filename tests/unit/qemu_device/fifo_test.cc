// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Channels and runlists: binding, submitting, scheduling, preemption, time.
#include <gtest/gtest.h>

#include "fakes/model_fixture.h"

namespace {

using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;

constexpr uint64_t kSemVa = 0x40'0000;

// One channel of runlist 1 and a page for semaphores.
struct Rig {
  explicit Rig(const fakes::ModelOptions& options = {}) : gpu(options), tables(gpu) {
    sem = gpu.AllocateVram(4096);
    tables.Map4K(kSemVa, sem);
  }
  ModelFixture gpu;
  PageTables tables;
  uint64_t sem = 0;
};

TEST(Fifo, DoorbellRunsAChannelToItsSemaphore) {
  Rig rig;
  TestChannel channel(rig.gpu, rig.tables, 5);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}});
  rig.gpu.Settle();
  channel.PushAndRing(fakes::HostRelease(kSemVa, 0x1234));
  EXPECT_EQ(channel.Status(), 1u);  // PENDING
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 0x1234u);
  EXPECT_EQ(channel.Status(), 0u);
  EXPECT_EQ(channel.GpGet(), 1u);
}

}  // namespace
