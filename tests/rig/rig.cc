// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "rig/rig.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ts104/regs.h"

namespace rig {

namespace {

constexpr uint64_t kPage = TS_PAGE_SIZE;
constexpr uint32_t kDoorbell = NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING;
constexpr uint64_t kSliceNs = 20'000;

}  // namespace

// ---- ModelGpu
// ------------------------------------------------------------------------------------

ModelGpu::ModelGpu(const RigConfig& config) : ts_host_gpu(0), vram_size_(config.vram_bytes) {
  void* memory = mmap(nullptr, vram_size_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  vram_memory_ = static_cast<uint8_t*>(memory);
  ts104_host_ops ops = {};
  ops.dma_read = [](void* self, uint64_t address, void* buffer, uint64_t length) {
    return static_cast<ModelGpu*>(self)->Dma(address, buffer, length, false);
  };
  ops.dma_write = [](void* self, uint64_t address, const void* buffer, uint64_t length) {
    return static_cast<ModelGpu*>(self)->Dma(address, const_cast<void*>(buffer), length, true);
  };
  ops.now_ns = [](void* self) { return static_cast<ModelGpu*>(self)->Now(); };
  ops.irq = [](void* self, uint32_t msix, bool, bool) {
    if (msix != 0) static_cast<ModelGpu*>(self)->interrupt_ = true;
  };
  ops.touched = [](void* self, uint32_t gfid, bool system, uint64_t address, uint64_t length) {
    static_cast<ModelGpu*>(self)->Touched(gfid, system, address, length);
  };
  const ts104_config model_config = {config.vram_bytes, config.engine_mhz, config.sms,
                                     config.ctxsw_us};
  char error[160] = {};
  model_ = ts104_create(&model_config, vram_memory_, &ops, this, error, sizeof(error));
  if (model_ == nullptr) throw std::runtime_error(error);
  ts104_bus_master(model_, true);
  const ts_gpu_params params = {config.vram_bytes, nullptr, 0};
  if (ts_gpu_create(this, &params, &core) != 0) throw std::runtime_error("ts_gpu_create");
}

ModelGpu::~ModelGpu() {
  ts_gpu_destroy(core);
  ts104_destroy(model_);
  munmap(vram_memory_, vram_size_);
}

uint32_t ModelGpu::Read32(uint32_t offset) { return ts104_bar0_read(model_, offset, 4); }
void ModelGpu::Write32(uint32_t offset, uint32_t value) {
  ts104_bar0_write(model_, offset, 4, value);
}
uint32_t ModelGpu::ReadBar3(uint64_t offset) { return ts104_bar3_read(model_, offset, 4); }
void ModelGpu::WriteBar3(uint64_t offset, uint32_t value) {
  ts104_bar3_write(model_, offset, 4, value);
}

void ModelGpu::ResetFromOutside() {
  ts104_reset(model_);
  ts104_bus_master(model_, true);
}

void ModelGpu::Sleep(uint64_t ns) {
  now_ns += ns;
  ts104_run_until(model_, now_ns);
}

// The memory is anonymous: pages given back read 0 again.
void ModelGpu::ClearVram(uint64_t offset, uint64_t length) {
  if (madvise(vram_memory_ + offset, length, MADV_DONTNEED) != 0) {
    throw std::runtime_error("madvise");
  }
}

void ModelGpu::AdvanceTo(uint64_t time, uint64_t grain) {
  while (now_ns < time) {
    uint64_t next = std::max(ts104_next_event(model_), now_ns + grain);
    if (timer_due != 0) next = std::min(next, std::max(timer_due, now_ns));
    now_ns = std::min(next, time);
    Pump();
  }
}

void ModelGpu::Pump() {
  if (timer_due != 0 && timer_due <= now_ns) {
    timer_due = 0;
    ts_gpu_timer(core);
  }
  ts104_run_until(model_, now_ns);
  while (interrupt_ || !queued.empty() || gpu_work_queued) {
    if (TakeInterrupt()) {
      if (ts_gpu_irq(core) == TS_IRQ_WAKE) ts_gpu_irq_thread(core);
    }
    RunWork();
    ts104_run_until(model_, now_ns);
  }
}

int ModelGpu::Dma(uint64_t address, void* buffer, uint64_t length, bool write) {
  auto* bytes = static_cast<uint8_t*>(buffer);
  for (uint64_t done = 0; done < length;) {
    const uint64_t at = address + done;
    const uint64_t left = length - done;
    const uint64_t piece = left < kPage - at % kPage ? left : kPage - at % kPage;
    uint8_t* memory = Translate(at, piece);
    if (memory == nullptr) {
      Stray(write ? "DMA write" : "DMA read", 0, at);
      return -1;
    }
    if (write) {
      std::memcpy(memory, bytes + done, piece);
    } else {
      std::memcpy(bytes + done, memory, piece);
    }
    done += piece;
  }
  return 0;
}

void ModelGpu::SetOwner(uint32_t gfid, ts_host_vgpu* guest, uint64_t vram, uint64_t vram_bytes) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  owners_[gfid] = {guest, vram, vram_bytes};
}

std::string ModelGpu::last_stray() {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  return last_stray_;
}

void ModelGpu::Stray(const char* what, uint32_t gfid, uint64_t address) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  ++stray_accesses_;
  last_stray_ =
      std::string(what) + " of function " + std::to_string(gfid) + " at " + std::to_string(address);
}

// `length` may cross pages when the guest's page is a large one.
void ModelGpu::Touched(uint32_t gfid, bool system, uint64_t address, uint64_t length) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  const Owner& owner = owners_[gfid % std::size(owners_)];
  if (owner.guest == nullptr) {
    Stray("access", gfid, address);
  } else if (!system) {
    if (address < owner.vram || address - owner.vram > owner.vram_bytes ||
        length > owner.vram_bytes - (address - owner.vram)) {
      Stray("access to foreign VRAM", gfid, address);
    }
  } else {
    for (uint64_t page = address / kPage; page <= (address + (length - 1)) / kPage; ++page) {
      if (!owner.guest->IsPinnedDma(page * kPage))
        Stray("access to a page not its own", gfid, address);
    }
  }
}

// ---- VgpuMachine
// ---------------------------------------------------------------------------------

VgpuMachine::VgpuMachine(ModelGpu& gpu, Type type, uint32_t memory_pages)
    : gpu_(gpu), host_(gpu, memory_pages) {
  if (ts_vgpu_create(gpu.core, type, &host_, &core_) != 0) {
    throw std::runtime_error("ts_vgpu_create");
  }
  host_.core = core_;
  ts_region_info bar1 = {};
  ts_mmap_target target = {};
  ts_vgpu_region_info(core_, TS_REGION_BAR1, &bar1);
  vram_size_ = bar1.size;
  ts_vgpu_mmap(core_, TS_REGION_BAR1, 0, bar1.size, &target);
  vram_offset_ = target.bar_offset;
  ts_vgpu_mmap(core_, TS_REGION_BAR0, NV_FUNC_BAR0_USERMODE_BASE, kPage, &target);
  doorbell_ = target.bar_offset;
  if (Reopen() == 0) return;
  host_.core = nullptr;
  ts_vgpu_destroy(core_);
  throw std::runtime_error("ts_vgpu_open");
}

int VgpuMachine::Reopen() {
  const int status = ts_vgpu_open(core_);
  if (status != 0) return status;
  open_ = true;
  gpu_.SetOwner(ts_vgpu_function(core_), &host_, vram_offset_, vram_size_);
  ts_vgpu_set_irq_mode(core_, TS_IRQ_MODE_MSIX);
  return 0;
}

VgpuMachine::~VgpuMachine() {
  Close();
  host_.core = nullptr;
  ts_vgpu_destroy(core_);
}

void VgpuMachine::Close() {
  if (!open_) return;
  ts_vgpu_close(core_);
  gpu_.SetOwner(ts_vgpu_function(core_), nullptr, 0, 0);
  open_ = false;
}

uint32_t VgpuMachine::Read32(uint32_t offset) {
  if (offset >= NV_FUNC_BAR0_USERMODE_BASE &&
      offset < NV_FUNC_BAR0_USERMODE_BASE + NV_FUNC_USERMODE_SIZE) {
    return gpu_.ReadBar3(doorbell_ + offset - NV_FUNC_BAR0_USERMODE_BASE);
  }
  uint32_t value = 0;
  ts_vgpu_region_rw(core_, TS_REGION_BAR0, offset, &value, sizeof(value), false);
  gpu_.Pump();
  return value;
}

void VgpuMachine::Write32(uint32_t offset, uint32_t value) {
  if (offset == kDoorbell) {
    gpu_.WriteBar3(doorbell_ + NV_USERMODE_NOTIFY_CHANNEL_PENDING, value);
  } else {
    ts_vgpu_region_rw(core_, TS_REGION_BAR0, offset, &value, sizeof(value), true);
  }
  gpu_.Pump();
}

uint8_t* VgpuMachine::vram() { return gpu_.vram() + vram_offset_; }
uint64_t VgpuMachine::vram_bytes() const { return vram_size_; }

libts104::Platform::DmaMemory VgpuMachine::AllocDma(uint64_t size) {
  const auto count = static_cast<uint32_t>((size + kPage - 1) / kPage);
  if (next_page_ + count > host_.memory.size() / kPage) {
    throw libts104::Error("the guest's memory is used up");
  }
  libts104::Platform::DmaMemory memory;
  memory.cpu = host_.At(next_page_ * kPage);
  memory.size = count * kPage;
  memory.runs.push_back({next_page_ * kPage, memory.size});
  next_page_ += count;
  return memory;
}

// Pages are not reused: a stale access then shows.
void VgpuMachine::FreeDma(const libts104::Platform::DmaMemory&) {}

void VgpuMachine::Advance(uint64_t ns) {
  for (uint64_t done = 0; done < ns; done += kSliceNs) {
    gpu_.Sleep(ns - done < kSliceNs ? ns - done : kSliceNs);
    gpu_.Pump();
  }
}

bool VgpuMachine::WaitSystem32(uint64_t gpa, uint32_t value, uint32_t ms) {
  for (uint32_t i = 0; i < ms * 10 && host_.Load32(gpa) != value; ++i) Advance(100'000);
  return host_.Load32(gpa) == value;
}

uint32_t VgpuMachine::TakeInterrupts() { return host_.TakeMsix(); }

ts_counters VgpuMachine::Counters() {
  ts_counters counters = {};
  ts_vgpu_get_counters(core_, &counters);
  return counters;
}

}  // namespace rig
