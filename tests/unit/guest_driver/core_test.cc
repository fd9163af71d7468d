// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The smaller parts of the guest core against literal values of the register map.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fakes/fake_guest_os.h"
#include "guest_driver/core/fault_buffer.h"
#include "guest_driver/core/guest_abi.h"
#include "guest_driver/core/instance_block.h"
#include "guest_driver/core/interrupt_tree.h"
#include "guest_driver/core/os.h"
#include "guest_driver/core/runlist.h"
#include "guest_driver/core/topology.h"
#include "guest_driver/core/vram_allocator.h"

namespace guest {
namespace {

using base::Status;
using Write = std::pair<uint32_t, uint32_t>;

TEST(LogLineTest, NumbersAndCut) {
  EXPECT_STREQ(LogLine().Text("a ").Dec(0).Text(" ").Dec(18446744073709551615u).c_str(),
               "a 0 18446744073709551615");
  EXPECT_STREQ(LogLine().Hex(0).Text(" ").Hex(0xdeadbeef00).c_str(), "0x0 0xdeadbeef00");
  LogLine line;
  for (int i = 0; i < 100; ++i) line.Text("four");
  EXPECT_EQ(std::string(line.c_str()).size(), 160u);
}

TEST(OsTest, LostDeviceIsNotTouched) {
  fakes::FakeGuestOs machine;
  machine.registers[0x100] = 7;
  machine.os.MarkLost();
  EXPECT_EQ(machine.os.Read32(0x100), 0u);
  machine.os.Write32(0x100, 1);
  EXPECT_TRUE(machine.writes.empty());
  EXPECT_EQ(machine.os.WaitFor(1000, [] { return false; }), Status::kIo);
}

TEST(OsTest, WaitEndsAtTheDeadline) {
  fakes::FakeGuestOs machine;
  EXPECT_EQ(machine.os.WaitFor(5000, [] { return false; }), Status::kTimeout);
  EXPECT_GE(machine.now_ns, 5000000u);
  EXPECT_LT(machine.now_ns, 6000000u);
  EXPECT_EQ(machine.os.WaitFor(0, [] { return true; }), Status::kOk);
}

TEST(VramAllocatorTest, AlignsAndReturns) {
  VramAllocator vram;
  ASSERT_EQ(vram.Init(1u << 20), Status::kOk);
  EXPECT_EQ(*vram.Alloc(1), 0u);
  EXPECT_EQ(*vram.Alloc(0x10000, 0x10000), 0x10000u);
  EXPECT_EQ(*vram.Alloc(0x1001), 0x1000u);
  EXPECT_EQ(vram.Available(), (1u << 20) - 0x1000 - 0x10000 - 0x2000u);
  EXPECT_EQ(vram.Alloc(1u << 20).status(), Status::kNoSpace);
  EXPECT_EQ(vram.Alloc(UINT64_MAX).status(), Status::kNoSpace);
  EXPECT_EQ(vram.Alloc(0).status(), Status::kInvalidArgument);
  EXPECT_EQ(vram.Alloc(1, 3).status(), Status::kInvalidArgument);
  EXPECT_EQ(vram.Free(0x1000, 0x1001), Status::kOk);
  EXPECT_EQ(vram.Free(0x1000, 0x1001), Status::kNotFound);
}

TEST(InstanceBlockTest, WordsAsTheRegisterMapAsks) {
  InstanceBlockParams params;
  params.chid = 0x123;
  params.ring_va = 0x12'3456'7000;
  params.ring_order = 9;
  params.userd_aperture = TSG_APERTURE_SYSMEM;
  params.userd_address = 0x56'789a'b200;
  params.root_address = 0x3'4567'8000;
  params.context_offset = 0x1'0002'0000;
  std::vector<uint32_t> words(kInstanceWords, 0xffffffff);
  BuildInstanceBlock(params, std::span<uint32_t, kInstanceWords>(words.data(), kInstanceWords));

  std::map<uint32_t, uint32_t> expected = {
      {0x008, 0x789ab202}, {0x00c, 0x56},       {0x010, 0xface},     {0x030, 0x7ffff902},
      {0x048, 0x34567000}, {0x04c, 0x00090012}, {0x084, 0x20400000}, {0x094, 0x30000001},
      {0x0e8, 0x123},      {0x0f4, 0x1000},     {0x0f8, 0x10003080}, {0x0fc, 0x01230000},
      {0x200, 0x45678c00}, {0x204, 0x3},        {0x210, 0x00020000}, {0x214, 0x1},
  };
  for (uint32_t offset = 0; offset < 4096; offset += 4) {
    EXPECT_EQ(words[offset / 4], expected[offset]) << std::hex << offset;
  }
}

TEST(InstanceBlockTest, PageDirectoryInSystemMemory) {
  InstanceBlockParams params;
  params.root_aperture = TSG_APERTURE_SYSMEM;
  params.root_address = 0x12'3456'7000;
  std::vector<uint32_t> words(kInstanceWords);
  BuildInstanceBlock(params, std::span<uint32_t, kInstanceWords>(words.data(), kInstanceWords));
  EXPECT_EQ(words[0x200 / 4], 0x34567c06u);
  EXPECT_EQ(words[0x204 / 4], 0x12u);
  EXPECT_EQ(words[0x210 / 4], 0u);
}

TEST(RunlistTest, EntriesOfOneChannel) {
  RunlistChannel channel;
  channel.chid = 0x321;
  channel.inst = 0x2'3456'7000;
  channel.userd = 0x12'3456'7e00;
  channel.userd_aperture = TSG_APERTURE_SYSMEM;
  std::array<uint32_t, 8> words;
  EncodeRunlistEntries(channel, words);
  const std::array<uint32_t, 8> expected = {0x80030001, 1,    0x321,      0,
                                            0x34567e80, 0x12, 0x34567321, 2};
  EXPECT_EQ(words, expected);
}

TEST(RunlistTest, TimesliceFromMicroseconds) {
  RunlistChannel channel;
  EncodeTimeslice(0, &channel);
  EXPECT_EQ(channel.timeslice_timeout << channel.timeslice_scale, 128u << 3);
  EncodeTimeslice(2048, &channel);  // 2000 units of 1024 ns
  EXPECT_EQ(channel.timeslice_timeout << channel.timeslice_scale, 2000u);
  EncodeTimeslice(UINT32_MAX, &channel);
  EXPECT_EQ(channel.timeslice_timeout, 255u);
  EXPECT_EQ(channel.timeslice_scale, 15u);
}

TEST(RunlistTest, SubmitWritesTheImageThenTheRegisters) {
  fakes::FakeGuestOs machine;
  VramAllocator vram;
  ASSERT_EQ(vram.Init(machine.vram.size()), Status::kOk);
  Runlist runlist(machine.os, vram, 1);
  ASSERT_EQ(runlist.Init(4), Status::kOk);
  RunlistChannel a, b;
  a.chid = 5;
  b.chid = 6;
  RunlistChannel* const list[] = {&a, &b};
  ASSERT_EQ(runlist.Submit(list), Status::kOk);
  const std::vector<Write> expected = {{0x2b10, 0}, {0x2b14, 0}, {0x2b18, 4}};
  EXPECT_EQ(machine.writes, expected);
  EXPECT_EQ(machine.Word64(8), 5u);
  EXPECT_EQ(machine.Word64(32 + 8), 6u);
  RunlistChannel* const many[] = {&a, &a, &a, &a, &a};
  EXPECT_EQ(runlist.Submit(many), Status::kNoSpace);
}

TEST(RunlistTest, SubmitThatStaysPendingTimesOut) {
  fakes::FakeGuestOs machine;
  VramAllocator vram;
  ASSERT_EQ(vram.Init(machine.vram.size()), Status::kOk);
  Runlist runlist(machine.os, vram, 0);
  ASSERT_EQ(runlist.Init(1), Status::kOk);
  machine.registers[0x2b0c] = 1u << 15;
  EXPECT_EQ(runlist.Submit({}), Status::kTimeout);
}

// behaviour.md §2, word by word.
void FillTopology(fakes::FakeGuestOs& machine) {
  struct Engine {
    uint32_t engine, type, runlist, vector;
  };
  uint32_t offset = 0x22700;
  for (const Engine& e :
       {Engine{0, 0, 0, 12}, Engine{1, 19, 0, 5}, Engine{2, 19, 1, 7}, Engine{3, 19, 2, 10}}) {
    machine.registers[offset] = 0x80000001;
    machine.registers[offset + 4] =
        0x80000002 | 0x3c | e.vector << 9 | e.vector << 15 | e.runlist << 21 | e.engine << 26;
    machine.registers[offset + 8] = 3 | e.type << 2;
    offset += 12;
  }
}

TEST(TopologyTest, FourEnginesOnThreeRunlists) {
  fakes::FakeGuestOs machine;
  FillTopology(machine);
  const base::Result<Topology> topology = ReadTopology(machine.os);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->runlist_mask, 7u);
  EXPECT_EQ(topology->compute_runlist, 0u);
  EXPECT_EQ(topology->copy_runlist_mask, 6u);
  EXPECT_EQ(topology->engine_reset_mask, 0x14a0u);
  EXPECT_EQ(topology->nonstall_mask, 0x14a0u);
  EXPECT_EQ(topology->nonstall_of_runlist[0], 0x1020u);
  EXPECT_EQ(topology->nonstall_of_runlist[2], 0x400u);
}

TEST(TopologyTest, NoGraphicsEngineIsRefused) {
  fakes::FakeGuestOs machine;
  EXPECT_EQ(ReadTopology(machine.os).status(), Status::kNotSupported);
}

class InterruptTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    FillTopology(machine_);
    topology_ = *ReadTopology(machine_.os);
  }
  fakes::FakeGuestOs machine_;
  Topology topology_;
  InterruptTree tree_{machine_.os, topology_};
};

TEST_F(InterruptTreeTest, EnableSetsLeavesBeforeTheTop) {
  tree_.Enable();
  const std::vector<Write> expected = {{0xb81000, 0xffffffff},
                                       {0xb81010, 0xffffffff},
                                       {0xb81200, 0x14a0},
                                       {0xb81210, 0x130},
                                       {0xb81608, 0x5}};
  EXPECT_EQ(machine_.writes, expected);
}

TEST_F(InterruptTreeTest, EngineMessageIsOneWrite) {
  EXPECT_EQ(tree_.Handle(0), TSG_EVENT_RUNLISTS);
  EXPECT_EQ(machine_.writes, (std::vector<Write>{{0xb81000, 0x14a0}}));
}

TEST_F(InterruptTreeTest, UnknownVectorAsksWhichEngine) {
  machine_.registers[0xb81600] = 1;
  machine_.registers[0xb81000] = 0x1080 | 0x8000;  // GR, CE2, and one that is not ours
  EXPECT_EQ(tree_.Handle(-1), TSG_EVENT_RUNLIST(0) | TSG_EVENT_RUNLIST(1));
  const std::vector<Write> expected = {{0xb81000, 0x1080}};
  EXPECT_EQ(machine_.writes, expected);
}

TEST_F(InterruptTreeTest, PfifoLevelStaysMaskedUntilServiced) {
  machine_.registers[0xb81010] = 0x110;  // 132 and 136
  EXPECT_EQ(tree_.Handle(2), TSG_EVENT_ERRORS);
  const std::vector<Write> expected = {{0xb81410, 0x100}, {0xb81010, 0x110}};
  EXPECT_EQ(machine_.writes, expected);
  machine_.writes.clear();
  tree_.UnmaskPfifo();
  EXPECT_EQ(machine_.writes, (std::vector<Write>{{0xb81210, 0x100}}));
}

TEST_F(InterruptTreeTest, UnknownVectorReadsTheTop) {
  machine_.registers[0xb81600] = 1;
  machine_.registers[0xb81000] = 0x400;
  EXPECT_EQ(tree_.Handle(-1), TSG_EVENT_RUNLIST(2));
  machine_.registers[0xb81600] = 0;
  EXPECT_EQ(tree_.Handle(-1), 0u);
}

TEST_F(InterruptTreeTest, DeviceThatLeftTheBusIsNotOurs) {
  machine_.registers[0xb81600] = 0xffffffff;
  machine_.registers[0xb81000] = 0xffffffff;
  machine_.registers[0xb81010] = 0xffffffff;
  EXPECT_EQ(tree_.Handle(-1), 0u);
  EXPECT_EQ(tree_.Handle(2), 0u);
  EXPECT_TRUE(machine_.writes.empty());
}

TEST(FaultPacketTest, FieldsOfThePacket) {
  const uint32_t words[8] = {0x34567000, 0x2,        0x9abcd000, 0x1f,
                             0x11111111, 0x22222222, 0x40,       0x80110002};
  const FaultBuffer::Packet packet = DecodeFaultPacket(words);
  EXPECT_EQ(packet.inst, 0x2'3456'7000u);
  EXPECT_EQ(packet.inst_aperture, 0u);
  EXPECT_EQ(packet.error.kind, static_cast<uint32_t>(TSG_ERROR_MMU_FAULT));
  EXPECT_EQ(packet.error.type, 2u);
  EXPECT_EQ(packet.error.access, 1u);
  EXPECT_EQ(packet.error.engine, 0x40u);
  EXPECT_EQ(packet.error.client, 0x80u);
  EXPECT_EQ(packet.error.va, 0x1f'9abc'd000u);
  EXPECT_EQ(packet.error.gpu_time_ns, 0x2222222211111111u);
}

TEST(FaultPacketTest, TypesFromSixteenOnAreEngineErrors) {
  const uint32_t words[8] = {0, 0, 0, 0, 0, 0, 0x40, 0x80000011};
  EXPECT_EQ(DecodeFaultPacket(words).error.kind, static_cast<uint32_t>(TSG_ERROR_ENGINE));
}

class FaultBufferTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(vram_.Init(machine_.vram.size()), Status::kOk);
    ASSERT_TRUE(vram_.Alloc(0x1000).ok());
    ASSERT_EQ(buffer_.Init(), Status::kOk);
  }
  void Put(uint32_t index, uint32_t type) {
    const uint32_t words[8] = {0x7000, 0, 0x5000, 0, 0, 0, 0x40, 0x80000000 | type};
    std::memcpy(&machine_.vram[0x1000 + index * 32], words, sizeof(words));
  }
  fakes::FakeGuestOs machine_;
  VramAllocator vram_;
  FaultBuffer buffer_{machine_.os, vram_};
};

TEST_F(FaultBufferTest, InitNamesTheBufferAndEnablesIt) {
  const std::vector<Write> expected = {
      {0x100e34, 0}, {0x100e24, 0x1001}, {0x100e28, 0}, {0x100e34, 0xa0000100}};
  EXPECT_EQ(machine_.writes, expected);
}

TEST_F(FaultBufferTest, PopsInOrderAndMovesGet) {
  Put(0, 2);
  Put(1, 6);
  machine_.registers[0x100e30] = 2;
  machine_.writes.clear();
  EXPECT_EQ(buffer_.Pop()->error.type, 2u);
  EXPECT_EQ(buffer_.Pop()->error.type, 6u);
  EXPECT_EQ(buffer_.Pop().status(), Status::kNotFound);
  EXPECT_EQ(machine_.writes, (std::vector<Write>{{0x100e2c, 1}, {0x100e2c, 2}}));
  EXPECT_EQ(machine_.vram[0x1000 + 31], 0) << "VALID is cleared";
}

TEST_F(FaultBufferTest, OverflowIsClearedAfterGetWasMoved) {
  machine_.registers[0x100e30] = 0x80000000;
  machine_.writes.clear();
  EXPECT_TRUE(buffer_.TakeOverflow());
  EXPECT_EQ(machine_.writes, (std::vector<Write>{{0x100e2c, 0x80000000}}));
}

TEST_F(FaultBufferTest, ImpossiblePutIsIgnored) {
  machine_.registers[0x100e30] = 5000;
  EXPECT_EQ(buffer_.Pop().status(), Status::kNotFound);
}

TEST(DeviceTest, ForeignDeviceIsRefused) {
  fakes::FakeGuestOs machine;
  tsg_device* device = nullptr;
  EXPECT_EQ(tsg_device_create(&fakes::FakeGuestOs::Ops(), &machine, 0, &device), -19);
  EXPECT_TRUE(machine.writes.empty());
  EXPECT_EQ(machine.log.size(), 1u);
}

TEST(DeviceTest, UnknownFlagsAreRefused) {
  fakes::FakeGuestOs machine;
  tsg_device* device = nullptr;
  EXPECT_EQ(tsg_device_create(&fakes::FakeGuestOs::Ops(), &machine, 2, &device), -22);
}

TEST(NamesTest, NeverNull) {
  EXPECT_STREQ(tsg_fault_type_name(2), "page not mapped");
  EXPECT_STREQ(tsg_fault_type_name(0x19), "context switch timeout");
  EXPECT_STREQ(tsg_fault_type_name(0xffffffff), "unknown fault");
  EXPECT_STREQ(tsg_access_type_name(1), "write");
  EXPECT_STREQ(tsg_access_type_name(8), "physical access");
}

}  // namespace
}  // namespace guest
