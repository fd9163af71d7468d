// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The only writer of physical registers, on registers that are an array.
#include "core/physical_gpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fakes/fake_host.h"
#include "ts104/regs.h"

namespace turnstile {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kV4 = 2;
constexpr uint64_t kInstance = 0x1'2345'6000;

class Client : public FunctionClient {
 public:
  void LatchInterrupts(uint32_t leaf0_bits) override { latched |= leaf0_bits; }
  void QueueWork() override { ++work; }
  ts_host_vgpu* host() const override { return nullptr; }
  uint32_t latched = 0;
  int work = 0;
};

class PhysicalGpuTest : public testing::Test {
 protected:
  PhysicalGpuTest() {
    Reg(NV_TS104_ID) = 0x34305354;
    Reg(NV_TS104_VRAM_SIZE) = 64;
    Reg(NV_TS104_NUM_CHIDS) = 4096;
    gpu_ = *PhysicalGpu::Create(HostGpu(&host_), {64 * kMiB, nullptr, 0});
    first_ = *gpu_->Reserve(kV4, nullptr);
    second_ = *gpu_->Reserve(kV4, nullptr);
    EXPECT_EQ(gpu_->Attach(first_, first_client_, counter_), base::Status::kOk);
    EXPECT_EQ(gpu_->Attach(second_, second_client_, counter_), base::Status::kOk);
    host_.writes.clear();
    host_.on_write = [this](uint32_t offset, uint32_t value) { OnWrite(offset, value); };
  }
  ~PhysicalGpuTest() override {
    gpu_->Detach(first_, counter_);
    gpu_->Detach(second_, counter_);
  }

  // Registers that writing 1 clears.
  virtual void OnWrite(uint32_t offset, uint32_t value) {
    const bool w1c = offset == NV_CTRL_LEAF(4) || offset == NV_CTRL_LEAF(16) ||
                     offset == NV_CTRL_VIRTUAL_INTR_LEAF(0) || offset == NV_PPBDMA_INTR_0(1) ||
                     offset == NV_PPBDMA_INTR_1(1) || offset == NV_PFIFO_INTR_RUNLIST_EVENT;
    if (w1c) host_.registers[offset] = before_[offset] & ~value;
    if (offset == NV_PFB_PRI_MMU_INVALIDATE) host_.registers[offset] = 0;
    before_[offset] = host_.registers[offset];
  }
  uint32_t& Reg(uint32_t offset) { return host_.registers[offset]; }
  void Set(uint32_t offset, uint32_t value) { Reg(offset) = before_[offset] = value; }

  SoftwareRunlist List(std::vector<uint32_t> tsgs) {
    RunlistParser parser;
    EXPECT_EQ(parser.Init(1024), base::Status::kOk);
    for (const uint32_t id : tsgs) {
      const uint32_t header[4] = {0x80030001, 1, id, 0};
      const uint32_t channel[4] = {0, 0, id, 0};
      EXPECT_EQ(parser.Feed(header), base::Status::kOk);
      EXPECT_EQ(parser.Feed(channel), base::Status::kOk);
    }
    EXPECT_EQ(parser.Finish(), base::Status::kOk);
    return parser.Take();
  }
  // TSGIDs in the hardware list of runlist 0.
  std::vector<uint32_t> Submitted() {
    const uint64_t address = (Reg(NV_PFIFO_RUNLIST_BASE_LO(0)) & ~0xfffu) |
                             uint64_t{Reg(NV_PFIFO_RUNLIST_BASE_HI(0))} << 32;
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < (Reg(NV_PFIFO_RUNLIST_SUBMIT(0)) & 0xffff); ++i) {
      uint32_t words[4];
      std::memcpy(words, host_.Translate(address + i * 16, 16), 16);
      if ((words[0] & 1) != 0) ids.push_back(words[2]);
    }
    return ids;
  }
  uint32_t SubmittedOffset() { return Reg(NV_PFIFO_RUNLIST_SUBMIT(0)) >> 16; }
  size_t WritePosition(uint32_t offset) {
    for (size_t i = 0; i < host_.writes.size(); ++i) {
      if (host_.writes[i].first == offset) return i;
    }
    return SIZE_MAX;
  }
  void Interrupt(uint32_t leaf4) {
    Set(NV_CTRL_LEAF(4), leaf4);
    if (gpu_->HandleInterrupt() == TS_IRQ_WAKE) gpu_->HandleInterruptThread();
  }

  ts_host_gpu host_{64 * kMiB};
  std::map<uint32_t, uint32_t> before_;
  base::UniquePtr<PhysicalGpu> gpu_;
  MemoryCounter counter_;
  Partition first_;
  Partition second_;
  Client first_client_;
  Client second_client_;
};

// A reader and whoever unloads a context look at the clock one after the other.
TEST_F(PhysicalGpuTest, FunctionTimeThatStepsBackDoesNotGoRound) {
  const auto run_ns = [&] { return gpu_->GetAccount(first_.function, 1).run_ns; };
  const uint32_t low = NV_TS104_FUNCTION_TIME_LO(64 + first_.function.value());
  Set(low, 5000);
  (void)run_ns();
  EXPECT_EQ(run_ns(), 5000u);
  Set(low, 4990);
  EXPECT_EQ(run_ns(), 5000u);
  Set(low, 5200);
  EXPECT_EQ(run_ns(), 5200u);
}

TEST_F(PhysicalGpuTest, EngineInterruptGoesToItsFunction) {
  Set(NV_CTRL_VIRTUAL_INTR_LEAF(0), 1u << 1);
  Set(NV_CTRL_LEAF(16), 1u << 12 | 1u << 5);
  Set(NV_CTRL_LEAF(4), 1u << 2);  // vector 130
  EXPECT_EQ(gpu_->HandleInterrupt(), TS_IRQ_HANDLED);
  EXPECT_EQ(first_client_.latched, 1u << 12 | 1u << 5);
  EXPECT_EQ(second_client_.latched, 0u);
  EXPECT_EQ(Reg(NV_CTRL_LEAF(16)), 0u);
  EXPECT_LT(WritePosition(NV_CTRL_VIRTUAL_INTR_LEAF(0)), WritePosition(NV_CTRL_LEAF(16)));
}

TEST_F(PhysicalGpuTest, NothingPendingIsNotOurs) {
  EXPECT_EQ(gpu_->HandleInterrupt(), TS_IRQ_NONE);
  Set(NV_CTRL_LEAF(4), 0xffffffff);  // the device is gone
  EXPECT_EQ(gpu_->HandleInterrupt(), TS_IRQ_NONE);
}

TEST_F(PhysicalGpuTest, ListsOfAllFunctionsAreMerged) {
  gpu_->SubmitList(first_.function, 0, List({1, 2}));
  gpu_->SubmitList(second_.function, 0, List({1}));
  EXPECT_EQ(Submitted(), (std::vector<uint32_t>{1, 2, 1025}));
}

TEST_F(PhysicalGpuTest, FetchCompletesTheSubmit) {
  gpu_->SubmitList(first_.function, 0, List({1}));
  EXPECT_TRUE(gpu_->SubmitPending(first_.function, 0));
  Set(NV_PFIFO_INTR_0, 1u << 30);
  Set(NV_PFIFO_INTR_RUNLIST_EVENT, 1);
  Interrupt(1u << 8);  // vector 136
  EXPECT_FALSE(gpu_->SubmitPending(first_.function, 0));
  EXPECT_EQ(first_client_.work, 1);
  EXPECT_EQ(second_client_.work, 0);
  FunctionEvents events;
  gpu_->TakeEvents(first_, events);
  EXPECT_EQ(events.runlist_events, 1u);
  EXPECT_EQ(Reg(NV_CTRL_LEAF_EN_SET(4)), 1u << 8);  // unmasked again
}

TEST_F(PhysicalGpuTest, EventOfAnOlderSubmitDoesNotCount) {
  gpu_->SubmitList(first_.function, 0, List({1}));
  Set(NV_PFIFO_RUNLIST_SUBMIT_INFO(0), 1u << 15);
  Set(NV_PFIFO_INTR_0, 1u << 30);
  Set(NV_PFIFO_INTR_RUNLIST_EVENT, 1);
  Interrupt(1u << 8);
  EXPECT_TRUE(gpu_->SubmitPending(first_.function, 0));
}

TEST_F(PhysicalGpuTest, DisabledListLeavesTheHardwareAndComesBack) {
  gpu_->SubmitList(first_.function, 0, List({1}));
  gpu_->SubmitList(second_.function, 0, List({3}));
  gpu_->SetListDisabled(first_.function, 0, true);
  EXPECT_EQ(Submitted(), (std::vector<uint32_t>{1027}));
  gpu_->SubmitList(first_.function, 0, List({2}));
  EXPECT_FALSE(gpu_->SubmitPending(first_.function, 0));
  EXPECT_EQ(Submitted(), (std::vector<uint32_t>{1027}));
  gpu_->SetListDisabled(first_.function, 0, false);
  EXPECT_EQ(Submitted(), (std::vector<uint32_t>{2, 1027}));
}

TEST_F(PhysicalGpuTest, ForeignTsgThatIsLoadedStays) {
  gpu_->SubmitList(first_.function, 0, List({1, 2}));
  Set(NV_PFIFO_PBDMA_STATUS(0), 1u << 13 | 1u << 12 | 2);  // VALID, TSG 2 of the first
  gpu_->SubmitList(second_.function, 0, List({1}));
  EXPECT_EQ(SubmittedOffset(), 2u);  // its header
}

TEST_F(PhysicalGpuTest, SubmitterDoesNotRenewItsSlice) {
  gpu_->SubmitList(second_.function, 0, List({1}));
  Set(NV_PFIFO_PBDMA_STATUS(0), 1u << 13 | 1u << 12 | 1);  // TSG 1 of the first
  gpu_->SubmitList(first_.function, 0, List({1, 2}));
  EXPECT_EQ(SubmittedOffset(), 2u);  // the TSG behind it
}

TEST_F(PhysicalGpuTest, PbdmaErrorTakesTheChannelOffBeforeTheThaw) {
  Set(NV_PFIFO_INTR_0, 1u << 29);
  Set(NV_PFIFO_INTR_PBDMA_ID, 1u << 1);
  Set(NV_PPBDMA_INTR_0(1), 1u << 21);
  Set(NV_PPBDMA_METHOD0(1), 0x80000034);
  Set(NV_PPBDMA_DATA0(1), 0x48000000);
  Set(NV_PPBDMA_CHANNEL(1), 1u << 13 | 1029);
  Interrupt(1u << 8);
  EXPECT_EQ(Reg(NV_PCCSR_CHANNEL(1029)), 1u << 11);  // ENABLE_CLR
  EXPECT_LT(WritePosition(NV_PCCSR_CHANNEL(1029)), WritePosition(NV_PPBDMA_INTR_0(1)));
  FunctionEvents events;
  gpu_->TakeEvents(second_, events);
  ASSERT_EQ(events.pbdma_errors.size(), 1u);
  EXPECT_EQ(events.pbdma_errors[0].chid, 1029u);
  EXPECT_EQ(events.pbdma_errors[0].intr_0, 1u << 21);
  EXPECT_EQ(events.pbdma_errors[0].method0, 0x80000034u);
  EXPECT_EQ(second_client_.work, 1);
  EXPECT_EQ(first_client_.work, 0);
}

TEST_F(PhysicalGpuTest, PbdmaErrorOfNobodyIsClearedAndReported) {
  Set(NV_PPBDMA_CHANNEL(1), 1u << 13 | 4000);  // VALID; of no vGPU
  Set(NV_PPBDMA_INTR_0(1), 1u << 21);
  Set(NV_PFIFO_INTR_PBDMA_ID, 1u << 1);
  Set(NV_PFIFO_INTR_0, 1u << 29);
  Interrupt(1u << 8);
  EXPECT_EQ(Reg(NV_PPBDMA_INTR_0(1)), 0u);
  EXPECT_TRUE(host_.Logged("for no channel of a vGPU"));
}

TEST_F(PhysicalGpuTest, ErrorsThatNoGuestCausesAreReportedWithTheirCodes) {
  Set(NV_PFIFO_BIND_ERROR, 6);
  Set(NV_PFIFO_SCHED_ERROR, 0x20);
  Set(NV_PFIFO_INTR_0, 1u << 0 | 1u << 8);
  Interrupt(1u << 8);
  EXPECT_TRUE(host_.Logged("PFIFO reports 0x101, bind error 6, scheduling error 32"));
}

TEST_F(PhysicalGpuTest, FaultGoesToTheOwnerOfTheInstance) {
  ASSERT_EQ(gpu_->BindChannel(5, {kInstance, 0, false}), base::Status::kOk);
  EXPECT_EQ(Reg(NV_PCCSR_CHANNEL_INST(5)), 0xa0123456u);
  const uint64_t buffer = (Reg(NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0)) & ~0xfffu) |
                          uint64_t{Reg(NV_PFB_PRI_MMU_FAULT_BUFFER_HI(0))} << 32;
  const uint32_t packet[8] = {0x23456200, 0x1, 0x1000, 0, 0, 0, 17, 1u << 31 | 2};
  const uint32_t stranger[8] = {0x11111200, 0x1, 0x1000, 0, 0, 0, 17, 1u << 31 | 2};
  std::memcpy(host_.Translate(buffer, 32), packet, 32);
  std::memcpy(host_.Translate(buffer + 32, 32), stranger, 32);
  Set(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0), 2);
  Interrupt(1u << 4);  // vector 132
  EXPECT_EQ(Reg(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0)), 2u);
  FunctionEvents events;
  gpu_->TakeEvents(first_, events);
  ASSERT_EQ(events.faults.size(), 1u);
  EXPECT_EQ(events.faults[0].chid, 5u);
  EXPECT_TRUE(host_.Logged("that is no vGPU's"));
  gpu_->UnbindChannel(5);
}

TEST_F(PhysicalGpuTest, OverflowIsClearedAfterGet) {
  Set(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0), 1u << 31);
  Interrupt(1u << 5);  // vector 133
  EXPECT_EQ(Reg(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0)), 1u << 31);
  FunctionEvents events;
  gpu_->TakeEvents(second_, events);
  EXPECT_TRUE(events.faults_lost);
}

TEST_F(PhysicalGpuTest, CtxswTimeoutGoesToTheOwnerOfTheTsg) {
  Set(NV_PFIFO_INTR_0, 1u << 1);
  Set(NV_PFIFO_INTR_CTXSW_TIMEOUT, 1u << 2);
  Set(NV_PFIFO_INTR_CTXSW_TIMEOUT_INFO(2), 1024 + 3);
  Interrupt(1u << 8);
  FunctionEvents events;
  gpu_->TakeEvents(second_, events);
  EXPECT_EQ(events.ctxsw_timeouts, 1u << 2);
  EXPECT_EQ(first_client_.work, 0);
}

TEST_F(PhysicalGpuTest, InvalidateNamesTheRoot) {
  gpu_->InvalidateTlb(base::Hpa(0x7654'3210'f000));
  EXPECT_EQ(Reg(NV_PFB_PRI_MMU_INVALIDATE_PDB), 0x543210f2u);  // SYS
  EXPECT_EQ(Reg(NV_PFB_PRI_MMU_INVALIDATE_UPPER_PDB), 0x76u);
}

TEST_F(PhysicalGpuTest, InvalidateThatHangsIsReportedAndGivenUp) {
  host_.on_write = nullptr;
  gpu_->InvalidateTlb(base::Hpa(0x1000));
  EXPECT_TRUE(host_.Logged("TLB invalidate of root 0x1000 did not finish"));
}

TEST_F(PhysicalGpuTest, DrainEmptiesListsAndUnbinds) {
  ASSERT_EQ(gpu_->BindChannel(5, {kInstance, 0, false}), base::Status::kOk);
  gpu_->SubmitList(first_.function, 0, List({5}));
  gpu_->SubmitList(second_.function, 0, List({1}));
  gpu_->Drain(first_);
  EXPECT_EQ(Submitted(), (std::vector<uint32_t>{1025}));
  EXPECT_EQ(Reg(NV_PCCSR_CHANNEL_INST(5)), 0u);
}

TEST_F(PhysicalGpuTest, ChannelThatWillNotLeaveCostsItsEngineAReset) {
  Set(NV_PFIFO_ENGINE_STATUS(2), 1u << 13 | 1u << 12 | 7);  // VALID, TSG 7 of the first
  host_.on_write = [this](uint32_t offset, uint32_t value) {
    if (offset == NV_PMC_ENABLE && (value & 1u << 7) == 0) Reg(NV_PFIFO_ENGINE_STATUS(2)) = 0;
  };
  const uint64_t before = host_.now_ns;
  gpu_->Drain(first_);
  EXPECT_LE(host_.now_ns - before, 100'000'000u);
  EXPECT_TRUE(host_.Logged("engine 2 reset"));
  EXPECT_EQ(Reg(NV_PMC_ENABLE), 0xffffffffu);
  EXPECT_EQ(Reg(NV_PFIFO_SCHED_DISABLE), 0u);
}

TEST_F(PhysicalGpuTest, EngineThatIsLeftAtTheLastMomentIsNotReset) {
  Set(NV_PFIFO_ENGINE_STATUS(2), 1u << 13 | 1u << 12 | 7);
  host_.on_write = [this](uint32_t offset, uint32_t value) {
    // While nothing else can be loaded the engine becomes free.
    if (offset == NV_PFIFO_SCHED_DISABLE && value == 1u << 1) Reg(NV_PFIFO_ENGINE_STATUS(2)) = 0;
    EXPECT_NE(offset, NV_PMC_ENABLE);
  };
  gpu_->Drain(first_);
  EXPECT_FALSE(host_.Logged("engine 2 reset"));
  EXPECT_EQ(Reg(NV_PFIFO_SCHED_DISABLE), 0u);
  host_.on_write = nullptr;
}

TEST_F(PhysicalGpuTest, RemovedDeviceIsNotWaitedFor) {
  ASSERT_EQ(gpu_->BindChannel(5, {kInstance, 0, false}), base::Status::kOk);
  host_.on_write = [this](uint32_t offset, uint32_t) { Reg(offset) = 0xffffffff; };
  for (uint32_t i = 0; i < 4; ++i) Set(NV_PFIFO_ENGINE_STATUS(i), 0xffffffff);
  for (uint32_t i = 0; i < 3; ++i) Set(NV_PFIFO_PBDMA_STATUS(i), 0xffffffff);
  const uint64_t before = host_.now_ns;
  gpu_->Drain(first_);
  gpu_->InvalidateTlb(base::Hpa(0x1000));
  EXPECT_EQ(gpu_->WaitChannelOff(5, 1000), base::Status::kOk);
  EXPECT_LT(host_.now_ns - before, 1'000'000u);
}

TEST_F(PhysicalGpuTest, InstanceBeyond40BitsIsRefused) {
  EXPECT_EQ(gpu_->BindChannel(5, {uint64_t{1} << 40, 0, false}), base::Status::kOutOfRange);
}

}  // namespace
}  // namespace turnstile
