// SPDX-License-Identifier: GPL-2.0-only OR MIT
// PBDMA: GP entries, method headers, host methods, and what each mistake raises.
#include <gtest/gtest.h>

#include "fakes/model_fixture.h"

namespace {

using fakes::Immediate;
using fakes::Inc;
using fakes::ModelFixture;
using fakes::NonInc;
using fakes::OneInc;
using fakes::PageTables;
using fakes::TestChannel;
using fakes::operator+;

constexpr uint64_t kSemVa = 0x40'0000;
// Registers of PBDMA 1.
constexpr uint32_t kIntr0 = 0x42108;
constexpr uint32_t kIntr1 = 0x42148;
constexpr uint32_t kMethod0 = 0x420c0;
constexpr uint32_t kData0 = 0x420c4;

constexpr uint32_t kGpEntry = 1u << 15;
constexpr uint32_t kPbEntry = 1u << 18;
constexpr uint32_t kMethod = 1u << 21;
constexpr uint32_t kSemaphore = 1u << 25;

// A channel on runlist 1, submitted, and a page for semaphores.
struct Rig {
  explicit Rig(const fakes::ChannelOptions& options = {})
      : tables(gpu), sem(gpu.AllocateVram(4096)), channel(gpu, tables, 5, options) {
    tables.Map4K(kSemVa, sem);
    fakes::Submit(gpu, 1, {{.tsgid = 3, .chids = {5}, .gfid = 4}});
    gpu.Settle();
  }
  // Runs methods to their end or to an interrupt, and returns INTR_0.
  uint32_t Run(const std::vector<uint32_t>& words) {
    channel.PushAndRing(words);
    gpu.Settle(1'000'000);
    return gpu.Read(kIntr0);
  }
  // Did the PBDMA get past everything?
  bool Alive(uint32_t payload) {
    channel.PushAndRing(fakes::HostRelease(kSemVa + 0x800, payload));
    gpu.Settle(1'000'000);
    return gpu.Vram(sem + 0x800) == payload;
  }
  void Clear(uint32_t intr_0) {
    gpu.Write(kIntr0, intr_0);
    gpu.Settle(1'000'000);
  }

  ModelFixture gpu;
  PageTables tables;
  uint64_t sem;
  TestChannel channel;
};

// Headers. SET_REFERENCE (0x50) shows in REF of USERD; NOP (8) does nothing.

TEST(PbHeader, AllKindsExecute) {
  Rig rig;
  EXPECT_EQ(rig.Run({NonInc(0, 0x50, 3), 1, 2, 3}), 0u);
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 3u);
  EXPECT_EQ(rig.Run({Immediate(0, 0x50, 0x1fff)}), 0u);
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 0x1fffu);
  // ONE_INC: the first datum to SEM_ADDR_HI (0x60), all others to SEM_PAYLOAD_LO (0x64).
  EXPECT_EQ(rig.Run({OneInc(0, 0x60, 3), 0, 1, 77}), 0u);
  EXPECT_EQ(rig.channel.Inst(0x38), 0u);
  EXPECT_EQ(rig.channel.Inst(0x40), 77u);
  // The universal NOP, an empty header, and the end of a segment before something illegal.
  EXPECT_EQ(rig.Run({0, 0, Inc(0, 0x8, 0), 7u << 29, 0xdeadbeef}), 0u);
  EXPECT_TRUE(rig.Alive(1));
}

TEST(PbHeader, DataMayContinueInTheNextSegment) {
  Rig rig;
  rig.channel.Push({NonInc(0, 0x50, 2), 5});
  rig.channel.Push({6});
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 6u);
}

TEST(PbHeader, IllegalOnesRaisePbentryAndSkipTheSegment) {
  const uint32_t headers[] = {
      2u << 29,           // SEC_OP 2
      6u << 29,           // SEC_OP 6
      1,                  // legacy form with a bit set
      Inc(0, 0x3ffc, 2),  // runs past the last method
      OneInc(0, 0x3ffc, 2),
  };
  for (const uint32_t header : headers) {
    Rig rig;
    EXPECT_EQ(rig.Run({header, Inc(0, 0x50, 1), 9}), kPbEntry) << header;
    EXPECT_EQ(rig.gpu.Read(0x42118), header);
    rig.Clear(kPbEntry);
    EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 0u);
    EXPECT_TRUE(rig.Alive(1));
  }
}

TEST(PbHeader, LastMethodItselfIsLegal) {
  Rig rig;
  EXPECT_EQ(rig.Run({OneInc(0, 0x3ffc, 1), 0}) & kPbEntry, 0u);
}

TEST(SubDevice, MaskSkipsMethodsAndConditionalSegments) {
  Rig rig;
  const uint32_t set_none = 1u << 16;  // SET_SUB_DEV_MASK 0
  const uint32_t set_one = 1u << 16 | 1 << 4;
  EXPECT_EQ(rig.Run({set_none, Inc(0, 0x50, 1), 9, set_one, Inc(0, 0x50, 1), 8}), 0u);
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 8u);
  // STORE the mask 0, USE it: inactive. A conditional segment is then not fetched.
  EXPECT_EQ(rig.Run({2u << 16, 3u << 16}), 0u);
  const uint64_t va = rig.channel.push_va() + 0x8000;
  rig.gpu.SetVram(rig.channel.push_vram() + 0x8000, 0xdeadbeef);
  rig.channel.PushEntry(static_cast<uint32_t>(va) | 1, static_cast<uint32_t>(va >> 32) | 1 << 10);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), 0u);
}

TEST(SubDevice, OperationsNeedChannelDma) {
  Rig rig;
  rig.channel.SetInst(NV_RAMFC_SUBDEVICE, 0x10000001);
  EXPECT_EQ(rig.Run({1u << 16}), kPbEntry);
}

// GP entries.

TEST(GpEntry, ControlEntries) {
  Rig rig;
  rig.channel.PushEntry(0, 0);  // NOP
  rig.channel.PushEntry(0, 2);  // GP_CRC of nothing
  rig.channel.PushEntry(0, 3);  // PB_CRC
  EXPECT_TRUE(rig.Alive(1));
  rig.channel.PushEntry(1, 2);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), 1u << 16);  // GPCRC
  rig.Clear(1u << 16);
  rig.channel.PushEntry(1, 3);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), 1u << 19);  // PBCRC
  rig.Clear(1u << 19);
  EXPECT_TRUE(rig.Alive(2));
}

TEST(GpEntry, IllegalOpcodeIsShownAndDropped) {
  for (const uint32_t opcode : {1u, 4u, 0xffu}) {
    Rig rig;
    rig.channel.PushEntry(0x5678, opcode);
    rig.channel.Ring();
    rig.gpu.Settle();
    EXPECT_EQ(rig.gpu.Read(kIntr0), kGpEntry);
    EXPECT_EQ(rig.gpu.Read(0x42110), 0x5678u);
    EXPECT_EQ(rig.gpu.Read(0x42114), opcode);
    rig.Clear(kGpEntry);
    EXPECT_TRUE(rig.Alive(1));
  }
}

TEST(GpEntry, SegmentBeyond40BitsIsIllegal) {
  Rig rig;
  rig.channel.PushEntry(0xfffffffc, 0xff | 1 << 10);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), kGpEntry);
}

TEST(GpPut, BeyondTheRingRaisesGpptrAndWaitsForADoorbell) {
  Rig rig;
  rig.gpu.SetVram(rig.channel.userd() + NV_USERD_GP_PUT, 64u);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), 1u << 14);
  rig.Clear(1u << 14);
  EXPECT_EQ(rig.channel.Status(), 0u);
  EXPECT_TRUE(rig.Alive(1));
}

TEST(Signature, WrongOneFaultsTheChannel) {
  Rig rig;
  rig.channel.SetInst(NV_RAMFC_SIGNATURE, 0xbeef);
  rig.channel.Ring();
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(kIntr0), 1u << 31);
  rig.Clear(1u << 31);
  EXPECT_TRUE(rig.channel.PbdmaFaulted());
  EXPECT_FALSE(rig.channel.Busy());
  EXPECT_EQ(rig.channel.Inst(NV_RAMFC_SIGNATURE), 0xbeefu);
}

TEST(Signature, HostClassIsAccepted) {
  Rig rig;
  rig.channel.SetInst(NV_RAMFC_SIGNATURE, 0xc46f);
  EXPECT_TRUE(rig.Alive(1));
}

// METHOD and DEVICE.

TEST(Method, UnknownAndLegacyHostMethodsFreeze) {
  for (const uint32_t method : {0x4u, 0xcu, 0x10u, 0x14u, 0x18u, 0x1cu, 0x70u, 0x88u, 0xfcu}) {
    Rig rig;
    EXPECT_EQ(rig.Run({Inc(0, method, 1), 0x99}), kMethod) << method;
    EXPECT_EQ(rig.gpu.Read(kMethod0), 1u << 31 | method);
    EXPECT_EQ(rig.gpu.Read(kData0), 0x99u);
    // Nothing fetches and nothing switches.
    EXPECT_FALSE(rig.Alive(1));
    EXPECT_TRUE(rig.channel.Busy());
    rig.gpu.Write(kMethod0, 0);
    rig.Clear(kMethod);
    EXPECT_EQ(rig.gpu.Vram(rig.sem + 0x800), 1u);
  }
}

TEST(Method, StillValidAtTheThawIsTriedAgain) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x4, 1), 0}), kMethod);
  rig.Clear(kMethod);
  EXPECT_EQ(rig.gpu.Read(kIntr0), kMethod);
  rig.gpu.Write(kMethod0, 1u << 31 | 0x50);  // rewritten as SET_REFERENCE
  rig.gpu.Write(kData0, 0x77);
  rig.Clear(kMethod);
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 0x77u);
}

TEST(Method, ThawOfADisabledChannelSavesItOut) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x4, 1), 0x55}), kMethod);
  rig.channel.Disable();
  rig.gpu.Settle();
  EXPECT_TRUE(rig.channel.Busy());
  rig.Clear(kMethod);
  EXPECT_EQ(rig.gpu.Read(kIntr0), 0u);
  EXPECT_FALSE(rig.channel.Busy());
  EXPECT_EQ(rig.channel.Inst(NV_RAMFC_METHOD0), 1u << 31 | 4);
  EXPECT_EQ(rig.channel.Inst(NV_RAMFC_DATA0), 0x55u);
}

TEST(Method, InterruptGoesThroughPfifoToTheTree) {
  Rig rig;
  rig.gpu.Write(0x4210c, ~0u);        // INTR_EN_0 of PBDMA 1
  rig.gpu.Write(0x2140, 1u << 29);    // PBDMA_INTR to the stalling tree
  rig.gpu.EnableLeaf(0, 4, 1u << 8);  // vector 136
  rig.gpu.ForgetInterrupts();
  EXPECT_EQ(rig.Run({Inc(0, 0x4, 1), 0}), kMethod);
  EXPECT_EQ(rig.gpu.Read(0x25a0), 2u);
  EXPECT_EQ(rig.gpu.Read(0x2100) & 1u << 29, 1u << 29);
  EXPECT_EQ(rig.gpu.msix_count(2), 1u);
  // A level: clearing the leaf alone brings it back.
  rig.gpu.Write(NV_CTRL_LEAF(4), 1u << 8);
  EXPECT_EQ(rig.gpu.Leaf(0, 4), 1u << 8);
  rig.gpu.Write(kMethod0, 0);
  rig.gpu.Write(kIntr0, kMethod);
  rig.gpu.Write(NV_CTRL_LEAF(4), 1u << 8);
  EXPECT_EQ(rig.gpu.Leaf(0, 4), 0u);
}

TEST(Method, RunlistPreemptWaitsForTheThaw) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x4, 1), 0}), kMethod);
  rig.gpu.Write(NV_PFIFO_SCHED_DISABLE, 2);
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 2);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 2u);
  rig.gpu.Write(kMethod0, 0);
  rig.Clear(kMethod);
  EXPECT_EQ(rig.gpu.Read(NV_PFIFO_RUNLIST_PREEMPT), 0u);
  EXPECT_FALSE(rig.channel.Busy());
}

TEST(Device, SoftwareSubchannelsStall) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(5, 0x200, 1), 3}), 1u << 23);
  EXPECT_EQ(rig.gpu.Read(kMethod0), 1u << 31 | 5 << 16 | 0x200);
  rig.gpu.Write(kMethod0, 0);
  rig.Clear(1u << 23);
  EXPECT_TRUE(rig.Alive(1));
}

TEST(SetObject, ClassIsChecked) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(4, 0, 1), 0xc5b5}), 0u);
  EXPECT_EQ(rig.gpu.Read(kIntr1), 0u);
  rig.Run({Inc(4, 0, 1), 0xc3b5});
  EXPECT_EQ(rig.gpu.Read(kIntr1), 1u << 4);
  EXPECT_EQ(rig.gpu.Read(0x42154), 0xc3b5u);
  rig.gpu.Write(kIntr1, 1u << 4);
  EXPECT_TRUE(rig.Alive(1));
}

TEST(CrcCheck, OnlyZeroMatches) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x7c, 1), 0}), 0u);
  EXPECT_EQ(rig.Run({Inc(0, 0x7c, 1), 1}), 1u << 22);
}

TEST(Yield, UnknownOperationIsMethod) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x80, 3), 0}), 0u);
}

TEST(Yield, OperationOneRaisesMethod) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x80, 1), 1}), kMethod);
}

TEST(NonStallInterrupt, GoesToTheFunctionOfTheChannel) {
  Rig rig;
  EXPECT_EQ(rig.Run({Inc(0, 0x20, 1), 0}), 0u);
  EXPECT_EQ(rig.gpu.Read(0x2100) & 1u << 31, 1u << 31);
  EXPECT_EQ(rig.gpu.Leaf(4, 0), 1u << 7);  // CE2
  EXPECT_EQ(rig.gpu.Leaf(0, 0), 0u);
}

// MEM_OP.

TEST(MemOp, TlbInvalidateFromAnUnprivilegedChannelRaisesMethod) {
  for (const uint32_t operation : {9u, 0xau, 0x16u, 0u, 0x1fu}) {
    Rig rig;
    EXPECT_EQ(rig.Run({Inc(0, 0x28, 4), 0x1000, 2, 1, operation << 27}), kMethod) << operation;
    EXPECT_EQ(rig.gpu.Read(kMethod0), 1u << 31 | 0x34);
    EXPECT_EQ(rig.gpu.Read(kData0), operation << 27);
    rig.channel.Disable();
    rig.Clear(kMethod);
    // The host finds the operands in the instance block.
    EXPECT_EQ(rig.channel.Inst(NV_RAMFC_MEM_OP_A), 0x1000u);
    EXPECT_EQ(rig.channel.Inst(NV_RAMFC_MEM_OP_B), 2u);
    EXPECT_EQ(rig.channel.Inst(NV_RAMFC_MEM_OP_C), 1u);
  }
}

TEST(MemOp, MembarNeedsNoPrivilege) {
  for (const uint32_t operation : {5u, 0xdu, 0xeu, 0xfu, 0x10u, 0x15u}) {
    Rig rig;
    EXPECT_EQ(rig.Run({Inc(0, 0x28, 4), 0, 0, 0, operation << 27}), 0u) << operation;
  }
}

TEST(MemOp, PrivilegedInvalidateCompletesInOrder) {
  Rig rig({.privileged = true});
  const uint64_t other = rig.gpu.AllocateVram(4096);
  EXPECT_TRUE(rig.Alive(1));
  rig.tables.Map4K(kSemVa, other);
  const auto pdb = static_cast<uint32_t>(rig.tables.root());
  EXPECT_EQ(rig.Run(fakes::HostRelease(kSemVa, 5) +
                    std::vector<uint32_t>{Inc(0, 0x28, 4), 0, 0, pdb, 9u << 27} +
                    fakes::HostRelease(kSemVa, 6)),
            0u);
  EXPECT_EQ(rig.gpu.Vram(rig.sem), 5u);  // the old translation, before
  EXPECT_EQ(rig.gpu.Vram(other), 6u);    // the new one, after
}

TEST(MemOp, TargetedInvalidateDropsOnlyItsRange) {
  Rig rig({.privileged = true});
  const uint64_t second = rig.gpu.AllocateVram(4096);
  const uint64_t other = rig.gpu.AllocateVram(8192);
  rig.tables.Map4K(kSemVa + 4096, second);
  EXPECT_EQ(rig.Run(fakes::HostRelease(kSemVa, 1) + fakes::HostRelease(kSemVa + 4096, 1)), 0u);
  rig.tables.Map4K(kSemVa, other);
  rig.tables.Map4K(kSemVa + 4096, other + 4096);
  const auto pdb = static_cast<uint32_t>(rig.tables.root());
  EXPECT_EQ(rig.Run({Inc(0, 0x28, 4), static_cast<uint32_t>(kSemVa), 0, pdb, 0xau << 27}), 0u);
  EXPECT_EQ(rig.Run(fakes::HostRelease(kSemVa, 2) + fakes::HostRelease(kSemVa + 4096, 2)), 0u);
  EXPECT_EQ(rig.gpu.Vram(other), 2u);
  EXPECT_EQ(rig.gpu.Vram(second), 2u);
  EXPECT_EQ(rig.gpu.Vram(other + 4096), 0u);
}

TEST(ClearFaulted, NeedsPrivilege) {
  Rig plain;
  EXPECT_EQ(plain.Run({Inc(0, 0x84, 1), 9u | 1u << 31}), kMethod);
  Rig rig({.privileged = true});
  rig.gpu.Write(NV_PCCSR_CHANNEL(9), 1u << 20 | 1u << 21);
  EXPECT_EQ(rig.Run({Inc(0, 0x84, 1), 9u | 1u << 31}), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL(9)), 1u << 22);
  EXPECT_EQ(rig.Run({Inc(0, 0x84, 1), 9u}), 0u);
  EXPECT_EQ(rig.gpu.Read(NV_PCCSR_CHANNEL(9)), 0u);
}

// Semaphores.

constexpr uint32_t k64 = 1u << 24;
constexpr uint32_t kTimestamp = 1u << 25;

std::vector<uint32_t> Sem(uint64_t va, uint64_t payload, uint32_t execute) {
  return {Inc(0, 0x5c, 5),
          static_cast<uint32_t>(va),
          static_cast<uint32_t>(va >> 32),
          static_cast<uint32_t>(payload),
          static_cast<uint32_t>(payload >> 32),
          execute};
}

TEST(Semaphore, ReleaseWidthsAndTimestamp) {
  Rig rig;
  rig.gpu.SetVram(rig.sem, ~uint64_t{0});
  EXPECT_EQ(rig.Run(Sem(kSemVa, 0x1'0000'0005, 1)), 0u);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), 0xffffffff'00000005u);
  EXPECT_EQ(rig.Run(Sem(kSemVa, 0x1'0000'0006, 1 | k64)), 0u);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), 0x1'0000'0006u);
  rig.gpu.SetVram(rig.sem, ~uint64_t{0});
  EXPECT_EQ(rig.Run(Sem(kSemVa, 7, 1 | kTimestamp)), 0u);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), 7u);  // bytes 4..7 zero
  EXPECT_GT(rig.gpu.Vram<uint64_t>(rig.sem + 8), 1'000'000u);
}

TEST(Semaphore, Reductions) {
  struct Case {
    uint32_t operation;
    bool is_unsigned;
    uint32_t before, payload, after;
  };
  const Case cases[] = {
      {0, false, 5, 0xffffffff, 0xffffffff},
      {0, true, 5, 0xffffffff, 5},
      {1, false, 5, 0xffffffff, 5},
      {1, true, 5, 0xffffffff, 0xffffffff},
      {2, true, 0xf0f0, 0xffff, 0x0f0f},
      {3, true, 0xf0f0, 0xff00, 0xf000},
      {4, true, 0xf0f0, 0x0f00, 0xfff0},
      {5, true, 0xffffffff, 2, 1},
      {6, true, 3, 4, 4},
      {6, true, 4, 4, 0},
      {7, true, 3, 9, 2},
      {7, true, 0, 9, 9},
      {7, true, 10, 9, 9},
  };
  for (const Case& c : cases) {
    Rig rig;
    rig.gpu.SetVram(rig.sem, c.before);
    const uint32_t execute = 6 | c.operation << 27 | (c.is_unsigned ? 1u << 31 : 0);
    EXPECT_EQ(rig.Run(Sem(kSemVa, c.payload, execute)), 0u);
    EXPECT_EQ(rig.gpu.Vram(rig.sem), c.after) << c.operation << " " << c.before;
  }
}

TEST(Semaphore, WideReductions) {
  Rig rig;
  rig.gpu.SetVram(rig.sem, uint64_t{1} << 40);
  EXPECT_EQ(rig.Run(Sem(kSemVa, 1, 6 | 5u << 27 | 1u << 31 | k64)), 0u);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem), (uint64_t{1} << 40) + 1);
}

TEST(Semaphore, MisalignedOrUndefinedRaisesSemaphore) {
  const std::pair<uint64_t, uint32_t> cases[] = {
      {kSemVa + 4, 1 | k64},
      {kSemVa + 8, 1 | kTimestamp},
      {kSemVa, 7},                              // no such operation
      {kSemVa, 6 | 8u << 27},                   // no such reduction
      {kSemVa, 6 | 5u << 27 | k64},             // signed 64-bit IADD
      {kSemVa, 6 | 6u << 27 | 1u << 31 | k64},  // 64-bit INC
      {kSemVa, 6 | 7u << 27 | 1u << 31 | k64},
  };
  for (const auto& [va, execute] : cases) {
    Rig rig;
    EXPECT_EQ(rig.Run(Sem(va, 1, execute)), kSemaphore) << va << " " << execute;
    EXPECT_EQ(rig.gpu.Read(kMethod0), 1u << 31 | 0x6c);
    rig.gpu.Write(kMethod0, 0);
    rig.Clear(kSemaphore);
    EXPECT_TRUE(rig.Alive(1));
  }
}

TEST(Semaphore, AcquiresCompareAsTheManualSays) {
  struct Case {
    uint32_t operation;
    uint32_t memory, payload;
    bool passes;
  };
  const Case cases[] = {
      {0, 5, 5, true},  {0, 6, 5, false},          {2, 6, 5, true},
      {2, 4, 5, false}, {2, 0xffffffff, 5, true},  {3, 0x10, 0xfffffff0, true},
      {3, 4, 5, false}, {4, 6, 2, true},           {4, 6, 1, false},
      {5, 0, 1, true},  {5, 0xffffffff, 0, false},
  };
  for (const Case& c : cases) {
    Rig rig;
    rig.gpu.SetVram(rig.sem, c.memory);
    rig.Run(Sem(kSemVa, c.payload, c.operation) + fakes::HostRelease(kSemVa + 0x900, 1));
    EXPECT_EQ(rig.gpu.Vram(rig.sem + 0x900), c.passes ? 1u : 0u) << c.operation << " " << c.memory;
    EXPECT_EQ(rig.channel.Status(), c.passes ? 0u : 3u);
  }
}

TEST(Semaphore, FailingAcquireLooksAgainEveryRetryPeriod) {
  Rig rig;  // RETRY_MAN 2, RETRY_EXP 2: every 8192 ns
  rig.channel.PushAndRing(Sem(kSemVa, 5, 0) + Sem(kSemVa + 16, 1, 1 | kTimestamp));
  const uint64_t start = rig.gpu.now();
  rig.gpu.Advance(1'000);
  EXPECT_EQ(rig.channel.Status(), 3u);
  rig.gpu.SetVram(rig.sem, 5u);  // the CPU: nobody tells the GPU
  rig.gpu.Settle(100'000);
  // Fails at 200 + 4 methods; seen 8192 ns later; five methods on.
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 24), start + 240 + 8192 + 10 + 40);
}

TEST(Semaphore, ReleaseAnywhereEndsAnAcquireAtOnce) {
  Rig rig;
  TestChannel other(rig.gpu, rig.tables, 9);
  fakes::Submit(rig.gpu, 2, {{.tsgid = 1, .chids = {9}}});
  rig.channel.PushAndRing(Sem(kSemVa, 5, 0) + Sem(kSemVa + 16, 1, 1 | kTimestamp));
  rig.gpu.Advance(1'000);
  const uint64_t start = rig.gpu.now();
  other.PushAndRing(Sem(kSemVa, 5, 1));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 24), start + 240 + 10 + 40);
}

TEST(Semaphore, AcquireTimesOut) {
  // TIMEOUT_EN, MAN 100, EXP 0: 102400 ns.
  Rig rig({.acquire = 1u << 31 | 100u << 15 | 2 | 2 << 7});
  rig.channel.PushAndRing(Sem(kSemVa, 5, 0) + fakes::HostRelease(kSemVa + 0x900, 1));
  rig.gpu.Advance(102'000);
  EXPECT_EQ(rig.gpu.Read(kIntr0), 0u);
  rig.gpu.Advance(3'000);
  EXPECT_EQ(rig.gpu.Read(kIntr0), 1u << 26);
  // W1C: tried again with a new deadline.
  rig.gpu.Write(kIntr0, 1u << 26);
  rig.gpu.Advance(50'000);
  EXPECT_EQ(rig.gpu.Read(kIntr0), 0u);
  rig.gpu.SetVram(rig.sem, 5u);
  rig.gpu.Advance(50'000);
  EXPECT_EQ(rig.gpu.Vram(rig.sem + 0x900), 1u);
}

TEST(Semaphore, NextChannelOfTheTsgRunsWhileOneWaits) {
  Rig rig;
  TestChannel other(rig.gpu, rig.tables, 9);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5, 9}}});
  rig.channel.PushAndRing(Sem(kSemVa, 5, 0) + fakes::HostRelease(kSemVa + 0x900, 1));
  other.PushAndRing(Sem(kSemVa, 5, 1));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.sem + 0x900), 1u);
}

TEST(Semaphore, WithoutSwitchTsgTheTsgIsLeftOnlyAtTheEndOfItsSlice) {
  for (const bool may_switch : {false, true}) {
    Rig rig;
    TestChannel other(rig.gpu, rig.tables, 9);
    const uint64_t start = rig.gpu.now();
    fakes::Submit(
        rig.gpu, 1,
        {{.tsgid = 3, .chids = {5}, .timeout = 100, .scale = 0}, {.tsgid = 4, .chids = {9}}});
    rig.channel.PushAndRing(Sem(kSemVa, 5, may_switch ? 1u << 12 : 0));
    other.PushAndRing(Sem(kSemVa + 16, 1, 1 | kTimestamp));
    rig.gpu.Settle(1'000'000);
    const uint64_t at = rig.gpu.Vram<uint64_t>(rig.sem + 24);
    if (may_switch) {
      EXPECT_LT(at, start + 10'000);
    } else {
      EXPECT_EQ(at, start + 102'400 + 240);
    }
  }
}

// A ring of nothing but NOPs must not keep anybody out.
TEST(Hostile, NopsCostTimeAndArePreempted) {
  Rig rig;
  TestChannel other(rig.gpu, rig.tables, 9);
  const uint64_t start = rig.gpu.now();
  fakes::Submit(rig.gpu, 1,
                {{.tsgid = 3, .chids = {5}, .timeout = 1, .scale = 0}, {.tsgid = 4, .chids = {9}}});
  for (int i = 0; i < 60; ++i) {
    const uint64_t va = rig.channel.push_va();
    rig.channel.PushEntry(static_cast<uint32_t>(va),
                          static_cast<uint32_t>(va >> 32) | 0x4000 << 10);
  }
  rig.channel.Ring();
  other.PushAndRing(Sem(kSemVa + 16, 1, 1 | kTimestamp));
  rig.gpu.Settle(1'000'000);
  EXPECT_EQ(rig.gpu.Vram<uint64_t>(rig.sem + 24), start + 1024 + 240);
}

}  // namespace
