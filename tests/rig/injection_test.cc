// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The life of a vGPU in which one call fails: the first of its kind, the second, and so on until a
// life has no more of them. Always a clean error, nothing left behind, the neighbour unharmed, and
// the next life goes well.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "fakes/allocation_limit.h"
#include "libts104/stream.h"
#include "rig/raw_guest.h"
#include "rig/rig.h"
#include "ts104/regs.h"
#include "ts104_programs.h"
#include "workloads.h"

namespace rig {
namespace {

using libts104::Buffer;
using libts104::Engine;
using libts104::Placement;

constexpr VgpuMachine::Type kType = VgpuMachine::kV4;
constexpr uint64_t kUserd = 0x6000;  // guest-physical

class InjectionTest : public testing::Test {
 protected:
  // What a guest does from power-on to power-off. Throws where it cannot go on.
  static void Use(VgpuMachine& machine) {
    {
      const auto device = fakes::OpenOn(machine, TSG_CREATE_SYSMEM_TABLES);
      ts104_run::Options options;
      options.elements = 64;
      options.iterations = 1;
      options.timeout_ms = 20;
      const Buffer memory = device->Alloc(1 << 16, Placement::kSysmem);
      if (!ts104_run::RunProgram(*device, options, "vecadd").verified)
        throw libts104::Error("vecadd");
      options.address = 0xdead0000;
      if (!ts104_run::RunProgram(*device, options, "fault-store").fault.has_value()) {
        throw libts104::Error("no fault");
      }
    }
    if (ts_vgpu_reset(machine.core()) != 0) throw libts104::Error("reset");
    // Tables and USERD in VRAM and in system memory, then an unmap below them.
    RawGuest guest(machine);
    guest.MapSystem(0x100000, 0x5000);
    guest.Invalidate();
    MoveToSystemMemory(machine, guest);
    guest.Bind(0);
    guest.Enable(0);
    guest.Submit(1, {0});
    guest.Push(0, 1, RawGuest::Release(0x100000, 7));
    if (!machine.WaitSystem32(0x5000, 7, 5)) throw libts104::Error("no release");
    machine.host().Store32(kUserd + NV_USERD_GP_PUT, 2);
    guest.Push(0, 1, RawGuest::Release(0x180000, 7));  // mapped nowhere
    machine.Advance(1'000'000);
    if ((guest.Read(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0)) & 0xfffff) != 1) {
      throw libts104::Error("no fault");
    }
    ts_vgpu_dma_unmap(machine.core(), 0, 1 << 20);
  }

  // Channel 0's USERD, page directory and fault packets: what the host reads and writes, and pins.
  static void MoveToSystemMemory(VgpuMachine& machine, RawGuest& guest) {
    constexpr uint64_t kRoot = 0x7000, kFaults = 0x8000;
    guest.WriteInstance(0);
    const uint64_t instance = RawGuest::kInstance;
    guest.SetVram32(instance + NV_RAMFC_USERD, static_cast<uint32_t>(kUserd) | 0x2);
    guest.SetVram32(instance + NV_RAMIN_PAGE_DIR_BASE, static_cast<uint32_t>(kRoot) | 0xc02);
    std::memcpy(machine.host().At(kRoot), machine.vram() + RawGuest::kRoot, TS_PAGE_SIZE);
    machine.host().Store32(kUserd + NV_USERD_GP_PUT, 1);
    guest.Write(NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0), static_cast<uint32_t>(kFaults) | 0x5);
  }

  // One life; whether all of it went well.
  bool Live() {
    std::unique_ptr<VgpuMachine> machine;
    bool well = true;
    try {
      machine = std::make_unique<VgpuMachine>(gpu_, kType, 2048);
      Use(*machine);
    } catch (const std::exception& error) {
      well = false;
      error_ = error.what();
    }
    if (machine == nullptr) return well;
    machine->Close();
    EXPECT_TRUE(machine->host().pinned.empty());
    EXPECT_EQ(machine->Counters().pages_pinned, 0u);
    return well;
  }

  // `live` has one failure in it, and returns whether there was one.
  void FailEach(const char* what, const std::function<bool(uint64_t)>& live) {
    ASSERT_TRUE(Live());
    const uint64_t dma_bytes = gpu_.dma_bytes;
    const uint32_t free = ts_gpu_available(gpu_.core, kType);
    uint64_t n = 1;
    for (; live(n); ++n) {
      SCOPED_TRACE(std::string(what) + " " + std::to_string(n));
      ASSERT_EQ(gpu_.dma_bytes, dma_bytes);
      ASSERT_EQ(ts_gpu_available(gpu_.core, kType), free);
      ASSERT_EQ(gpu_.stray_accesses(), 0u) << gpu_.last_stray();
      neighbour_.Push(0, 1, RawGuest::Release(RawGuest::kData, static_cast<uint32_t>(n)));
      ASSERT_TRUE(neighbour_.WaitVram32(RawGuest::kData, static_cast<uint32_t>(n)));
      ASSERT_TRUE(neighbour_.TakeFaults().empty());
      ASSERT_TRUE(Live()) << "the next life: " << error_;
    }
    std::printf("%s: %lu failures, one by one\n", what, static_cast<unsigned long>(n - 1));
    EXPECT_GT(n, 2u) << "nothing to fail: the test tests nothing";
  }

  void FailEach(const char* what, FailingCall& call) {
    FailEach(what, [&](uint64_t n) {
      call.calls = 0;
      call.fail_at = n;
      Live();
      const bool failed = call.calls >= n;
      call.fail_at = 0;
      return failed;
    });
  }

  void SetUp() override { neighbour_.StartChannel(0, 1); }

  std::string error_;
  ModelGpu gpu_{RigConfig{.vram_bytes = 128u << 20}};
  VgpuMachine other_{gpu_, kType, 64};
  RawGuest neighbour_{other_};
};

TEST_F(InjectionTest, DmaMemory) { FailEach("DMA allocation", gpu_.dma_calls); }
TEST_F(InjectionTest, Pins) { FailEach("pin", gpu_.pin_calls); }
TEST_F(InjectionTest, ReadsOfGuestMemory) { FailEach("read of guest memory", gpu_.guest_reads); }
TEST_F(InjectionTest, WritesOfGuestMemory) { FailEach("write of guest memory", gpu_.guest_writes); }
TEST_F(InjectionTest, Signals) { FailEach("signal", gpu_.signals); }

TEST_F(InjectionTest, Allocations) {
  FailEach("allocation", [&](uint64_t n) {
    const fakes::AllocationFailure failure(n);
    Live();
    return failure.reached();
  });
}

// The first call of a vGPU's life is its creation: an error of the system that says why.
TEST_F(InjectionTest, CreateAndOpenSayNoMemory) {
  for (uint64_t n = 1;; ++n) {
    const fakes::AllocationFailure failure(n);
    ts_host_vgpu host(gpu_, 16);
    ts_vgpu* core = nullptr;
    int status = ts_vgpu_create(gpu_.core, kType, &host, &core);
    if (status == 0) {
      host.core = core;
      status = ts_vgpu_open(core);
      if (status == 0) ts_vgpu_close(core);
      host.core = nullptr;
      ts_vgpu_destroy(core);
    }
    if (!failure.reached()) {
      EXPECT_EQ(status, 0);
      EXPECT_GT(n, 3u);
      return;
    }
    ASSERT_EQ(status, -12) << "ENOMEM of allocation " << n;
  }
}

}  // namespace
}  // namespace rig
