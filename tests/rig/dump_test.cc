// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Dumps of two guests on the model: what each line says, and that a vGPU's tell of it alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"

namespace rig {
namespace {

using Lines = std::vector<std::string>;

constexpr uint32_t kRunlist = 1;
constexpr uint64_t kSystemPage = 5 << 12;
constexpr uint32_t kLongList = 0x100000;

class DumpTest : public testing::Test {
 protected:
  // The second vGPU: function 2, channels from 1024 and VRAM from 64 MiB on.
  DumpTest() { guest_.StartChannel(3, kRunlist); }

  Lines OfVgpu(VgpuMachine& machine, ts_vgpu_dump_kind kind) {
    ts_host_dump reader;
    ts_vgpu_dump(machine.core(), kind, &reader);
    return reader.lines;
  }
  Lines Runlists() {
    ts_host_dump reader;
    ts_gpu_dump_runlists(gpu_.core, &reader);
    return reader.lines;
  }
  static bool Has(const Lines& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }
  // Lines of the mappings without their root, which is wherever the table was allocated.
  Lines Mappings() {
    Lines mappings;
    for (const std::string& line : OfVgpu(machine_, TS_VGPU_DUMP_SHADOW)) {
      const size_t va = line.find(" va=");
      if (va != std::string::npos) mappings.push_back(line.substr(va + 1));
    }
    return mappings;
  }

  ModelGpu gpu_;
  VgpuMachine other_{gpu_, VgpuMachine::kV4, 64};
  VgpuMachine machine_{gpu_, VgpuMachine::kV4, 64};
  RawGuest guest_{machine_};
};

TEST_F(DumpTest, ChannelIsShownAsTheGuestAndAsTheDeviceHaveIt) {
  const Lines lines = OfVgpu(machine_, TS_VGPU_DUMP_CHANNELS);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "function=2 first_channel=1024 channels=1024");
  EXPECT_EQ(
      lines[1].substr(0, lines[1].find(" root=")),
      "channel=3 physical=1027 inst=0x80000023 bound=1 enabled=1 listed=1 stale=0 holds=none");
  EXPECT_NE(lines[1].find(" userd=vid:0x4030600 "), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find(" pccsr=0x"), std::string::npos) << lines[1];
}

TEST_F(DumpTest, ChannelThatTheHostHoldsSaysWhy) {
  guest_.Push(3, kRunlist, {RawGuest::Inc(NVC46F_ILLEGAL, 1), 0});
  machine_.Advance(1'000'000);
  const Lines lines = OfVgpu(machine_, TS_VGPU_DUMP_CHANNELS);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find(" holds=error "), std::string::npos) << lines[1];
}

TEST_F(DumpTest, ShadowShowsWhatTheDeviceFinds) {
  EXPECT_EQ(Mappings(),
            Lines({"va=0x40000 pages=32 page_bytes=4096 to=vid:0x4040000 kind=0x0 read_only=0 "
                   "privilege=0 volatile=0 atomic_disable=0",
                   "va=0x80000 pages=16 page_bytes=4096 to=vid:0x4080000 kind=0x0 read_only=0 "
                   "privilege=0 volatile=0 atomic_disable=0"}));
}

TEST_F(DumpTest, SystemPageIsShownAtItsDeviceAddressAndAsPin) {
  guest_.MapSystem(0, kSystemPage);
  guest_.Invalidate();
  const uint64_t dma = machine_.host().DmaOf(kSystemPage >> 12);
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(dma));
  const Lines mappings = Mappings();
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0], std::string("va=0x0 pages=1 page_bytes=4096 to=sys:") + text +
                             " kind=0x0 read_only=0 privilege=0 volatile=0 atomic_disable=0");
  EXPECT_TRUE(Has(OfVgpu(machine_, TS_VGPU_DUMP_PINS),
                  std::string("gpa=0x5000 pages=1 dma=") + text + " references=1"));
}

TEST_F(DumpTest, FlagsEndARun) {
  guest_.SetPte(RawGuest::kData + 4096, 0x1 | 0x40 | (RawGuest::kData + 4096) >> 12 << 8);
  guest_.Invalidate();
  const Lines mappings = Mappings();
  ASSERT_EQ(mappings.size(), 4u);
  EXPECT_EQ(mappings[2],
            "va=0x81000 pages=1 page_bytes=4096 to=vid:0x4081000 kind=0x0 read_only=1 privilege=0 "
            "volatile=0 atomic_disable=0");
}

TEST_F(DumpTest, RunlistsShowTheListsOfEveryGuest) {
  RawGuest neighbour(other_);
  neighbour.StartChannel(0, 2);
  const Lines lines = Runlists();
  EXPECT_TRUE(
      Has(lines, "runlist=1 function=2 tsg=3 physical=1027 timeslice_ns=1048576 channels=1"));
  EXPECT_TRUE(Has(lines, "runlist=1 function=2 tsgs=1 channels=1 disabled=0 pending=0"));
  EXPECT_TRUE(Has(lines, "runlist=1 function=2 tsg=3 channel=3"));
  EXPECT_TRUE(Has(lines, "runlist=2 function=1 tsg=0 channel=0"));
}

TEST_F(DumpTest, LongListOfOneGuestLeavesRoomForTheOthers) {
  RawGuest neighbour(other_);  // function 1, whose lines come first
  constexpr uint32_t kTsgs = 1024;
  for (uint32_t runlist = 0; runlist < 3; ++runlist) {
    for (uint32_t i = 0; i < kTsgs; ++i) {
      const uint64_t entry = kLongList + runlist * 0x8000 + i * 32;
      neighbour.SetVram64(entry, 0x80030001 | uint64_t{1} << 32);
      neighbour.SetVram64(entry + 8, i);
      neighbour.SetVram64(entry + 16, 0);
      neighbour.SetVram64(entry + 24, i);
    }
    neighbour.Write(NV_PFIFO_RUNLIST_BASE_LO(runlist), kLongList + runlist * 0x8000);
    neighbour.Write(NV_PFIFO_RUNLIST_SUBMIT(runlist), kTsgs * 2);
  }
  machine_.Advance(1'000'000);
  const Lines lines = Runlists();
  EXPECT_LE(lines.size(), 4096u);
  EXPECT_TRUE(Has(lines, "runlist=2 function=1 tsgs=1024 channels=1024 disabled=0 pending=0"));
  EXPECT_TRUE(Has(lines, "runlist=2 function=1 truncated=1"));
  EXPECT_TRUE(Has(lines, "runlist=1 function=2 tsg=3 channel=3"));
}

TEST_F(DumpTest, EntriesThatFaultAreOneLine) {
  for (uint64_t page = 0; page < 8; ++page) guest_.SetPte(page * 4096, 0x3);  // PEER
  guest_.Invalidate();
  const Lines mappings = Mappings();
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0],
            "va=0x0 pages=8 page_bytes=4096 to=fault kind=0x0 read_only=0 privilege=0 volatile=0 "
            "atomic_disable=0");
}

TEST_F(DumpTest, AliasesOfOnePageAreLinesOfTheirOwn) {
  for (uint64_t page = 0; page < 2; ++page) guest_.MapVram(page * 4096, RawGuest::kData);
  guest_.Invalidate();
  EXPECT_EQ(Mappings().size(), 4u);
}

TEST_F(DumpTest, VgpuThatIsClosedShowsNothing) {
  machine_.Close();
  EXPECT_EQ(OfVgpu(machine_, TS_VGPU_DUMP_SHADOW), Lines());
  EXPECT_EQ(OfVgpu(machine_, TS_VGPU_DUMP_PINS), Lines());
  EXPECT_EQ(OfVgpu(machine_, TS_VGPU_DUMP_CHANNELS),
            Lines({"function=2 first_channel=1024 channels=1024"}));
}

}  // namespace
}  // namespace rig
