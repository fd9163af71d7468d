// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What the parts of one vGPU share.
#pragma once

#include <cstdint>

#include "base/lock.h"
#include "core/host.h"
#include "core/irq/virtual_tree.h"
#include "core/memory/guest_memory.h"
#include "core/physical_gpu.h"
#include "core/vgpu_type.h"

namespace turnstile {

// Figures of one vGPU, guarded by its mutex: core_abi.h, ts_counters.
struct VgpuFigures {
  uint64_t csr_reads = 0;
  uint64_t csr_writes = 0;
  uint64_t csr_exits = 0;
  uint64_t tree_accesses = 0;
  uint64_t config_accesses = 0;
  uint64_t invalidates = 0;
  uint64_t mem_ops = 0;
  uint64_t submissions = 0;
  uint64_t faults_forwarded = 0;
  uint64_t pbdma_errors = 0;
  uint64_t resets = 0;
};

struct VgpuContext {
  VgpuContext(PhysicalGpu& physical, ts_host_vgpu* host_vgpu, const Partition& share)
      : gpu(physical),
        host(host_vgpu),
        partition(share),
        memory(physical.host(), host_vgpu, partition),
        tree(host_vgpu) {}

  uint32_t PhysicalId(uint32_t id) const { return partition.first_chid + id; }
  uint32_t VirtualId(uint32_t id) const { return id - partition.first_chid; }
  bool Owns(uint32_t id) const {
    return id >= partition.first_chid && id - partition.first_chid < partition.channels;
  }

  PhysicalGpu& gpu;
  ts_host_vgpu* const host;
  const Partition partition;
  MemoryCounter memory_counter;
  // Guards everything of the vGPU but the tree, which has a lock of its own.
  base::Mutex mutex;
  const GuestMemory memory;
  VirtualTree tree;
  VgpuFigures figures TS_GUARDED_BY(mutex);
};

}  // namespace turnstile
