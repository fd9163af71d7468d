// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/channel/instance_block.h"

#include <gtest/gtest.h>

namespace turnstile {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCtxSize = 0x10000;

class InstanceBlockTest : public testing::Test {
 protected:
  InstanceBlockTest() {
    partition_.vram = base::VramOffset(128 * kMiB);
    partition_.vram_bytes = 64 * kMiB;
    translation_.has_root = true;
    translation_.root = base::Hpa(0x1'2345'6000);
    translation_.userd = {true, true, 0x4'0000'0200};
    translation_.chid = 0x803;
    Set(0x10, 0xface);
    Set(0x200, 0xc00);  // VID, version 2, 64 KiB
  }
  void Set(uint32_t offset, uint32_t value) { guest_.words[offset / 4] = value; }
  InstanceBlock Make() const {
    return MakeShadowInstance(guest_, translation_, partition_, kCtxSize);
  }

  Partition partition_;
  InstanceTranslation translation_;
  InstanceBlock guest_;
};

TEST_F(InstanceBlockTest, PrivilegesAreNeverGranted) {
  Set(0xf4, 0xffffffff);
  Set(0xe4, 0x20);
  EXPECT_EQ(Make().At(0xf4), 0x1031u);  // AUTH_LEVEL (bit 8) gone
  EXPECT_EQ(Make().At(0xe4), 0u);
}

TEST_F(InstanceBlockTest, RingAndStateAreKept) {
  Set(0x48, 0x12345678);
  Set(0x4c, 0x000a0012);
  Set(0x14, 5);
  Set(0xc0, 0x80000100);
  const InstanceBlock shadow = Make();
  EXPECT_EQ(shadow.At(0x48), 0x12345678u);
  EXPECT_EQ(shadow.At(0x4c), 0x000a0012u);
  EXPECT_EQ(shadow.At(0x14), 5u);
  EXPECT_EQ(shadow.At(0xc0), 0x80000100u);
}

TEST_F(InstanceBlockTest, PageDirectoryIsTheShadows) {
  const InstanceBlock shadow = Make();
  EXPECT_EQ(shadow.At(0x200), 0x23456c02u);  // SYS_COH, version 2, 64 KiB
  EXPECT_EQ(shadow.At(0x204), 0x1u);
}

TEST_F(InstanceBlockTest, WithoutRootTheTargetIsInvalid) {
  translation_.has_root = false;
  EXPECT_EQ(Make().At(0x200), 0x1u);
}

TEST_F(InstanceBlockTest, UserdIsTranslated) {
  Set(0x08, 0xdead0000);
  EXPECT_EQ(Make().At(0x08), 0x00000202u);
  EXPECT_EQ(Make().At(0x0c), 0x4u);
}

TEST_F(InstanceBlockTest, UserdThatCannotBeTranslatedIsBeyondAnyCard) {
  translation_.userd = {};
  EXPECT_EQ(Make().At(0x08), 0xfffffe00u);
  EXPECT_EQ(Make().At(0x0c), 0xffu);
}

TEST_F(InstanceBlockTest, UnknownWordsAreDropped) {
  Set(0xf8, 0x10003080);
  Set(0x2c, 0xffffffff);
  Set(0x21c, 0xffffffff);  // PASID
  const InstanceBlock shadow = Make();
  EXPECT_EQ(shadow.At(0xf8), 0u);
  EXPECT_EQ(shadow.At(0x2c), 0u);
  EXPECT_EQ(shadow.At(0x21c), 0u);
}

TEST_F(InstanceBlockTest, ChannelIdIsPhysical) {
  Set(0xfc, 0x00050000);  // the guest's CHID 5
  EXPECT_EQ(Make().At(0xfc), 0x08030000u);
}

TEST_F(InstanceBlockTest, VirtualContextPointerIsKept) {
  Set(0x210, 0x00345004);
  Set(0x214, 0x1);
  EXPECT_EQ(Make().At(0x210), 0x00345004u);
  EXPECT_EQ(Make().At(0x214), 0x1u);
}

TEST_F(InstanceBlockTest, PhysicalContextPointerIsMovedIntoThePartition) {
  Set(0x210, 0x00100000);
  EXPECT_EQ(Make().At(0x210), 0x08100000u);
}

TEST_F(InstanceBlockTest, ContextThatReachesBeyondThePartitionIsRefused) {
  Set(0x210, 64 * kMiB - 0x8000);
  EXPECT_EQ(Make().At(0x210), 0x00001002u);  // physical SYS: BAD_CONTEXT without an access
}

TEST_F(InstanceBlockTest, DecodesWhatTheGuestNames) {
  GuestAddress at;
  Set(0x200, 0x7000 | 0xc02);
  Set(0x204, 0x3);
  EXPECT_TRUE(PageDirectoryOf(guest_, &at));
  EXPECT_EQ(at.aperture, Aperture::kSys);
  EXPECT_EQ(at.value, 0x3'0000'7000u);
  Set(0x200, 0x7000 | 0x802);  // version 1 tables
  EXPECT_FALSE(PageDirectoryOf(guest_, &at));
  Set(0x08, 0x11223301);  // NVLINK
  EXPECT_FALSE(UserdOf(guest_, &at));
  Set(0x08, 0x11223400);
  Set(0x0c, 0x55);
  EXPECT_TRUE(UserdOf(guest_, &at));
  EXPECT_EQ(at.value, 0x55'1122'3400u);
  EXPECT_FALSE(IsPrivileged(guest_));
  Set(0xf4, 0x100);
  EXPECT_TRUE(IsPrivileged(guest_));
}

}  // namespace
}  // namespace turnstile
