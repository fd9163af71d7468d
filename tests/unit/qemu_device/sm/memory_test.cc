// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "interpreter_fixture.h"

namespace {

using namespace riscv;
using fakes::FlatSmMemory;

struct LoadCase {
  const char* name;
  uint32_t funct3;
  uint64_t expected;
};

class LoadTest : public InterpreterTest, public testing::WithParamInterface<LoadCase> {
 protected:
  LoadTest() {
    memory_.Put<uint64_t>(kData + 8, 0x8899aabbccddeeff);
    memory_.Put<uint64_t>(kLocalMemory + 8, 0x8899aabbccddeeff);
    const uint64_t value = 0x8899aabbccddeeff;
    std::memcpy(shared_.data() + 8, &value, 8);
  }
};

TEST_P(LoadTest, ExtendsAsTheManualSaysInEveryKindOfMemory) {
  for (const uint64_t base : {kData, kShared, kLocal}) {
    thread_.x[kT0] = base + 16;
    Execute({I(-8, kT0, GetParam().funct3, kT1, 0x03)});
    EXPECT_EQ(thread_.x[kT1], GetParam().expected) << GetParam().name;
  }
}

constexpr LoadCase kLoadCases[] = {
    {"lb", 0, 0xffffffffffffffff},
    {"lh", 1, 0xffffffffffffeeff},
    {"lw", 2, 0xffffffffccddeeff},
    {"ld", 3, 0x8899aabbccddeeff},
    {"lbu", 4, 0xff},
    {"lhu", 5, 0xeeff},
    {"lwu", 6, 0xccddeeff},
};
INSTANTIATE_TEST_SUITE_P(Isa, LoadTest, testing::ValuesIn(kLoadCases));

struct StoreCase {
  const char* name;
  uint32_t funct3;
  uint64_t expected;
};

class StoreTest : public InterpreterTest, public testing::WithParamInterface<StoreCase> {};

TEST_P(StoreTest, WritesItsBytesAndNoOther) {
  memory_.Put<uint64_t>(kData + 8, kAllOnes);
  thread_.x[kT0] = kData;
  thread_.x[kT1] = 0x1122334455667788;
  Execute({S(8, kT1, kT0, GetParam().funct3, 0x23)});
  EXPECT_EQ(memory_.Get<uint64_t>(kData + 8), GetParam().expected) << GetParam().name;
}

constexpr StoreCase kStoreCases[] = {
    {"sb", 0, 0xffffffffffffff88},
    {"sh", 1, 0xffffffffffff7788},
    {"sw", 2, 0xffffffff55667788},
    {"sd", 3, 0x1122334455667788},
};
INSTANTIATE_TEST_SUITE_P(Isa, StoreTest, testing::ValuesIn(kStoreCases));

class MemoryTest : public InterpreterTest {};

TEST_F(MemoryTest, MisalignedAccessWorksAcrossPages) {
  thread_.x[kT0] = kData + sm::kPageSize - 3;
  thread_.x[kT1] = 0x0102030405060708;
  Execute({Sd(kT1, kT0, 0), Ld(kT2, kT0, 0)});
  EXPECT_EQ(thread_.x[kT2], 0x0102030405060708u);
  EXPECT_EQ(memory_.Get<uint8_t>(kData + sm::kPageSize - 1), 6);
  EXPECT_EQ(memory_.Get<uint8_t>(kData + sm::kPageSize), 5);
}

TEST_F(MemoryTest, MisalignedAccessToSlowPagesWorks) {
  memory_.SetRights(kData + sm::kPageSize, {.pointer = false});
  thread_.x[kT0] = kData + sm::kPageSize - 3;
  thread_.x[kT1] = 0x0102030405060708;
  Execute({Sd(kT1, kT0, 0), Ld(kT2, kT0, 0)});
  EXPECT_EQ(thread_.x[kT2], 0x0102030405060708u);
}

TEST_F(MemoryTest, StoreThatFaultsOnItsSecondPageWritesNothing) {
  thread_.x[kT0] = kData + 2 * sm::kPageSize - 4;
  thread_.x[kT1] = kAllOnes;
  const sm::StopRecord& stop = ExecuteToStop({Sd(kT1, kT0, 0)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kNone);
  EXPECT_EQ(stop.address, kData + 2 * sm::kPageSize);
  EXPECT_EQ(stop.access, sm::Access::kWrite);
  EXPECT_EQ(stop.fault_type, FlatSmMemory::kFaultPte);
  EXPECT_EQ(memory_.Get<uint32_t>(kData + 2 * sm::kPageSize - 4), 0u);
}

TEST_F(MemoryTest, WildLoadFaultsWithItsAddressAndChangesNothing) {
  thread_.x[kT0] = 0xdead0000dead0000;
  thread_.x[kT1] = 5;
  const sm::StopRecord& stop = ExecuteToStop({Addi(kT2, kZero, 1), Ld(kT1, kT0, 8)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kNone);
  EXPECT_EQ(stop.address, 0xdead0000dead0008u);
  EXPECT_EQ(stop.access, sm::Access::kRead);
  EXPECT_EQ(stop.fault_type, FlatSmMemory::kFaultPte);
  EXPECT_EQ(stop.sm, 3u);
  EXPECT_EQ(stop.cta, (sm::Dim3{4, 5, 6}));
  EXPECT_EQ(thread_.x[kT1], 5u);
}

TEST_F(MemoryTest, FaultingInstructionRunsAgainAfterThePageAppeared) {
  thread_.x[kT0] = 0x5'0000;
  ExecuteToStop({Addi(kT2, kZero, 1), Ld(kT1, kT0, 0)});
  memory_.Map(0x5'0000, sm::kPageSize);
  memory_.Put<uint64_t>(0x5'0000, 42);
  memory_.Put<uint32_t>(kCode + 8, kEbreak);
  Run();
  EXPECT_EQ(thread_.x[kT1], 42u);
}

TEST_F(MemoryTest, ReadOnlyPageCanBeReadButNotWritten) {
  memory_.SetRights(kData, {.write = false});
  thread_.x[kT0] = kData;
  const sm::StopRecord& stop = ExecuteToStop({Ld(kT1, kT0, 0), Sd(kT1, kT0, 0)});
  EXPECT_EQ(stop.fault_type, FlatSmMemory::kFaultReadOnly);
  EXPECT_EQ(stop.access, sm::Access::kWrite);
}

TEST_F(MemoryTest, AtomicNeedsItsOwnRight) {
  memory_.SetRights(kData, {.atomic = false});
  thread_.x[kT0] = kData;
  const sm::StopRecord& stop = ExecuteToStop({Sd(kT1, kT0, 0), AmoAddW(kT1, kT0, kT2)});
  EXPECT_EQ(stop.fault_type, FlatSmMemory::kFaultAtomic);
  EXPECT_EQ(stop.access, sm::Access::kAtomic);
}

TEST_F(MemoryTest, FetchFaultNamesThePc) {
  thread_.pc = 0x9'0000;
  EXPECT_EQ(Run(), sm::RunExit::kStop);
  EXPECT_EQ(interpreter_.stop().address, 0x9'0000u);
  EXPECT_EQ(interpreter_.stop().pc, 0x9'0000u);
  EXPECT_EQ(interpreter_.stop().access, sm::Access::kFetch);
  EXPECT_EQ(retired_, 0u);
}

TEST_F(MemoryTest, RefusedBusAccessIsARegionViolation) {
  memory_.SetRights(kData, {.pointer = false, .bus_ok = false});
  thread_.x[kT0] = kData;
  EXPECT_EQ(ExecuteToStop({Ld(kT1, kT0, 0)}).fault_type, 0xd);
  EXPECT_EQ(ExecuteToStop({Sd(kT1, kT0, 0)}).fault_type, 0xd);
  EXPECT_EQ(ExecuteToStop({AmoAddW(kT1, kT0, kT2)}).fault_type, 0xd);
}

TEST_F(MemoryTest, CodeRunsFromSlowPages) {
  memory_.SetRights(kCode, {.pointer = false});
  Execute({Addi(kT0, kZero, 3)});
  EXPECT_EQ(thread_.x[kT0], 3u);
}

TEST_F(MemoryTest, TranslationIsKeptUntilTheGenerationChanges) {
  memory_.Put<uint64_t>(kData, 1);
  thread_.x[kT0] = kData;
  Execute({Ld(kT1, kT0, 0)});
  memory_.Unmap(kData);
  Execute({Ld(kT1, kT0, 0)});  // stale, and allowed to be
  EXPECT_EQ(thread_.x[kT1], 1u);
  memory_.Invalidate();
  EXPECT_EQ(ExecuteToStop({Ld(kT1, kT0, 0)}).fault_type, FlatSmMemory::kFaultPte);
}

TEST_F(MemoryTest, AnotherContextSeesNoTranslationOfTheFirst) {
  thread_.x[kT0] = kData;
  Execute({Ld(kT1, kT0, 0)});
  const uint64_t before = memory_.translations();
  interpreter_.Bind(1, memory_);
  Execute({Ld(kT1, kT0, 0)});
  EXPECT_GE(memory_.translations(), before + 2);  // code and data anew
}

TEST_F(MemoryTest, SharedMemoryEndsAtTheByte) {
  thread_.x[kT0] = kShared;
  thread_.x[kT1] = 0x55;
  Execute({Sb(kT1, kT0, 999)});
  EXPECT_EQ(shared_[999], std::byte{0x55});
  const sm::StopRecord& stop = ExecuteToStop({Sb(kT1, kT0, 1000)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kSharedOutOfRange);
  EXPECT_EQ(stop.address, kShared + 1000);
  EXPECT_EQ(ExecuteToStop({Ld(kT1, kT0, 993)}).exception, sm::ExceptionKind::kSharedOutOfRange);
}

TEST_F(MemoryTest, AccessThatBeginsBeforeTheWindowIsGmmuMemory) {
  thread_.x[kT0] = kShared - 4;
  const sm::StopRecord& stop = ExecuteToStop({Ld(kT1, kT0, 0)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kNone);
  EXPECT_EQ(stop.address, kShared - 4);
}

TEST_F(MemoryTest, LocalMemoryIsGmmuMemoryBehindTheWindow) {
  thread_.x[kT0] = kLocal;
  thread_.x[kT1] = 0x1234;
  Execute({Sd(kT1, kT0, 248), Ld(kT2, kT0, 248)});
  EXPECT_EQ(thread_.x[kT2], 0x1234u);
  EXPECT_EQ(memory_.Get<uint64_t>(kLocalMemory + 248), 0x1234u);
  const sm::StopRecord& stop = ExecuteToStop({Sd(kT1, kT0, 256)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kLocalOutOfRange);
  EXPECT_EQ(stop.address, kLocal + 256);
  EXPECT_EQ(ExecuteToStop({Sd(kT1, kT0, -8)}).exception, sm::ExceptionKind::kLocalOutOfRange);
}

TEST_F(MemoryTest, LocalMemoryThatIsNotMappedFaultsAtItsRealAddress) {
  view_.local_memory = 0x8'0000;
  thread_.x[kT0] = kLocal;
  const sm::StopRecord& stop = ExecuteToStop({Sd(kT1, kT0, 16)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kNone);
  EXPECT_EQ(stop.address, 0x8'0010u);
}

struct AmoCase {
  const char* name;
  uint32_t funct5;
  uint32_t width;
  uint64_t memory;
  uint64_t operand;
  uint64_t expected_rd;
  uint64_t expected_memory;
};

class AmoTest : public InterpreterTest, public testing::WithParamInterface<AmoCase> {};

TEST_P(AmoTest, ReadsModifiesAndWritesInEveryKindOfMemory) {
  const AmoCase& c = GetParam();
  for (const bool slow : {false, true}) {
    memory_.SetRights(kData, {.pointer = !slow});
    memory_.Invalidate();
    for (const uint64_t base : {kData, kShared, kLocal}) {
      thread_.x[kT0] = base;
      thread_.x[kT1] = c.memory;
      thread_.x[kA0] = c.operand;
      Execute({Sd(kT1, kT0, 0), Amo(c.funct5, c.width, kT2, kT0, kA0), Ld(kA1, kT0, 0)});
      EXPECT_EQ(thread_.x[kT2], c.expected_rd) << c.name;
      EXPECT_EQ(thread_.x[kA1], c.expected_memory) << c.name;
    }
  }
}

constexpr AmoCase kAmoCases[] = {
    {"amoadd.w", 0x00, kWord, 0xaaaaaaaa7fffffff, 1, 0x7fffffff, 0xaaaaaaaa80000000},
    {"amoswap.w", 0x01, kWord, 0xaaaaaaaa80000000, 7, 0xffffffff80000000, 0xaaaaaaaa00000007},
    {"amoxor.w", 0x04, kWord, 0xff, 0x0f, 0xff, 0xf0},
    {"amoor.w", 0x08, kWord, 0xf0, 0x0f, 0xf0, 0xff},
    {"amoand.w", 0x0c, kWord, 0xff, 0x3c, 0xff, 0x3c},
    {"amomin.w", 0x10, kWord, 0x80000000, 1, 0xffffffff80000000, 0x80000000},
    {"amomax.w", 0x14, kWord, 0x80000000, 1, 0xffffffff80000000, 1},
    {"amominu.w", 0x18, kWord, 0x80000000, 1, 0xffffffff80000000, 1},
    {"amomaxu.w", 0x1c, kWord, 0x80000000, 1, 0xffffffff80000000, 0x80000000},
    {"amoadd.d", 0x00, kDouble, 0x7fffffffffffffff, 1, 0x7fffffffffffffff, 0x8000000000000000},
    {"amoswap.d", 0x01, kDouble, 1, 2, 1, 2},
    {"amoxor.d", 0x04, kDouble, 0xff00000000000000, 0x0f00000000000000, 0xff00000000000000,
     0xf000000000000000},
    {"amoor.d", 0x08, kDouble, 1, 0x8000000000000000, 1, 0x8000000000000001},
    {"amoand.d", 0x0c, kDouble, 3, 6, 3, 2},
    {"amomin.d", 0x10, kDouble, 5, 0xffffffffffffffff, 5, 0xffffffffffffffff},
    {"amomax.d", 0x14, kDouble, 5, 0xffffffffffffffff, 5, 5},
    {"amominu.d", 0x18, kDouble, 5, 0xffffffffffffffff, 5, 5},
    {"amomaxu.d", 0x1c, kDouble, 5, 0xffffffffffffffff, 5, 0xffffffffffffffff},
};
INSTANTIATE_TEST_SUITE_P(Isa, AmoTest, testing::ValuesIn(kAmoCases));

TEST_F(MemoryTest, MisalignedAtomicIsAnException) {
  thread_.x[kT0] = kData + 2;
  const sm::StopRecord& stop = ExecuteToStop({AmoAddW(kT1, kT0, kT2)});
  EXPECT_EQ(stop.exception, sm::ExceptionKind::kMisalignedAtomic);
  EXPECT_EQ(stop.address, kData + 2);
  thread_.x[kT0] = kShared + 4;
  EXPECT_EQ(ExecuteToStop({Amo(2, kDouble, kT1, kT0, 0)}).exception,
            sm::ExceptionKind::kMisalignedAtomic);
}

TEST_F(MemoryTest, AtomicBeyondAWindowIsAnException) {
  thread_.x[kT0] = kShared + 1000;
  EXPECT_EQ(ExecuteToStop({AmoAddW(kT1, kT0, kT2)}).exception,
            sm::ExceptionKind::kSharedOutOfRange);
  thread_.x[kT0] = kLocal + 256;
  EXPECT_EQ(ExecuteToStop({AmoAddW(kT1, kT0, kT2)}).exception, sm::ExceptionKind::kLocalOutOfRange);
}

TEST_F(MemoryTest, StoreConditionalSucceedsOnceAfterLoadReserved) {
  memory_.Put<uint32_t>(kData, 0x80000000);
  thread_.x[kT0] = kData;
  thread_.x[kT1] = 9;
  Execute({LrW(kA0, kT0), ScW(kA1, kT0, kT1), ScW(kA2, kT0, kT1)});
  EXPECT_EQ(thread_.x[kA0], 0xffffffff80000000u);
  EXPECT_EQ(thread_.x[kA1], 0u);
  EXPECT_EQ(thread_.x[kA2], 1u);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 9u);
}

TEST_F(MemoryTest, StoreConditionalFailsWhenTheWordChanged) {
  memory_.Put<uint32_t>(kData, 5);
  thread_.x[kT0] = kData;
  thread_.x[kT1] = 9;
  Execute({LrW(kA0, kT0), Sw(kT1, kT0, 0), ScW(kA1, kT0, kZero)});
  EXPECT_EQ(thread_.x[kA1], 1u);
  EXPECT_EQ(memory_.Get<uint32_t>(kData), 9u);
}

TEST_F(MemoryTest, StoreConditionalFailsElsewhereAndWithAnotherSize) {
  thread_.x[kT0] = kData;
  thread_.x[kT1] = kData + 8;
  Execute({LrW(kA0, kT0), ScW(kA1, kT1, kT0), LrW(kA0, kT0), Amo(3, kDouble, kA2, kT0, kT0)});
  EXPECT_EQ(thread_.x[kA1], 1u);
  EXPECT_EQ(thread_.x[kA2], 1u);
}

}  // namespace
