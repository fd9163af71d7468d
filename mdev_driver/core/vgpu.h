// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// One vGPU: a TS104 of its own, as far as its guest can tell (register map §10).
#pragma once

#include <cstdint>

#include "core/channel/virtual_fifo.h"
#include "core/core_abi.h"
#include "core/memory/virtual_mmu.h"
#include "core/physical_gpu.h"
#include "core/trap/csr_table.h"
#include "core/trap/pci_config.h"
#include "core/vgpu_context.h"

namespace turnstile {

// Life of a vGPU and its regions. vgpu.cc: life, work, mapping; trap/vgpu_csr.cc: registers.
class Vgpu final : public FunctionClient {
 public:
  // core_abi.h, ts_vgpu_create.
  static base::Result<base::UniquePtr<Vgpu>> Create(PhysicalGpu& gpu, uint32_t type,
                                                    ts_host_vgpu* host);
  ~Vgpu() override;

  Status Open() TS_EXCLUDES(context_.mutex);
  void Close() TS_EXCLUDES(context_.mutex);
  Status Reset() TS_EXCLUDES(context_.mutex);
  void Work() TS_EXCLUDES(context_.mutex);

  Status RegionInfo(uint32_t index, ts_region_info* out) const;
  Status RegionAccess(uint32_t index, uint64_t offset, uint8_t* buffer, size_t length, bool write)
      TS_EXCLUDES(context_.mutex);
  Status Map(uint32_t index, uint64_t offset, uint64_t length, ts_mmap_target* out) const;
  void DmaUnmap(uint64_t start, uint64_t length) TS_EXCLUDES(context_.mutex);
  void SetIrqMode(ts_irq_mode mode) { context_.tree.SetMode(mode); }
  // No lock of the vGPU: PhysicalGpu's functions of the same names.
  Status SetSchedParam(uint32_t param, uint32_t value) {
    return context_.gpu.SetVgpuSchedParam(context_.partition.function, param, value, context_.host);
  }
  uint32_t GetSchedParam(uint32_t param) {
    return context_.gpu.GetVgpuSchedParam(context_.partition.function, param);
  }
  SchedAccount GetAccount(uint32_t runlist) {
    return context_.gpu.GetAccount(context_.partition.function, runlist);
  }
  void Counters(ts_counters* out) TS_EXCLUDES(context_.mutex);
  // `kind`: ts_vgpu_dump.
  void DumpTo(uint32_t kind, Dump& dump) TS_EXCLUDES(context_.mutex);
  uint32_t function() const { return context_.partition.function.value(); }

  // FunctionClient
  void LatchInterrupts(uint32_t leaf0_bits) override { context_.tree.LatchLeaf0(leaf0_bits); }
  void QueueWork() override { ts_host_queue_vgpu_work(context_.host); }
  ts_host_vgpu* host() const override { return context_.host; }

 private:
  static constexpr uint32_t kNumLces = 5;
  static constexpr uint32_t kMsixWords = TS_MSIX_VECTORS * 4;

  // A copy engine's interrupt registers.
  struct Lce {
    uint32_t enable = 0;
    uint32_t status = 0;
    uint32_t launch_error = 0;
  };

  Vgpu(PhysicalGpu& gpu, uint32_t type, ts_host_vgpu* host, const Partition& partition);

  void StopAndForget() TS_REQUIRES(context_.mutex);
  void ResetRegisters() TS_REQUIRES(context_.mutex);
  void StartClear();
  void ResetLocked() TS_REQUIRES(context_.mutex);
  void ForwardFault(const FaultRecord& record) TS_REQUIRES(context_.mutex);
  uint64_t GpuTime() const TS_REQUIRES(context_.mutex);

  Status AccessConfig(uint64_t offset, uint8_t* buffer, size_t length, bool write)
      TS_REQUIRES(context_.mutex);
  Status AccessBar0(uint64_t offset, uint8_t* buffer, size_t length, bool write)
      TS_REQUIRES(context_.mutex);
  Status AccessBar3(uint64_t offset, uint8_t* buffer, size_t length, bool write)
      TS_REQUIRES(context_.mutex);
  Status AccessVram(uint64_t offset, uint8_t* buffer, size_t length, bool write)
      TS_REQUIRES(context_.mutex);

  uint32_t ReadCsr(uint32_t offset) TS_REQUIRES(context_.mutex);
  void WriteCsr(uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadPart(CsrPart part, uint32_t offset) TS_REQUIRES(context_.mutex);
  void WritePart(CsrPart part, uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadIdentity(uint32_t offset) const TS_REQUIRES(context_.mutex);
  uint32_t ReadPmc(uint32_t offset) const TS_REQUIRES(context_.mutex);
  void WritePmc(uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  void WritePmcEnable(uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadTree(uint32_t offset) const TS_REQUIRES(context_.mutex);
  void WriteTree(uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  uint32_t ReadLce(uint32_t offset) const TS_REQUIRES(context_.mutex);
  void WriteLce(uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  void UpdateLce(uint32_t index) TS_REQUIRES(context_.mutex);
  uint32_t ReadUsermode(uint32_t offset) const TS_REQUIRES(context_.mutex);
  uint32_t ReadTime(uint32_t offset) TS_REQUIRES(context_.mutex);
  uint32_t ReadPramin(uint32_t offset) const TS_REQUIRES(context_.mutex);
  void WritePramin(uint32_t offset, uint32_t value) TS_REQUIRES(context_.mutex);
  bool PraminAddress(uint32_t offset, GuestAddress* at) const TS_REQUIRES(context_.mutex);

  const uint32_t type_;
  VgpuContext context_;
  bool open_ TS_GUARDED_BY(context_.mutex) = false;
  bool ready_ TS_GUARDED_BY(context_.mutex) = false;  // Create got as far as having a share
  VirtualMmu mmu_ TS_GUARDED_BY(context_.mutex);
  VirtualFifo fifo_ TS_GUARDED_BY(context_.mutex);
  PciConfig config_ TS_GUARDED_BY(context_.mutex);
  uint32_t stored_[kStoredWords] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t pmc_enable_ TS_GUARDED_BY(context_.mutex) = ~0u;
  uint32_t pmc_software_[2] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t channel_cfg_ TS_GUARDED_BY(context_.mutex) = 0;
  Lce lces_[kNumLces] TS_GUARDED_BY(context_.mutex);
  uint32_t msix_[kMsixWords] TS_GUARDED_BY(context_.mutex) = {};
  uint64_t time_base_[kNumRunlists] TS_GUARDED_BY(context_.mutex) = {};
  uint32_t time_high_ TS_GUARDED_BY(context_.mutex) = 0;
  uint64_t time_before_ TS_GUARDED_BY(context_.mutex) = 0;  // of earlier openings
};

}  // namespace turnstile
