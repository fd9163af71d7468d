// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest that writes garbage everywhere. Nothing may crash, reach foreign memory, or keep its
// neighbour from working; closing it must leave nothing behind.
#include <gtest/gtest.h>

#include <random>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

constexpr uint32_t kRunlist = 1;

class HostileTest : public testing::TestWithParam<uint32_t> {};

TEST_P(HostileTest, GarbageStaysWithItsGuest) {
  ModelGpu gpu;
  VgpuMachine other(gpu, VgpuMachine::kV4, 1024);
  RawGuest neighbour(other);
  neighbour.StartChannel(0, kRunlist);
  VgpuMachine machine(gpu, VgpuMachine::kV4, 1024);
  RawGuest guest(machine);
  std::mt19937 random(GetParam());

  for (uint64_t offset = 0x10000; offset < 0x90000; offset += 4) {
    if (random() % 4 == 0) guest.SetVram32(offset, static_cast<uint32_t>(random()));
  }
  static constexpr uint32_t kAreas[][2] = {
      {0x0, 0x400},         {0x1700, 0x1720},     {0x2100, 0x2100 + 0x500}, {0x2630, 0x2c00},
      {0x3080, 0x3500},     {0x40000, 0x46000},   {0x100c80, 0x100e70},     {0x104400, 0x104680},
      {0x800000, 0x800100}, {0x810080, 0x8100a0}, {0xb60000, 0xb60040},     {0xb73400, 0xb73410},
      {0xb74000, 0xb74040}, {0xb78000, 0xb78040}, {0xb81000, 0xb83100},     {0xb90000, 0xb90070}};
  for (int i = 0; i < 4000; ++i) {
    const auto& area = kAreas[random() % (sizeof(kAreas) / sizeof(kAreas[0]))];
    const uint32_t offset = (area[0] + static_cast<uint32_t>(random()) % (area[1] - area[0])) & ~3u;
    uint32_t value = static_cast<uint32_t>(random());
    if (random() % 2 == 0) value &= 0xff;
    if (random() % 3 == 0) {
      guest.Read(offset);
    } else {
      guest.Write(offset, value);
    }
    if (random() % 16 == 0) {
      const uint32_t channel = random() % 4;
      guest.Write(NV_PCCSR_CHANNEL_INST(channel), 1u << 31 | (0x20 + channel));
      guest.Write(NV_PCCSR_CHANNEL(channel), 1u << 10);
      guest.Submit(random() % 3, {channel});
      guest.Ring(channel, random() % 3);
    }
    if (random() % 16 == 0) machine.Advance(50'000);
    if (random() % 64 == 0) ts_vgpu_dma_unmap(machine.core(), (random() % 1024) << 12, 0x10000);
  }
  // Its neighbour still works, though it may have to wait for a preemption point.
  neighbour.Push(0, kRunlist, RawGuest::Release(RawGuest::kData, 0x1234));
  EXPECT_TRUE(neighbour.WaitVram32(RawGuest::kData, 0x1234, 2000));
  EXPECT_TRUE(neighbour.TakeFaults().empty());
  machine.Close();
  EXPECT_TRUE(machine.host().pinned.empty());
  EXPECT_EQ(gpu.stray_accesses(), 0u);
  EXPECT_FALSE(gpu.Logged("did not finish"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostileTest, testing::Range(1u, 9u));

}  // namespace
}  // namespace rig
