// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// libts104 on a TS104 model in the same process: the guest side of the rig, and of every test that
// runs programs. #include "fakes/model_transport.h" and link model_transport_dep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core_transport.h"
#include "libts104/device.h"

namespace fakes {

// A device as its guest reaches it. The rig implements it on a vGPU, ModelMachine on a bare model.
class GuestHardware {
 public:
  virtual ~GuestHardware() = default;

  virtual uint32_t Read32(uint32_t bar0_offset) = 0;
  virtual void Write32(uint32_t bar0_offset, uint32_t value) = 0;
  // BAR1.
  virtual uint8_t* vram() = 0;
  virtual uint64_t vram_bytes() const = 0;
  // Pages of system memory that the device reaches by DMA: `size` bytes, zeroed, possibly in
  // pieces.
  virtual libts104::Platform::DmaMemory AllocDma(uint64_t size) = 0;
  virtual void FreeDma(const libts104::Platform::DmaMemory& memory) = 0;
  virtual uint64_t NowNs() = 0;
  // Moves the clock by about `ns` and lets the device work. Called while the guest waits.
  virtual void Advance(uint64_t ns) = 0;
  // MSI-X entries sent since the last call.
  virtual uint32_t TakeInterrupts() = 0;
};

// A libts104 device on `hardware`, which must outlive it.
std::unique_ptr<libts104::Device> OpenOn(GuestHardware& hardware, uint32_t flags = 0);

struct ModelConfig {
  uint64_t vram_bytes = 64u << 20;
  uint32_t engine_mhz = 1000;
  uint32_t sms = 2;
  uint32_t ctxsw_us = 125;
  uint64_t dma_bytes = 64u << 20;
  // Pages that follow each other for the CPU do not for the device.
  bool scatter_dma = false;
};

// A bare TS104 model with VRAM, system memory and a clock moved by hand. One thread.
class ModelMachine : public GuestHardware {
 public:
  explicit ModelMachine(const ModelConfig& config = {});
  ~ModelMachine() override;
  ModelMachine(const ModelMachine&) = delete;
  ModelMachine& operator=(const ModelMachine&) = delete;

  uint32_t Read32(uint32_t bar0_offset) override;
  void Write32(uint32_t bar0_offset, uint32_t value) override;
  uint8_t* vram() override;
  uint64_t vram_bytes() const override;
  libts104::Platform::DmaMemory AllocDma(uint64_t size) override;
  void FreeDma(const libts104::Platform::DmaMemory& memory) override;
  uint64_t NowNs() override;
  void Advance(uint64_t ns) override;
  uint32_t TakeInterrupts() override;

  // BAR0 accesses so far but for the doorbell: what would trap in a virtual machine.
  uint64_t register_accesses() const;
  // Pages of DMA memory handed out and not returned.
  uint64_t dma_pages_in_use() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fakes
