// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/trap/pci_config.h"

#include <gtest/gtest.h>

namespace turnstile {
namespace {

class PciConfigTest : public testing::Test {
 protected:
  PciConfig config_{128u << 20, 64u << 10, 2};
};

TEST_F(PciConfigTest, IdentityIsTs104) {
  EXPECT_EQ(config_.Read(0x00, 4), 0x75101234u);
  EXPECT_EQ(config_.Read(0x08, 4), 0x030200a1u);
  EXPECT_EQ(config_.Read(0x2c, 4), 0x00021234u);
}

TEST_F(PciConfigTest, CapabilityListIsThatOfTheRegisterMap) {
  EXPECT_EQ(config_.Read(0x34, 1), 0x60u);
  EXPECT_EQ(config_.Read(0x60, 2), 0x6801u);  // PM
  EXPECT_EQ(config_.Read(0x68, 2), 0x7805u);  // MSI
  EXPECT_EQ(config_.Read(0x78, 2), 0xc810u);  // PCIe
  EXPECT_EQ(config_.Read(0xc8, 2), 0x0011u);  // MSI-X, last
  EXPECT_EQ(config_.Read(0xca, 2), 0x0005u);  // 6 vectors
  EXPECT_EQ(config_.Read(0xcc, 4), 0x00b90000u);
  EXPECT_EQ(config_.Read(0xd0, 4), 0x00ba0000u);
}

TEST_F(PciConfigTest, BarsAreSizedByAllOnes) {
  for (uint64_t bar = 0x10; bar <= 0x24; bar += 4) config_.Write(bar, 0xffffffff, 4);
  EXPECT_EQ(config_.Read(0x10, 4), 0xff000000u);          // BAR0 16 MiB
  EXPECT_EQ(config_.Read(0x14, 8), 0xfffffffff800000cu);  // BAR1 128 MiB, 64 bit
  EXPECT_EQ(config_.Read(0x1c, 8), 0xffffffffffff000cu);  // BAR3 64 KiB, 64 bit
  EXPECT_EQ(config_.Read(0x24, 4), 0u);
}

TEST_F(PciConfigTest, ReadOnlyBytesStay) {
  config_.Write(0x00, 0xffffffff, 4);
  config_.Write(0x08, 0, 4);
  EXPECT_EQ(config_.Read(0x00, 4), 0x75101234u);
  EXPECT_EQ(config_.Read(0x08, 4), 0x030200a1u);
}

TEST_F(PciConfigTest, CommandKeepsItsThreeBits) {
  const auto effects = config_.Write(0x04, 0xffff, 2);
  EXPECT_EQ(config_.Read(0x04, 2), 0x0406u);
  EXPECT_TRUE(effects.command_changed);
  EXPECT_TRUE(config_.intx_disabled());
}

TEST_F(PciConfigTest, FlrAsksForAResetAndReadsZero) {
  EXPECT_FALSE(config_.Write(0x80, 0x2810, 2).reset);
  EXPECT_TRUE(config_.Write(0x80, 0x8000, 2).reset);
  EXPECT_EQ(config_.Read(0x80, 2) & 0x8000u, 0u);
}

TEST_F(PciConfigTest, ResetRestoresPowerOn) {
  config_.Write(0x04, 0x0406, 2);
  config_.Write(0xca, 0x8000, 2);
  config_.Reset();
  EXPECT_EQ(config_.Read(0x04, 2), 0u);
  EXPECT_EQ(config_.Read(0xca, 2), 0x0005u);
}

TEST_F(PciConfigTest, BeyondTheEndReadsZero) {
  EXPECT_EQ(config_.Read(0x100, 4), 0u);
  EXPECT_EQ(config_.Read(0xffc, 8), 0u);
  EXPECT_EQ(config_.Read(~uint64_t{0}, 8), 0u);
  config_.Write(~uint64_t{0}, 1, 8);
}

}  // namespace
}  // namespace turnstile
