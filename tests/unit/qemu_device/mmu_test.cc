// SPDX-License-Identifier: GPL-2.0-only OR MIT
// GMMU: page tables, TLB and its invalidates, fault packets and the fault buffer.
#include <gtest/gtest.h>

#include "fakes/model_fixture.h"
#include "fault_buffer.h"
#include "memory_port.h"
#include "page_walk.h"

namespace {

using fakes::Inc;
using fakes::ModelFixture;
using fakes::PageTables;
using fakes::TestChannel;
using fakes::operator+;
using ts104::Aperture;
using ts104::FaultType;

constexpr uint64_t kVa = 0x40'0000;

// The walk alone, on tables in the fixture's VRAM.
struct Walker {
  Walker() : tables(gpu), ops{}, port({gpu.vram(), gpu.options().vram_bytes}, ops, nullptr) {}
  ts104::WalkResult Walk(uint64_t va) {
    return ts104::WalkPageTables(port, {Aperture::kVid, tables.root()}, va);
  }
  FaultType Fault(uint64_t va) {
    const auto result = Walk(va);
    EXPECT_FALSE(result.ok);
    return result.fault;
  }
  ModelFixture gpu;
  PageTables tables;
  ts104_host_ops ops;
  ts104::MemoryPort port;
};

TEST(PageWalk, ThreePageSizes) {
  Walker walker;
  walker.tables.Map4K(0x1'2345'6000, 0x30'0000);
  walker.tables.Map64K(0x2'0001'0000, 0x40'0000);
  walker.tables.Map2M(0x1'0000'0000'0000, 0x60'0000);
  auto result = walker.Walk(0x1'2345'6789);
  ASSERT_TRUE(result.ok);
  EXPECT_EQ(result.page.base.offset, 0x30'0000u);
  EXPECT_EQ(result.page.shift, 12);
  result = walker.Walk(0x2'0001'ffff);
  ASSERT_TRUE(result.ok);
  EXPECT_EQ(result.page.base.offset, 0x40'0000u);
  EXPECT_EQ(result.page.shift, 16);
  result = walker.Walk(0x1'0000'001f'ffff);
  ASSERT_TRUE(result.ok);
  EXPECT_EQ(result.page.base.offset, 0x60'0000u);
  EXPECT_EQ(result.page.shift, 21);
}

TEST(PageWalk, VectorsOfTheOpenDriversSelfTest) {
  // Sparse: 0x8. "No small pages either": 0x20. Poisoned 4K PTE: VID 0x1bad000000, volatile,
  // privileged, read only, atomics off, kind 6; its address is beyond this VRAM.
  Walker walker;
  walker.tables.SetSmallPte(kVa, 0x8);
  EXPECT_TRUE(walker.Walk(kVa).page.sparse);
  walker.tables.SetBigPte(kVa + 0x1'0000, 0x20);
  walker.tables.SetSmallPte(kVa + 0x1'0000, PageTables::Pte(0x30'0000, 0));
  EXPECT_EQ(walker.Fault(kVa + 0x1'0000), FaultType::kPte);
  walker.tables.SetSmallPte(kVa + 0x2'0000, 0x06000001bad000e9);
  EXPECT_EQ(walker.Fault(kVa + 0x2'0000), FaultType::kRegionViolation);
  walker.tables.SetSmallPte(kVa + 0x2'0000, 0x06000000003000e9);
  const auto poisoned = walker.Walk(kVa + 0x2'0000);
  ASSERT_TRUE(poisoned.ok);
  EXPECT_EQ(poisoned.page.base.offset, 0x300'0000u);
  EXPECT_TRUE(poisoned.page.privileged && poisoned.page.read_only && poisoned.page.atomic_disable);
}

TEST(PageWalk, BigPteWinsAndAnInvalidOneFallsThrough) {
  Walker walker;
  walker.tables.Map4K(kVa, 0x30'0000);
  walker.tables.Map64K(kVa, 0x40'0000);
  EXPECT_EQ(walker.Walk(kVa).page.shift, 16);
  walker.tables.SetBigPte(kVa, 0);
  EXPECT_EQ(walker.Walk(kVa).page.shift, 12);
}

TEST(PageWalk, FaultsByTheirCause) {
  Walker walker;
  EXPECT_EQ(walker.Fault(0x1'0000'0000), FaultType::kPde);
  walker.tables.Map4K(kVa, 0x30'0000);
  EXPECT_EQ(walker.Fault(kVa + 4096), FaultType::kPte);
  walker.tables.SetSmallPte(kVa, PageTables::Pte(0x30'0000, 1u << 1));  // PEER
  EXPECT_EQ(walker.Fault(kVa), FaultType::kUnsupportedAperture);
  walker.tables.SetSmallPte(kVa, PageTables::Pte(0x30'0000, 1ull << 56));
  EXPECT_EQ(walker.Fault(kVa), FaultType::kUnsupportedKind);
  walker.tables.SetBigPte(kVa, PageTables::Pte(0x30'1000, 0));
  EXPECT_EQ(walker.Fault(kVa), FaultType::kPte);  // misaligned
  walker.tables.SetBigPte(kVa, 0);
  walker.tables.SetSmallPte(kVa, PageTables::Pte(64 * fakes::kMib, 0));
  EXPECT_EQ(walker.Fault(kVa), FaultType::kRegionViolation);
  walker.tables.SetSmallPte(kVa, PageTables::Pte(uint64_t{1} << 47, fakes::kPteSys));
  EXPECT_EQ(walker.Fault(kVa), FaultType::kRegionViolation);
  walker.gpu.SetVram(walker.tables.root(), uint64_t{1});  // IS_PTE in PD3
  EXPECT_EQ(walker.Fault(kVa), FaultType::kPdeSize);
  walker.gpu.SetVram(walker.tables.root(), uint64_t{1} << 1 | 0x1ffffffull << 8);  // table off VRAM
  EXPECT_EQ(walker.Fault(kVa), FaultType::kPde);
}

TEST(PageWalk, SparseEntries) {
  Walker walker;
  walker.gpu.SetVram(walker.tables.root() + 8, uint64_t{8});  // PD3 entry 1
  EXPECT_TRUE(walker.Walk(uint64_t{1} << 47).page.sparse);
  const uint64_t pd0 = walker.tables.Pd0EntryOf(kVa);
  walker.gpu.SetVram(pd0, uint64_t{8});  // VOL_BIG, both apertures 0
  EXPECT_TRUE(walker.Walk(kVa).page.sparse);
}

// Through a channel of runlist 1 whose Host writes semaphores.
struct Rig {
  explicit Rig(const fakes::ChannelOptions& options = {}, uint32_t fault_entries = 16)
      : tables(gpu),
        page(gpu.AllocateVram(4096)),
        faults(gpu, fault_entries),
        channel(gpu, tables, 5, options) {
    tables.Map4K(kVa, page);
    fakes::Submit(gpu, 1, {{.tsgid = 3, .chids = {5}, .gfid = 6}});
    gpu.Settle();
  }
  void Run(const std::vector<uint32_t>& words) {
    channel.PushAndRing(words);
    gpu.Settle(1'000'000);
  }
  void Invalidate(uint32_t bits) {
    gpu.Write(0x100cbc, 1u << 31 | bits);
    EXPECT_EQ(gpu.Read(0x100cbc) >> 31, 1u);
    gpu.Settle();
    EXPECT_EQ(gpu.Read(0x100cbc) >> 31, 0u);
  }
  ModelFixture gpu;
  PageTables tables;
  uint64_t page;
  fakes::TestFaultBuffer faults;
  TestChannel channel;
};

TEST(Tlb, EntryStaysStaleWithoutAnInvalidate) {
  Rig rig;
  const uint64_t other = rig.gpu.AllocateVram(4096);
  rig.Run(fakes::HostRelease(kVa, 1));
  rig.tables.Map4K(kVa, other);
  rig.Run(fakes::HostRelease(kVa, 2));
  EXPECT_EQ(rig.gpu.Vram(rig.page), 2u);
  EXPECT_EQ(rig.gpu.Vram(other), 0u);
  // Nor does reloading the channel, or binding it again, drop it.
  rig.gpu.Write(NV_PFIFO_RUNLIST_PREEMPT, 2);
  rig.gpu.Settle();
  rig.Run(fakes::HostRelease(kVa, 3));
  EXPECT_EQ(rig.gpu.Vram(rig.page), 3u);
  rig.Invalidate(1 | 2);
  rig.Run(fakes::HostRelease(kVa, 4));
  EXPECT_EQ(rig.gpu.Vram(rig.page), 3u);
  EXPECT_EQ(rig.gpu.Vram(other), 4u);
}

TEST(Tlb, UnmappingWithoutAnInvalidateHasNoEffectEither) {
  Rig rig;
  rig.Run(fakes::HostRelease(kVa, 1));
  rig.tables.SetSmallPte(kVa, 0);
  rig.Run(fakes::HostRelease(kVa, 2));
  EXPECT_EQ(rig.faults.count(), 0u);
  rig.Invalidate(1 | 2);
  rig.Run(fakes::HostRelease(kVa, 3));
  EXPECT_EQ(rig.faults.count(), 1u);
}

TEST(Tlb, InvalidResultsAreNotKept) {
  Rig rig;
  rig.Run(fakes::HostRelease(kVa + 4096, 1));
  EXPECT_EQ(rig.faults.count(), 1u);
  const uint64_t other = rig.gpu.AllocateVram(4096);
  rig.tables.Map4K(kVa + 4096, other);
  rig.gpu.Write(NV_PCCSR_CHANNEL(5), 1u << 22);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(other), 1u);
}

TEST(Tlb, InvalidateOfAnotherDirectoryChangesNothing) {
  Rig rig;
  const uint64_t other = rig.gpu.AllocateVram(4096);
  rig.Run(fakes::HostRelease(kVa, 1));
  rig.tables.Map4K(kVa, other);
  const auto pdb = static_cast<uint32_t>(rig.tables.root() >> 12);
  rig.gpu.Write(0x100cb8, (pdb + 1) << 4);
  rig.Invalidate(1);
  rig.gpu.Write(0x100cb8, pdb << 4 | 2);  // same address, in system memory
  rig.Invalidate(1);
  rig.Run(fakes::HostRelease(kVa, 2));
  EXPECT_EQ(rig.gpu.Vram(other), 0u);
  rig.gpu.Write(0x100cb8, pdb << 4);
  rig.Invalidate(1);
  rig.Run(fakes::HostRelease(kVa, 3));
  EXPECT_EQ(rig.gpu.Vram(other), 3u);
}

TEST(Tlb, InvalidateOfOneAddressAndOfARange) {
  Rig rig;
  const uint64_t first = rig.gpu.AllocateVram(4 * 4096);
  const uint64_t second = rig.gpu.AllocateVram(4 * 4096);
  rig.tables.MapRange(kVa, first, 4 * 4096);
  rig.Invalidate(1 | 2);
  for (uint32_t i = 0; i < 4; ++i) rig.Run(fakes::HostRelease(kVa + i * 4096, 1));
  rig.tables.MapRange(kVa, second, 4 * 4096);
  rig.gpu.Write(0x100cb4, static_cast<uint32_t>((kVa + 4096) >> 12) << 4);
  rig.Invalidate(2);  // only that page
  for (uint32_t i = 0; i < 4; ++i) rig.Run(fakes::HostRelease(kVa + i * 4096, 2));
  EXPECT_EQ(rig.gpu.Vram(first), 2u);
  EXPECT_EQ(rig.gpu.Vram(second + 4096), 2u);
  EXPECT_EQ(rig.gpu.Vram(first + 2 * 4096), 2u);
  rig.gpu.Write(0x100e68, 2);  // 16 KiB, aligned down
  rig.Invalidate(2 | 1u << 22);
  for (uint32_t i = 0; i < 4; ++i) rig.Run(fakes::HostRelease(kVa + i * 4096, 3));
  EXPECT_EQ(rig.gpu.Vram(second), 3u);
  EXPECT_EQ(rig.gpu.Vram(second + 3 * 4096), 3u);
}

TEST(Tlb, FunctionWindowAliasesTheRegisters) {
  Rig rig;
  const uint64_t other = rig.gpu.AllocateVram(4096);
  rig.Run(fakes::HostRelease(kVa, 1));
  rig.tables.Map4K(kVa, other);
  rig.gpu.Write(0xb830a0, static_cast<uint32_t>(rig.tables.root() >> 12) << 4);
  rig.gpu.Write(0xb830a4, 0);
  rig.gpu.Write(0xb830b0, 1u << 31 | 1);
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Read(0xb830b0) >> 31, 0u);
  rig.Run(fakes::HostRelease(kVa, 2));
  EXPECT_EQ(rig.gpu.Vram(other), 2u);
}

// Rights.

TEST(Rights, EachRefusalHasItsType) {
  struct Case {
    uint64_t bits;
    bool privileged;
    uint32_t execute;
    uint32_t type, access;
  };
  const Case cases[] = {
      {fakes::kPtePrivilege, false, 1, 0x5, 1},
      {fakes::kPteReadOnly, false, 1, 0x6, 1},
      {fakes::kPteAtomicDisable, false, 6 | 5u << 27 | 1u << 31, 0xf, 2},
      {fakes::kPtePrivilege | fakes::kPteReadOnly, true, 1, 0x6, 1},
  };
  for (const Case& c : cases) {
    Rig rig({.privileged = c.privileged});
    rig.tables.Map4K(kVa, rig.page, fakes::kPteGeneric | c.bits);
    rig.Run({Inc(0, 0x5c, 5), static_cast<uint32_t>(kVa), 0, 1, 0, c.execute});
    ASSERT_EQ(rig.faults.count(), 1u);
    EXPECT_EQ(rig.faults.at(0).type, c.type);
    EXPECT_EQ(rig.faults.at(0).access, c.access);
    EXPECT_EQ(rig.gpu.Vram(rig.page), 0u);
  }
}

TEST(Rights, PrivilegedChannelMayUsePrivilegedPages) {
  Rig rig({.privileged = true});
  rig.tables.Map4K(kVa, rig.page, fakes::kPteGeneric | fakes::kPtePrivilege);
  rig.Run(fakes::HostRelease(kVa, 8));
  EXPECT_EQ(rig.gpu.Vram(rig.page), 8u);
}

TEST(SystemMemory, IsReachedByDma) {
  Rig rig;
  const uint64_t address = rig.gpu.AllocateSystem(4096);
  rig.tables.Map4K(kVa, address, fakes::kPteSys | fakes::kPteGeneric);
  rig.Run(fakes::HostRelease(kVa + 16, 0x77, 1u << 25));
  rig.Run(fakes::HostRelease(kVa, 0x78));
  EXPECT_EQ(rig.gpu.System(address), 0x78u);
}

TEST(SystemMemory, WhatThePlatformRejectsIsUnsupportedAperture) {
  Rig rig;
  rig.tables.Map4K(kVa, 0x7000'0000, fakes::kPteSys | fakes::kPteGeneric);
  rig.Run(fakes::HostRelease(kVa, 1));
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 0xau);
  // Bus mastering off: the same.
  Rig off;
  off.tables.Map4K(kVa, off.gpu.AllocateSystem(4096), fakes::kPteSys | fakes::kPteGeneric);
  ts104_bus_master(off.gpu.model(), false);
  off.Run(fakes::HostRelease(kVa, 1));
  ASSERT_EQ(off.faults.count(), 1u);
  EXPECT_EQ(off.faults.at(0).type, 0xau);
}

TEST(Sparse, ReadsZeroAndDropsWrites) {
  Rig rig;
  rig.tables.SetSmallPte(kVa, 8);
  rig.gpu.SetVram(rig.page, 55u);
  rig.Run(fakes::HostRelease(kVa, 1) + fakes::HostAcquire(kVa, 0) +
          std::vector<uint32_t>{Inc(0, 0x50, 1), 3});
  EXPECT_EQ(rig.faults.count(), 0u);
  EXPECT_EQ(rig.gpu.Vram(rig.channel.userd() + 0x48), 3u);
}

// Fault packets.

TEST(FaultPacket, LayoutBitByBit) {
  ts104::FaultRecord record;
  record.inst_target = 2;
  record.inst_address = 0x12'3456'7000;
  record.va = 0x1'89ab'cdef'0123;
  record.time_ns = 0x1122'3344'5566'7788;
  record.engine_id = 0x1ff;
  record.gfid = 0x2a;
  record.type = FaultType::kAtomicViolation;
  record.access = ts104::AccessKind::kAtomic;
  record.client = 6;
  record.gpc_id = 3;
  const ts104::FaultPacket hub = ts104::EncodeFaultPacket(record);
  EXPECT_EQ(hub, (ts104::FaultPacket{0x34567000u | 2u << 8, 0x12, 0xcdef0000, 0x189ab, 0x55667788,
                                     0x11223344, 0x1ffu | 0x2au << 26,
                                     0xfu | 6u << 8 | 2u << 16 | 1u << 20 | 3u << 24 | 1u << 31}));
  record.from_gpc = true;
  EXPECT_EQ(ts104::EncodeFaultPacket(record)[7] >> 20 & 1, 0u);
}

TEST(FaultPacket, HostFaultNamesChannelFunctionAndAddress) {
  Rig rig;
  rig.gpu.EnableLeaf(0, 4, 1u << 4);  // vector 132
  rig.gpu.ForgetInterrupts();
  rig.Run(fakes::HostRelease(0x12'3456'7000, 1));
  ASSERT_EQ(rig.faults.count(), 1u);
  const auto packet = rig.faults.at(0);
  EXPECT_EQ(packet.inst, rig.channel.inst());
  EXPECT_EQ(packet.aperture, 0u);
  EXPECT_EQ(packet.va, 0x12'3456'7000u);
  EXPECT_EQ(packet.engine, 33u);  // HOST1
  EXPECT_EQ(packet.client, 6u);
  EXPECT_TRUE(packet.hub);
  EXPECT_EQ(packet.type, 0u);  // PDE
  EXPECT_EQ(packet.access, 1u);
  EXPECT_EQ(packet.gfid, 6u);
  EXPECT_TRUE(rig.channel.PbdmaFaulted());
  EXPECT_FALSE(rig.channel.Busy());
  EXPECT_EQ(rig.gpu.msix_count(2), 1u);
  EXPECT_EQ(rig.gpu.Read(0x100e60) >> 9 & 1, 1u);
  rig.gpu.Write(0x100e2c, 1);  // GET
  EXPECT_EQ(rig.gpu.Read(0x100e60) >> 9 & 1, 0u);
}

TEST(FaultPacket, AddressBeyond49BitsAndUnboundInstanceBlock) {
  Rig rig;
  rig.channel.SetInst(NV_RAMIN_PAGE_DIR_BASE,
                      static_cast<uint32_t>(rig.tables.root()) | 1u << 10);  // BIG_PAGE_SIZE 0
  rig.Run({0});
  ASSERT_EQ(rig.faults.count(), 1u);
  EXPECT_EQ(rig.faults.at(0).type, 4u);
}

TEST(FaultPacket, OtherTsgsGoOn) {
  Rig rig;
  TestChannel other(rig.gpu, rig.tables, 9);
  fakes::Submit(rig.gpu, 1, {{.tsgid = 3, .chids = {5}}, {.tsgid = 4, .chids = {9}}});
  rig.channel.PushAndRing(fakes::HostRelease(0x12'3456'7000, 1));
  other.PushAndRing(fakes::HostRelease(kVa, 2));
  rig.gpu.Settle();
  EXPECT_EQ(rig.gpu.Vram(rig.page), 2u);
  EXPECT_FALSE(other.PbdmaFaulted());
}

TEST(FaultBuffer, OverflowDropsAndRaises133) {
  Rig rig({}, 3);  // room for two packets
  for (int i = 0; i < 3; ++i) {
    rig.Run(fakes::HostRelease(0x12'3456'7000, 1));
    rig.gpu.Write(NV_PCCSR_CHANNEL(5), 1u << 22);
    rig.gpu.Settle(100);
  }
  EXPECT_EQ(rig.gpu.Read(0x100e30) & 0xfffff, 2u);
  EXPECT_EQ(rig.gpu.Read(0x100e2c) >> 31, 1u);
  EXPECT_EQ(rig.gpu.Read(0x100e30) >> 31, 1u);
  EXPECT_EQ(rig.gpu.Read(0x100e60) >> 13 & 1, 1u);
  EXPECT_EQ(rig.gpu.Leaf(0, 4) & (3u << 4), 3u << 4);
  // Free first, then W1C.
  rig.gpu.Write(0x100e2c, 2);
  EXPECT_EQ(rig.gpu.Read(0x100e2c), 1u << 31 | 2);
  rig.gpu.Write(0x100e2c, 1u << 31 | 2);
  EXPECT_EQ(rig.gpu.Read(0x100e2c), 2u);
  EXPECT_EQ(rig.gpu.Read(0x100e60) >> 13 & 1, 0u);
}

TEST(FaultBuffer, DisabledOrVirtualCountsAsOverflow) {
  for (const bool disable : {true, false}) {
    Rig rig;
    if (disable) {
      rig.gpu.Write(0x100e34, 16);
    } else {
      rig.gpu.Write(0x100e24, static_cast<uint32_t>(rig.faults.base()));
    }
    rig.Run(fakes::HostRelease(0x12'3456'7000, 1));
    EXPECT_EQ(rig.gpu.Read(0x100e30) >> 31, 1u);
    EXPECT_EQ(rig.faults.count(), 0u);
  }
}

TEST(FaultBuffer, EnablingSetsThePointersToZero) {
  Rig rig;
  rig.Run(fakes::HostRelease(0x12'3456'7000, 1));
  EXPECT_EQ(rig.gpu.Read(0xb8300c), 1u);
  rig.gpu.Write(0xb83010, 16);
  rig.gpu.Write(0xb83010, 16 | 1u << 31);
  EXPECT_EQ(rig.gpu.Read(0xb8300c), 0u);
  EXPECT_EQ(rig.gpu.Read(0xb83008), 0u);
}

}  // namespace
