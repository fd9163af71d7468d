// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "hwreg/register_bank.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "fakes/allocation_limit.h"

namespace hwreg {
namespace {

using base::Status;

constexpr RegisterInfo kTable[] = {
    // name     offset    stride count reset       write_mask  w1c_mask    flags
    {"ID", 0x000000, 0, 1, 0x166000a1, 0, 0, 0},
    {"CONTROL", 0x000004, 0, 1, 0x00000080, 0x000000ff, 0, 0},
    {"INTR", 0x002100, 0, 1, 0, 0x0000ff00, 0x000000ff, 0},
    {"SUBMIT", 0x002b08, 16, 3, 0, 0xffffffff, 0, 0},
    {"TRIGGER", 0x003000, 0, 1, 0x5, 0xffffffff, 0, kWriteOnly},
    {"CLOCK", 0x009400, 0, 1, 0, 0, 0, kDynamic},
    {"LAST", 0xfffffc, 0, 1, 0, 0xffffffff, 0, 0},
};
constexpr const RegisterInfo& kControl = kTable[1];
constexpr const RegisterInfo& kIntr = kTable[2];
constexpr const RegisterInfo& kSubmit = kTable[3];
constexpr const RegisterInfo& kTrigger = kTable[4];
constexpr uint32_t kSpace = 16 << 20;

struct WriteEvent {
  std::string name;
  uint32_t index;
  uint32_t old;
  uint32_t now;
  bool operator==(const WriteEvent&) const = default;
};

void PrintTo(const WriteEvent& e, std::ostream* out) {
  *out << e.name << "[" << e.index << "] " << std::hex << e.old << " -> " << e.now;
}

class RegisterBankTest : public testing::Test {
 protected:
  auto Recorder() {
    return [this](const RegisterInfo& info, uint32_t index, uint32_t old, uint32_t now) {
      events_.push_back({info.name, index, old, now});
    };
  }

  Access Write32(uint64_t offset, uint32_t value) {
    return bank_.Write32(offset, value, Recorder());
  }
  Access Write(uint64_t offset, unsigned size, uint64_t value) {
    return bank_.Write(offset, size, value, Recorder());
  }
  uint32_t Read32(uint64_t offset) {
    uint32_t value = 0xeeeeeeee;
    EXPECT_EQ(bank_.Read32(offset, value), Access::kOk);
    return value;
  }
  uint64_t Read(uint64_t offset, unsigned size) {
    uint64_t value = 0xeeeeeeee;
    EXPECT_EQ(bank_.Read(offset, size, value, [](auto&, uint32_t, uint32_t v) { return v; }),
              Access::kOk);
    return value;
  }

  const RegisterMap map_ = *RegisterMap::Create(kTable, kSpace);
  RegisterBank bank_ = *RegisterBank::Create(map_);
  std::vector<WriteEvent> events_;
};

TEST_F(RegisterBankTest, StartsWithResetValues) {
  EXPECT_EQ(Read32(0x0), 0x166000a1u);
  EXPECT_EQ(Read32(0x4), 0x80u);
}

TEST_F(RegisterBankTest, WriteTakesOnlyWritableBits) {
  EXPECT_EQ(Write32(0x4, 0xffffff12), Access::kOk);
  EXPECT_EQ(Read32(0x4), 0x12u);
}

TEST_F(RegisterBankTest, ReadOnlyRegisterStaysAndTheHandlerIsToldAllTheSame) {
  EXPECT_EQ(Write32(0x0, 0xffffffff), Access::kOk);
  EXPECT_EQ(Read32(0x0), 0x166000a1u);
  EXPECT_EQ(events_, (std::vector<WriteEvent>{{"ID", 0, 0x166000a1, 0x166000a1}}));
}

TEST_F(RegisterBankTest, WritingOneClears) {
  bank_.Set(kIntr, 0, 0x0000120f);
  EXPECT_EQ(Write32(0x2100, 0x00003405), Access::kOk);
  EXPECT_EQ(Read32(0x2100), 0x0000340au);
}

TEST_F(RegisterBankTest, WritingZeroToW1cBitsLeavesThem) {
  bank_.Set(kIntr, 0, 0x0000000f);
  EXPECT_EQ(Write32(0x2100, 0), Access::kOk);
  EXPECT_EQ(Read32(0x2100), 0x0000000fu);
}

TEST_F(RegisterBankTest, HandlerGetsIndexOldAndNew) {
  Write32(0x2b18, 7);
  Write32(0x2b28, 9);
  Write32(0x2b28, 9);
  EXPECT_EQ(events_, (std::vector<WriteEvent>{
                         {"SUBMIT", 1, 0, 7}, {"SUBMIT", 2, 0, 9}, {"SUBMIT", 2, 9, 9}}));
}

TEST_F(RegisterBankTest, ElementsOfAnArrayAreSeparate) {
  Write32(0x2b08, 1);
  Write32(0x2b18, 2);
  EXPECT_EQ(Read32(0x2b08), 1u);
  EXPECT_EQ(Read32(0x2b18), 2u);
  EXPECT_EQ(Read32(0x2b28), 0u);
}

TEST_F(RegisterBankTest, HandlerMayChangeTheBank) {
  const Access access = bank_.Write32(
      0x2b08, 0x80000001, [this](const RegisterInfo& info, uint32_t index, uint32_t, uint32_t now) {
        bank_.Set(info, index, now & 0x7fffffff);
      });
  EXPECT_EQ(access, Access::kOk);
  EXPECT_EQ(Read32(0x2b08), 1u);
}

TEST_F(RegisterBankTest, WriteOnlyReadsZeroButIsStored) {
  Write32(0x3000, 0x1234);
  EXPECT_EQ(Read32(0x3000), 0u);
  EXPECT_EQ(bank_.Get(kTrigger), 0x1234u);
}

TEST_F(RegisterBankTest, DynamicValueIsMadeAtTheRead) {
  uint32_t value = 0;
  const auto clock = [](const RegisterInfo& info, uint32_t, uint32_t stored) {
    EXPECT_STREQ(info.name, "CLOCK");
    return stored + 42;
  };
  EXPECT_EQ(bank_.Read32(0x9400, value, clock), Access::kOk);
  EXPECT_EQ(value, 42u);
}

TEST_F(RegisterBankTest, OrdinaryRegisterDoesNotCallTheReadHandler) {
  uint32_t value = 0;
  const auto unexpected = [](const RegisterInfo&, uint32_t, uint32_t) {
    ADD_FAILURE();
    return 0u;
  };
  EXPECT_EQ(bank_.Read32(0x4, value, unexpected), Access::kOk);
  EXPECT_EQ(value, 0x80u);
}

TEST_F(RegisterBankTest, UnknownOffsets) {
  uint32_t value = 0x77;
  for (const uint64_t offset : {uint64_t{0x8}, uint64_t{0x2b0c}, uint64_t{0x2b38},
                                uint64_t{0x500000}, uint64_t{kSpace}, UINT64_MAX - 3}) {
    EXPECT_EQ(bank_.Read32(offset, value), Access::kUnknown) << offset;
    EXPECT_EQ(Write32(offset, 1), Access::kUnknown) << offset;
    EXPECT_EQ(Write(offset, 1, 1), Access::kUnknown) << offset;
  }
  EXPECT_EQ(value, 0x77u);
}

TEST_F(RegisterBankTest, MisalignedAccess) {
  uint32_t value = 0;
  EXPECT_EQ(bank_.Read32(0x2, value), Access::kMisaligned);
  EXPECT_EQ(Write32(0x5, 1), Access::kMisaligned);
  EXPECT_EQ(Write(0x5, 2, 1), Access::kMisaligned);
  EXPECT_EQ(Write(0x4, 8, 1), Access::kMisaligned);
  EXPECT_EQ(Write(0x4, 3, 1), Access::kMisaligned);
  EXPECT_EQ(Write(0x4, 0, 1), Access::kMisaligned);
  EXPECT_EQ(Write(0x0, 16, 1), Access::kMisaligned);
  EXPECT_TRUE(events_.empty());
}

TEST_F(RegisterBankTest, LastRegisterOfTheSpace) {
  EXPECT_EQ(Write32(0xfffffc, 3), Access::kOk);
  EXPECT_EQ(Read32(0xfffffc), 3u);
  EXPECT_EQ(Write(0xfffff8, 8, 3), Access::kUnknown);
}

TEST_F(RegisterBankTest, NarrowReads) {
  EXPECT_EQ(Read(0x0, 1), 0xa1u);
  EXPECT_EQ(Read(0x3, 1), 0x16u);
  EXPECT_EQ(Read(0x2, 2), 0x1660u);
}

TEST_F(RegisterBankTest, NarrowWriteTouchesOnlyItsBytes) {
  bank_.Set(kSubmit, 0, 0x11223344);
  Write(0x2b09, 1, 0xaa);
  EXPECT_EQ(Read32(0x2b08), 0x1122aa44u);
  Write(0x2b0a, 2, 0xbbcc);
  EXPECT_EQ(Read32(0x2b08), 0xbbccaa44u);
}

TEST_F(RegisterBankTest, NarrowWriteDoesNotClearW1cBitsOfOtherBytes) {
  bank_.Set(kIntr, 0, 0x000012ff);
  Write(0x2101, 1, 0x34);
  EXPECT_EQ(Read32(0x2100), 0x000034ffu);
  Write(0x2100, 1, 0x0f);
  EXPECT_EQ(Read32(0x2100), 0x000034f0u);
}

TEST_F(RegisterBankTest, NarrowWriteIgnoresHighBitsOfTheValue) {
  Write(0x2b08, 1, 0xffffffffffffff01);
  EXPECT_EQ(Read32(0x2b08), 1u);
}

TEST_F(RegisterBankTest, WideAccessIsTwoRegisters) {
  EXPECT_EQ(Read(0x0, 8), 0x00000080166000a1u);
  EXPECT_EQ(Write(0x0, 8, 0x0000001200000000), Access::kOk);
  EXPECT_EQ(Read32(0x4), 0x12u);
  EXPECT_EQ(events_, (std::vector<WriteEvent>{{"ID", 0, 0x166000a1, 0x166000a1},
                                              {"CONTROL", 0, 0x80, 0x12}}));
}

TEST_F(RegisterBankTest, WideAccessWithOneUnknownHalfDoesNothing) {
  uint64_t value = 0x77;
  EXPECT_EQ(Write(0x2b08, 8, 0x1), Access::kUnknown);
  EXPECT_EQ(bank_.Read(0x2b08, 8, value, [](auto&, uint32_t, uint32_t v) { return v; }),
            Access::kUnknown);
  EXPECT_EQ(Read32(0x2b08), 0u);
  EXPECT_EQ(value, 0x77u);
  EXPECT_TRUE(events_.empty());
}

TEST_F(RegisterBankTest, ResetRestoresEveryRegister) {
  Write32(0x4, 0x12);
  Write32(0x2b28, 0x12);
  bank_.Reset();
  EXPECT_EQ(Read32(0x4), 0x80u);
  EXPECT_EQ(Read32(0x2b28), 0u);
}

TEST_F(RegisterBankTest, DeviceSeesAndSetsPastTheMasks) {
  EXPECT_EQ(bank_.SetAt(0x0, 0x99), Status::kOk);
  EXPECT_EQ(Read32(0x0), 0x99u);
  EXPECT_EQ(*bank_.GetAt(0x0), 0x99u);
  bank_.Set(kControl, 0, 0xffffffff);
  EXPECT_EQ(bank_.Get(kControl), 0xffffffffu);
  EXPECT_EQ(bank_.SetAt(0x8, 1), Status::kNotFound);
  EXPECT_EQ(bank_.GetAt(0x8).status(), Status::kNotFound);
}

TEST_F(RegisterBankTest, BanksOfOneMapAreIndependent) {
  RegisterBank other = *RegisterBank::Create(map_);
  other.Set(kControl, 0, 1);
  EXPECT_EQ(bank_.Get(kControl), 0x80u);
}

using RegisterBankDeathTest = RegisterBankTest;

TEST_F(RegisterBankDeathTest, IndexBeyondTheArrayTraps) {
  EXPECT_DEATH(bank_.Set(kSubmit, 3, 0), "index < info.count");
}

TEST_F(RegisterBankDeathTest, RegisterOfAnotherTableTraps) {
  static constexpr RegisterInfo kStranger = {"X", 0, 0, 1, 0, 0, 0, 0};
  EXPECT_DEATH(static_cast<void>(bank_.Get(kStranger)), "entry < table_.size");
}

Status CreateStatus(RegisterInfo info, uint32_t space = 0x1000) {
  return RegisterMap::Create({&info, 1}, space).status();
}

TEST(RegisterMapTest, RefusesBadEntries) {
  EXPECT_EQ(CreateStatus({"ok", 0, 0, 1, 0, 0, 0, 0}), Status::kOk);
  EXPECT_EQ(CreateStatus({"no elements", 0, 4, 0, 0, 0, 0, 0}), Status::kInvalidArgument);
  EXPECT_EQ(CreateStatus({"misaligned", 2, 0, 1, 0, 0, 0, 0}), Status::kInvalidArgument);
  EXPECT_EQ(CreateStatus({"no stride", 0, 0, 2, 0, 0, 0, 0}), Status::kInvalidArgument);
  EXPECT_EQ(CreateStatus({"odd stride", 0, 6, 2, 0, 0, 0, 0}), Status::kInvalidArgument);
  EXPECT_EQ(CreateStatus({"both masks", 0, 0, 1, 0, 1, 1, 0}), Status::kInvalidArgument);
}

TEST(RegisterMapTest, RefusesElementsBeyondTheSpace) {
  EXPECT_EQ(CreateStatus({"last", 0xffc, 0, 1, 0, 0, 0, 0}), Status::kOk);
  EXPECT_EQ(CreateStatus({"beyond", 0x1000, 0, 1, 0, 0, 0, 0}), Status::kOutOfRange);
  EXPECT_EQ(CreateStatus({"array", 0xff0, 4, 5, 0, 0, 0, 0}), Status::kOutOfRange);
  EXPECT_EQ(CreateStatus({"wraps", 0xfffffffc, 0xfffffffc, 2, 0, 0, 0, 0}), Status::kOutOfRange);
  EXPECT_EQ(CreateStatus({"space", 0, 0, 1, 0, 0, 0, 0}, 0xffffffff), Status::kOutOfRange);
}

TEST(RegisterMapTest, RefusesTwoRegistersAtOneOffset) {
  constexpr RegisterInfo kOverlap[] = {
      {"ARRAY", 0x10, 8, 4, 0, 0, 0, 0},
      {"SECOND", 0x20, 0, 1, 0, 0, 0, 0},
  };
  EXPECT_EQ(RegisterMap::Create(kOverlap, 0x1000).status(), Status::kExists);
}

TEST(RegisterMapTest, InterleavedArrays) {
  constexpr RegisterInfo kInterleaved[] = {
      {"BASE", 0x10, 8, 4, 0, 0, 0, 0},
      {"SUBMIT", 0x14, 8, 4, 0, 0, 0, 0},
  };
  const RegisterMap map = *RegisterMap::Create(kInterleaved, 0x1000);
  EXPECT_EQ(map.slot_count(), 8u);
  EXPECT_STREQ(map.Find(0x28).info->name, "BASE");
  EXPECT_EQ(map.Find(0x28).index, 3u);
  EXPECT_STREQ(map.Find(0x2c).info->name, "SUBMIT");
  EXPECT_EQ(map.Find(0x2c).index, 3u);
  EXPECT_EQ(map.Find(0x2d).info, nullptr);
}

TEST(RegisterMapTest, FindsEveryElementOfALargeTable) {
  constexpr RegisterInfo kLarge[] = {{"PCCSR", 0x800000, 8, 4096, 0, 0, 0, 0}};
  const RegisterMap map = *RegisterMap::Create(kLarge, kSpace);
  for (uint32_t i = 0; i < 4096; ++i) {
    const RegisterMap::Location at = map.Find(0x800000 + i * 8);
    ASSERT_EQ(at.info, &kLarge[0]);
    ASSERT_EQ(at.index, i);
  }
  EXPECT_EQ(map.Find(0x808000).info, nullptr);
}

TEST(RegisterMapTest, EmptyTable) {
  const RegisterMap map = *RegisterMap::Create({}, 0x1000);
  EXPECT_EQ(map.slot_count(), 0u);
  EXPECT_EQ(map.Find(0).info, nullptr);
}

TEST(RegisterMapTest, EveryFailedAllocationIsReported) {
  const size_t live = fakes::LiveAllocations();
  size_t allowed = 0;
  for (;; ++allowed) {
    const fakes::AllocationLimit limit(allowed);
    const auto map = RegisterMap::Create(kTable, kSpace);
    if (map.ok()) break;
    ASSERT_EQ(map.status(), Status::kNoMemory);
  }
  EXPECT_EQ(allowed, 4u);
  EXPECT_EQ(fakes::LiveAllocations(), live);
}

}  // namespace
}  // namespace hwreg
