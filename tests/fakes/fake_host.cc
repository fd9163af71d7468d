// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fakes/fake_host.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/runtime_abi.h"

namespace {

constexpr uint64_t kPage = TS_PAGE_SIZE;
constexpr uint64_t kFirstGuestDma = uint64_t{16} << 32;
constexpr uint64_t kGuestDmaStride = uint64_t{1} << 32;

// The one whose clock ts_host_now_ns and ts_host_sleep_us mean: the GPU made last.
ts_host_gpu* current = nullptr;

using Guard = std::lock_guard<std::recursive_mutex>;

void Count(ts_host_gpu* gpu, const char* event, const ts_host_vgpu* vgpu) {
  const Guard guard(gpu->lock);
  ++gpu->traced[{event, vgpu}];
}

// Without the lock of the containers: calls from a hard interrupt count as well.
void Count(uint64_t& figure, uint64_t by) { __atomic_fetch_add(&figure, by, __ATOMIC_RELAXED); }

// The lowest range that no living guest has: all addresses stay below the 2^40 of a USERD.
uint64_t FreeGuestDma(const ts_host_gpu& gpu) {
  uint64_t base = kFirstGuestDma;
  const auto taken = [&](const ts_host_vgpu* guest) { return guest->dma_base == base; };
  while (std::any_of(gpu.vgpus.begin(), gpu.vgpus.end(), taken)) base += kGuestDmaStride;
  return base;
}

bool Fails(ts_host_gpu& gpu, FailingCall& call) {
  const Guard guard(gpu.lock);
  return call.Fails();
}

}  // namespace

ts_host_gpu::ts_host_gpu(uint64_t size)
    : vram_bytes_(size), vram_(static_cast<uint8_t*>(std::calloc(1, size))) {
  current = this;
}

uint32_t ts_host_gpu::Read32(uint32_t offset) {
  const auto found = registers.find(offset);
  return found == registers.end() ? 0 : found->second;
}

void ts_host_gpu::Write32(uint32_t offset, uint32_t value) {
  writes.emplace_back(offset, value);
  registers[offset] = value;
  if (on_write) on_write(offset, value);
}

void ts_host_gpu::ClearVram(uint64_t offset, uint64_t length) {
  std::memset(vram() + offset, 0, length);
}

uint8_t* ts_host_gpu::Translate(uint64_t address, uint64_t length) {
  const Guard guard(lock);
  auto found = dma.upper_bound(address);
  if (found != dma.begin()) {
    --found;
    const uint64_t at = address - found->first;
    if (at < found->second.size() && length <= found->second.size() - at) {
      return found->second.data() + at;
    }
  }
  for (ts_host_vgpu* vgpu : vgpus) {
    if (address < vgpu->dma_base || address - vgpu->dma_base >= vgpu->memory.size()) continue;
    const uint64_t at = address - vgpu->dma_base;
    const uint64_t page = vgpu->scatter ? (at / kPage) ^ 1 : at / kPage;
    if (vgpu->pinned.count(page) == 0) continue;
    return vgpu->At(page * kPage + at % kPage);
  }
  return nullptr;
}

void ts_host_gpu::RunWork() {
  for (;;) {
    ts_vgpu* vgpu = nullptr;
    bool gpu_work = false;
    {
      const Guard guard(lock);
      gpu_work = std::exchange(gpu_work_queued, false);
      if (!queued.empty()) {
        vgpu = (*queued.begin())->core;
        queued.erase(queued.begin());
      } else if (!gpu_work) {
        return;
      }
    }
    if (gpu_work) ts_gpu_work(core);
    if (vgpu != nullptr) ts_vgpu_work(vgpu);
  }
}

bool ts_host_gpu::Logged(const std::string& text) const {
  return std::any_of(log.begin(), log.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

ts_host_vgpu::ts_host_vgpu(ts_host_gpu& host, uint32_t pages, bool scatter_pages)
    : gpu(host), memory(pages * kPage), scatter(scatter_pages), dma_base(FreeGuestDma(host)) {
  gpu.vgpus.insert(this);
}

ts_host_vgpu::~ts_host_vgpu() {
  gpu.vgpus.erase(this);
  gpu.queued.erase(this);
}

uint64_t ts_host_vgpu::DmaOf(uint64_t page) const {
  return dma_base + (scatter ? page ^ 1 : page) * kPage;
}

bool ts_host_vgpu::IsPinnedDma(uint64_t dma) const {
  if (dma < dma_base || dma - dma_base >= memory.size()) return false;
  const uint64_t page = (dma - dma_base) / kPage;
  return pinned.count(scatter ? page ^ 1 : page) != 0;
}

void ts_host_vgpu::Store64(uint64_t gpa, uint64_t value) { std::memcpy(At(gpa), &value, 8); }
void ts_host_vgpu::Store32(uint64_t gpa, uint32_t value) { std::memcpy(At(gpa), &value, 4); }

uint32_t ts_host_vgpu::Load32(uint64_t gpa) const {
  uint32_t value = 0;
  std::memcpy(&value, memory.data() + gpa, 4);
  return value;
}

uint32_t ts_host_vgpu::TakeMsix() {
  const Guard guard(gpu.lock);
  return std::exchange(msix, 0);
}

extern "C" {

int ts_host_dma_alloc(ts_host_gpu* gpu, size_t size, ts_host_dma* out) {
  const Guard guard(gpu->lock);
  ++gpu->work.dma_allocations;
  if (gpu->dma_calls.Fails() || gpu->dma_allocations_left == 0) return -12;
  --gpu->dma_allocations_left;
  const uint64_t address = gpu->next_dma;
  gpu->next_dma += size;
  auto& memory = gpu->dma[address];
  memory.assign(size, 0);
  out->cpu = memory.data();
  out->dma = address;
  gpu->dma_bytes += size;
  return 0;
}

void ts_host_dma_free(ts_host_gpu* gpu, size_t size, const ts_host_dma* memory) {
  const Guard guard(gpu->lock);
  ++gpu->work.dma_frees;
  gpu->dma.erase(memory->dma);
  gpu->dma_bytes -= size;
}

uint32_t ts_host_read32(ts_host_gpu* gpu, uint32_t offset) {
  Count(gpu->work.registers, 1);
  return gpu->Read32(offset);
}
void ts_host_write32(ts_host_gpu* gpu, uint32_t offset, uint32_t value) {
  Count(gpu->work.registers, 1);
  gpu->Write32(offset, value);
}

void ts_host_vram_read(ts_host_gpu* gpu, uint64_t offset, void* buffer, size_t length) {
  Count(gpu->work.vram_bytes, length);
  if (gpu->on_copy) gpu->on_copy();
  std::memcpy(buffer, gpu->vram() + offset, length);
}
void ts_host_vram_write(ts_host_gpu* gpu, uint64_t offset, const void* buffer, size_t length) {
  Count(gpu->work.vram_bytes, length);
  std::memcpy(gpu->vram() + offset, buffer, length);
}
void ts_host_vram_clear_start(ts_host_vgpu* vgpu, uint64_t offset, uint64_t length) {
  vgpu->clear_offset = offset;
  vgpu->clear_length = length;
  if (!vgpu->clears_later) ts_host_vram_clear_wait(vgpu);
}
void ts_host_vram_clear_wait(ts_host_vgpu* vgpu) {
  vgpu->gpu.ClearVram(vgpu->clear_offset, std::exchange(vgpu->clear_length, 0));
}

uint32_t ts_host_pin(ts_host_vgpu* vgpu, uint64_t gpa, uint32_t count, uint64_t* dma) {
  const Guard guard(vgpu->gpu.lock);
  vgpu->pin_calls.emplace_back(gpa, count);
  ++vgpu->gpu.work.pin_calls;
  if (vgpu->gpu.pin_calls.Fails()) count /= 2;  // no more than the first half, which may be none
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t page = gpa / kPage + i;
    const bool there = page < vgpu->memory.size() / kPage && vgpu->unpinnable.count(page) == 0;
    if (!there || vgpu->pinned.size() >= vgpu->max_pinned) return i;
    ++vgpu->pinned[page];
    ++vgpu->gpu.work.pins;
    dma[i] = vgpu->DmaOf(page);
  }
  return count;
}

void ts_host_unpin(ts_host_vgpu* vgpu, uint64_t gpa, uint32_t count, const uint64_t*) {
  const Guard guard(vgpu->gpu.lock);
  if (vgpu->on_unpin) vgpu->on_unpin();
  vgpu->unpin_calls.emplace_back(gpa, count);
  vgpu->gpu.work.unpins += count;
  for (uint32_t i = 0; i < count; ++i) {
    const auto found = vgpu->pinned.find(gpa / kPage + i);
    if (found == vgpu->pinned.end()) {
      ts_report_bug(__FILE__, __LINE__, "a page is unpinned that is not pinned");
      __builtin_trap();
    }
    if (--found->second == 0) vgpu->pinned.erase(found);
  }
}

int ts_host_guest_read(ts_host_vgpu* vgpu, uint64_t gpa, void* buffer, size_t length) {
  Count(vgpu->gpu.work.guest_bytes, length);
  if (Fails(vgpu->gpu, vgpu->gpu.guest_reads)) return -14;
  if (gpa > vgpu->memory.size() || length > vgpu->memory.size() - gpa) return -14;
  if (vgpu->gpu.on_copy) vgpu->gpu.on_copy();
  std::memcpy(buffer, vgpu->At(gpa), length);
  return 0;
}
int ts_host_guest_write(ts_host_vgpu* vgpu, uint64_t gpa, const void* buffer, size_t length) {
  Count(vgpu->gpu.work.guest_bytes, length);
  if (Fails(vgpu->gpu, vgpu->gpu.guest_writes)) return -14;
  if (gpa > vgpu->memory.size() || length > vgpu->memory.size() - gpa) return -14;
  std::memcpy(vgpu->At(gpa), buffer, length);
  return 0;
}

void ts_host_signal_msix(ts_host_vgpu* vgpu, uint32_t vector) {
  const Guard guard(vgpu->gpu.lock);
  if (vgpu->gpu.signals.Fails()) return;
  vgpu->msix |= 1u << vector;
  ++vgpu->msix_count;
}
void ts_host_signal_msi(ts_host_vgpu* vgpu) {
  const Guard guard(vgpu->gpu.lock);
  if (vgpu->gpu.signals.Fails()) return;
  ++vgpu->msi_count;
}
void ts_host_set_intx(ts_host_vgpu* vgpu, bool level) {
  const Guard guard(vgpu->gpu.lock);
  vgpu->intx = level;
}

uint64_t ts_host_now_ns(void) { return current->Now(); }
void ts_host_sleep_us(uint32_t microseconds) {
  Count(current->work.slept_ns, uint64_t{microseconds} * 1000);
  current->Sleep(uint64_t{microseconds} * 1000);
}
void ts_host_queue_vgpu_work(ts_host_vgpu* vgpu) {
  const Guard guard(vgpu->gpu.lock);
  vgpu->gpu.queued.insert(vgpu);
  vgpu->gpu.WorkQueued();
}
void ts_host_queue_gpu_work(ts_host_gpu* gpu) { gpu->gpu_work_queued = true; }
void ts_host_arm_timer(ts_host_gpu* gpu, uint64_t delay_ns) {
  gpu->timer_ns = delay_ns;
  gpu->timer_due = delay_ns == 0 ? 0 : gpu->now_ns + delay_ns;
}

bool ts_host_dump_line(ts_host_dump* to, const char* line) {
  if (to->lines.size() < to->room) to->lines.emplace_back(line);
  return to->lines.size() < to->room;
}

void ts_host_trace_slice(ts_host_gpu* gpu, ts_host_vgpu*, uint32_t runlist, const ts_slice* slice) {
  if (gpu->on_slice) gpu->on_slice(runlist, *slice);
}
void ts_host_trace_preempt(ts_host_gpu* gpu, ts_host_vgpu* vgpu, uint32_t, uint32_t, uint32_t) {
  Count(gpu, "preempt", vgpu);
}
void ts_host_trace_switch(ts_host_gpu* gpu, ts_host_vgpu* vgpu, uint32_t, uint32_t, uint32_t,
                          uint32_t) {
  Count(gpu, "switch", vgpu);
}
void ts_host_trace_wake(ts_host_gpu* gpu, ts_host_vgpu* vgpu, uint32_t, bool doorbell) {
  Count(gpu, doorbell ? "wake" : "wake by trap", vgpu);
}
void ts_host_trace_ctxsw_timeout(ts_host_gpu* gpu, ts_host_vgpu* vgpu, uint32_t, uint32_t) {
  Count(gpu, "ctxsw_timeout", vgpu);
}
void ts_host_trace_shadow_update(ts_host_vgpu* vgpu, uint64_t, bool) {
  Count(&vgpu->gpu, "shadow_update", vgpu);
}
void ts_host_trace_fault(ts_host_vgpu* vgpu, uint32_t, uint32_t, uint32_t, uint64_t) {
  Count(&vgpu->gpu, "fault", vgpu);
}
void ts_host_trace_reset(ts_host_vgpu* vgpu) { Count(&vgpu->gpu, "reset", vgpu); }

void ts_host_log(ts_host_gpu* gpu, ts_host_vgpu*, ts_log_level, ts_log_kind, const char* line) {
  if (gpu == nullptr) return;
  const Guard guard(gpu->lock);
  gpu->log.emplace_back(line);
  if (gpu->on_log) gpu->on_log(gpu->log.back());
}

}  // extern "C"
