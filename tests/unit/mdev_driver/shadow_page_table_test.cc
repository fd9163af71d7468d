// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/memory/shadow_page_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "fakes/fake_host.h"

namespace turnstile {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPartition = 32 * kMiB;

// Where the guest keeps its tables, in its VRAM.
constexpr uint64_t kPd3 = 0x1000;
constexpr uint64_t kPd2 = 0x2000;
constexpr uint64_t kPd1 = 0x3000;
constexpr uint64_t kPd0 = 0x4000;
constexpr uint64_t kPtSmall = 0x5000;
constexpr uint64_t kPtBig = 0x6100;  // 256-aligned is enough
constexpr uint64_t kAnyKind6 = uint64_t{6} << 56;

class RecordingTlb : public TlbInvalidator {
 public:
  void InvalidateTlb(base::Hpa root) override { roots.push_back(root.value()); }
  std::vector<uint64_t> roots;
};

class ShadowPageTableTest : public testing::Test {
 protected:
  ShadowPageTableTest() {
    partition_.vram = base::VramOffset(kPartition);
    partition_.vram_bytes = 16 * kMiB;
    pins_.emplace(&guest_, 1);
    shadow_ = *ShadowMemory::Create(HostGpu(&gpu_), partition_, memory_, *pins_, tlb_, counter_);
    // One path: GPU addresses 0 .. 2 MiB.
    Vram64(kPd3, 0x2 | kPd2 >> 12 << 8);
    Vram64(kPd2, 0x2 | kPd1 >> 12 << 8);
    Vram64(kPd1, 0x2 | kPd0 >> 12 << 8);
    Vram64(kPd0 + 8, 0x2 | kPtSmall >> 12 << 8);
  }

  void Vram64(uint64_t offset, uint64_t value) {
    std::memcpy(gpu_.vram() + kPartition + offset, &value, 8);
  }
  void SetBigTable() { Vram64(kPd0, 0x2 | kPtBig >> 8 << 4); }
  void Small(uint32_t index, uint64_t pte) { Vram64(kPtSmall + index * 8, pte); }
  void Big(uint32_t index, uint64_t pte) { Vram64(kPtBig + index * 8, pte); }

  ShadowSpace& Space() {
    if (space_ == nullptr) {
      bool fresh = false;
      space_ = *shadow_->Acquire({Aperture::kVid, kPd3}, &fresh);
      EXPECT_TRUE(fresh);
    }
    return *space_;
  }
  void Sync(const SyncRange& range = SyncRange()) {
    Space().BeginSync(range);
    SyncBudget budget{1'000'000};
    EXPECT_TRUE(Space().Continue(budget));
    shadow_->Flush();
  }

  uint64_t Dma64(uint64_t address) {
    uint64_t value = 0;
    const uint8_t* at = gpu_.Translate(address, 8);
    if (at == nullptr) {
      ADD_FAILURE() << "the shadow leads to memory that the device may not reach";
      return 0;
    }
    std::memcpy(&value, at, 8);
    return value;
  }
  // What the device finds on the path of GPU address 0 .. 2 MiB.
  uint64_t Follow(uint64_t entry) { return (entry >> 8 & 0x3fffffffffff) << 12; }
  uint64_t Pd0Address() {
    const uint64_t pd2 = Follow(Dma64(Space().shadow_root().value()));
    const uint64_t pd1 = Follow(Dma64(pd2));
    return Follow(Dma64(pd1));
  }
  uint64_t ShadowSmall(uint32_t index) {
    return Dma64(Follow(Dma64(Pd0Address() + 8)) + index * 8);
  }
  uint64_t ShadowBigAt(uint32_t index) {
    const uint64_t low = Dma64(Pd0Address());
    return Dma64(((low >> 4 & 0x3ffffffffffff) << 8) + index * 8);
  }

  ts_host_gpu gpu_;
  ts_host_vgpu guest_{gpu_, 4096};
  Partition partition_;
  MemoryCounter counter_;
  RecordingTlb tlb_;
  GuestMemory memory_{HostGpu(&gpu_), &guest_, partition_};
  std::optional<PinTable> pins_;
  base::UniquePtr<ShadowMemory> shadow_;
  ShadowSpace* space_ = nullptr;
};

TEST_F(ShadowPageTableTest, VramPageIsMovedIntoThePartition) {
  Small(0, 0x1 | uint64_t{0x345} << 8);
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x1u | uint64_t{0x2345} << 8);  // + 32 MiB
}

TEST_F(ShadowPageTableTest, FlagsAndKindPass) {
  Small(1, 0x1 | 0x8 | 0x20 | 0x40 | 0x80 | uint64_t{0x10} << 8 | kAnyKind6);
  Sync();
  EXPECT_EQ(ShadowSmall(1), (0xe9u | uint64_t{0x2010} << 8) | kAnyKind6);
}

TEST_F(ShadowPageTableTest, SystemPageIsPinnedAndTranslated) {
  Small(2, 0x5 | uint64_t{7} << 8);
  Sync();
  EXPECT_EQ(guest_.pinned.count(7), 1u);
  EXPECT_EQ(ShadowSmall(2), 0x5u | guest_.DmaOf(7) >> 12 << 8);
}

TEST_F(ShadowPageTableTest, NeighboursArePinnedInOneCall) {
  for (uint32_t i = 0; i < 512; ++i) Small(i, 0x5 | uint64_t{100 + i} << 8);
  Sync();
  ASSERT_EQ(guest_.pin_calls.size(), 1u);
  EXPECT_EQ(guest_.pin_calls[0].first, 100u * 4096);
  EXPECT_EQ(guest_.pin_calls[0].second, 512u);
}

TEST_F(ShadowPageTableTest, PinBatchIsATunable) {
  shadow_->set_pin_batch(1);
  for (uint32_t i = 0; i < 16; ++i) Small(i, 0x5 | uint64_t{100 + i} << 8);
  Sync();
  EXPECT_EQ(guest_.pin_calls.size(), 16u);
}

TEST_F(ShadowPageTableTest, SecondReferenceDoesNotPinAgain) {
  Small(0, 0x5 | uint64_t{7} << 8);
  Small(9, 0x5 | uint64_t{7} << 8);
  Sync();
  EXPECT_EQ(guest_.pinned[7], 1u);
  Small(0, 0);
  Sync();
  EXPECT_EQ(guest_.pinned.count(7), 1u);
  Small(9, 0);
  Sync();
  EXPECT_EQ(guest_.pinned.count(7), 0u);
}

TEST_F(ShadowPageTableTest, TlbIsInvalidatedBeforeUnpinning) {
  Small(0, 0x5 | uint64_t{7} << 8);
  Sync();
  tlb_.roots.clear();
  guest_.on_unpin = [&] { EXPECT_EQ(tlb_.roots.size(), 1u); };
  Small(0, 0);
  Sync();
  EXPECT_EQ(guest_.unpin_calls.size(), 1u);
}

TEST_F(ShadowPageTableTest, UnchangedTablesCostNoInvalidate) {
  Small(0, 0x1);
  Sync();
  tlb_.roots.clear();
  const uint64_t translated = shadow_->ptes_translated();
  Sync();
  EXPECT_TRUE(tlb_.roots.empty());
  EXPECT_EQ(shadow_->ptes_translated(), translated);
}

TEST_F(ShadowPageTableTest, ChangeIsNotSeenBeforeTheNextSync) {
  Small(0, 0x1 | uint64_t{1} << 8);
  Sync();
  Small(0, 0x1 | uint64_t{2} << 8);
  EXPECT_EQ(ShadowSmall(0), 0x1u | uint64_t{0x2001} << 8);
}

TEST_F(ShadowPageTableTest, TargetedSyncLeavesOtherPagesAlone) {
  Small(0, 0x1 | uint64_t{1} << 8);
  Small(64, 0x1 | uint64_t{1} << 8);
  Sync();
  Small(0, 0x1 | uint64_t{2} << 8);
  Small(64, 0x1 | uint64_t{2} << 8);
  Sync({64 * 4096, 64 * 4096 + 4095});
  EXPECT_EQ(ShadowSmall(0), 0x1u | uint64_t{0x2001} << 8);
  EXPECT_EQ(ShadowSmall(64), 0x1u | uint64_t{0x2002} << 8);
}

TEST_F(ShadowPageTableTest, ContiguousBigPageStaysBig) {
  ts_host_vgpu straight(gpu_, 64, false);
  PinTable pins(&straight, 1);
  const GuestMemory memory(HostGpu(&gpu_), &straight, partition_);
  auto shadow = *ShadowMemory::Create(HostGpu(&gpu_), partition_, memory, pins, tlb_, counter_);
  shadow_ = std::move(shadow);
  SetBigTable();
  Big(0, 0x5 | uint64_t{16} << 8);
  Sync();
  EXPECT_EQ(ShadowBigAt(0), 0x5u | straight.DmaOf(16) >> 12 << 8);
  EXPECT_EQ(straight.pinned.size(), 16u);
  shadow_.reset();
  EXPECT_TRUE(straight.pinned.empty());
}

TEST_F(ShadowPageTableTest, ScatteredBigPageBecomesSmallOnes) {
  SetBigTable();
  Big(1, 0x5 | uint64_t{32} << 8);
  Sync();
  EXPECT_EQ(ShadowBigAt(1), 0u);
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ShadowSmall(16 + i), 0x5u | guest_.DmaOf(32 + i) >> 12 << 8);
  }
  Big(1, 0);
  Sync();
  EXPECT_EQ(ShadowSmall(16), 0u);
  EXPECT_TRUE(guest_.pinned.empty());
}

TEST_F(ShadowPageTableTest, ValidBigPageHidesSmallOnes) {
  SetBigTable();
  Small(0, 0x5 | uint64_t{7} << 8);
  Big(0, 0x1 | uint64_t{0x10} << 8);
  Sync();
  EXPECT_EQ(ShadowBigAt(0), 0x1u | uint64_t{0x2010} << 8);
  EXPECT_TRUE(guest_.pinned.empty());
}

TEST_F(ShadowPageTableTest, BigPageIgnoreSmallIsKept) {
  SetBigTable();
  Big(0, 0x20);
  Sync();
  EXPECT_EQ(ShadowBigAt(0), 0x20u);
}

TEST_F(ShadowPageTableTest, HugeVramPageIsOneEntry) {
  Vram64(kPd0 + 8, 0);
  Vram64(kPd0, 0x1 | uint64_t{0x200} << 8);  // 2 MiB at 2 MiB
  Sync();
  EXPECT_EQ(Dma64(Pd0Address()), 0x1u | uint64_t{0x2200} << 8);
  EXPECT_EQ(Dma64(Pd0Address() + 8), 0u);
}

TEST_F(ShadowPageTableTest, ScatteredHugePageBecomesSmallOnes) {
  Vram64(kPd0 + 8, 0);
  Vram64(kPd0, 0x5 | uint64_t{512} << 8);
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x5u | guest_.DmaOf(512) >> 12 << 8);
  EXPECT_EQ(ShadowSmall(511), 0x5u | guest_.DmaOf(1023) >> 12 << 8);
  EXPECT_EQ(guest_.pinned.size(), 512u);
  Vram64(kPd0, 0);
  Sync();
  EXPECT_TRUE(guest_.pinned.empty());
}

// Of a guest whose memory is one piece for the device: straight_.
class StraightMemoryTest : public ShadowPageTableTest {
 protected:
  StraightMemoryTest() {
    shadow_ = *ShadowMemory::Create(HostGpu(&gpu_), partition_, straight_memory_, straight_pins_,
                                    tlb_, counter_);
  }
  ~StraightMemoryTest() override { shadow_.reset(); }

  ts_host_vgpu straight_{gpu_, 2048, false};
  PinTable straight_pins_{&straight_, 64};
  GuestMemory straight_memory_{HostGpu(&gpu_), &straight_, partition_};
};

TEST_F(StraightMemoryTest, HugePageInOnePieceStaysHugeUntilAPartIsUnmapped) {
  Vram64(kPd0 + 8, 0);
  Vram64(kPd0, 0x5 | uint64_t{512} << 8);
  Sync();
  EXPECT_EQ(Dma64(Pd0Address()), 0x5u | straight_.DmaOf(512) >> 12 << 8);
  EXPECT_EQ(straight_.pinned.size(), 512u);
  shadow_->Unmap(0, 512 * 4096);  // what is below it
  EXPECT_EQ(straight_.pinned.size(), 512u);
  shadow_->Unmap(700 * 4096, 4096);
  EXPECT_TRUE(straight_.pinned.empty());
  EXPECT_EQ(Dma64(Pd0Address()) & 1, 0u);
  // The next invalidate brings it back, and another one takes it away with its entry.
  Sync();
  EXPECT_EQ(straight_.pinned.size(), 512u);
  Vram64(kPd0, 0);
  Sync();
  EXPECT_TRUE(straight_.pinned.empty());
}

TEST_F(StraightMemoryTest, BigPageGoesWithAnyOfItsParts) {
  SetBigTable();
  Big(0, 0x5 | uint64_t{16} << 8);
  Sync();
  ASSERT_EQ(straight_.pinned.size(), 16u);
  shadow_->Unmap(20 * 4096, 4096);
  EXPECT_TRUE(straight_.pinned.empty());
  EXPECT_EQ(ShadowBigAt(0) & 1, 0u);
  Sync();
  EXPECT_EQ(ShadowBigAt(0), 0x5u | straight_.DmaOf(16) >> 12 << 8);
}

// Scattered memory needs a table of small pages; the GPU's host has no memory for it.
TEST_F(ShadowPageTableTest, NoMemoryForSmallPagesPinsNothingAndTriesAgain) {
  const auto sync_without_then_with_memory = [this] {
    gpu_.dma_allocations_left = 0;
    Sync();
    EXPECT_TRUE(shadow_->TakeLimitReached());
    EXPECT_TRUE(guest_.pinned.empty());
    gpu_.dma_allocations_left = 100;
    Sync();
  };
  Vram64(kPd0 + 8, 0);
  SetBigTable();
  Space();
  Sync();
  Big(1, 0x5 | uint64_t{32} << 8);
  sync_without_then_with_memory();
  EXPECT_EQ(ShadowSmall(16), 0x5u | guest_.DmaOf(32) >> 12 << 8);
  Big(1, 0);
  Sync();
  // The same for 2 MiB.
  Vram64(kPd0, 0x5 | uint64_t{512} << 8);
  sync_without_then_with_memory();
  EXPECT_EQ(ShadowSmall(511), 0x5u | guest_.DmaOf(1023) >> 12 << 8);
}

TEST_F(ShadowPageTableTest, BadEntriesFaultAsOnABareGpu) {
  Small(0, 0x3 | uint64_t{5} << 8);                      // PEER
  Small(1, 0x1 | uint64_t{0x1000} << 8);                 // first page beyond 16 MiB
  Small(2, 0x5 | uint64_t{1} << (47 - 12 + 8));          // beyond 2^47
  Small(3, 0x1 | uint64_t{5} << 8 | uint64_t{7} << 56);  // KIND INVALID
  Small(4, 0x5 | uint64_t{4096} << 8);                   // no such guest page
  Small(5, 0x8);                                         // sparse
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x3u);
  EXPECT_EQ(ShadowSmall(1), 0x1fffe0001u);
  EXPECT_EQ(ShadowSmall(2), 0x1fffe0001u);
  EXPECT_EQ(ShadowSmall(3), 0x1u | uint64_t{0x2000} << 8 | uint64_t{7} << 56);
  EXPECT_EQ(ShadowSmall(4), 0x3u);
  EXPECT_EQ(ShadowSmall(5), 0x8u);
}

TEST_F(ShadowPageTableTest, PageThatCouldNotBePinnedIsTriedAgain) {
  guest_.unpinnable.insert(7);
  Small(0, 0x5 | uint64_t{7} << 8);
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x3u);
  guest_.unpinnable.clear();
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x5u | guest_.DmaOf(7) >> 12 << 8);
}

TEST_F(ShadowPageTableTest, OneBadPageDoesNotSpoilItsNeighbours) {
  guest_.unpinnable.insert(105);
  for (uint32_t i = 0; i < 16; ++i) Small(i, 0x5 | uint64_t{100 + i} << 8);
  Sync();
  EXPECT_EQ(ShadowSmall(4), 0x5u | guest_.DmaOf(104) >> 12 << 8);
  EXPECT_EQ(ShadowSmall(5), 0x3u);
  EXPECT_EQ(ShadowSmall(6), 0x5u | guest_.DmaOf(106) >> 12 << 8);
}

TEST_F(ShadowPageTableTest, UnreadableTableIsEmpty) {
  Vram64(kPd1, 0x2 | uint64_t{0xffff} << 8);  // beyond the partition
  Sync();
  EXPECT_EQ(Dma64(Pd0Address()), 0u);
}

TEST_F(ShadowPageTableTest, PteInADirectoryIsASizeFault) {
  Vram64(kPd3 + 8, 0x1 | uint64_t{5} << 8);
  Sync();
  EXPECT_EQ(Dma64(Space().shadow_root().value() + 8), 0x1u);
}

TEST_F(ShadowPageTableTest, SparseDirectoryEntryIsKept) {
  Vram64(kPd3 + 8, 0x8);
  Sync();
  EXPECT_EQ(Dma64(Space().shadow_root().value() + 8), 0x8u);
}

TEST_F(ShadowPageTableTest, TablesInGuestMemoryAreRead) {
  guest_.Store64(0x9000 + 8 * 3, 0x1 | uint64_t{0x77} << 8);
  Vram64(kPd0 + 8, 0x4 | uint64_t{9} << 8);
  Sync();
  EXPECT_EQ(ShadowSmall(3), 0x1u | uint64_t{0x2077} << 8);
  EXPECT_TRUE(guest_.pinned.empty());  // tables are copied, not pinned
}

TEST_F(ShadowPageTableTest, UnmapClearsInvalidatesAndUnpins) {
  for (uint32_t i = 0; i < 4; ++i) Small(i, 0x5 | uint64_t{100 + i} << 8);
  Sync();
  tlb_.roots.clear();
  guest_.on_unpin = [&] { EXPECT_EQ(tlb_.roots.size(), 1u); };
  shadow_->Unmap(101 * 4096, 2 * 4096);
  EXPECT_NE(ShadowSmall(0), 0u);
  EXPECT_EQ(ShadowSmall(1), 0u);
  EXPECT_EQ(ShadowSmall(2), 0u);
  EXPECT_NE(ShadowSmall(3), 0u);
  EXPECT_EQ(guest_.pinned.size(), 2u);
  guest_.on_unpin = nullptr;
}

TEST_F(ShadowPageTableTest, UnmapOfOtherMemoryTouchesNothing) {
  Small(0, 0x5 | uint64_t{100} << 8);
  Sync();
  tlb_.roots.clear();
  shadow_->Unmap(0, 100 * 4096);
  EXPECT_TRUE(tlb_.roots.empty());
  EXPECT_EQ(guest_.pinned.size(), 1u);
}

TEST_F(ShadowPageTableTest, MemoryThatComesBackIsMappedAtTheNextInvalidate) {
  Small(0, 0x5 | uint64_t{100} << 8);
  Sync();
  shadow_->Unmap(100 * 4096, 4096);
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x5u | guest_.DmaOf(100) >> 12 << 8);
}

TEST_F(ShadowPageTableTest, UnmapInTheMiddleOfASyncLeavesNoDanglingLink) {
  Small(0, 0x5 | uint64_t{100} << 8);
  Sync();
  // A new PD0 with the same page; the budget ends before it is linked.
  Vram64(0x7000 + 8, 0x2 | kPtSmall >> 12 << 8);
  Vram64(kPd1, 0x2 | uint64_t{7} << 8);
  Space().BeginSync(SyncRange());
  SyncBudget small{1};
  for (int i = 0; i < 3; ++i) {
    SyncBudget step{small.left};
    ASSERT_FALSE(Space().Continue(step));
  }
  shadow_->Unmap(100 * 4096, 4096);
  EXPECT_TRUE(guest_.pinned.empty());
  SyncBudget rest{1'000'000};
  EXPECT_TRUE(Space().Continue(rest));
  shadow_->Flush();
  EXPECT_NE(ShadowSmall(0), 0u);
}

TEST_F(ShadowPageTableTest, SyncGoesOnWhereTheBudgetEnded) {
  for (uint32_t i = 0; i < 512; ++i) Small(i, 0x1 | uint64_t{i} << 8);
  Space().BeginSync(SyncRange());
  int slices = 0;
  for (;; ++slices) {
    SyncBudget budget{70};
    if (Space().Continue(budget)) break;
    ASSERT_LT(slices, 100);
  }
  shadow_->Flush();
  EXPECT_GE(slices, 2);
  EXPECT_EQ(ShadowSmall(511), 0x1u | uint64_t{0x2000 + 511} << 8);
}

TEST_F(ShadowPageTableTest, LoopOfTablesEndsAtTheLimit) {
  for (uint32_t i = 0; i < 512; ++i) {
    Vram64(kPd2 + i * 8, 0x2 | kPd1 >> 12 << 8);
    Vram64(kPd1 + i * 8, 0x2 | kPd2 >> 12 << 8);
  }
  Space().BeginSync(SyncRange());
  SyncBudget budget{uint64_t{1} << 30};
  EXPECT_TRUE(Space().Continue(budget));
  shadow_->Flush();
  EXPECT_LE(shadow_->tables(), ShadowMemory::kMaxTables);
  EXPECT_TRUE(shadow_->TakeLimitReached());
}

TEST_F(ShadowPageTableTest, NoMemoryLeavesEntriesInvalidAndTriesAgain) {
  Small(0, 0x1 | uint64_t{1} << 8);
  Space();
  gpu_.dma_allocations_left = 2;  // PD2 and PD1, no PD0
  Sync();
  EXPECT_TRUE(shadow_->TakeLimitReached());
  gpu_.dma_allocations_left = 100;
  Sync();
  EXPECT_EQ(ShadowSmall(0), 0x1u | uint64_t{0x2001} << 8);
}

TEST_F(ShadowPageTableTest, ReleaseOfTheLastReferenceFreesEverything) {
  for (uint32_t i = 0; i < 64; ++i) Small(i, 0x5 | uint64_t{100 + i} << 8);
  Sync();
  shadow_->Release(space_);
  space_ = nullptr;
  shadow_->Flush();
  EXPECT_TRUE(guest_.pinned.empty());
  EXPECT_EQ(shadow_->tables(), 0u);
  EXPECT_EQ(gpu_.dma_bytes, 0u);
  EXPECT_EQ(counter_.bytes(), 0u);
}

}  // namespace
}  // namespace turnstile
