// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "hwreg/register.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <type_traits>

namespace hwreg {
namespace {

struct RunlistSubmit : Reg32<RunlistSubmit> {
  using Reg32::Reg32;
  static constexpr uint32_t Offset(uint32_t i) { return 0x2b08 + i * 16; }
  using Length = Field<15, 0>;
  struct Target : Field<29, 28> {
    static constexpr uint32_t kSysMemCoherent = 2;
  };
  using Pending = Field<31, 31>;
};

struct PageEntry : Reg64<PageEntry> {
  using Reg64::Reg64;
  static constexpr uint32_t Offset() { return 0x100; }
  using Valid = Field<0, 0>;
  using Address = Field<53, 8>;
  using Kind = Field<63, 56>;
};

// A field's geometry is known to the compiler, and registers cost what their raw value costs.
static_assert(RunlistSubmit::Target::kShift == 28 && RunlistSubmit::Target::kWidth == 2);
static_assert(RunlistSubmit::Target::kMask == 0x30000000 && RunlistSubmit::Target::kMax == 3);
static_assert(PageEntry::Address::kMask == 0x003fffffffffff00);
static_assert(Field<31, 0>::kMask == 0xffffffff && Field<63, 0>::kMax == UINT64_MAX);
static_assert(std::is_same_v<Field<31, 0>::Value, uint32_t>);
static_assert(std::is_same_v<Field<32, 0>::Value, uint64_t>);
static_assert(sizeof(RunlistSubmit) == 4 && std::is_trivially_copyable_v<RunlistSubmit>);
static_assert(RunlistSubmit(0x80000003).Get<RunlistSubmit::Length>() == 3);
static_assert(RunlistSubmit().Set<RunlistSubmit::Length>(3).raw() == 3);

// What the register classes are given to read and write through.
struct FakeMmio {
  uint32_t Read32(uint32_t offset) { return static_cast<uint32_t>(words[offset]); }
  void Write32(uint32_t offset, uint32_t value) { words[offset] = value; }
  uint64_t Read64(uint32_t offset) { return words[offset]; }
  void Write64(uint32_t offset, uint64_t value) { words[offset] = value; }
  std::map<uint32_t, uint64_t> words;
};

TEST(FieldTest, GetExtractsTheField) {
  EXPECT_EQ(RunlistSubmit::Target::Get(0xe0000007u), 2u);
  EXPECT_EQ(PageEntry::Kind::Get(uint64_t{0xab00000000000000}), 0xabu);
}

TEST(FieldTest, SetKeepsTheOtherBits) {
  EXPECT_EQ(RunlistSubmit::Length::Set(0xffffffffu, 0x1234), 0xffff1234u);
  EXPECT_EQ(RunlistSubmit::Target::Set(0xffffffffu, 0), 0xcfffffffu);
}

TEST(FieldTest, SetDropsBitsThatDoNotFit) {
  EXPECT_EQ(RunlistSubmit::Target::Set(0u, 0xff), 0x30000000u);
}

TEST(FieldTest, LowFieldOfA64BitRegisterKeepsTheHighWord) {
  EXPECT_EQ(PageEntry::Valid::Set(uint64_t{0xdeadbeef00000000}, 1), 0xdeadbeef00000001u);
  EXPECT_EQ(PageEntry::Valid::Set(uint64_t{0xdeadbeefffffffff}, 0), 0xdeadbeeffffffffeu);
}

TEST(RegisterTest, DefaultIsZero) { EXPECT_EQ(RunlistSubmit().raw(), 0u); }

TEST(RegisterTest, SettersChain) {
  RunlistSubmit submit;
  submit.Set<RunlistSubmit::Length>(7).Set<RunlistSubmit::Target>(
      RunlistSubmit::Target::kSysMemCoherent);
  EXPECT_EQ(submit.raw(), 0x20000007u);
}

TEST(RegisterTest, TestIsTrueForAnyBitOfTheField) {
  EXPECT_TRUE(RunlistSubmit(0x80000000).Test<RunlistSubmit::Pending>());
  EXPECT_TRUE(RunlistSubmit(0x00008000).Test<RunlistSubmit::Length>());
  EXPECT_FALSE(RunlistSubmit(0x0fff0000).Test<RunlistSubmit::Length>());
}

TEST(RegisterTest, EqualWhenRawIsEqual) {
  EXPECT_EQ(RunlistSubmit(5), RunlistSubmit(5));
  EXPECT_NE(RunlistSubmit(5), RunlistSubmit(6));
}

TEST(RegisterTest, ReadsAndWritesAtItsOwnOffset) {
  FakeMmio mmio;
  RunlistSubmit(0x20000001).WriteTo(mmio, 2u);
  EXPECT_EQ(mmio.words, (std::map<uint32_t, uint64_t>{{0x2b28, 0x20000001}}));
  EXPECT_EQ(RunlistSubmit::ReadFrom(mmio, 2u).raw(), 0x20000001u);
}

TEST(RegisterTest, SixtyFourBits) {
  FakeMmio mmio;
  PageEntry entry;
  entry.Set<PageEntry::Valid>(1).Set<PageEntry::Address>(0x12345).Set<PageEntry::Kind>(6);
  EXPECT_EQ(entry.raw(), 0x0600000001234501u);
  entry.WriteTo(mmio);
  EXPECT_EQ(PageEntry::ReadFrom(mmio).Get<PageEntry::Address>(), 0x12345u);
}

TEST(RegisterTest, UnnamedBitsSurviveReadModifyWrite) {
  RunlistSubmit submit(0x0fff0000);
  submit.Set<RunlistSubmit::Length>(1);
  EXPECT_EQ(submit.raw(), 0x0fff0001u);
}

TEST(WideFieldTest, StraddlesWords) {
  using Straddling = WideField<35, 28>;
  std::array<uint32_t, 2> words = {0, 0};
  Straddling::Set(words, 0xaf);
  EXPECT_EQ(words, (std::array<uint32_t, 2>{0xf0000000, 0x0000000a}));
  EXPECT_EQ(Straddling::Get(words), 0xafu);
  static_assert(Straddling::kWidth == 8 && Straddling::kMax == 0xff);
}

TEST(WideFieldTest, TruncatedStructureReadsZero) {
  const std::array<uint32_t, 1> words = {0xffffffff};
  EXPECT_EQ((WideField<95, 64>::Get(words)), 0u);
}

}  // namespace
}  // namespace hwreg
