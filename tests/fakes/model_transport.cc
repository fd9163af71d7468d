// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fakes/model_transport.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>

#include "qemu_device/core/model_abi.h"
#include "ts104/regs.h"

namespace fakes {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kDmaBase = uint64_t{4} << 30;  // of system memory, as the device sees it
constexpr uint64_t kStartNs = 1'700'000'000'000'000'000;
constexpr uint64_t kSliceNs = 50'000;
constexpr uint32_t kDoorbell = NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING;

class HardwarePlatform : public libts104::Platform {
 public:
  explicit HardwarePlatform(GuestHardware& hardware) : hardware_(hardware) {}

  std::string Name() const override { return "model"; }
  std::string Path() const override { return "in this process"; }
  uint32_t Read32(uint32_t offset) override { return hardware_.Read32(offset); }
  void Write32(uint32_t offset, uint32_t value) override { hardware_.Write32(offset, value); }
  void RingDoorbell(uint32_t token) override { hardware_.Write32(kDoorbell, token); }
  uint8_t* vram() override { return hardware_.vram(); }
  uint64_t vram_bytes() const override { return hardware_.vram_bytes(); }
  DmaMemory AllocDma(uint64_t size) override { return hardware_.AllocDma(size); }
  void FreeDma(const DmaMemory& memory) override { hardware_.FreeDma(memory); }
  uint64_t NowNs() override { return hardware_.NowNs(); }
  void Relax(uint32_t us) override { hardware_.Advance(uint64_t{us} * 1000); }

  uint32_t WaitInterrupts(uint64_t deadline_ns) override {
    uint32_t vectors = hardware_.TakeInterrupts();
    while (vectors == 0 && hardware_.NowNs() < deadline_ns) {
      hardware_.Advance(std::min(kSliceNs, deadline_ns - hardware_.NowNs()));
      vectors = hardware_.TakeInterrupts();
    }
    return vectors;
  }

 private:
  GuestHardware& hardware_;
};

// Zeroed, page aligned.
class Memory {
 public:
  explicit Memory(uint64_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    bytes_ = static_cast<uint8_t*>(memory);
  }
  ~Memory() { munmap(bytes_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint8_t* bytes() { return bytes_; }
  uint64_t size() const { return size_; }

 private:
  uint64_t size_;
  uint8_t* bytes_;
};

}  // namespace

std::unique_ptr<libts104::Device> OpenOn(GuestHardware& hardware, uint32_t flags) {
  return std::make_unique<libts104::Device>(std::make_unique<libts104::CoreTransport>(
      std::make_unique<HardwarePlatform>(hardware), flags));
}

struct ModelMachine::Impl {
  explicit Impl(const ModelConfig& machine)
      : config(machine), vram(machine.vram_bytes), dma(machine.dma_bytes) {
    for (uint64_t page = 0; page < dma.size() / kPage; ++page) free_pages.push_back(page);
  }

  // The device's number of a page of `dma`, and back: neighbours change places.
  uint64_t Scatter(uint64_t page) const { return config.scatter_dma ? page ^ 1 : page; }

  // DMA in pieces that stay inside a page. `move` is called with the CPU's address of each.
  template <typename Move>
  int ForEachPiece(uint64_t address, uint64_t length, Move&& move) {
    if (address < kDmaBase || address - kDmaBase > dma.size() ||
        length > dma.size() - (address - kDmaBase)) {
      return -1;
    }
    uint64_t at = address - kDmaBase;
    for (uint64_t done = 0; done < length;) {
      const uint64_t piece = std::min(length - done, kPage - at % kPage);
      move(dma.bytes() + Scatter(at / kPage) * kPage + at % kPage, done, piece);
      done += piece;
      at += piece;
    }
    return 0;
  }

  const ModelConfig config;
  Memory vram;
  Memory dma;
  uint64_t now = kStartNs;
  uint32_t interrupts = 0;
  uint64_t register_accesses = 0;
  uint64_t pages_in_use = 0;
  std::deque<uint64_t> free_pages;
  ts104_model* model = nullptr;
};

ModelMachine::ModelMachine(const ModelConfig& config) : impl_(std::make_unique<Impl>(config)) {
  ts104_host_ops ops = {};
  ops.dma_read = [](void* opaque, uint64_t address, void* to, uint64_t length) {
    return static_cast<Impl*>(opaque)->ForEachPiece(
        address, length, [&](const uint8_t* at, uint64_t done, uint64_t piece) {
          std::memcpy(static_cast<uint8_t*>(to) + done, at, piece);
        });
  };
  ops.dma_write = [](void* opaque, uint64_t address, const void* from, uint64_t length) {
    return static_cast<Impl*>(opaque)->ForEachPiece(
        address, length, [&](uint8_t* at, uint64_t done, uint64_t piece) {
          std::memcpy(at, static_cast<const uint8_t*>(from) + done, piece);
        });
  };
  ops.now_ns = [](void* opaque) { return static_cast<Impl*>(opaque)->now; };
  ops.irq = [](void* opaque, uint32_t msix, bool, bool) {
    static_cast<Impl*>(opaque)->interrupts |= msix;
  };
  const ts104_config model_config = {config.vram_bytes, config.engine_mhz, config.sms,
                                     config.ctxsw_us};
  char error[160] = {};
  impl_->model =
      ts104_create(&model_config, impl_->vram.bytes(), &ops, impl_.get(), error, sizeof(error));
  if (impl_->model == nullptr) throw std::runtime_error(error);
  ts104_bus_master(impl_->model, true);
}

ModelMachine::~ModelMachine() { ts104_destroy(impl_->model); }

uint32_t ModelMachine::Read32(uint32_t bar0_offset) {
  ++impl_->register_accesses;
  return ts104_bar0_read(impl_->model, bar0_offset, 4);
}

void ModelMachine::Write32(uint32_t bar0_offset, uint32_t value) {
  if (bar0_offset != kDoorbell) ++impl_->register_accesses;
  ts104_bar0_write(impl_->model, bar0_offset, 4, value);
}

uint8_t* ModelMachine::vram() { return impl_->vram.bytes(); }
uint64_t ModelMachine::vram_bytes() const { return impl_->vram.size(); }

libts104::Platform::DmaMemory ModelMachine::AllocDma(uint64_t size) {
  auto& free_pages = impl_->free_pages;
  const uint64_t count = (size + kPage - 1) / kPage;
  std::sort(free_pages.begin(), free_pages.end());
  for (size_t first = 0; first + count <= free_pages.size(); ++first) {
    if (free_pages[first + count - 1] - free_pages[first] != count - 1) continue;
    const uint64_t page = free_pages[first];
    free_pages.erase(free_pages.begin() + static_cast<std::ptrdiff_t>(first),
                     free_pages.begin() + static_cast<std::ptrdiff_t>(first + count));
    libts104::Platform::DmaMemory memory;
    memory.cpu = impl_->dma.bytes() + page * kPage;
    memory.size = count * kPage;
    std::memset(memory.cpu, 0, memory.size);
    if (impl_->config.scatter_dma) {
      for (uint64_t i = 0; i < count; ++i) {
        memory.runs.push_back({kDmaBase + impl_->Scatter(page + i) * kPage, kPage});
      }
    } else {
      memory.runs = {{kDmaBase + page * kPage, memory.size}};
    }
    impl_->pages_in_use += count;
    return memory;
  }
  throw libts104::Error("the test's system memory is used up");
}

void ModelMachine::FreeDma(const libts104::Platform::DmaMemory& memory) {
  const uint64_t first =
      static_cast<uint64_t>(static_cast<uint8_t*>(memory.cpu) - impl_->dma.bytes()) / kPage;
  for (uint64_t page = 0; page < memory.size / kPage; ++page) {
    impl_->free_pages.push_back(first + page);
  }
  impl_->pages_in_use -= memory.size / kPage;
}

uint64_t ModelMachine::NowNs() { return impl_->now; }

void ModelMachine::Advance(uint64_t ns) {
  impl_->now += ns;
  ts104_run_until(impl_->model, impl_->now);
}

uint32_t ModelMachine::TakeInterrupts() { return std::exchange(impl_->interrupts, 0); }
uint64_t ModelMachine::register_accesses() const { return impl_->register_accesses; }
uint64_t ModelMachine::dma_pages_in_use() const { return impl_->pages_in_use; }

}  // namespace fakes
