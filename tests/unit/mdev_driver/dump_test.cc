// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/dump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/memory/pin_table.h"
#include "fakes/fake_host.h"

namespace turnstile {
namespace {

using Lines = std::vector<std::string>;

class DumpTest : public testing::Test {
 protected:
  Lines Pins(size_t room = SIZE_MAX) {
    ts_host_dump reader;
    reader.room = room;
    Dump dump(&reader);
    pins_.DumpTo(dump);
    return reader.lines;
  }
  void Acquire(uint64_t page, uint32_t count) {
    std::vector<uint64_t> dma(count);
    pins_.Acquire(base::Gpa(page << 12), count, dma.data(), 512);
  }

  ts_host_gpu gpu_;
  ts_host_vgpu guest_{gpu_, 16384, false};  // neighbours for the guest are some for the device
  PinTable pins_{&guest_, 42};
};

TEST_F(DumpTest, NothingPinnedIsNoLine) { EXPECT_EQ(Pins(), Lines()); }

TEST_F(DumpTest, NeighboursAreOneLine) {
  Acquire(10, 4);
  EXPECT_EQ(Pins(), Lines({"gpa=0xa000 pages=4 dma=0x100000a000 references=4"}));
}

TEST_F(DumpTest, ReferencesOfARunAreAddedUp) {
  Acquire(10, 4);
  Acquire(11, 2);
  EXPECT_EQ(Pins(), Lines({"gpa=0xa000 pages=4 dma=0x100000a000 references=6"}));
}

TEST_F(DumpTest, PageThatWaitsToBeUnpinnedIsALineOfItsOwn) {
  Acquire(10, 2);
  pins_.Release(base::Gpa(11 << 12));
  Lines lines = Pins();
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, Lines({"gpa=0xa000 pages=1 dma=0x100000a000 references=1",
                          "gpa=0xb000 pages=1 dma=0x100000b000 references=0"}));
}

TEST_F(DumpTest, PageZeroBeginsARun) {
  Acquire(0, 1);
  EXPECT_EQ(Pins(), Lines({"gpa=0x0 pages=1 dma=0x1000000000 references=1"}));
}

TEST_F(DumpTest, PagesThatAreNoNeighboursForTheDeviceAreLinesOfTheirOwn) {
  ts_host_vgpu scattered(gpu_, 16);
  PinTable pins(&scattered, 1);
  uint64_t dma[2];
  pins.Acquire(base::Gpa(4 << 12), 2, dma, 512);
  ts_host_dump reader;
  Dump dump(&reader);
  pins.DumpTo(dump);
  Lines lines = reader.lines;
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, Lines({"gpa=0x4000 pages=1 dma=0x1100005000 references=1",
                          "gpa=0x5000 pages=1 dma=0x1100004000 references=1"}));
}

TEST_F(DumpTest, EndsWhereTheReaderHasNoRoom) {
  for (uint64_t page = 0; page < 20; page += 2) Acquire(page, 1);
  EXPECT_EQ(Pins(3).size(), 3u);
}

TEST_F(DumpTest, LongOneIsCutAndSaysSo) {
  for (uint64_t page = 0; page < 2 * 4097; page += 2) Acquire(page, 1);
  const Lines lines = Pins();
  ASSERT_EQ(lines.size(), 4097u);
  EXPECT_EQ(lines.back(), "truncated=1");
}

TEST_F(DumpTest, AsManyLinesAsFitAreNotCut) {
  for (uint64_t page = 0; page < 2 * 4096; page += 2) Acquire(page, 1);
  const Lines lines = Pins();
  ASSERT_EQ(lines.size(), 4096u);
  EXPECT_NE(lines.back(), "truncated=1");
}

}  // namespace
}  // namespace turnstile
