// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What the host-driver core costs per trap, per changed page table entry and per runlist rebuild,
// and how that grows with the number of vGPUs (a GPU holds at most 16). The registers are an array:
// the figures are the core's alone.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/core_abi.h"
#include "core/trap/csr_table.h"
#include "fakes/fake_host.h"
#include "ts104/regs.h"

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kV16 = 4;
constexpr uint64_t kRoot = 0x1000;
constexpr uint64_t kTable = 0x5000;
constexpr uint64_t kInstance = 0x10000;
constexpr uint64_t kList = 0x20000;

class BenchGpu : public ts_host_gpu {
 public:
  BenchGpu() : ts_host_gpu(256 * kMiB), words_(16 * kMiB / 4) {
    words_[NV_TS104_ID / 4] = 0x34305354;
    words_[NV_TS104_VRAM_SIZE / 4] = 256;
    words_[NV_TS104_NUM_CHIDS / 4] = 4096;
    words_[NV_TS104_CTX_SIZE / 4] = 0x10000;
    const ts_gpu_params params = {256 * kMiB, nullptr, 0};
    if (ts_gpu_create(this, &params, &core) != 0) std::abort();
  }
  ~BenchGpu() override { ts_gpu_destroy(core); }
  uint32_t Read32(uint32_t offset) override { return words_[offset / 4]; }
  void Write32(uint32_t offset, uint32_t value) override {
    words_[offset / 4] = offset == NV_PFB_PRI_MMU_INVALIDATE ? 0 : value;
  }

 private:
  std::vector<uint32_t> words_;
};

// A vGPU of type v16 with one channel whose address space has one page table of 4 KiB pages.
class BenchVgpu {
 public:
  explicit BenchVgpu(BenchGpu& gpu) : host_(gpu, 1024) {
    if (ts_vgpu_create(gpu.core, kV16, &host_, &core_) != 0 || ts_vgpu_open(core_) != 0) {
      std::abort();
    }
    ts_mmap_target bar1 = {};
    ts_vgpu_mmap(core_, TS_REGION_BAR1, 0, 0x1000, &bar1);
    vram_ = gpu.vram() + bar1.bar_offset;
    Set64(kRoot, 0x2 | (kRoot + 0x1000) >> 12 << 8);
    Set64(kRoot + 0x1000, 0x2 | (kRoot + 0x2000) >> 12 << 8);
    Set64(kRoot + 0x2000, 0x2 | (kRoot + 0x3000) >> 12 << 8);
    Set64(kRoot + 0x3008, 0x2 | kTable >> 12 << 8);
    Set64(kInstance + NV_RAMIN_PAGE_DIR_BASE, kRoot | 0xc00);
    Write(NV_PCCSR_CHANNEL_INST(0), 1u << 31 | kInstance >> 12);
    const uint32_t entries[8] = {0x80030001, 1, 0, 0, 0, 0, 0, 0};
    std::memcpy(vram_ + kList, entries, sizeof(entries));
    Write(NV_PFIFO_RUNLIST_BASE_LO(0), kList);
    Write(NV_PFIFO_RUNLIST_SUBMIT(0), 2);
  }
  ~BenchVgpu() {
    ts_vgpu_close(core_);
    ts_vgpu_destroy(core_);
  }

  void Set64(uint64_t offset, uint64_t value) { std::memcpy(vram_ + offset, &value, 8); }
  void Write(uint32_t offset, uint32_t value) {
    ts_vgpu_region_rw(core_, TS_REGION_BAR0, offset, &value, 4, true);
  }
  uint32_t Read(uint32_t offset) {
    uint32_t value = 0;
    ts_vgpu_region_rw(core_, TS_REGION_BAR0, offset, &value, 4, false);
    return value;
  }

 private:
  ts_host_vgpu host_;
  ts_vgpu* core_ = nullptr;
  uint8_t* vram_ = nullptr;
};

struct Bench {
  explicit Bench(int64_t count) {
    for (int64_t i = 0; i < count; ++i) vgpus.push_back(std::make_unique<BenchVgpu>(gpu));
  }
  BenchGpu gpu;
  std::vector<std::unique_ptr<BenchVgpu>> vgpus;
};

// The table lookup alone, over registers from its beginning to its end.
void CsrDecode(benchmark::State& state) {
  static constexpr uint32_t kOffsets[] = {NV_PMC_BOOT_0,
                                          NV_PFIFO_INTR_0,
                                          NV_PPBDMA_INTR_0(1),
                                          NV_PFB_PRI_MMU_INVALIDATE,
                                          NV_PCCSR_CHANNEL(77),
                                          NV_CTRL_LEAF(0),
                                          0x12340,
                                          NV_CTRL_LEAF_EN_CLEAR(3)};
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(turnstile::FindCsr(kOffsets[i++ % 8]));
}
BENCHMARK(CsrDecode);

// A whole trapped read of a virtual register, with that many vGPUs open.
void TrapRead(benchmark::State& state) {
  Bench bench(state.range(0));
  BenchVgpu& vgpu = *bench.vgpus.back();
  for (auto _ : state) benchmark::DoNotOptimize(vgpu.Read(NV_PFIFO_INTR_EN_0));
}
BENCHMARK(TrapRead)->RangeMultiplier(2)->Range(1, 16);

// Invalidate of the whole address space after so many entries of 512 were changed; the second
// argument is the number of vGPUs. items = changed entries.
void ShadowUpdate(benchmark::State& state) {
  Bench bench(state.range(1));
  BenchVgpu& vgpu = *bench.vgpus.back();
  uint64_t flip = 0;
  for (auto _ : state) {
    flip ^= 1;
    for (int64_t i = 0; i < state.range(0); ++i) {
      vgpu.Set64(kTable + static_cast<uint64_t>(i) * 8,
                 0x5 | (static_cast<uint64_t>(i) + 512 * flip) << 8);
    }
    vgpu.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 0x3);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ShadowUpdate)->ArgsProduct({{1, 16, 512}, {1, 16}});

// A guest's submit under best effort: its list is read and checked, the hardware's list is made
// anew from the lists of all.
void RunlistRebuild(benchmark::State& state) {
  Bench bench(state.range(0));
  BenchVgpu& vgpu = *bench.vgpus.back();
  for (auto _ : state) vgpu.Write(NV_PFIFO_RUNLIST_SUBMIT(0), 2);
  state.SetComplexityN(state.range(0));
}
BENCHMARK(RunlistRebuild)->RangeMultiplier(2)->Range(1, 16)->Complexity();

}  // namespace
