// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The interrupt trees of the functions, PMC, and what reaches MSI-X, MSI and INTx.
#include <gtest/gtest.h>

#include "fakes/model_fixture.h"

namespace {

using fakes::ModelFixture;

void Trigger(ModelFixture& gpu, uint32_t function, uint32_t vector) {
  gpu.Write(0xb66c00 + 4 * function, vector);
}

TEST(InterruptTree, LeafLatchesWhetherEnabledOrNot) {
  ModelFixture gpu;
  Trigger(gpu, 0, 137);
  EXPECT_EQ(gpu.Read(0xb74000 + 4 * 4), 1u << 9);
  EXPECT_EQ(gpu.Read(0xb73400), 0u);
  EXPECT_EQ(gpu.msix_count(2), 0u);
  gpu.Write(0xb74000 + 4 * 4, 1u << 9);
  EXPECT_EQ(gpu.Read(0xb74000 + 4 * 4), 0u);
}

TEST(InterruptTree, SubtreeSendsItsMsixEntry) {
  ModelFixture gpu;
  const std::pair<uint32_t, uint32_t> cases[] = {{5, 0}, {64, 1}, {132, 2}, {200, 3}};
  for (const auto& [vector, entry] : cases) {
    gpu.EnableLeaf(0, vector / 32, 1u << vector % 32);
    gpu.ForgetInterrupts();
    Trigger(gpu, 0, vector);
    for (unsigned e = 0; e < 6; ++e) EXPECT_EQ(gpu.msix_count(e), e == entry ? 1u : 0u);
    EXPECT_EQ(gpu.msi_count(), 1u);
    EXPECT_TRUE(gpu.intx());
  }
}

TEST(InterruptTree, SameBitAgainSendsNothing) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 1u << 4);
  Trigger(gpu, 0, 132);
  Trigger(gpu, 0, 132);
  EXPECT_EQ(gpu.msix_count(2), 1u);
}

TEST(InterruptTree, NewBitInAnActiveSubtreeSendsAgain) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 3u << 4);
  Trigger(gpu, 0, 132);
  Trigger(gpu, 0, 133);
  EXPECT_EQ(gpu.msix_count(2), 2u);
}

TEST(InterruptTree, TopEnableSetSendsAgain) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 1u << 4);
  Trigger(gpu, 0, 132);
  gpu.Write(0xb73c00, 1u << 2);
  EXPECT_FALSE(gpu.intx());
  EXPECT_EQ(gpu.Read(0xb73800), 0u);
  gpu.Write(0xb73800, 1u << 2);
  EXPECT_EQ(gpu.msix_count(2), 2u);
  EXPECT_TRUE(gpu.intx());
  // Also when it was enabled all the time.
  gpu.Write(0xb73800, 1u << 2);
  EXPECT_EQ(gpu.msix_count(2), 3u);
}

TEST(InterruptTree, LeafEnableOfALatchedBitSends) {
  ModelFixture gpu;
  gpu.Write(0xb73800, 0xf);
  Trigger(gpu, 0, 132);
  EXPECT_EQ(gpu.msix_count(2), 0u);
  gpu.Write(0xb78000 + 4 * 4, 1u << 4);
  EXPECT_EQ(gpu.msix_count(2), 1u);
  EXPECT_EQ(gpu.Read(0xb73400), 1u << 2);
  EXPECT_EQ(gpu.Read(0xb78000 + 4 * 4), 1u << 4);
  gpu.Write(0xb7c000 + 4 * 4, 1u << 4);
  EXPECT_EQ(gpu.Read(0xb78000 + 4 * 4), 0u);
  EXPECT_FALSE(gpu.intx());
}

TEST(InterruptTree, IntxFollowsTheTree) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 1u << 4);
  Trigger(gpu, 0, 132);
  EXPECT_TRUE(gpu.intx());
  gpu.Write(0xb74010, 1u << 4);
  EXPECT_FALSE(gpu.intx());
}

TEST(InterruptTree, Function0WindowIsAnAlias) {
  ModelFixture gpu;
  gpu.Write(0xb81200 + 4 * 4, 1u << 4);
  gpu.Write(0xb81608, 1u << 2);
  gpu.Write(0xb81640, 132);
  EXPECT_EQ(gpu.Read(0xb81000 + 4 * 4), 1u << 4);
  EXPECT_EQ(gpu.Read(0xb81600), 1u << 2);
  EXPECT_EQ(gpu.Read(0xb73800), 1u << 2);
  EXPECT_EQ(gpu.msix_count(2), 1u);
  gpu.Write(0xb81000 + 4 * 4, 1u << 4);
  EXPECT_EQ(gpu.Read(0xb74010), 0u);
}

TEST(InterruptTree, OtherFunctionsSetVirtualIntrLeafAndVector130) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 1u << 2);  // vector 130 of function 0
  gpu.Write(0xb66824, 1u << 8);   // VIRTUAL_INTR_LEAF_EN_SET(1): function 40
  gpu.EnableLeaf(40, 0, 1u << 12);
  gpu.EnableLeaf(41, 0, 1u << 12);
  gpu.ForgetInterrupts();
  Trigger(gpu, 41, 12);
  EXPECT_EQ(gpu.Read(0xb66804), 1u << 9);
  EXPECT_EQ(gpu.msix_count(2), 0u);  // not enabled there
  Trigger(gpu, 40, 12);
  EXPECT_EQ(gpu.Read(0xb66804), 3u << 8);
  EXPECT_EQ(gpu.Leaf(0, 4), 1u << 2);
  EXPECT_EQ(gpu.msix_count(2), 1u);
  EXPECT_EQ(gpu.msix_count(0), 0u);
  // Handled: leaf of the function, word of the functions, vector.
  gpu.Write(0xb74000 + 4 * (16 * 40), 1u << 12);
  gpu.Write(0xb66804, 1u << 8);
  gpu.Write(NV_CTRL_LEAF(4), 1u << 2);
  EXPECT_EQ(gpu.Read(0xb66804), 1u << 9);
  Trigger(gpu, 40, 12);
  EXPECT_EQ(gpu.msix_count(2), 2u);
}

TEST(InterruptTree, FunctionWithoutTopEnableTellsNobody) {
  ModelFixture gpu;
  gpu.Write(NV_CTRL_LEAF_EN_SET(16 * 3), 1u << 12);
  Trigger(gpu, 3, 12);
  EXPECT_EQ(gpu.Leaf(3, 0), 1u << 12);
  EXPECT_EQ(gpu.Read(0xb66800), 0u);
  gpu.Write(NV_CTRL_TOP_EN_SET(3), 1);
  EXPECT_EQ(gpu.Read(0xb66800), 1u << 3);
}

TEST(InterruptTree, RetriggerRaises130Again) {
  ModelFixture gpu;
  gpu.Write(0xb66820, 1u << 3);
  gpu.EnableLeaf(3, 0, 1u << 12);
  Trigger(gpu, 3, 12);
  gpu.Write(NV_CTRL_LEAF(4), 1u << 2);
  EXPECT_EQ(gpu.Leaf(0, 4), 0u);
  gpu.Write(0xb66870, 1);
  EXPECT_EQ(gpu.Leaf(0, 4), 1u << 2);
}

TEST(InterruptTree, VectorsBeyondTheLeavesAreIgnored) {
  ModelFixture gpu;
  Trigger(gpu, 0, 256);
  Trigger(gpu, 0, 0xfff);
  for (uint32_t leaf = 0; leaf < 16; ++leaf) EXPECT_EQ(gpu.Leaf(0, leaf), 0u);
}

TEST(Pmc, SoftwareInterruptsGoToEntries4And5) {
  ModelFixture gpu;
  gpu.Write(0x160, 1u << 31);
  gpu.Write(0x164, 1u << 31);
  EXPECT_EQ(gpu.Read(0x140), 1u << 31);
  gpu.Write(0x1a0, 1u << 31);
  EXPECT_EQ(gpu.Read(0x100), 1u << 31);
  EXPECT_EQ(gpu.msix_count(4), 1u);
  EXPECT_TRUE(gpu.intx());
  gpu.Write(0x1a4, 1u << 31);
  EXPECT_EQ(gpu.msix_count(5), 1u);
  gpu.Write(0x180, 1u << 31);
  gpu.Write(0x184, 1u << 31);
  EXPECT_FALSE(gpu.intx());
  EXPECT_EQ(gpu.Read(0x100), 1u << 31);
  // Enabling again is a change from zero.
  gpu.Write(0x160, 1u << 31);
  EXPECT_EQ(gpu.msix_count(4), 2u);
}

TEST(Pmc, PfifoIsBit8) {
  ModelFixture gpu;
  gpu.Write(0x160, 1u << 8);
  gpu.Write(0x2140, 1);  // BIND_ERROR
  gpu.Write(NV_PCCSR_CHANNEL_INST(1), 0x90000000);
  EXPECT_EQ(gpu.Read(0x100), 1u << 8);
  EXPECT_EQ(gpu.msix_count(4), 1u);
  EXPECT_EQ(gpu.Leaf(0, 4), 1u << 8);  // vector 136
  gpu.Write(0x2100, 1);
  EXPECT_EQ(gpu.Read(0x100), 0u);
}

TEST(Ptimer, AlarmComesOnceAtItsTime) {
  ModelFixture gpu;
  gpu.EnableLeaf(0, 4, 1u << 20);  // vector 148
  gpu.Write(0x9140, 1);
  gpu.Write(0x160, 1u << 20);
  const auto at = static_cast<uint32_t>(gpu.now() + 50'000) & ~31u;
  gpu.Write(0x9420, at);
  gpu.AdvanceTo(at - 1);
  EXPECT_EQ(gpu.Read(0x9100), 0u);
  gpu.AdvanceTo(at);
  EXPECT_EQ(gpu.Read(0x9100), 1u);
  EXPECT_EQ(gpu.msix_count(2), 1u);
  EXPECT_EQ(gpu.Read(0x100), 1u << 20);
  gpu.Write(0x9100, 1);
  EXPECT_EQ(gpu.Read(0x100), 0u);
  gpu.Settle(10'000'000'000);
  EXPECT_EQ(gpu.Read(0x9100), 0u);
}

}  // namespace
