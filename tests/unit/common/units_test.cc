// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace base {
namespace {

static_assert(!std::is_convertible_v<Gpa, Hpa> && !std::is_constructible_v<Hpa, Gpa>);
static_assert(!std::is_convertible_v<VramOffset, GuestVramOffset>);
static_assert(!std::is_constructible_v<ChId, VChId> && !std::is_constructible_v<TsgId, VTsgId>);
static_assert(!std::is_convertible_v<uint64_t, Gpa> && !std::is_convertible_v<Gpa, uint64_t>);
static_assert(!std::is_convertible_v<uint64_t, Nanoseconds>);
static_assert(sizeof(Gpa) == 8 && sizeof(ChId) == 4 && std::is_trivially_copyable_v<Gpa>);

TEST(UnitsTest, AddressPlusOffset) {
  EXPECT_EQ((Gpa(0x1000) + 0x234).value(), 0x1234u);
  EXPECT_EQ((Gpa(0x1234) - 0x234).value(), 0x1000u);
}

TEST(UnitsTest, AddressStepsInPlace) {
  GpuVa va(0x1000);
  va += 0x20;
  va -= 0x10;
  EXPECT_EQ(va, GpuVa(0x1010));
}

TEST(UnitsTest, DistanceOfTwoAddressesIsANumber) { EXPECT_EQ(Hpa(0x3000) - Hpa(0x1000), 0x2000u); }

TEST(UnitsTest, ValuesCompare) {
  EXPECT_LT(Gpa(1), Gpa(2));
  EXPECT_EQ(ChId(3), ChId(3));
  EXPECT_NE(RunlistId(0), RunlistId(1));
}

TEST(UnitsTest, SizeLiterals) {
  EXPECT_EQ(4_KiB, 4096u);
  EXPECT_EQ(2_MiB, 2097152u);
  EXPECT_EQ(16_GiB, 17179869184u);
}

TEST(UnitsTest, Alignment) {
  EXPECT_EQ(AlignUp(0x1001, 0x1000), 0x2000u);
  EXPECT_EQ(AlignUp(0x1000, 0x1000), 0x1000u);
  EXPECT_EQ(AlignDown(0x1fff, 0x1000), 0x1000u);
  EXPECT_TRUE(IsAligned(0x2000, 0x1000));
  EXPECT_FALSE(IsAligned(0x2004, 0x1000));
}

TEST(UnitsTest, AlignmentKeepsTheKindOfAddress) {
  EXPECT_EQ(AlignUp(VramOffset(5), 8), VramOffset(8));
  EXPECT_EQ(AlignDown(GpuVa(0x2fffff), 0x200000), GpuVa(0x200000));
  EXPECT_TRUE(IsAligned(Gpa(0x10000), 0x10000));
}

TEST(UnitsTest, CheckedAddFindsOverflow) {
  EXPECT_EQ(*CheckedAdd(uint64_t{1}, 2), 3u);
  EXPECT_EQ(*CheckedAdd(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_EQ(CheckedAdd(UINT64_MAX, 1).status(), Status::kOutOfRange);
  EXPECT_EQ(CheckedAdd(Gpa(UINT64_MAX - 1), 2).status(), Status::kOutOfRange);
  EXPECT_EQ(*CheckedAdd(Gpa(8), 8), Gpa(16));
}

TEST(UnitsTest, CheckedMulFindsOverflow) {
  EXPECT_EQ(*CheckedMul(3, 5), 15u);
  EXPECT_EQ(*CheckedMul(0, UINT64_MAX), 0u);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32).status(), Status::kOutOfRange);
}

TEST(UnitsTest, RangeFitsIsRightAtTheEdges) {
  EXPECT_TRUE(RangeFits(0, 100, 100));
  EXPECT_TRUE(RangeFits(100, 0, 100));
  EXPECT_FALSE(RangeFits(101, 0, 100));
  EXPECT_FALSE(RangeFits(1, 100, 100));
  EXPECT_FALSE(RangeFits(UINT64_MAX, 2, 100));
  EXPECT_FALSE(RangeFits(50, UINT64_MAX, 100));
}

TEST(UnitsTest, NanosecondsFromLargerUnits) {
  EXPECT_EQ(Nanoseconds::FromMicroseconds(125).value(), 125000u);
  EXPECT_EQ(Nanoseconds::FromMilliseconds(2).value(), 2000000u);
  EXPECT_EQ(Nanoseconds::FromSeconds(3).value(), 3000000000u);
}

TEST(UnitsTest, NanosecondsArithmetic) {
  Nanoseconds time(1000);
  time += Nanoseconds(500);
  time -= Nanoseconds(100);
  EXPECT_EQ(time.value(), 1400u);
  EXPECT_EQ((time * 2).value(), 2800u);
  EXPECT_EQ((time / 4).value(), 350u);
  EXPECT_EQ((time - Nanoseconds(400)) + Nanoseconds(1), Nanoseconds(1001));
  EXPECT_LT(time, Nanoseconds::Max());
}

}  // namespace
}  // namespace base
