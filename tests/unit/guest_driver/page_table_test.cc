// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/page_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "fakes/fake_guest_os.h"

namespace guest {
namespace {

using base::Status;

constexpr uint64_t kVa = 0x1'2340'0000;  // 2 MiB aligned

tsg_extent Vram(uint64_t address, uint64_t size) { return {address, size, TSG_APERTURE_VRAM, 0}; }
tsg_extent Sysmem(uint64_t address, uint64_t size) {
  return {address, size, TSG_APERTURE_SYSMEM, 0};
}

// The bits of the Pascal format document, written out.
TEST(PteEncoding, MatchesTheUvmVector) {
  // VRAM 0x1bad000000, volatile aside: privileged, read-only, no atomics, kind 6, valid.
  const uint64_t pte = EncodePte(TSG_APERTURE_VRAM, 0x1bad000000,
                                 TSG_MAP_PRIVILEGED | TSG_MAP_READ_ONLY | TSG_MAP_NO_ATOMICS);
  EXPECT_EQ(pte | 1u << 3, 0x06000001bad000e9u);
}

TEST(PteEncoding, SystemMemoryIsCoherentAndVolatile) {
  EXPECT_EQ(EncodePte(TSG_APERTURE_SYSMEM, 0x123456789000, 0), 0x060001234567890du);
}

TEST(PteEncoding, SparseIsVolatileAndInvalid) {
  EXPECT_EQ(EncodePte(TSG_APERTURE_VRAM, 0x5000, TSG_MAP_SPARSE), 0x8u);
}

TEST(PdeEncoding, VramAndSystemMemory) {
  EXPECT_EQ(EncodePde(TSG_APERTURE_VRAM, 0x12345000), 0x1234502u);
  EXPECT_EQ(EncodePde(TSG_APERTURE_SYSMEM, 0x123456789000), 0x1234567890cu);
}

TEST(PdeEncoding, BigTableCountsIn256Bytes) {
  EXPECT_EQ(EncodeDualPdeBig(TSG_APERTURE_VRAM, 0x12345700), 0x1234572u);
  EXPECT_EQ(EncodeDualPdeSmall(TSG_APERTURE_VRAM, 0x12345000), 0x1234502u);
}

class PageTableTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(vram_.Init(machine_.vram.size()), Status::kOk);
    ASSERT_EQ(table_.Init(), Status::kOk);
  }

  Status Map(uint64_t va, const tsg_extent& extent, uint32_t flags = 0) {
    return table_.Map(va, std::span(&extent, 1), flags);
  }

  // A walk through the memory that the device reads: the entry that maps `va` and its page size.
  struct Walk {
    uint64_t pte = 0;
    uint64_t page = 0;
  };
  Walk WalkAt(uint64_t va) {
    uint64_t table = table_.root().address;
    for (const unsigned shift : {47u, 38u, 29u}) {
      const uint64_t index = va >> shift & (shift == 47 ? 3 : 511);
      const uint64_t pde = machine_.Word64(table + index * 8);
      if ((pde & 6) == 0) return {};
      EXPECT_EQ(pde & 7, 2u) << "VRAM, no PTE";
      table = (pde >> 8 & 0x1ffffff) << 12;
    }
    const uint64_t pd0 = table + (va >> 21 & 255) * 16;
    const uint64_t low = machine_.Word64(pd0);
    const uint64_t high = machine_.Word64(pd0 + 8);
    if ((low & 1) != 0 || low == 8) return {low, kHugePage};
    if ((low & 6) != 0) {
      const uint64_t pte = machine_.Word64(((low >> 4 & 0x1fffffff) << 8) + (va >> 16 & 31) * 8);
      if ((pte & 1) != 0) return {pte, kBigPage};
    }
    if ((high & 6) == 0) return {};
    return {machine_.Word64(((high >> 8 & 0x1ffffff) << 12) + (va >> 12 & 511) * 8), kSmallPage};
  }
  uint64_t AddressAt(uint64_t va) {
    const Walk walk = WalkAt(va);
    if ((walk.pte & 1) == 0) return ~uint64_t{0};
    return (walk.pte >> 8 & 0x3fffffffffff) * 4096 + va % walk.page;
  }

  fakes::FakeGuestOs machine_;
  VramAllocator vram_;
  TableMemory memory_{machine_.os, vram_, false};
  PageTable table_{memory_};
};

TEST_F(PageTableTest, AlignedRangeUsesTheLargestPages) {
  ASSERT_EQ(Map(kVa, Vram(0x400000, 2 * kHugePage)), Status::kOk);
  EXPECT_EQ(WalkAt(kVa).page, kHugePage);
  EXPECT_EQ(WalkAt(kVa + kHugePage).page, kHugePage);
  EXPECT_EQ(WalkAt(kVa).pte, 0x0600000000040001u);
  EXPECT_EQ(AddressAt(kVa + kHugePage + 0x1234), 0x600000u + 0x1234);
}

TEST_F(PageTableTest, SixtyFourKibPagesWhereTwoMibDoesNotFit) {
  ASSERT_EQ(Map(kVa + kBigPage, Vram(0x10000, 3 * kBigPage)), Status::kOk);
  EXPECT_EQ(WalkAt(kVa + kBigPage).page, kBigPage);
  EXPECT_EQ(AddressAt(kVa + 3 * kBigPage), 0x30000u);
  EXPECT_EQ(AddressAt(kVa), ~uint64_t{0});
  EXPECT_EQ(AddressAt(kVa + 4 * kBigPage), ~uint64_t{0});
}

TEST_F(PageTableTest, SmallPagesUntilBigOnesFit) {
  ASSERT_EQ(Map(kVa + 0xf000, Vram(0x1f000, 0x1000 + kBigPage + 0x2000)), Status::kOk);
  EXPECT_EQ(WalkAt(kVa + 0xf000).page, kSmallPage);
  EXPECT_EQ(WalkAt(kVa + 0x10000).page, kBigPage);
  EXPECT_EQ(WalkAt(kVa + 0x21000).page, kSmallPage);
  for (uint64_t at = 0xf000; at < 0x22000; at += 0x1000) {
    EXPECT_EQ(AddressAt(kVa + at), 0x10000 + at);
  }
}

TEST_F(PageTableTest, ExtentsFollowEachOther) {
  const std::vector<tsg_extent> extents = {Sysmem(0x7000, 0x1000), Vram(0x9000, 0x2000),
                                           Sysmem(0x3000, 0x1000)};
  ASSERT_EQ(table_.Map(kVa, extents, TSG_MAP_READ_ONLY), Status::kOk);
  EXPECT_EQ(WalkAt(kVa).pte, 0x060000000000074du);
  EXPECT_EQ(WalkAt(kVa + 0x1000).pte, 0x0600000000000941u);
  EXPECT_EQ(AddressAt(kVa + 0x2000), 0xa000u);
  EXPECT_EQ(AddressAt(kVa + 0x3000), 0x3000u);
}

TEST_F(PageTableTest, OverlapIsRefusedAndChangesNothing) {
  ASSERT_EQ(Map(kVa + 0x3000, Vram(0x3000, 0x1000)), Status::kOk);
  EXPECT_EQ(Map(kVa, Vram(0x100000, 0x10000)), Status::kExists);
  EXPECT_EQ(AddressAt(kVa), ~uint64_t{0});
  EXPECT_EQ(AddressAt(kVa + 0x3000), 0x3000u);
}

TEST_F(PageTableTest, ArgumentsAreChecked) {
  EXPECT_EQ(Map(kVa + 1, Vram(0, 0x1000)), Status::kInvalidArgument);
  EXPECT_EQ(Map(kVa, Vram(0x10, 0x1000)), Status::kInvalidArgument);
  EXPECT_EQ(Map(kVa, Vram(0, 0x800)), Status::kInvalidArgument);
  EXPECT_EQ(Map(kVa, Vram(0, 0)), Status::kInvalidArgument);
  EXPECT_EQ(Map(TSG_VA_LIMIT - 0x1000, Vram(0, 0x2000)), Status::kInvalidArgument);
  EXPECT_EQ(table_.Map(kVa, {}, 0), Status::kInvalidArgument);
  EXPECT_EQ(table_.Unmap(kVa, 0), Status::kInvalidArgument);
  EXPECT_EQ(table_.Unmap(kVa, UINT64_MAX - 0xfff), Status::kInvalidArgument);
}

TEST_F(PageTableTest, PartialUnmapSplitsLargePages) {
  ASSERT_EQ(Map(kVa, Vram(0x400000, kHugePage)), Status::kOk);
  ASSERT_EQ(table_.Unmap(kVa + 0x5000, 0x1000), Status::kOk);
  for (uint64_t at = 0; at < kHugePage; at += 0x1000) {
    const uint64_t expected = at == 0x5000 ? ~uint64_t{0} : 0x400000 + at;
    ASSERT_EQ(AddressAt(kVa + at), expected) << at;
  }
  EXPECT_EQ(WalkAt(kVa + 0x4000).page, kSmallPage);
  EXPECT_EQ(WalkAt(kVa + kBigPage).page, kBigPage);
}

TEST_F(PageTableTest, UnmapOfEverythingReturnsAllTablesButTheRoot) {
  const uint64_t before = vram_.Available();
  ASSERT_EQ(Map(kVa + 0x1000, Vram(0x1000, 5 * kHugePage)), Status::kOk);
  ASSERT_EQ(Map(0x1'0000'0000'0000, Vram(0, 0x1000)), Status::kOk);
  EXPECT_LT(vram_.Available(), before);
  ASSERT_EQ(table_.Unmap(0, TSG_VA_LIMIT), Status::kOk);
  EXPECT_EQ(AddressAt(kVa + 0x1000), ~uint64_t{0});
  table_.ReleaseRetired();
  EXPECT_EQ(vram_.Available(), before);
  EXPECT_EQ(table_.table_bytes(), 4096u);
}

TEST_F(PageTableTest, TablesStayUntilReleased) {
  ASSERT_EQ(Map(kVa, Vram(0x1000, 0x1000)), Status::kOk);
  const uint64_t used = vram_.Available();
  ASSERT_EQ(table_.Unmap(kVa, 0x1000), Status::kOk);
  EXPECT_EQ(vram_.Available(), used);
}

TEST_F(PageTableTest, HugePageAfterTablesInTheSameRegion) {
  ASSERT_EQ(Map(kVa, Vram(0x1000, 0x1000)), Status::kOk);
  ASSERT_EQ(table_.Unmap(kVa, 0x1000), Status::kOk);
  ASSERT_EQ(Map(kVa, Vram(0x400000, kHugePage)), Status::kOk);
  EXPECT_EQ(WalkAt(kVa).page, kHugePage);
}

TEST_F(PageTableTest, SparseRangesReadAsSparseAndSplit) {
  ASSERT_EQ(Map(kVa, Vram(0, kHugePage + 0x1000), TSG_MAP_SPARSE), Status::kOk);
  EXPECT_EQ(WalkAt(kVa).pte, 8u);
  EXPECT_EQ(WalkAt(kVa).page, kHugePage);
  EXPECT_EQ(WalkAt(kVa + kHugePage).pte, 8u);
  ASSERT_EQ(table_.Unmap(kVa + 0x1000, 0x1000), Status::kOk);
  EXPECT_EQ(WalkAt(kVa).pte, 8u);
  EXPECT_EQ(WalkAt(kVa + 0x1000).pte, 0u);
  EXPECT_EQ(WalkAt(kVa + 0x2000).pte, 8u);
}

TEST_F(PageTableTest, TranslateSaysWhatTheDeviceSees) {
  ASSERT_EQ(Map(kVa, Sysmem(0x10000, kBigPage), TSG_MAP_NO_ATOMICS), Status::kOk);
  uint32_t flags = 0;
  const base::Result<tsg_extent> extent = table_.Translate(kVa + 0x1800, &flags);
  ASSERT_TRUE(extent.ok());
  EXPECT_EQ(extent->address, 0x11800u);
  EXPECT_EQ(extent->size, kBigPage - 0x1800);
  EXPECT_EQ(extent->aperture, static_cast<uint32_t>(TSG_APERTURE_SYSMEM));
  EXPECT_EQ(flags, TSG_MAP_NO_ATOMICS);
  EXPECT_EQ(table_.Translate(kVa + kBigPage, &flags).status(), Status::kFault);
  EXPECT_EQ(table_.Translate(UINT64_MAX, &flags).status(), Status::kFault);
}

TEST_F(PageTableTest, RunningOutOfTablesUndoesTheMapping) {
  // Leave room for the directories and one leaf table.
  while (vram_.Available() > 4 * 4096) ASSERT_TRUE(vram_.Alloc(4096).ok());
  EXPECT_EQ(Map(kVa + 0x1000, Vram(0x2000, 2 * kHugePage)), Status::kNoSpace);
  EXPECT_EQ(AddressAt(kVa + 0x1000), ~uint64_t{0});
  table_.ReleaseRetired();
  EXPECT_EQ(vram_.Available(), 4 * 4096u);
}

TEST(PageTableInSysmem, LivesInDmaPages) {
  fakes::FakeGuestOs machine;
  VramAllocator vram;
  ASSERT_EQ(vram.Init(machine.vram.size()), Status::kOk);
  TableMemory memory(machine.os, vram, true);
  {
    PageTable table(memory);
    ASSERT_EQ(table.Init(), Status::kOk);
    const tsg_extent extent = Vram(0x5000, 0x1000);
    ASSERT_EQ(table.Map(0, std::span(&extent, 1), 0), Status::kOk);
    EXPECT_EQ(machine.dma_pages, 5);
    EXPECT_EQ(table.root().aperture, static_cast<uint32_t>(TSG_APERTURE_SYSMEM));
    const auto* root = static_cast<const uint64_t*>(table.root().dma.cpu);
    EXPECT_EQ(root[0] & 0xff, 0xcu) << "SYS_COH, volatile";
  }
  EXPECT_EQ(machine.dma_pages, 0);
}

}  // namespace
}  // namespace guest
