/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Everything the operating system's side may ask of the core. Objects are opaque; the caller owns
 * what a create function gave it and destroys it once, children (vGPUs) before the parent.
 *
 * Return values: 0 or a negative errno. Contexts as in host_abi.h. Functions of one vGPU may be
 * called by several threads at once; the core has its own locks (docs/locking.md).
 */
#ifndef MDEV_DRIVER_CORE_CORE_ABI_H_
#define MDEV_DRIVER_CORE_CORE_ABI_H_

#include "host_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Physical GPU and vGPU, as the core knows them. */
struct ts_gpu;
struct ts_vgpu;

/* ---- the physical GPU ---------------------------------------------------------------------- */

struct ts_gpu_params {
  uint64_t bar1_bytes; /* size of physical BAR1 */
  const char* policy;  /* a name of ts_policy_name(); null: "best_effort" */
  uint32_t pin_batch;  /* 1..512 pages per ts_host_pin call; 0: 512 */
};

struct ts_gpu_info {
  uint64_t vram_bytes;
  uint32_t channels;
  uint32_t sm_count;
  uint32_t engine_mhz;
  uint32_t ctxsw_us;
};

/*
 * Takes over the device: BARs 0, 1, 3 are mapped, bus mastering is on, interrupts may come as soon
 * as this is called (ts_gpu_irq with a null or half-made gpu is the shim's business: request the
 * interrupts after it returned). Process; up to 1 s.
 * -ENODEV: no TS104 answers. -EINVAL: unknown policy, pin_batch out of range. -ENOMEM.
 */
int ts_gpu_create(struct ts_host_gpu* host, const struct ts_gpu_params* params,
                  struct ts_gpu** out);
/*
 * Quiesces the device and frees everything. All vGPUs are destroyed, interrupts are freed, work
 * and timer are cancelled before. Process. Null: nothing happens.
 */
void ts_gpu_destroy(struct ts_gpu* gpu);

void ts_gpu_get_info(const struct ts_gpu* gpu, struct ts_gpu_info* out); /* any */

#define TS_IRQ_NONE 0    /* not ours */
#define TS_IRQ_HANDLED 1 /* done */
#define TS_IRQ_WAKE 2    /* call ts_gpu_irq_thread() from process context */

/*
 * Hard part of every interrupt of the device, whichever MSI-X vector (or MSI, INTx) it is: passes
 * engine interrupts on to vGPUs. Hard interrupt context, few register accesses, never sleeps.
 */
int ts_gpu_irq(struct ts_gpu* gpu);
/* The rest: PFIFO events, PBDMA errors, faults. Process; takes the GPU's lock, no vGPU's. */
void ts_gpu_irq_thread(struct ts_gpu* gpu);
/* Answers to ts_host_queue_gpu_work and ts_host_arm_timer. Process; timer: any. */
void ts_gpu_work(struct ts_gpu* gpu);
void ts_gpu_timer(struct ts_gpu* gpu);

/* ---- policies ------------------------------------------------------------------------------ */

/* Name of policy number `index`, e.g. "best_effort"; null beyond the last. Any. */
const char* ts_policy_name(uint32_t index);
/* The GPU's policy now. Never null. Any. */
const char* ts_gpu_policy(const struct ts_gpu* gpu);
/* Changes it while guests run. Process. -EINVAL: no such name. */
int ts_gpu_set_policy(struct ts_gpu* gpu, const char* name);
/* Pages per ts_host_pin call from now on: 1..512, else -EINVAL. Any. */
int ts_gpu_set_pin_batch(struct ts_gpu* gpu, uint32_t pages);

enum ts_sched_param {
  TS_SCHED_ARR = 0, /* 0, 1: equal and fixed share by adaptive round robin */
  /* Of slices with arr: 63..960; 0: 480, or 960 with a type of which a GPU has more than 8. */
  TS_SCHED_FREQUENCY_HZ = 1,
  TS_SCHED_AVERAGING_FACTOR = 2, /* 1..60 */
  TS_SCHED_TIMESLICE_US = 3,     /* all others: 1000..30000; 0: 2000, or 1000 with such a type */
  TS_SCHED_HOLD_US = 4,          /* an idle vGPU keeps its slice so long: 0..10000 */
  TS_SCHED_CTXSW_TIMEOUT_MS = 5, /* 1..10000 */
  TS_SCHED_STRICT = 6,           /* 0, 1: weighted and latency leave idle slices idle */
};
#define TS_SCHED_PARAMS 7

/* Changes it while guests run. Process. -EINVAL; a log line tells the legal range. */
int ts_gpu_set_sched_param(struct ts_gpu* gpu, enum ts_sched_param param, uint32_t value);
/* Process. */
uint32_t ts_gpu_get_sched_param(struct ts_gpu* gpu, enum ts_sched_param param);

#define TS_SLICES_MAX 200

/* The newest `count` (at most TS_SLICES_MAX) slices of runlist 0..2; returns how many. Process. */
uint32_t ts_gpu_slices(struct ts_gpu* gpu, uint32_t runlist, struct ts_slice* out, uint32_t count);

/* ---- when something is wrong --------------------------------------------------------------- */

/*
 * Starts the device over: after a reset from outside, or when it does not do what it should. All
 * settings stay. Process. -EBUSY: there are vGPUs. -ENOENT: no TS104 answers. -ETIMEDOUT: its MMU
 * does not. Then nothing has changed.
 */
int ts_gpu_recover(struct ts_gpu* gpu);

/*
 * What is on every runlist: the hardware's state and the guests' lists, as lines for
 * ts_host_dump_line, at most 4097. Holds the GPU's lock meanwhile. Process.
 */
void ts_gpu_dump_runlists(struct ts_gpu* gpu, struct ts_host_dump* to);

/* ---- types --------------------------------------------------------------------------------- */

#define TS_TYPE_COUNT 5

struct ts_type_info {
  const char* name;    /* "ts104_v1", "_v2", "_v4", "_v8", "_v16": part of the ABI, constant */
  uint32_t instances;  /* of this type alone on an empty GPU: 1, 2, 4, 8, 16 */
  uint64_t vram_bytes; /* of one instance */
  uint32_t channels;   /* of one instance, CHIDs and TSGIDs */
  uint64_t bar1_bytes;
};

/* index < TS_TYPE_COUNT, else -EINVAL. Any. */
int ts_gpu_type_info(const struct ts_gpu* gpu, uint32_t index, struct ts_type_info* out);
/* How many more vGPUs of this type can be created now. Process. */
uint32_t ts_gpu_available(struct ts_gpu* gpu, uint32_t index);

/* ---- life of a vGPU ------------------------------------------------------------------------ */

/*
 * Reserves VRAM, channels and a function. Process. -ENOSPC: no room; a log line says how much is
 * free. -EINVAL (index), -ENOMEM.
 */
int ts_vgpu_create(struct ts_gpu* gpu, uint32_t type_index, struct ts_host_vgpu* host,
                   struct ts_vgpu** out);
/* The vGPU is closed, its work is cancelled. Process. Null: nothing happens. */
void ts_vgpu_destroy(struct ts_vgpu* vgpu);

/*
 * First user came: power-on state. -EBUSY: open already. -ENOMEM. Process.
 * Guest memory may be pinned and read only between open and close.
 */
int ts_vgpu_open(struct ts_vgpu* vgpu);
/*
 * Last user went (or was killed). Takes the vGPU's channels off the device, unpins everything,
 * clears its VRAM. The caller has stopped all other calls for it except ts_vgpu_work (cancelled
 * afterwards) and interrupts. Process; bounded (some seconds at worst, with a hung engine).
 */
void ts_vgpu_close(struct ts_vgpu* vgpu);
/* VFIO_DEVICE_RESET, and what FLR in config space does: power-on state of this vGPU. Process. */
int ts_vgpu_reset(struct ts_vgpu* vgpu);

/* Answer to ts_host_queue_vgpu_work. Process. */
void ts_vgpu_work(struct ts_vgpu* vgpu);

/* ---- regions ------------------------------------------------------------------------------- */

/* VFIO_PCI_*_REGION_INDEX: 0..5 BARs, 6 ROM, 7 config space, 8 VGA. */
#define TS_REGION_BAR0 0
#define TS_REGION_BAR1 1
#define TS_REGION_BAR3 3
#define TS_REGION_CONFIG 7

#define TS_REGION_READ 1u
#define TS_REGION_WRITE 2u
#define TS_REGION_MMAP 4u

struct ts_region_area {
  uint64_t offset; /* in the region */
  uint64_t size;
};

struct ts_region_info {
  uint64_t size;    /* 0: the region does not exist (a BAR3's upper half, ROM, VGA) */
  uint32_t flags;   /* TS_REGION_* */
  uint32_t n_areas; /* parts that may be mapped; 0 with MMAP set: all of it */
  struct ts_region_area areas[2];
};

/*
 * Constant from create to destroy. No lock is taken: safe under the process's mmap_lock. Any.
 * -EINVAL: index above 8.
 */
int ts_vgpu_region_info(const struct ts_vgpu* vgpu, uint32_t index, struct ts_region_info* out);

/*
 * One access of 1, 2, 4 or 8 bytes, naturally aligned; the shim splits others. `value`: little
 * endian bytes. Reads beyond what exists give 0. -EINVAL: bad index, length, alignment or range.
 * BAR1 accesses of up to 64 KiB and any alignment are allowed (a user without mmap). Process.
 */
int ts_vgpu_region_rw(struct ts_vgpu* vgpu, uint32_t index, uint64_t offset, void* buffer,
                      size_t length, bool write);

/* Where a mapping of the guest's region leads on the physical device. */
struct ts_mmap_target {
  uint32_t bar;        /* physical (Linux) BAR number: 1 or 3 */
  uint64_t bar_offset; /* 4 KiB aligned */
  bool cached;         /* BAR1: it is memory. Else map it uncached */
};

/*
 * [offset, offset + length), 4 KiB aligned, must lie in one mappable area: else -EINVAL. No lock is
 * taken: it is called under the process's mmap_lock. Any.
 */
int ts_vgpu_mmap(const struct ts_vgpu* vgpu, uint32_t index, uint64_t offset, uint64_t length,
                 struct ts_mmap_target* out);

/*
 * The guest memory [iova, iova + length) goes away. When this returns no page of it is pinned and
 * the device cannot reach it; accesses of the guest's programs to it become faults of that guest.
 * Never pins. Process.
 */
void ts_vgpu_dma_unmap(struct ts_vgpu* vgpu, uint64_t iova, uint64_t length);

/* ---- interrupts ---------------------------------------------------------------------------- */

enum ts_irq_mode {
  TS_IRQ_MODE_OFF = 0,
  TS_IRQ_MODE_INTX = 1,
  TS_IRQ_MODE_MSI = 2,
  TS_IRQ_MODE_MSIX = 3
};

#define TS_MSIX_VECTORS 6

/*
 * What the user set up with VFIO_DEVICE_SET_IRQS: the core signals in this way alone. When it
 * changes to INTX the core calls ts_host_set_intx with the level of the moment, from inside. Any.
 */
void ts_vgpu_set_irq_mode(struct ts_vgpu* vgpu, enum ts_irq_mode mode);

/* ---- figures ------------------------------------------------------------------------------- */

/* All monotonic since create except those marked "now". */
struct ts_counters {
  uint64_t csr_reads; /* trapped BAR0 reads, words */
  uint64_t csr_writes;
  uint64_t csr_exits_total;         /* region accesses that trapped, BAR0 and BAR3 */
  uint64_t interrupt_tree_accesses; /* of csr_reads and csr_writes: what interrupts cost */
  uint64_t config_accesses;
  uint64_t invalidates; /* TLB invalidates carried out for the guest */
  uint64_t mem_ops;     /* of them, MEM_OP methods emulated */
  uint64_t ptes_translated;
  uint64_t submissions; /* runlist submits of the guest; doorbells are not seen */
  uint64_t interrupts_injected;
  uint64_t faults_forwarded;
  uint64_t pbdma_errors;
  uint64_t pages_pinned; /* now */
  uint64_t pages_pinned_total;
  uint64_t pin_calls;
  uint64_t resets;
  uint64_t gpu_time_ns;  /* on all engines, FUNCTION_TIME */
  uint64_t memory_bytes; /* host memory this vGPU holds, DMA pages included: now */
  uint64_t channels;     /* bound: now */
};

/* Process. */
void ts_vgpu_get_counters(struct ts_vgpu* vgpu, struct ts_counters* out);

enum ts_vgpu_dump_kind {
  TS_VGPU_DUMP_CHANNELS = 0,
  TS_VGPU_DUMP_SHADOW = 1, /* what the device finds in the shadow page tables */
  TS_VGPU_DUMP_PINS = 2,
};

/*
 * What the driver holds for a vGPU, as lines for ts_host_dump_line, at most 4097. The guest's
 * trapped accesses wait meanwhile. Process.
 */
void ts_vgpu_dump(struct ts_vgpu* vgpu, enum ts_vgpu_dump_kind kind, struct ts_host_dump* to);

enum ts_vgpu_sched_param {
  TS_VGPU_SCHED_WEIGHT = 0,      /* 1..10000 */
  TS_VGPU_SCHED_CAP_PERCENT = 1, /* 1..100 */
  TS_VGPU_SCHED_LATENCY_US = 2,  /* 200..1000000; 0: no bound */
};
#define TS_VGPU_SCHED_PARAMS 3

/* From create to destroy, guests may run. Process. -EINVAL; a log line tells the legal range. */
int ts_vgpu_set_sched_param(struct ts_vgpu* vgpu, enum ts_vgpu_sched_param param, uint32_t value);
/* Process. */
uint32_t ts_vgpu_get_sched_param(struct ts_vgpu* vgpu, enum ts_vgpu_sched_param param);

#define TS_RUNLISTS 3

/* Of one runlist since the vGPU was created; monotonic, nanoseconds. Only run_ns with best effort.
 */
struct ts_sched_figures {
  uint64_t run_ns; /* the GPU's clock */
  uint64_t wait_ns;
  uint64_t longest_wait_ns;
  uint64_t slices;
  uint64_t preemptions;
  uint64_t overshoot_ns;
};

/* Process. -EINVAL: runlist above 2. */
int ts_vgpu_sched_figures(struct ts_vgpu* vgpu, uint32_t runlist, struct ts_sched_figures* out);

/* Function number on the device, 1..63. Constant. Any. */
uint32_t ts_vgpu_function(const struct ts_vgpu* vgpu);

#ifdef __cplusplus
}
#endif

#endif /* MDEV_DRIVER_CORE_CORE_ABI_H_ */
