// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The operating system under the host-driver core, made of arrays: DMA memory, guests, an IOMMU
// that knows what is pinned, a clock that the test moves, work queues that run when the test says
// so.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/core_abi.h"

// What the core has asked of the system so far: how much work a call made it do.
struct HostWork {
  uint64_t registers = 0;  // accesses
  uint64_t slept_ns = 0;
  uint64_t dma_allocations = 0;
  uint64_t dma_frees = 0;
  uint64_t pin_calls = 0;
  uint64_t pins = 0;  // pages
  uint64_t unpins = 0;
  uint64_t guest_bytes = 0;  // of its system memory, copied
  uint64_t vram_bytes = 0;   // copied by CPU
};

// One kind of call that fails once: the `fail_at`th, counted from 1; 0: none does.
struct FailingCall {
  uint64_t calls = 0;
  uint64_t fail_at = 0;
  bool Fails() { return ++calls == fail_at; }
};

// A reader of dumps with room for so many lines.
struct ts_host_dump {
  size_t room = SIZE_MAX;
  std::vector<std::string> lines;
};

// One physical GPU. Registers and VRAM are arrays; tests/rig puts the model behind them.
struct ts_host_gpu {
  explicit ts_host_gpu(uint64_t vram_bytes = 64u << 20);
  virtual ~ts_host_gpu() = default;
  ts_host_gpu(const ts_host_gpu&) = delete;
  ts_host_gpu& operator=(const ts_host_gpu&) = delete;

  virtual uint32_t Read32(uint32_t offset);
  virtual void Write32(uint32_t offset, uint32_t value);
  virtual uint8_t* vram() { return vram_.get(); }
  virtual uint64_t vram_bytes() const { return vram_bytes_; }
  virtual uint64_t Now() { return now_ns; }
  // Time passes; the rig lets the model run.
  virtual void Sleep(uint64_t ns) { now_ns += ns; }
  // Makes VRAM read 0.
  virtual void ClearVram(uint64_t offset, uint64_t length);
  // Work was queued.
  virtual void WorkQueued() {}

  // CPU address of what the device reaches at `dma`, null when the IOMMU lets it reach nothing
  // there. `length` stays inside a page.
  uint8_t* Translate(uint64_t dma, uint64_t length);
  // Runs queued work until there is none.
  void RunWork();
  // Whether a line with this text was logged.
  bool Logged(const std::string& text) const;

  // Guards the containers here and in the guests, for tests with threads.
  std::recursive_mutex lock;
  uint64_t now_ns = 1'700'000'000'000'000'000;
  std::map<uint32_t, uint32_t> registers;
  std::vector<std::pair<uint32_t, uint32_t>> writes;
  std::function<void(uint32_t offset, uint32_t value)> on_write;
  std::map<uint64_t, std::vector<uint8_t>> dma;  // by DMA address
  std::vector<std::string> log;
  std::function<void(const std::string& line)> on_log;
  // How often an event was traced, by name and vGPU (null: nobody's).
  std::map<std::pair<std::string, const ts_host_vgpu*>, uint64_t> traced;
  std::function<void(uint32_t runlist, const ts_slice& slice)> on_slice;
  std::set<ts_host_vgpu*> vgpus;
  std::set<ts_host_vgpu*> queued;
  bool gpu_work_queued = false;
  // Delay that was asked for last, 0: none.
  uint64_t timer_ns = 0;
  // When that is over, 0: never.
  uint64_t timer_due = 0;
  int dma_allocations_left = 1'000'000;   // then DMA memory is used up
  uint64_t dma_bytes = 0;                 // allocated now
  uint64_t next_dma = uint64_t{1} << 32;  // address of the next allocation; none comes twice
  // Before each copy out of guest memory or VRAM: another vCPU writes meanwhile.
  std::function<void()> on_copy;
  HostWork work;
  // Whatever the guest: ts_host_dma_alloc, _pin, _guest_read, _guest_write, _signal_*.
  FailingCall dma_calls, pin_calls, guest_reads, guest_writes, signals;
  ts_gpu* core = nullptr;

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  uint64_t vram_bytes_;
  std::unique_ptr<uint8_t, Free> vram_;  // calloc: pages that no test touches cost nothing
};

// One guest: memory by page, pins, interrupts.
struct ts_host_vgpu {
  // `pages` of guest memory from GPA 0. `scatter`: neighbours for the guest are none for the
  // device.
  ts_host_vgpu(ts_host_gpu& gpu, uint32_t pages, bool scatter = true);
  ~ts_host_vgpu();
  ts_host_vgpu(const ts_host_vgpu&) = delete;
  ts_host_vgpu& operator=(const ts_host_vgpu&) = delete;

  uint8_t* At(uint64_t gpa) { return memory.data() + gpa; }
  uint64_t DmaOf(uint64_t page) const;
  // Whether the page that the device reaches at `dma` is one of its memory, and pinned now.
  bool IsPinnedDma(uint64_t dma) const;
  void Store64(uint64_t gpa, uint64_t value);
  void Store32(uint64_t gpa, uint32_t value);
  uint32_t Load32(uint64_t gpa) const;
  // MSI-X vectors sent since the last call, one bit each.
  uint32_t TakeMsix();

  ts_host_gpu& gpu;
  std::vector<uint8_t> memory;
  const bool scatter;
  const uint64_t dma_base;
  std::map<uint64_t, uint32_t> pinned;                   // page -> count
  std::set<uint64_t> unpinnable;                         // pages
  std::vector<std::pair<uint64_t, uint32_t>> pin_calls;  // GPA, count
  std::vector<std::pair<uint64_t, uint32_t>> unpin_calls;
  std::function<void()> on_unpin;
  uint64_t max_pinned = UINT64_MAX;  // then pages cannot be pinned
  // Clearing of VRAM that goes on; with `clears_later` until somebody waits for it.
  uint64_t clear_offset = 0;
  uint64_t clear_length = 0;
  bool clears_later = false;
  uint32_t msix = 0;
  uint32_t msix_count = 0;
  uint32_t msi_count = 0;
  bool intx = false;
  ts_vgpu* core = nullptr;
};
