// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The in-process rig: the host-driver core on the TS104 model, with guests on its vGPUs. One
// thread, one clock that only moves when somebody waits: every run is the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/core_abi.h"
#include "fakes/fake_host.h"
#include "fakes/model_transport.h"
#include "qemu_device/core/model_abi.h"

namespace rig {

struct RigConfig {
  uint64_t vram_bytes = 256u << 20;
  uint32_t engine_mhz = 1000;
  uint32_t sms = 2;
  uint32_t ctxsw_us = 125;
};

// The physical GPU: registers, VRAM and DMA go to the model.
class ModelGpu : public ts_host_gpu {
 public:
  explicit ModelGpu(const RigConfig& config = {});
  ~ModelGpu() override;

  uint32_t Read32(uint32_t offset) override;
  void Write32(uint32_t offset, uint32_t value) override;
  uint8_t* vram() override { return vram_memory_; }
  uint64_t vram_bytes() const override { return vram_size_; }
  void Sleep(uint64_t ns) override;
  void ClearVram(uint64_t offset, uint64_t length) override;

  // What a guest's mapped doorbell page reaches.
  uint32_t ReadBar3(uint64_t offset);
  void WriteBar3(uint64_t offset, uint32_t value);
  // Time passes from event to event of the model and of the core's timer; interrupts are delivered
  // when they come, to `grain` nanoseconds. Not from inside the core.
  void AdvanceTo(uint64_t time, uint64_t grain = 1000);
  // As the host's operating system does it behind the driver's back: nothing survives, the device
  // is bus master again.
  void ResetFromOutside();
  // Delivers interrupts to the core and runs its work, until nothing is left. Not from inside the
  // core.
  virtual void Pump();
  // Accesses of the device to memory that it was not given, or that the function it worked for was
  // not given: every guest has its partition and the pages pinned for it, nothing else.
  uint64_t stray_accesses() const { return stray_accesses_; }
  // What the last of them was.
  std::string last_stray();

  // Whose function `gfid` is, from its first use of the device to its last: the map that accesses
  // are judged by. `guest` null: nobody's.
  void SetOwner(uint32_t gfid, ts_host_vgpu* guest, uint64_t vram, uint64_t vram_bytes);

 protected:
  ts104_model* model() { return model_; }
  bool TakeInterrupt() { return interrupt_.exchange(false); }

 private:
  struct Owner {
    ts_host_vgpu* guest = nullptr;
    uint64_t vram = 0;
    uint64_t vram_bytes = 0;
  };

  int Dma(uint64_t address, void* buffer, uint64_t length, bool write);
  void Touched(uint32_t gfid, bool system, uint64_t address, uint64_t length);
  void Stray(const char* what, uint32_t gfid, uint64_t address);

  uint64_t vram_size_;
  uint8_t* vram_memory_;
  ts104_model* model_ = nullptr;
  std::atomic<bool> interrupt_{false};
  std::atomic<uint64_t> stray_accesses_{0};
  Owner owners_[64];        // guarded by `lock`
  std::string last_stray_;  // as well
};

// A vGPU with an open user: the guest's hardware.
class VgpuMachine : public fakes::GuestHardware {
 public:
  enum Type : uint32_t { kV1, kV2, kV4, kV8, kV16 };

  // `memory_pages` of guest memory, scattered for the device.
  VgpuMachine(ModelGpu& gpu, Type type, uint32_t memory_pages = 16384);
  ~VgpuMachine() override;

  uint32_t Read32(uint32_t bar0_offset) override;
  void Write32(uint32_t bar0_offset, uint32_t value) override;
  uint8_t* vram() override;
  uint64_t vram_bytes() const override;
  libts104::Platform::DmaMemory AllocDma(uint64_t size) override;
  void FreeDma(const libts104::Platform::DmaMemory& memory) override;
  uint64_t NowNs() override { return gpu_.now_ns; }
  void Advance(uint64_t ns) override;
  uint32_t TakeInterrupts() override;

  // Lets time pass until the word of guest memory is there; false after `ms` milliseconds.
  bool WaitSystem32(uint64_t gpa, uint32_t value, uint32_t ms = 20);
  void Close();
  // After Close: the next user of the same device. 0 or a negative errno.
  int Reopen();
  ts_counters Counters();
  ts_vgpu* core() { return core_; }
  ts_host_vgpu& host() { return host_; }
  ModelGpu& gpu() { return gpu_; }

 private:
  ModelGpu& gpu_;
  ts_host_vgpu host_;
  ts_vgpu* core_ = nullptr;
  bool open_ = false;
  uint64_t vram_offset_ = 0;
  uint64_t vram_size_ = 0;
  uint64_t doorbell_ = 0;   // in physical BAR3
  uint32_t next_page_ = 1;  // page 0 stays unused: a null GPA is a mistake
};

}  // namespace rig
