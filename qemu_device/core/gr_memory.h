// SPDX-License-Identifier: GPL-2.0-only OR MIT
// GPU-virtual memory as the SMs see it: the GMMU behind the interpreter's interface.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_GR_MEMORY_H_
#define TURNSTILE_QEMU_DEVICE_CORE_GR_MEMORY_H_

#include <cstdint>
#include <span>

#include "engine.h"
#include "sm/sm_memory.h"

namespace ts104 {

// VRAM pages are handed out as host pointers. System memory is reached access by access, because
// DMA gives no pointers and the CPU must see every store. Thread context: the worker.
class GrMemory : public sm::SmMemory {
 public:
  explicit GrMemory(Machine& machine) : machine_(machine) {}

  // The address space of the grid that runs from now on.
  void SetSpace(const AddressSpace& space) { space_ = space; }
  // Names the space for caches of translations and decoded code.
  uint64_t ContextId() const;

  sm::Translation Translate(uint64_t va, sm::Access access) override;
  bool ReadSlow(uint64_t va, std::span<std::byte> data) override;
  bool WriteSlow(uint64_t va, std::span<const std::byte> data) override;
  uint64_t generation() const override { return machine_.mmu.gpc_generation(); }
  uint64_t TimeNs() const override { return machine_.time; }

 private:
  Machine& machine_;
  AddressSpace space_;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_GR_MEMORY_H_
