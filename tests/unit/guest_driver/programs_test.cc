// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Guest core, libts104 and the TS104 model in one process: whole programs, and what happens to
// them.
#include <gtest/gtest.h>

#include <cstring>

#include "fakes/model_transport.h"
#include "libts104/stream.h"
#include "ts104_programs.h"
#include "workloads.h"

namespace libts104 {
namespace {

using ts104_run::Options;
using ts104_run::PlacementMode;
using ts104_run::Result;

struct Case {
  const char* program;
  PlacementMode placement;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  static constexpr const char* kPlacements[] = {"Vram", "Sysmem", "Mixed"};
  std::string name = info.param.program;
  std::erase(name, '-');
  return name + kPlacements[static_cast<int>(info.param.placement)];
}

class ProgramTest : public testing::TestWithParam<Case> {};

TEST_P(ProgramTest, ComputesWhatTheCpuComputes) {
  fakes::ModelConfig config;
  config.scatter_dma = true;
  fakes::ModelMachine machine(config);
  const auto device = fakes::OpenOn(machine);
  Options options;
  options.placement = GetParam().placement;
  options.elements = 4096;
  options.matrix = 40;
  options.leaf_bytes = 1000;
  options.iterations = 2;
  const Result result = ts104_run::RunProgram(*device, options, GetParam().program);
  EXPECT_TRUE(result.verified) << result.error << " " << result.detail;
  EXPECT_EQ(result.error, "");
  EXPECT_GE(result.submissions, 2u);
  EXPECT_GT(result.gpu_time_ns, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    All, ProgramTest,
    testing::Values(Case{"vecadd", PlacementMode::kVram}, Case{"vecadd", PlacementMode::kSysmem},
                    Case{"vecadd", PlacementMode::kMixed}, Case{"saxpy", PlacementMode::kVram},
                    Case{"saxpy", PlacementMode::kMixed}, Case{"sgemm", PlacementMode::kVram},
                    Case{"sgemm", PlacementMode::kMixed}, Case{"reduce", PlacementMode::kVram},
                    Case{"reduce", PlacementMode::kSysmem}, Case{"histogram", PlacementMode::kVram},
                    Case{"histogram", PlacementMode::kMixed},
                    Case{"sha256-tree", PlacementMode::kVram},
                    Case{"sha256-tree", PlacementMode::kSysmem}),
    CaseName);

class ModelTest : public testing::Test {
 protected:
  fakes::ModelMachine machine_;
  std::unique_ptr<Device> device_ = fakes::OpenOn(machine_);
  Options options_;
};

TEST_F(ModelTest, SteadyStateTouchesOnlyTheInterruptRegisters) {
  const Program program = Program::Embedded(*device_, "vecadd", Placement::kVram);
  const Buffer data = device_->Alloc(4096, Placement::kVram);
  const ts104_vecadd_args args = {data.va(), data.va(), data.va(), 64};
  Stream stream(*device_, Engine::kCompute);
  stream.Launch(program, {1, 1, 1}, {64, 1, 1}, args);
  stream.Synchronize();
  const uint64_t before = machine_.register_accesses();
  for (int i = 0; i < 10; ++i) {
    stream.Launch(program, {1, 1, 1}, {64, 1, 1}, args);
    stream.Synchronize();
  }
  EXPECT_LE(machine_.register_accesses() - before, 10u) << "a write per interrupt";
}

TEST_F(ModelTest, ManySubmissionsWrapRingAndCommands) {
  const Program program = Program::Embedded(*device_, "vecadd", Placement::kVram);
  Buffer data = device_->Alloc(4096, Placement::kVram);
  const ts104_vecadd_args args = {data.va(), data.va(), data.va(), 1};
  data.as<uint32_t>()[0] = 1;
  Stream stream(*device_, Engine::kCompute);
  for (int i = 0; i < 3000; ++i) {
    stream.Launch(program, {1, 1, 1}, {1, 1, 1}, args);
    if (i < 31) stream.Synchronize();
    stream.Submit();
  }
  stream.Synchronize();
  EXPECT_EQ(data.as<uint32_t>()[0], 0u) << "doubled 32 times and more";
  EXPECT_EQ(stream.counters().submissions, 3000u);
}

TEST_F(ModelTest, SubmissionsWithoutInterruptCanBeWaitedFor) {
  const Program program = Program::Embedded(*device_, "vecadd", Placement::kVram);
  Buffer data = device_->Alloc(4096, Placement::kVram);
  const ts104_vecadd_args args = {data.va(), data.va(), data.va(), 1};
  data.as<uint32_t>()[0] = 1;
  Stream stream(*device_, Engine::kCompute);
  Event first;
  for (int i = 0; i < 10; ++i) {
    stream.Launch(program, {1, 1, 1}, {1, 1, 1}, args);
    const Event event = stream.Submit(false);
    if (i == 0) first = event;
  }
  machine_.TakeInterrupts();
  const int64_t start = device_->transport().Now();
  stream.Wait(first);
  EXPECT_LT(device_->transport().Now() - start, 5'000'000) << "woken by an interrupt";
  stream.Synchronize();
  EXPECT_EQ(data.as<uint32_t>()[0], 1024u);
}

TEST_F(ModelTest, CopyStreamCopiesBetweenPlacements) {
  Buffer from = device_->Alloc(3 << 20, Placement::kSysmem);
  Buffer middle = device_->Alloc(3 << 20, Placement::kVram);
  Buffer to = device_->Alloc(3 << 20, Placement::kSysmem);
  for (size_t i = 0; i < from.as<uint32_t>().size(); ++i) {
    from.as<uint32_t>()[i] = static_cast<uint32_t>(i * 2654435761u);
  }
  Stream stream(*device_, Engine::kCopy);
  stream.Copy(middle.va(), from.va(), from.size());
  stream.Copy(to.va() + 1, middle.va() + 1, to.size() - 2);
  stream.Synchronize();
  const auto* sent = static_cast<const uint8_t*>(from.data());
  const auto* got = static_cast<const uint8_t*>(to.data());
  EXPECT_EQ(std::memcmp(got + 1, sent + 1, to.size() - 2), 0);
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[to.size() - 1], 0);
}

TEST_F(ModelTest, WildStoreIsReportedWithAddressAndAccess) {
  options_.address = 0xdead0000;
  const Result result = ts104_run::RunProgram(*device_, options_, "fault-store");
  ASSERT_TRUE(result.fault.has_value()) << result.error;
  EXPECT_EQ(result.fault->kind, ChannelFault::Kind::kMmuFault);
  EXPECT_EQ(result.fault->va, 0xdead0000u);
  EXPECT_EQ(result.fault->access, 1u);
  EXPECT_EQ(result.fault->engine, 0x40u);
  EXPECT_FALSE(result.verified);
}

TEST_F(ModelTest, TrapAndStackOverrunAreProgramErrors) {
  const Result trap = ts104_run::RunProgram(*device_, options_, "fault-trap");
  ASSERT_TRUE(trap.fault.has_value()) << trap.error;
  EXPECT_EQ(trap.fault->type, 0x11u);
  const Result stack = ts104_run::RunProgram(*device_, options_, "fault-stack");
  ASSERT_TRUE(stack.fault.has_value()) << stack.error;
  EXPECT_EQ(stack.fault->kind, ChannelFault::Kind::kEngine);
  EXPECT_EQ(stack.fault->type, 0x13u);
}

TEST_F(ModelTest, OtherChannelsGoOnAfterAFault) {
  Stream healthy(*device_, Engine::kCompute);
  const Result bad = ts104_run::RunProgram(*device_, options_, "fault-store");
  ASSERT_TRUE(bad.fault.has_value());
  options_.elements = 1000;
  EXPECT_TRUE(ts104_run::RunProgram(*device_, options_, "vecadd").verified);
  EXPECT_EQ(healthy.fault().kind, ChannelFault::Kind::kNone);
}

TEST_F(ModelTest, ResetBringsAFaultedStreamBack) {
  const Program wild = Program::Embedded(*device_, "wild_store", Placement::kVram);
  const Program add = Program::Embedded(*device_, "vecadd", Placement::kVram);
  Buffer data = device_->Alloc(4096, Placement::kVram);
  Stream stream(*device_, Engine::kCompute);
  stream.Launch(wild, {1, 1, 1}, {1, 1, 1}, ts104_wild_store_args{0x1000, 1, 0});
  EXPECT_THROW(stream.Synchronize(), FaultError);
  stream.Reset();
  EXPECT_EQ(stream.fault().kind, ChannelFault::Kind::kNone);
  data.as<uint32_t>()[0] = 21;
  stream.Launch(add, {1, 1, 1}, {1, 1, 1}, ts104_vecadd_args{data.va(), data.va(), data.va(), 1});
  stream.Synchronize();
  EXPECT_EQ(data.as<uint32_t>()[0], 42u);
}

TEST_F(ModelTest, EndlessProgramIsTakenOffTheGpu) {
  options_.timeout_ms = 20;
  const Result result = ts104_run::RunProgram(*device_, options_, "endless");
  EXPECT_EQ(result.error, "the GPU did not finish within 20 ms");
  options_.timeout_ms = 60000;
  options_.elements = 100;
  EXPECT_TRUE(ts104_run::RunProgram(*device_, options_, "vecadd").verified);
}

TEST_F(ModelTest, ReadOnlyBufferRefusesStores) {
  const Program wild = Program::Embedded(*device_, "wild_store", Placement::kVram);
  const Buffer data = device_->Alloc(4096, Placement::kVram, true);
  Stream stream(*device_, Engine::kCompute);
  stream.Launch(wild, {1, 1, 1}, {1, 1, 1}, ts104_wild_store_args{data.va(), 1, 0});
  try {
    stream.Synchronize();
    FAIL();
  } catch (const FaultError& error) {
    EXPECT_EQ(error.fault.type, 6u) << "RO_VIOLATION";
    EXPECT_EQ(error.fault.va, data.va());
  }
}

TEST_F(ModelTest, UnmappedBufferFaultsAtOnce) {
  const Program add = Program::Embedded(*device_, "vecadd", Placement::kVram);
  Stream stream(*device_, Engine::kCompute);
  uint64_t va = 0;
  {
    const Buffer data = device_->Alloc(4096, Placement::kVram);
    va = data.va();
    stream.Launch(add, {1, 1, 1}, {1, 1, 1}, ts104_vecadd_args{va, va, va, 1});
    stream.Synchronize();
  }
  stream.Launch(add, {1, 1, 1}, {1, 1, 1}, ts104_vecadd_args{va, va, va, 1});
  EXPECT_THROW(stream.Synchronize(), FaultError) << "the TLB was invalidated";
}

TEST_F(ModelTest, BadPushBufferIsAPbdmaErrorOfThatChannel) {
  auto& transport = device_->transport();
  Buffer ring = device_->Alloc(4096, Placement::kVram);
  Buffer push = device_->Alloc(4096, Placement::kVram);
  const ChannelInfo channel =
      transport.CreateChannel(Engine::kCompute, ring.va(), 4, Placement::kVram);
  push.as<uint32_t>()[0] = 0x80000001;  // ILLEGAL, immediate
  ring.as<uint64_t>()[0] = push.va() | uint64_t{1} << 42;
  channel.userd[0x8c / 4] = 1;
  transport.RingDoorbell(channel);
  EXPECT_FALSE(transport.Wait(push.allocation(), 64, 1, transport.Now() + 1000000000, channel.id));
  const ChannelFault fault = transport.GetFault(channel.id);
  EXPECT_EQ(fault.kind, ChannelFault::Kind::kPbdma);
  EXPECT_EQ(fault.type, 1u << 21) << "METHOD";
  options_.elements = 100;
  EXPECT_TRUE(ts104_run::RunProgram(*device_, options_, "vecadd").verified);
  transport.DestroyChannel(channel.id);
}

TEST_F(ModelTest, TooLargeABufferIsRefusedWithNumbers) {
  try {
    const Buffer buffer = device_->Alloc(1u << 30, Placement::kVram);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("no room for 1073741824 bytes in VRAM: "));
  }
}

TEST_F(ModelTest, EverythingIsGivenBack) {
  const uint64_t free = device_->transport().VramFree();
  for (const PlacementMode mode : {PlacementMode::kVram, PlacementMode::kSysmem}) {
    options_.placement = mode;
    options_.elements = 100;
    ASSERT_TRUE(ts104_run::RunProgram(*device_, options_, "reduce").verified);
  }
  EXPECT_EQ(device_->transport().VramFree(), free);
  EXPECT_EQ(machine_.dma_pages_in_use(), 0u);
}

TEST(ModelDeviceTest, PageTablesInSystemMemory) {
  fakes::ModelMachine machine;
  const auto device = fakes::OpenOn(machine, TSG_CREATE_SYSMEM_TABLES);
  Options options;
  options.elements = 1000;
  const Result result = ts104_run::RunProgram(*device, options, "vecadd");
  EXPECT_TRUE(result.verified) << result.error;
}

TEST(ModelDeviceTest, OpensAgainAfterClose) {
  fakes::ModelMachine machine;
  Options options;
  options.elements = 1000;
  for (int i = 0; i < 3; ++i) {
    const auto device = fakes::OpenOn(machine);
    EXPECT_TRUE(ts104_run::RunProgram(*device, options, "vecadd").verified);
  }
}

TEST(ModelDeviceTest, TwoStreamsShareTheEngine) {
  fakes::ModelMachine machine;
  const auto device = fakes::OpenOn(machine);
  Stream a(*device, Engine::kCompute);
  Stream b(*device, Engine::kCompute);
  const Program add = Program::Embedded(*device, "vecadd", Placement::kVram);
  Buffer x = device->Alloc(4096, Placement::kVram);
  Buffer y = device->Alloc(4096, Placement::kVram);
  for (int i = 0; i < 20; ++i) {
    x.as<uint32_t>()[0] = y.as<uint32_t>()[0] = static_cast<uint32_t>(i);
    a.Launch(add, {1, 1, 1}, {1, 1, 1}, ts104_vecadd_args{x.va(), x.va(), x.va(), 1});
    b.Launch(add, {1, 1, 1}, {1, 1, 1}, ts104_vecadd_args{y.va(), y.va(), y.va(), 1});
    const Event first = a.Submit();
    const Event second = b.Submit();
    b.Wait(second);
    a.Wait(first);
    EXPECT_EQ(x.as<uint32_t>()[0], 2u * static_cast<uint32_t>(i));
    EXPECT_EQ(y.as<uint32_t>()[0], 2u * static_cast<uint32_t>(i));
  }
}

}  // namespace
}  // namespace libts104
