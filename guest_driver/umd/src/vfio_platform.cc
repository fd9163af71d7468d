// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A TS104 that VFIO hands to this process: a PCI device bound to vfio-pci, or a vGPU (a mediated
// device). Type 1 container interface (linux/vfio.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "core_transport.h"
#include "libts104/device.h"
#include "ts104/regs.h"
#include "unique_fd.h"

namespace libts104 {

namespace {

namespace fs = std::filesystem;

// DMA addresses this process gives out: above the interrupt window at 0xfee00000, and within the 39
// bits that the smallest IOMMUs translate.
constexpr uint64_t kIovaStart = uint64_t{1} << 32;
constexpr uint64_t kIovaEnd = uint64_t{1} << 38;
constexpr uint64_t kHugePage = 2u << 20;
constexpr uint32_t kCommandMemory = 0x2;
constexpr uint32_t kCommandMaster = 0x4;
constexpr uint64_t kConfigCommand = 4;
constexpr uint32_t kVectors = TS104_PCI_MSIX_VECTORS;
constexpr uint32_t kDoorbell = NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING;

Error SystemError(const std::string& what) {
  return Error(fmt::format("{}: {}", what, std::strerror(errno)));
}

fs::path FindDevice(const std::string& name) {
  for (const std::string& path :
       {name, "/sys/bus/mdev/devices/" + name, "/sys/bus/pci/devices/" + name}) {
    std::error_code error;
    if (path.starts_with("/sys/") && fs::exists(path, error)) return fs::canonical(path);
  }
  throw Error(fmt::format("{}: no such PCI device and no such mediated device", name));
}

// A mapped piece of a region.
struct Window {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint8_t* cpu = nullptr;
};

class VfioPlatform : public Platform {
 public:
  explicit VfioPlatform(const std::string& name) : device_path_(FindDevice(name)) {
    OpenGroup();
    (void)ioctl(device_.get(), VFIO_DEVICE_RESET);  // not every device can
    bar0_ = GetRegion(VFIO_PCI_BAR0_REGION_INDEX);
    bar1_ = GetRegion(VFIO_PCI_BAR1_REGION_INDEX);
    MapWindows(bar0_, VFIO_PCI_BAR0_REGION_INDEX, &bar0_windows_);
    MapVram();
    EnableDevice();
    SetUpInterrupts();
  }

  ~VfioPlatform() override {
    for (const Window& window : bar0_windows_) munmap(window.cpu, window.size);
    if (vram_.cpu != nullptr) munmap(vram_.cpu, vram_.size);
  }

  std::string Name() const override { return "vfio"; }
  std::string Path() const override { return device_path_.string(); }
  uint8_t* vram() override { return vram_.cpu; }
  uint64_t vram_bytes() const override { return vram_.size; }

  uint32_t Read32(uint32_t offset) override {
    if (volatile uint32_t* word = Mapped(offset)) return *word;
    uint32_t value = 0xffffffff;
    const auto at = static_cast<off_t>(bar0_.offset + offset);
    return pread(device_.get(), &value, sizeof(value), at) == sizeof(value) ? value : 0xffffffff;
  }

  void Write32(uint32_t offset, uint32_t value) override {
    if (volatile uint32_t* word = Mapped(offset)) {
      *word = value;
      return;
    }
    const auto at = static_cast<off_t>(bar0_.offset + offset);
    // A register write has no answer; what the device makes of it shows in its registers.
    if (pwrite(device_.get(), &value, sizeof(value), at) < 0) return;
  }

  void RingDoorbell(uint32_t token) override { Write32(kDoorbell, token); }

  DmaMemory AllocDma(uint64_t size) override {
    void* cpu = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cpu == MAP_FAILED) throw SystemError(fmt::format("{} bytes of memory", size));
    vfio_iommu_type1_dma_map map = {};
    map.argsz = sizeof(map);
    map.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
    map.vaddr = reinterpret_cast<uintptr_t>(cpu);
    map.size = size;
    {
      const std::lock_guard guard(mutex_);
      map.iova = iova_.Alloc(size, size >= kHugePage ? kHugePage : 65536);
    }
    if (map.iova == 0 || ioctl(container_.get(), VFIO_IOMMU_MAP_DMA, &map) != 0) {
      const int error = map.iova == 0 ? ENOSPC : errno;
      if (map.iova != 0) FreeIova(map.iova, size);
      munmap(cpu, size);
      throw Error(fmt::format("mapping {} bytes for DMA: {}{}", size, std::strerror(error),
                              error == ENOMEM ? " (ulimit -l, or dma_entry_limit)" : ""));
    }
    return DmaMemory{cpu, size, {{map.iova, size}}};
  }

  void FreeDma(const DmaMemory& memory) override {
    vfio_iommu_type1_dma_unmap unmap = {};
    unmap.argsz = sizeof(unmap);
    unmap.iova = memory.runs.front().dma;
    unmap.size = memory.size;
    // If that fails the device may still reach the memory: keep it.
    if (ioctl(container_.get(), VFIO_IOMMU_UNMAP_DMA, &unmap) != 0) return;
    munmap(memory.cpu, memory.size);
    FreeIova(memory.runs.front().dma, memory.size);
  }

  void Reset() override {
    if (ioctl(device_.get(), VFIO_DEVICE_RESET) != 0) throw SystemError("VFIO_DEVICE_RESET");
    EnableDevice();
  }

  uint64_t NowNs() override {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }

  void Relax(uint32_t us) override {
    const timespec pause = {0, static_cast<long>(us) * 1000};
    nanosleep(&pause, nullptr);
  }

  uint32_t WaitInterrupts(uint64_t deadline_ns) override {
    const uint64_t now = NowNs();
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    const timespec timeout = {static_cast<time_t>(left / 1'000'000'000),
                              static_cast<long>(left % 1'000'000'000)};
    std::array<pollfd, kVectors> polls = {};
    for (uint32_t i = 0; i < vector_count_; ++i) polls[i] = {events_[i].get(), POLLIN, 0};
    if (ppoll(polls.data(), vector_count_, &timeout, nullptr) <= 0) return 0;
    uint32_t vectors = 0;
    for (uint32_t i = 0; i < vector_count_; ++i) {
      uint64_t count = 0;
      if ((polls[i].revents & POLLIN) != 0 &&
          read(events_[i].get(), &count, sizeof(count)) == sizeof(count)) {
        vectors |= is_msix_ ? 1u << i : kUnknownVector;
      }
    }
    return vectors;
  }

 private:
  void OpenGroup() {
    std::error_code error;
    const fs::path group = fs::canonical(device_path_ / "iommu_group", error);
    if (error) {
      throw Error(fmt::format("{} is in no IOMMU group: no IOMMU, or not bound to a VFIO driver",
                              device_path_.string()));
    }
    container_ = UniqueFd(open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC));
    if (!container_) throw SystemError("cannot open /dev/vfio/vfio");
    if (ioctl(container_.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION) {
      throw Error("the kernel's VFIO has another version");
    }
    const std::string group_path = "/dev/vfio/" + group.filename().string();
    group_ = UniqueFd(open(group_path.c_str(), O_RDWR | O_CLOEXEC));
    if (!group_) throw SystemError("cannot open " + group_path);
    vfio_group_status status = {};
    status.argsz = sizeof(status);
    if (ioctl(group_.get(), VFIO_GROUP_GET_STATUS, &status) != 0) throw SystemError(group_path);
    if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
      throw Error(group_path + " is not viable: bind all its devices to VFIO drivers");
    }
    int container = container_.get();
    if (ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &container) != 0) {
      throw SystemError(group_path + ": joining a container");
    }
    if (ioctl(container_.get(), VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0) {
      throw SystemError(group_path + ": type 1 IOMMU");
    }
    const std::string name = device_path_.filename().string();
    device_ = UniqueFd(ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, name.c_str()));
    if (!device_) throw SystemError("cannot open " + name + " through VFIO");
  }

  vfio_region_info GetRegion(uint32_t index) {
    vfio_region_info region = {};
    region.argsz = sizeof(region);
    region.index = index;
    if (ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &region) != 0) {
      throw SystemError(fmt::format("VFIO region {}", index));
    }
    return region;
  }

  void MapWindow(const vfio_region_info& region, uint64_t offset, uint64_t size,
                 std::vector<Window>* windows) {
    void* cpu = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, device_.get(),
                     static_cast<off_t>(region.offset + offset));
    if (cpu == MAP_FAILED) throw SystemError(fmt::format("mapping VFIO region {}", region.index));
    windows->push_back({offset, size, static_cast<uint8_t*>(cpu)});
  }

  // What may be mapped: all of the region, or the areas of its sparse-mmap capability.
  void MapWindows(const vfio_region_info& region, uint32_t index, std::vector<Window>* windows) {
    if ((region.flags & VFIO_REGION_INFO_FLAG_MMAP) == 0) return;
    std::vector<uint64_t> storage((region.argsz + 7) / 8);
    auto* info = reinterpret_cast<vfio_region_info*>(storage.data());
    info->argsz = region.argsz;
    info->index = index;
    if (ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, info) != 0) return;
    uint32_t at = (info->flags & VFIO_REGION_INFO_FLAG_CAPS) != 0 ? info->cap_offset : 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(storage.data());
    while (at != 0 && at + sizeof(vfio_info_cap_header) <= region.argsz) {
      const auto* header = reinterpret_cast<const vfio_info_cap_header*>(bytes + at);
      if (header->id == VFIO_REGION_INFO_CAP_SPARSE_MMAP) {
        const auto* sparse = reinterpret_cast<const vfio_region_info_cap_sparse_mmap*>(header);
        for (uint32_t i = 0; i < sparse->nr_areas; ++i) {
          if (sparse->areas[i].size == 0) continue;
          MapWindow(region, sparse->areas[i].offset, sparse->areas[i].size, windows);
        }
        return;
      }
      at = header->next;
    }
    MapWindow(region, 0, region.size, windows);
  }

  void MapVram() {
    std::vector<Window> windows;
    MapWindows(bar1_, VFIO_PCI_BAR1_REGION_INDEX, &windows);
    if (windows.size() != 1 || windows[0].offset != 0) {
      for (const Window& window : windows) munmap(window.cpu, window.size);
      throw Error("BAR1 cannot be mapped in one piece");
    }
    vram_ = windows[0];
  }

  volatile uint32_t* Mapped(uint32_t offset) const {
    for (const Window& window : bar0_windows_) {
      if (offset >= window.offset && offset - window.offset < window.size) {
        return reinterpret_cast<volatile uint32_t*>(window.cpu + (offset - window.offset));
      }
    }
    return nullptr;
  }

  void EnableDevice() {
    const vfio_region_info config = GetRegion(VFIO_PCI_CONFIG_REGION_INDEX);
    const auto at = static_cast<off_t>(config.offset + kConfigCommand);
    uint16_t command = 0;
    if (pread(device_.get(), &command, sizeof(command), at) != sizeof(command)) {
      throw SystemError("reading the PCI command register");
    }
    command = static_cast<uint16_t>(command | kCommandMemory | kCommandMaster);
    if (pwrite(device_.get(), &command, sizeof(command), at) != sizeof(command)) {
      throw SystemError("writing the PCI command register");
    }
  }

  uint32_t IrqCount(uint32_t index) {
    vfio_irq_info info = {};
    info.argsz = sizeof(info);
    info.index = index;
    return ioctl(device_.get(), VFIO_DEVICE_GET_IRQ_INFO, &info) == 0 ? info.count : 0;
  }

  void SetUpInterrupts() {
    is_msix_ = IrqCount(VFIO_PCI_MSIX_IRQ_INDEX) >= kVectors;
    const uint32_t index = is_msix_ ? VFIO_PCI_MSIX_IRQ_INDEX : VFIO_PCI_MSI_IRQ_INDEX;
    vector_count_ = is_msix_ ? kVectors : 1;
    if (!is_msix_ && IrqCount(index) == 0) throw Error("the device has neither MSI-X nor MSI");
    std::vector<uint32_t> storage((sizeof(vfio_irq_set) + kVectors * sizeof(int32_t)) / 4 + 1);
    auto* set = reinterpret_cast<vfio_irq_set*>(storage.data());
    set->argsz = static_cast<uint32_t>(sizeof(vfio_irq_set) + vector_count_ * sizeof(int32_t));
    set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    set->index = index;
    set->start = 0;
    set->count = vector_count_;
    for (uint32_t i = 0; i < vector_count_; ++i) {
      events_[i] = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      if (!events_[i]) throw SystemError("eventfd");
      const int32_t fd = events_[i].get();
      std::memcpy(set->data + i * sizeof(fd), &fd, sizeof(fd));
    }
    if (ioctl(device_.get(), VFIO_DEVICE_SET_IRQS, set) != 0) {
      throw SystemError("connecting interrupts");
    }
  }

  void FreeIova(uint64_t iova, uint64_t size) {
    const std::lock_guard guard(mutex_);
    iova_.Free(iova, size);
  }

  const fs::path device_path_;
  UniqueFd container_;
  UniqueFd group_;
  UniqueFd device_;
  vfio_region_info bar0_ = {};
  vfio_region_info bar1_ = {};
  std::vector<Window> bar0_windows_;
  Window vram_;
  bool is_msix_ = false;
  uint32_t vector_count_ = 0;
  std::array<UniqueFd, kVectors> events_;
  std::mutex mutex_;
  VaAllocator iova_{kIovaStart, kIovaEnd};
};

}  // namespace

std::unique_ptr<Platform> OpenVfioPlatform(const std::string& name) {
  return std::make_unique<VfioPlatform>(name);
}

std::unique_ptr<Transport> OpenVfio(const std::string& path) {
  if (path.empty()) throw Error("the VFIO transport needs a device: --device");
  return std::make_unique<CoreTransport>(OpenVfioPlatform(path));
}

}  // namespace libts104
