// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/vgpu_type.h"

#include <gtest/gtest.h>

namespace turnstile {
namespace {

constexpr uint64_t kMiB = 1 << 20;
enum Type : uint32_t { kV1, kV2, kV4, kV8, kV16 };

class PartitionMapTest : public testing::Test {
 protected:
  PartitionMapTest() : map_(*PartitionMap::Create(256 * kMiB, 4096)) {}
  PartitionMap map_;
};

TEST_F(PartitionMapTest, EmptyGpuOffersEveryTypeItsDivisor) {
  EXPECT_EQ(map_.Available(kV1), 1u);
  EXPECT_EQ(map_.Available(kV2), 2u);
  EXPECT_EQ(map_.Available(kV4), 4u);
  EXPECT_EQ(map_.Available(kV8), 8u);
  EXPECT_EQ(map_.Available(kV16), 16u);
}

TEST_F(PartitionMapTest, HalfIsHalfOfEverything) {
  const Partition first = *map_.Allocate(kV2);
  const Partition second = *map_.Allocate(kV2);
  EXPECT_EQ(first.function.value(), 1u);
  EXPECT_EQ(first.vram.value(), 0u);
  EXPECT_EQ(first.vram_bytes, 128 * kMiB);
  EXPECT_EQ(first.first_chid, 0u);
  EXPECT_EQ(first.channels, 2048u);
  EXPECT_EQ(second.function.value(), 2u);
  EXPECT_EQ(second.vram.value(), 128 * kMiB);
  EXPECT_EQ(second.first_chid, 2048u);
}

TEST_F(PartitionMapTest, MixedTypesKeepTheFiguresTrue) {
  ASSERT_TRUE(map_.Allocate(kV16).ok());
  EXPECT_EQ(map_.Available(kV1), 0u);
  EXPECT_EQ(map_.Available(kV2), 1u);
  EXPECT_EQ(map_.Available(kV4), 3u);
  EXPECT_EQ(map_.Available(kV16), 15u);
  ASSERT_TRUE(map_.Allocate(kV2).ok());
  EXPECT_EQ(map_.Available(kV2), 0u);
  EXPECT_EQ(map_.Available(kV4), 1u);
  EXPECT_EQ(map_.Available(kV8), 3u);
}

TEST_F(PartitionMapTest, ChidRangesAreAlignedToTheirSize) {
  ASSERT_TRUE(map_.Allocate(kV16).ok());
  const Partition quarter = *map_.Allocate(kV4);
  EXPECT_EQ(quarter.first_chid, 1024u);
  EXPECT_EQ(quarter.channels, 1024u);
}

TEST_F(PartitionMapTest, FullGpuRefuses) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(map_.Allocate(kV16).ok());
  EXPECT_EQ(map_.Allocate(kV16).status(), base::Status::kNoSpace);
  EXPECT_EQ(map_.free_functions(), 47u);
}

TEST_F(PartitionMapTest, FreeGivesEverythingBack) {
  const Partition whole = *map_.Allocate(kV1);
  EXPECT_EQ(map_.free_vram_bytes(), 0u);
  map_.Free(whole);
  EXPECT_EQ(map_.Available(kV1), 1u);
  EXPECT_EQ(map_.free_functions(), 63u);
}

TEST_F(PartitionMapTest, UnknownTypeIsAnError) {
  EXPECT_EQ(map_.Allocate(5).status(), base::Status::kInvalidArgument);
}

}  // namespace
}  // namespace turnstile
