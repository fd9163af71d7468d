// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "model_abi.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "gpu_model.h"

struct ts104_model {
  ts104::GpuModel gpu;
};

namespace {

void PutError(char* err, size_t errlen, const std::string& message) {
  if (err == nullptr || errlen == 0) return;
  const size_t length = std::min(message.size(), errlen - 1);
  std::memcpy(err, message.data(), length);
  err[length] = 0;
}

std::string Check(const ts104_config* cfg, const void* vram, const ts104_host_ops* ops) {
  if (cfg == nullptr || vram == nullptr || ops == nullptr) return "config, vram or ops is NULL";
  if (ops->dma_read == nullptr || ops->dma_write == nullptr || ops->now_ns == nullptr ||
      ops->irq == nullptr) {
    return "ops lacks a function";
  }
  if (reinterpret_cast<uintptr_t>(vram) % 4096 != 0) return "vram is not page aligned";
  return ts104::GpuModel::CheckConfig(*cfg);
}

}  // namespace

ts104_model* ts104_create(const ts104_config* cfg, void* vram, const ts104_host_ops* ops,
                          void* opaque, char* err, size_t errlen) {
  const std::string problem = Check(cfg, vram, ops);
  if (!problem.empty()) {
    PutError(err, errlen, problem);
    return nullptr;
  }
  try {
    const std::span memory(static_cast<std::byte*>(vram), cfg->vram_bytes);
    return new ts104_model{ts104::GpuModel(*cfg, memory, *ops, opaque)};
  } catch (const std::bad_alloc&) {
    PutError(err, errlen, "out of memory");
    return nullptr;
  }
}

void ts104_destroy(ts104_model* m) { delete m; }

uint32_t ts104_bar0_read(ts104_model* m, uint64_t off, unsigned size) {
  return m->gpu.ReadBar0(off, size);
}

void ts104_bar0_write(ts104_model* m, uint64_t off, unsigned size, uint32_t val) {
  m->gpu.WriteBar0(off, size, val);
}

uint32_t ts104_bar3_read(ts104_model* m, uint64_t off, unsigned size) {
  return m->gpu.ReadBar3(off, size);
}

void ts104_bar3_write(ts104_model* m, uint64_t off, unsigned size, uint32_t val) {
  m->gpu.WriteBar3(off, size, val);
}

void ts104_bus_master(ts104_model* m, bool on) { m->gpu.SetBusMaster(on); }

void ts104_reset(ts104_model* m) { m->gpu.Reset(); }

int ts104_start_thread(ts104_model* m) { return m->gpu.StartThread(); }

void ts104_stop_thread(ts104_model* m) { m->gpu.StopThread(); }

void ts104_run_until(ts104_model* m, uint64_t ns) { m->gpu.RunUntil(ns); }

uint64_t ts104_next_event(ts104_model* m) { return m->gpu.NextEvent(); }
