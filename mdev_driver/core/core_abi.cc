// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The C door: from core_abi.h to the classes, from Status to errno.
#include "core/core_abi.h"

#include <utility>

#include "base/errno_map.h"
#include "core/physical_gpu.h"
#include "core/vgpu.h"

struct ts_gpu {
  base::UniquePtr<turnstile::PhysicalGpu> impl;
};
struct ts_vgpu {
  base::UniquePtr<turnstile::Vgpu> impl;
};

namespace {

using base::Status;
using base::StatusToErrno;

constexpr int kNoDevice = -19;  // ENODEV

}  // namespace

extern "C" {

int ts_gpu_create(ts_host_gpu* host, const ts_gpu_params* params, ts_gpu** out) {
  auto gpu = base::MakeUnique<ts_gpu>();
  if (!gpu.ok()) return StatusToErrno(gpu.status());
  auto impl = turnstile::PhysicalGpu::Create(turnstile::HostGpu(host), *params);
  if (impl.status() == Status::kNotFound) return kNoDevice;
  if (!impl.ok()) return StatusToErrno(impl.status());
  (*gpu)->impl = *std::move(impl);
  *out = gpu->release();
  return 0;
}

void ts_gpu_destroy(ts_gpu* gpu) { delete gpu; }

void ts_gpu_get_info(const ts_gpu* gpu, ts_gpu_info* out) { *out = gpu->impl->info(); }

int ts_gpu_irq(ts_gpu* gpu) { return gpu->impl->HandleInterrupt(); }
void ts_gpu_irq_thread(ts_gpu* gpu) { gpu->impl->HandleInterruptThread(); }
void ts_gpu_work(ts_gpu* gpu) { gpu->impl->PolicyWork(); }
// The policy wants the GPU's mutex, which a timer may not take.
void ts_gpu_timer(ts_gpu* gpu) { ts_host_queue_gpu_work(gpu->impl->host().handle()); }

const char* ts_policy_name(uint32_t index) { return turnstile::PolicyName(index); }
const char* ts_gpu_policy(const ts_gpu* gpu) { return gpu->impl->policy_name(); }
int ts_gpu_set_policy(ts_gpu* gpu, const char* name) {
  return StatusToErrno(gpu->impl->SetPolicy(name));
}

int ts_gpu_set_pin_batch(ts_gpu* gpu, uint32_t pages) {
  if (pages == 0 || pages > turnstile::PinTable::kMaxBatch) {
    return StatusToErrno(Status::kInvalidArgument);
  }
  gpu->impl->set_pin_batch(pages);
  return 0;
}

int ts_gpu_set_sched_param(ts_gpu* gpu, ts_sched_param param, uint32_t value) {
  return StatusToErrno(gpu->impl->SetSchedParam(param, value));
}
uint32_t ts_gpu_get_sched_param(ts_gpu* gpu, ts_sched_param param) {
  return gpu->impl->GetSchedParam(param);
}

uint32_t ts_gpu_slices(ts_gpu* gpu, uint32_t runlist, ts_slice* out, uint32_t count) {
  return gpu->impl->GetSlices(runlist, out, count < TS_SLICES_MAX ? count : TS_SLICES_MAX);
}

int ts_gpu_recover(ts_gpu* gpu) { return StatusToErrno(gpu->impl->Recover()); }
void ts_gpu_dump_runlists(ts_gpu* gpu, ts_host_dump* to) {
  turnstile::Dump dump(to);
  gpu->impl->DumpRunlists(dump);
}

int ts_gpu_type_info(const ts_gpu* gpu, uint32_t index, ts_type_info* out) {
  if (index >= TS_TYPE_COUNT) return StatusToErrno(Status::kInvalidArgument);
  const turnstile::VgpuType& type = turnstile::kVgpuTypes[index];
  out->name = type.name;
  out->instances = type.divisor;
  out->vram_bytes = gpu->impl->TypeVramBytes(index);
  out->channels = gpu->impl->info().channels / type.divisor;
  out->bar1_bytes = out->vram_bytes;
  return 0;
}

uint32_t ts_gpu_available(ts_gpu* gpu, uint32_t index) { return gpu->impl->Available(index); }

int ts_vgpu_create(ts_gpu* gpu, uint32_t type_index, ts_host_vgpu* host, ts_vgpu** out) {
  auto vgpu = base::MakeUnique<ts_vgpu>();
  if (!vgpu.ok()) return StatusToErrno(vgpu.status());
  auto impl = turnstile::Vgpu::Create(*gpu->impl, type_index, host);
  if (!impl.ok()) return StatusToErrno(impl.status());
  (*vgpu)->impl = *std::move(impl);
  *out = vgpu->release();
  return 0;
}

void ts_vgpu_destroy(ts_vgpu* vgpu) { delete vgpu; }

int ts_vgpu_open(ts_vgpu* vgpu) { return StatusToErrno(vgpu->impl->Open()); }
void ts_vgpu_close(ts_vgpu* vgpu) { vgpu->impl->Close(); }
int ts_vgpu_reset(ts_vgpu* vgpu) { return StatusToErrno(vgpu->impl->Reset()); }
void ts_vgpu_work(ts_vgpu* vgpu) { vgpu->impl->Work(); }

int ts_vgpu_region_info(const ts_vgpu* vgpu, uint32_t index, ts_region_info* out) {
  return StatusToErrno(vgpu->impl->RegionInfo(index, out));
}

int ts_vgpu_region_rw(ts_vgpu* vgpu, uint32_t index, uint64_t offset, void* buffer, size_t length,
                      bool write) {
  return StatusToErrno(
      vgpu->impl->RegionAccess(index, offset, static_cast<uint8_t*>(buffer), length, write));
}

int ts_vgpu_mmap(const ts_vgpu* vgpu, uint32_t index, uint64_t offset, uint64_t length,
                 ts_mmap_target* out) {
  return StatusToErrno(vgpu->impl->Map(index, offset, length, out));
}

void ts_vgpu_dma_unmap(ts_vgpu* vgpu, uint64_t iova, uint64_t length) {
  vgpu->impl->DmaUnmap(iova, length);
}

void ts_vgpu_set_irq_mode(ts_vgpu* vgpu, ts_irq_mode mode) { vgpu->impl->SetIrqMode(mode); }
void ts_vgpu_dump(ts_vgpu* vgpu, ts_vgpu_dump_kind kind, ts_host_dump* to) {
  turnstile::Dump dump(to);
  vgpu->impl->DumpTo(kind, dump);
}
void ts_vgpu_get_counters(ts_vgpu* vgpu, ts_counters* out) { vgpu->impl->Counters(out); }

int ts_vgpu_set_sched_param(ts_vgpu* vgpu, ts_vgpu_sched_param param, uint32_t value) {
  return StatusToErrno(vgpu->impl->SetSchedParam(param, value));
}
uint32_t ts_vgpu_get_sched_param(ts_vgpu* vgpu, ts_vgpu_sched_param param) {
  return vgpu->impl->GetSchedParam(param);
}
int ts_vgpu_sched_figures(ts_vgpu* vgpu, uint32_t runlist, ts_sched_figures* out) {
  if (runlist >= TS_RUNLISTS) return StatusToErrno(Status::kInvalidArgument);
  const turnstile::SchedAccount account = vgpu->impl->GetAccount(runlist);
  *out = {account.run_ns, account.wait_ns,     account.longest_wait_ns,
          account.slices, account.preemptions, account.overshoot_ns};
  return 0;
}

uint32_t ts_vgpu_function(const ts_vgpu* vgpu) { return vgpu->impl->function(); }

}  // extern "C"
