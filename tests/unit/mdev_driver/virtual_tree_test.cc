// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/irq/virtual_tree.h"

#include <gtest/gtest.h>

#include "fakes/fake_host.h"

namespace turnstile {
namespace {

constexpr uint32_t kGr = 12;      // leaf 0
constexpr uint32_t kFault = 132;  // leaf 4, bit 4
constexpr uint32_t kFifo = 136;   // leaf 4, bit 8

class VirtualTreeTest : public testing::Test {
 protected:
  VirtualTreeTest() {
    EXPECT_EQ(tree_.Init(), base::Status::kOk);
    tree_.SetMode(TS_IRQ_MODE_MSIX);
  }
  void EnableAll() {
    tree_.SetLeafEnable(0, ~0u);
    tree_.SetLeafEnable(4, ~0u);
    tree_.SetTopEnable(0xf);
  }

  ts_host_gpu gpu_;
  ts_host_vgpu guest_{gpu_, 1};
  VirtualTree tree_{&guest_};
};

TEST_F(VirtualTreeTest, LeafLatchesThoughDisabled) {
  tree_.Latch(kGr);
  EXPECT_EQ(tree_.ReadLeaf(0), 1u << 12);
  EXPECT_EQ(tree_.ReadTop(), 0u);
  EXPECT_EQ(guest_.TakeMsix(), 0u);
}

TEST_F(VirtualTreeTest, SubtreeIsItsMsixEntry) {
  EnableAll();
  tree_.Latch(kGr);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 0);
  tree_.Latch(kFault);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 2);
  EXPECT_EQ(tree_.ReadTop(), 0x5u);
}

TEST_F(VirtualTreeTest, EnablingALatchedLeafSends) {
  tree_.SetTopEnable(0xf);
  tree_.Latch(kGr);
  tree_.SetLeafEnable(0, 1u << 12);
  EXPECT_EQ(guest_.TakeMsix(), 1u);
}

TEST_F(VirtualTreeTest, TopEnableSetSendsAgain) {
  EnableAll();
  tree_.Latch(kGr);
  guest_.TakeMsix();
  tree_.SetTopEnable(1);
  EXPECT_EQ(guest_.TakeMsix(), 1u);
  tree_.SetTopEnable(2);
  EXPECT_EQ(guest_.TakeMsix(), 0u);
}

TEST_F(VirtualTreeTest, NewBitSendsWhileTheSubtreeIsSet) {
  EnableAll();
  tree_.Latch(kGr);
  guest_.TakeMsix();
  tree_.Latch(5);
  EXPECT_EQ(guest_.TakeMsix(), 1u);
}

TEST_F(VirtualTreeTest, SameBitAgainDoesNotSend) {
  EnableAll();
  tree_.Latch(kGr);
  guest_.TakeMsix();
  tree_.Latch(kGr);
  EXPECT_EQ(guest_.TakeMsix(), 0u);
}

TEST_F(VirtualTreeTest, ClearTakesTheBitAway) {
  EnableAll();
  tree_.Latch(kGr);
  tree_.ClearLeaf(0, 1u << 12);
  EXPECT_EQ(tree_.ReadLeaf(0), 0u);
  EXPECT_EQ(tree_.ReadTop(), 0u);
}

TEST_F(VirtualTreeTest, LevelComesBackAfterClear) {
  EnableAll();
  tree_.SetLevel(kFifo, true);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 2);
  tree_.ClearLeaf(4, 1u << 8);
  EXPECT_EQ(tree_.ReadLeaf(4), 1u << 8);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 2);
  tree_.SetLevel(kFifo, false);
  EXPECT_EQ(tree_.ReadLeaf(4), 1u << 8);  // latched until cleared
  tree_.ClearLeaf(4, 1u << 8);
  EXPECT_EQ(tree_.ReadLeaf(4), 0u);
}

TEST_F(VirtualTreeTest, PmcDrivesEntries4And5) {
  tree_.SetPmcEnable(0, 1u << 8);
  tree_.SetPmcBit(0, 8, true);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 4);
  tree_.SetPmcEnable(1, 1u << 31);
  tree_.SetPmcBit(1, 31, true);
  EXPECT_EQ(guest_.TakeMsix(), 1u << 5);
}

TEST_F(VirtualTreeTest, MsiIsOneMessage) {
  tree_.SetMode(TS_IRQ_MODE_MSI);
  EnableAll();
  tree_.Latch(kGr);
  EXPECT_EQ(guest_.msi_count, 1u);
  EXPECT_EQ(guest_.TakeMsix(), 0u);
}

TEST_F(VirtualTreeTest, IntxIsALevel) {
  tree_.SetMode(TS_IRQ_MODE_INTX);
  EnableAll();
  tree_.Latch(kGr);
  EXPECT_TRUE(guest_.intx);
  tree_.SetIntxDisabled(true);
  EXPECT_FALSE(guest_.intx);
  tree_.SetIntxDisabled(false);
  EXPECT_TRUE(guest_.intx);
  tree_.ClearLeaf(0, ~0u);
  EXPECT_FALSE(guest_.intx);
}

TEST_F(VirtualTreeTest, ChangeToIntxTellsTheLevel) {
  EnableAll();
  tree_.Latch(kGr);
  tree_.SetMode(TS_IRQ_MODE_INTX);
  EXPECT_TRUE(guest_.intx);
  tree_.SetMode(TS_IRQ_MODE_OFF);
  EXPECT_FALSE(guest_.intx);
}

TEST_F(VirtualTreeTest, ResetForgetsButKeepsTheMode) {
  EnableAll();
  tree_.Latch(kGr);
  tree_.Reset();
  guest_.TakeMsix();
  EXPECT_EQ(tree_.ReadLeaf(0), 0u);
  EXPECT_EQ(tree_.ReadTopEnable(), 0u);
  EnableAll();
  tree_.Latch(kGr);
  EXPECT_EQ(guest_.TakeMsix(), 1u);
}

TEST_F(VirtualTreeTest, NumbersOutOfRangeAreIgnored) {
  tree_.Latch(256);
  tree_.ClearLeaf(8, ~0u);
  tree_.SetLeafEnable(99, ~0u);
  EXPECT_EQ(tree_.ReadLeaf(8), 0u);
}

}  // namespace
}  // namespace turnstile
