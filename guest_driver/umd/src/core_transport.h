// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A transport whose driver is the guest core inside this process. What differs between VFIO and a
// model in memory is behind Platform.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "guest_driver/core/guest_abi.h"
#include "libts104/transport.h"

namespace libts104 {

// How to reach a device's registers, VRAM, DMA memory and interrupts. Any thread, but for
// WaitInterrupts, which one thread calls at a time.
class Platform {
 public:
  virtual ~Platform() = default;

  virtual std::string Name() const = 0;  // of the transport
  virtual std::string Path() const = 0;
  virtual uint32_t Read32(uint32_t offset) = 0;
  virtual void Write32(uint32_t offset, uint32_t value) = 0;
  virtual void RingDoorbell(uint32_t token) = 0;
  // BAR1 in this process.
  virtual uint8_t* vram() = 0;
  virtual uint64_t vram_bytes() const = 0;

  // One run of DMA addresses that is contiguous for the device.
  struct DmaRun {
    uint64_t dma;
    uint64_t size;
  };
  struct DmaMemory {
    void* cpu = nullptr;
    uint64_t size = 0;
    std::vector<DmaRun> runs;
  };
  // Zeroed; `size` a multiple of 4096. Throws Error.
  virtual DmaMemory AllocDma(uint64_t size) = 0;
  virtual void FreeDma(const DmaMemory& memory) = 0;

  virtual uint64_t NowNs() = 0;
  virtual void Relax(uint32_t us) = 0;
  // Sleeps until an interrupt comes or `deadline_ns` passes; returns a mask of MSI-X entries that
  // came, bit 31 for an interrupt of unknown vector. 0: none.
  virtual uint32_t WaitInterrupts(uint64_t deadline_ns) = 0;
  // FLR; the device answers and masters the bus again. Throws Error when it cannot be reset.
  virtual void Reset() { throw Error("this device cannot be reset"); }
};

// A device that VFIO hands to this process: a PCI address, a UUID or a sysfs folder. It has been
// reset. Throws Error.
std::unique_ptr<Platform> OpenVfioPlatform(const std::string& name);

inline constexpr uint32_t kUnknownVector = 1u << 31;

class CoreTransport : public Transport {
 public:
  // Flags: TSG_CREATE_*. Throws Error when the device does not come up.
  explicit CoreTransport(std::unique_ptr<Platform> platform, uint32_t flags = 0);
  ~CoreTransport() override;

  const DeviceInfo& info() const override { return info_; }
  uint64_t VramFree() override { return tsg_vram_available(device_); }
  uint64_t GpuTimeNs() override { return tsg_device_gpu_time(device_); }
  int64_t Now() override { return static_cast<int64_t>(platform_->NowNs()); }
  Allocation Allocate(uint64_t size, Placement placement) override;
  void Free(const Allocation& allocation) override;
  void Bind(uint64_t va, const Allocation& allocation, bool read_only) override;
  void Unbind(uint64_t va, uint64_t size) override;
  ChannelInfo CreateChannel(Engine engine, uint64_t ring_va, uint32_t ring_order,
                            Placement userd) override;
  void DestroyChannel(uint64_t id) override;
  ChannelFault GetFault(uint64_t id) override;
  void ResetChannel(uint64_t id) override;
  void RingDoorbell(const ChannelInfo& channel) override;
  bool Wait(const Allocation& allocation, uint64_t offset, uint32_t value, int64_t deadline,
            uint64_t channel) override;

  Platform& platform() { return *platform_; }
  tsg_device* device() { return device_; }
  tsg_vm* vm() { return vm_; }

 private:
  struct Memory {
    uint64_t vram_offset = 0;
    Platform::DmaMemory dma;
  };
  struct ChannelRecord {
    tsg_channel* channel = nullptr;
    Allocation userd;
  };

  static const tsg_os_ops kOps;
  void HandleInterrupts(uint32_t vectors);
  tsg_channel* Find(uint64_t id);

  std::unique_ptr<Platform> platform_;
  DeviceInfo info_;
  tsg_device* device_ = nullptr;
  tsg_vm* vm_ = nullptr;
  std::mutex mutex_;  // the maps
  std::mutex interrupt_mutex_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Memory> memory_;
  std::map<uint64_t, ChannelRecord> channels_;
  uint32_t next_copy_runlist_ = 0;
  uint32_t copy_runlists_ = 0;
  uint32_t compute_runlist_ = 0;
};

}  // namespace libts104
