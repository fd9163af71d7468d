// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The way to the device: through ts104.ko, or directly through VFIO with the guest core inside the
// process. Users of libts104 see it only when they open a Device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libts104/error.h"

namespace libts104 {

enum class Placement { kVram, kSysmem };
enum class Engine { kCompute, kCopy };

struct DeviceInfo {
  std::string transport;  // "drm", "vfio", ...
  std::string path;
  uint64_t vram_bytes = 0;
  uint32_t sm_count = 0;
  uint32_t engine_mhz = 0;
  bool is_vgpu = false;
};

// Memory that the CPU sees at `cpu` and that can be bound. Zeroed when made.
struct Allocation {
  uint64_t id = 0;
  uint64_t size = 0;  // multiple of 4096
  Placement placement = Placement::kVram;
  void* cpu = nullptr;
};

struct ChannelInfo {
  uint64_t id = 0;
  uint32_t token = 0;
  volatile uint32_t* userd = nullptr;  // 512 bytes; GP_GET at word 0x22, GP_PUT at word 0x23
};

// Absolute time in ns of CLOCK_MONOTONIC, or whatever clock the transport's Now() shows.
inline constexpr int64_t kNoDeadline = INT64_MAX;

// One device, one GPU address space. All functions may be called by several threads; errors are
// thrown as Error.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual uint64_t VramFree() = 0;
  virtual uint64_t GpuTimeNs() = 0;
  virtual int64_t Now() = 0;

  // size > 0. Throws Error("... VRAM ...") with numbers when VRAM is short.
  virtual Allocation Allocate(uint64_t size, Placement placement) = 0;
  virtual void Free(const Allocation& allocation) = 0;
  // The whole allocation at `va`, a multiple of 4096. Counts for the GPU on return.
  virtual void Bind(uint64_t va, const Allocation& allocation, bool read_only) = 0;
  virtual void Unbind(uint64_t va, uint64_t size) = 0;

  // The ring (2^ring_order GP entries at ring_va < 2^40) is bound already. `userd` is a wish.
  virtual ChannelInfo CreateChannel(Engine engine, uint64_t ring_va, uint32_t ring_order,
                                    Placement userd) = 0;
  virtual void DestroyChannel(uint64_t id) = 0;
  virtual ChannelFault GetFault(uint64_t id) = 0;
  // Drops pending work and errors; USERD is zero afterwards.
  virtual void ResetChannel(uint64_t id) = 0;
  // Orders all earlier stores before it. No system call.
  virtual void RingDoorbell(const ChannelInfo& channel) = 0;

  // Sleeps until (int32)(word at `offset` - value) >= 0: true; false when the deadline has passed
  // or the channel has an error. The work must end with NON_STALL_INTERRUPT.
  virtual bool Wait(const Allocation& allocation, uint64_t offset, uint32_t value, int64_t deadline,
                    uint64_t channel) = 0;
};

// `path`: /dev/dri/renderD*; empty: the first one whose driver is ts104.
std::unique_ptr<Transport> OpenDrm(const std::string& path);
// `path`: a device's sysfs folder, a PCI address (0000:00:04.0), or the UUID of a mediated device.
std::unique_ptr<Transport> OpenVfio(const std::string& path);

}  // namespace libts104
