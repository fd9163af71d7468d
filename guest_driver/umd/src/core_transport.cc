// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace libts104 {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBigPage = 64u << 10;
constexpr uint64_t kHugePage = 2u << 20;
// An interrupt that got lost costs no more than this.
constexpr uint64_t kWaitSliceNs = 20'000'000;

Platform& In(void* os) { return *static_cast<Platform*>(os); }

void Check(int result, const char* what) {
  if (result != 0) throw Error(fmt::format("{}: {}", what, std::strerror(-result)));
}

uint64_t RoundUp(uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

// Words, because a mapped BAR takes no accesses of odd sizes.
void CopyWords(volatile uint32_t* to, const volatile uint32_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes / 4; ++i) to[i] = from[i];
}

void Log(tsg_log_level level, const char* line) {
  static const bool verbose = std::getenv("LIBTS104_DEBUG") != nullptr;
  if (level <= TSG_LOG_WARN || verbose) std::fprintf(stderr, "libts104: %s\n", line);
}

}  // namespace

const tsg_os_ops CoreTransport::kOps = {
    .read32 = [](void* os, uint32_t offset) { return In(os).Read32(offset); },
    .write32 =
        [](void* os, uint32_t offset, uint32_t value) {
          std::atomic_thread_fence(std::memory_order_seq_cst);
          In(os).Write32(offset, value);
        },
    .vram_read =
        [](void* os, uint64_t offset, void* to, size_t length) {
          CopyWords(static_cast<uint32_t*>(to), reinterpret_cast<uint32_t*>(In(os).vram() + offset),
                    length);
        },
    .vram_write =
        [](void* os, uint64_t offset, const void* from, size_t length) {
          CopyWords(reinterpret_cast<uint32_t*>(In(os).vram() + offset),
                    static_cast<const uint32_t*>(from), length);
        },
    .vram_zero = [](void* os, uint64_t offset,
                    uint64_t length) { std::memset(In(os).vram() + offset, 0, length); },
    .dma_page_alloc =
        [](void* os, tsg_dma_page* page) {
          try {
            auto memory = std::make_unique<Platform::DmaMemory>(In(os).AllocDma(kPage));
            page->cpu = memory->cpu;
            page->dma = memory->runs.front().dma;
            page->cookie = memory.release();
            return 0;
          } catch (const Error&) {
            return -ENOMEM;
          }
        },
    .dma_page_free =
        [](void* os, const tsg_dma_page* page) {
          std::unique_ptr<Platform::DmaMemory> memory(
              static_cast<Platform::DmaMemory*>(page->cookie));
          In(os).FreeDma(*memory);
        },
    .now_ns = [](void* os) { return In(os).NowNs(); },
    .relax = [](void* os, uint32_t us) { In(os).Relax(us); },
    .log = [](void*, tsg_log_level level, const char* line) { Log(level, line); },
};

CoreTransport::CoreTransport(std::unique_ptr<Platform> platform, uint32_t flags)
    : platform_(std::move(platform)) {
  const int result = tsg_device_create(&kOps, platform_.get(), flags, &device_);
  Check(result, platform_->Path().c_str());
  tsg_device_info info = {};
  tsg_device_get_info(device_, &info);
  if (info.vram_bytes > platform_->vram_bytes()) {
    tsg_device_destroy(device_);
    throw Error(fmt::format("{}: the device says {} bytes of VRAM, its BAR shows {}",
                            platform_->Path(), info.vram_bytes, platform_->vram_bytes()));
  }
  info_.transport = platform_->Name();
  info_.path = platform_->Path();
  info_.vram_bytes = info.vram_bytes;
  info_.sm_count = info.sm_count;
  info_.engine_mhz = info.engine_mhz;
  info_.is_vgpu = info.is_vgpu != 0;
  compute_runlist_ = info.compute_runlist;
  copy_runlists_ = info.copy_runlist_mask;
  const int vm_result = tsg_vm_create(device_, &vm_);
  if (vm_result != 0) {
    tsg_device_destroy(device_);
    Check(vm_result, "address space");
  }
}

CoreTransport::~CoreTransport() {
  for (auto& [id, record] : channels_) tsg_channel_destroy(record.channel);
  tsg_vm_destroy(vm_);
  tsg_device_destroy(device_);
  for (auto& [id, memory] : memory_) {
    if (memory.dma.cpu != nullptr) platform_->FreeDma(memory.dma);
  }
}

Allocation CoreTransport::Allocate(uint64_t size, Placement placement) {
  Allocation allocation;
  allocation.placement = placement;
  if (size == 0 || size > UINT64_MAX / 2) throw Error(fmt::format("a buffer of {} bytes", size));
  allocation.size = RoundUp(size);
  Memory memory;
  if (placement == Placement::kVram) {
    const uint64_t align = allocation.size >= kHugePage  ? kHugePage
                           : allocation.size >= kBigPage ? kBigPage
                                                         : kPage;
    if (tsg_vram_alloc(device_, allocation.size, align, &memory.vram_offset) != 0) {
      throw Error(fmt::format("no room for {} bytes in VRAM: {} of {} bytes are free", size,
                              tsg_vram_available(device_), info_.vram_bytes));
    }
    allocation.cpu = platform_->vram() + memory.vram_offset;
    std::memset(allocation.cpu, 0, allocation.size);
  } else {
    memory.dma = platform_->AllocDma(allocation.size);
    allocation.cpu = memory.dma.cpu;
  }
  const std::lock_guard guard(mutex_);
  allocation.id = next_id_++;
  memory_[allocation.id] = std::move(memory);
  return allocation;
}

void CoreTransport::Free(const Allocation& allocation) {
  Memory memory;
  {
    const std::lock_guard guard(mutex_);
    auto node = memory_.extract(allocation.id);
    if (node.empty()) return;
    memory = std::move(node.mapped());
  }
  if (allocation.placement == Placement::kVram) {
    tsg_vram_free(device_, memory.vram_offset, allocation.size);
  } else {
    platform_->FreeDma(memory.dma);
  }
}

void CoreTransport::Bind(uint64_t va, const Allocation& allocation, bool read_only) {
  std::vector<tsg_extent> extents;
  {
    const std::lock_guard guard(mutex_);
    const Memory& memory = memory_.at(allocation.id);
    if (allocation.placement == Placement::kVram) {
      extents.push_back({memory.vram_offset, allocation.size, TSG_APERTURE_VRAM, 0});
    }
    for (const Platform::DmaRun& run : memory.dma.runs) {
      extents.push_back({run.dma, run.size, TSG_APERTURE_SYSMEM, 0});
    }
  }
  Check(tsg_vm_map(vm_, va, extents.data(), static_cast<uint32_t>(extents.size()),
                   read_only ? TSG_MAP_READ_ONLY : 0),
        "mapping a buffer for the GPU");
  Check(tsg_vm_flush(vm_), "TLB invalidate");
}

void CoreTransport::Unbind(uint64_t va, uint64_t size) {
  Check(tsg_vm_unmap(vm_, va, size), "unmapping a buffer");
  Check(tsg_vm_flush(vm_), "TLB invalidate");
}

ChannelInfo CoreTransport::CreateChannel(Engine engine, uint64_t ring_va, uint32_t ring_order,
                                         Placement userd) {
  ChannelRecord record;
  record.userd = Allocate(kPage, userd);
  tsg_channel_params params = {};
  {
    const std::lock_guard guard(mutex_);
    const Memory& memory = memory_.at(record.userd.id);
    const bool in_vram = userd == Placement::kVram;
    params.userd_aperture = in_vram ? TSG_APERTURE_VRAM : TSG_APERTURE_SYSMEM;
    params.userd_address = in_vram ? memory.vram_offset : memory.dma.runs.front().dma;
    params.runlist = compute_runlist_;
    if (engine == Engine::kCopy) {
      if (copy_runlists_ == 0) throw Error("the device has no copy runlist");
      do {
        next_copy_runlist_ = (next_copy_runlist_ + 1) % TSG_NUM_RUNLISTS;
      } while ((copy_runlists_ >> next_copy_runlist_ & 1) == 0);
      params.runlist = next_copy_runlist_;
    }
  }
  params.ring_va = ring_va;
  params.ring_order = ring_order;
  const int result = tsg_channel_create(vm_, &params, &record.channel);
  if (result != 0) {
    Free(record.userd);
    Check(result, "creating a channel");
  }
  ChannelInfo info;
  info.token = tsg_channel_token(record.channel);
  info.userd = static_cast<volatile uint32_t*>(record.userd.cpu);
  const std::lock_guard guard(mutex_);
  info.id = next_id_++;
  channels_[info.id] = record;
  return info;
}

tsg_channel* CoreTransport::Find(uint64_t id) {
  const std::lock_guard guard(mutex_);
  const auto it = channels_.find(id);
  if (it == channels_.end()) throw Error("no such channel");
  return it->second.channel;
}

void CoreTransport::DestroyChannel(uint64_t id) {
  ChannelRecord record;
  {
    const std::lock_guard guard(mutex_);
    auto node = channels_.extract(id);
    if (node.empty()) return;
    record = node.mapped();
  }
  tsg_channel_destroy(record.channel);
  Free(record.userd);
}

ChannelFault CoreTransport::GetFault(uint64_t id) {
  tsg_channel_status status = {};
  (void)tsg_channel_get_status(Find(id), &status);
  ChannelFault fault;
  fault.kind = static_cast<ChannelFault::Kind>(status.first.kind);
  fault.type = status.first.type;
  fault.access = status.first.access;
  fault.engine = status.first.engine;
  fault.va = status.first.va;
  fault.gpu_time_ns = status.first.gpu_time_ns;
  fault.count = status.error_count;
  return fault;
}

void CoreTransport::ResetChannel(uint64_t id) {
  tsg_channel* channel = Find(id);
  Check(tsg_channel_stop(channel), "stopping a channel");
  {
    const std::lock_guard guard(mutex_);
    std::memset(channels_.at(id).userd.cpu, 0, 512);
  }
  Check(tsg_channel_restart(channel), "restarting a channel");
}

void CoreTransport::RingDoorbell(const ChannelInfo& channel) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  platform_->RingDoorbell(channel.token);
}

void CoreTransport::HandleInterrupts(uint32_t vectors) {
  uint32_t events = 0;
  if ((vectors & kUnknownVector) != 0) events |= tsg_irq(device_, -1);
  for (int vector = 0; vector < 6; ++vector) {
    if ((vectors >> vector & 1) != 0) events |= tsg_irq(device_, vector);
  }
  if ((events & TSG_EVENT_ERRORS) != 0) tsg_service_errors(device_, nullptr, 0);
}

bool CoreTransport::Wait(const Allocation& allocation, uint64_t offset, uint32_t value,
                         int64_t deadline, uint64_t channel) {
  const auto* word =
      reinterpret_cast<const uint32_t*>(static_cast<const std::byte*>(allocation.cpu) + offset);
  const auto done = [&] {
    return static_cast<int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
  };
  for (;;) {
    if (done()) return true;
    const uint64_t now = platform_->NowNs();
    if (deadline != kNoDeadline && static_cast<int64_t>(now) >= deadline) return false;
    uint64_t until = now + kWaitSliceNs;
    if (deadline != kNoDeadline) until = std::min(until, static_cast<uint64_t>(deadline));
    {
      const std::lock_guard guard(interrupt_mutex_);
      // Another thread may have taken the interrupt meanwhile.
      if (done()) return true;
      HandleInterrupts(platform_->WaitInterrupts(until));
    }
    if (done()) return true;
    if (channel == 0) continue;
    const std::lock_guard guard(mutex_);
    const auto it = channels_.find(channel);
    tsg_channel_status status = {};
    if (it != channels_.end() && tsg_channel_get_status(it->second.channel, &status) != 0) {
      return false;
    }
  }
}

}  // namespace libts104
