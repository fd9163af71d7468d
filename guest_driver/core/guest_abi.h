/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border between the guest driver's core (C++, no OS) and what surrounds it: ts104.ko, the VFIO
 * transport of libts104, the in-process rig. C and C++ include it; it uses only the types below.
 *
 * Memory for C++ objects and mutexes come from base/runtime_abi.h (ts_alloc, ts_mutex_*), everything
 * else the core needs from struct tsg_os_ops, one per device.
 *
 * Return values are 0 or a negative Linux errno. Unless said otherwise a function may sleep, takes
 * the core's own mutexes (ranks TSG_RANK_*) and may be called by several threads at once.
 */
#ifndef GUEST_DRIVER_CORE_GUEST_ABI_H_
#define GUEST_DRIVER_CORE_GUEST_ABI_H_

#if defined(__KERNEL__) && !defined(__cplusplus)
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Ranks of the core's mutexes (base/runtime_abi.h). A callback may take higher ranks only. */
#define TSG_RANK_DEVICE 10u
#define TSG_RANK_VM 11u
#define TSG_RANK_MMU 12u
#define TSG_RANK_VRAM 13u

#define TSG_NUM_RUNLISTS 3u
#define TSG_PAGE_SIZE 4096u
#define TSG_VA_LIMIT (1ull << 49)
/* GP rings, push buffers and QMDs have 40-bit addresses. */
#define TSG_RING_VA_LIMIT (1ull << 40)

enum tsg_aperture {
  TSG_APERTURE_VRAM = 0,   /* address: byte offset in VRAM = offset in BAR1 */
  TSG_APERTURE_SYSMEM = 1, /* address: DMA address as the device sees it, coherent */
};

/* --- What the core asks of the OS ------------------------------------------------------------ */

/* One page of system memory that the device may access, zeroed by whoever allocates it. */
struct tsg_dma_page {
  void *cpu;
  uint64_t dma;
  void *cookie; /* the allocator's own, handed back to dma_page_free */
};

enum tsg_log_level { TSG_LOG_ERROR, TSG_LOG_WARN, TSG_LOG_INFO, TSG_LOG_DEBUG };

/* `os` is the pointer given to tsg_device_create. No callback may call back into the core. */
struct tsg_os_ops {
  /* BAR0, aligned 32-bit. Any context (tsg_irq calls them from the interrupt handler). */
  uint32_t (*read32)(void *os, uint32_t offset);
  void (*write32)(void *os, uint32_t offset, uint32_t value);

  /*
   * VRAM through BAR1. offset and length are multiples of 4 and inside the VRAM that the device
   * reported; `to`, `from` are aligned to 4. A write must be visible to the device when a later
   * write32 reaches it (write-combining mappings need a barrier here). vram_fill writes zeros.
   */
  void (*vram_read)(void *os, uint64_t offset, void *to, size_t length);
  void (*vram_write)(void *os, uint64_t offset, const void *from, size_t length);
  void (*vram_zero)(void *os, uint64_t offset, uint64_t length);

  /* A zeroed page for the core's own structures (only with TSG_CREATE_SYSMEM_TABLES). 0, -ENOMEM. */
  int (*dma_page_alloc)(void *os, struct tsg_dma_page *page);
  void (*dma_page_free)(void *os, const struct tsg_dma_page *page);

  /* Monotonic nanoseconds. Any context. */
  uint64_t (*now_ns)(void *os);
  /*
   * Waits about `us` microseconds; the core polls the device with it. Process context, under the
   * core's mutexes. In the rig it moves the clock and lets the model run.
   */
  void (*relax)(void *os, uint32_t us);

  /* One line without a newline, at most 160 characters. Any context. */
  void (*log)(void *os, enum tsg_log_level level, const char *line);
};

/* --- Device ---------------------------------------------------------------------------------- */

struct tsg_device;
struct tsg_vm;
struct tsg_channel;

struct tsg_device_info {
  uint64_t vram_bytes;
  uint32_t chip_id;    /* 0x164 */
  uint32_t is_vgpu;    /* NV_PMC_BOOT_1.VGPU != REAL */
  uint32_t num_chids;
  uint32_t sm_count;
  uint32_t engine_mhz;
  uint32_t ctx_size;      /* bytes of a GR context buffer */
  uint32_t ctxsw_us;
  uint32_t engine_runlist_mask; /* bit r: runlist r exists */
  uint32_t compute_runlist;     /* from PTOP: runlist of GR */
  uint32_t copy_runlist_mask;   /* runlists whose engines are only LCEs */
  uint32_t doorbell_offset;     /* of the doorbell page in BAR0: 0x810000 */
};

#define TSG_CREATE_SYSMEM_TABLES (1u << 0) /* page tables in DMA pages instead of VRAM */

/*
 * Takes the device into operation: checks the ids, reads PTOP, resets the engines, sets up the fault
 * buffer, the function tree (vectors enabled: engine non-stall, 132, 133, 136) and PENDING_ENABLE.
 * The caller has enabled memory decoding and bus mastering, and interrupts may arrive from here on.
 * `ops` and `os` must outlive the device. No other core function of this device runs meanwhile.
 * -ENODEV: not a TS104, or it does not answer. -ENOMEM. -EOPNOTSUPP: a topology this driver does not know.
 */
int tsg_device_create(const struct tsg_os_ops *ops, void *os, uint32_t flags,
                      struct tsg_device **out);
/*
 * Masks all interrupts, empties the runlists, frees. Every vm and channel must be gone; the caller
 * has made sure that tsg_irq does not run and is not called again. Null is allowed.
 */
void tsg_device_destroy(struct tsg_device *device);
void tsg_device_get_info(const struct tsg_device *device, struct tsg_device_info *out);
/*
 * The hardware was reset or is gone (FLR, hot unplug): nothing touches it through this object from
 * here on, all channels report TSG_ERROR_DEVICE_LOST, waits in the core end. Objects are freed as
 * usual. After a reset, create a new device for new users. Any context.
 */
void tsg_device_mark_lost(struct tsg_device *device);
/* Frees nothing, takes every channel off the hardware (before suspend or FLR). 0, -ETIMEDOUT. */
int tsg_device_quiesce(struct tsg_device *device);
/* PTIMER: nanoseconds since the Unix epoch as the GPU counts them. Two or three register reads. */
uint64_t tsg_device_gpu_time(struct tsg_device *device);

/* --- VRAM ------------------------------------------------------------------------------------ */

/*
 * The one allocator of this device's VRAM: the core's structures and the caller's buffers come from
 * it. Contiguous, first fit. `align` is a power of two >= 4096, size is rounded up to 4096. Contents
 * are whatever was there before: the caller zeroes what it hands to user space. -ENOSPC.
 */
int tsg_vram_alloc(struct tsg_device *device, uint64_t size, uint64_t align, uint64_t *offset);
/* Exactly what tsg_vram_alloc returned, with the size given to it. */
void tsg_vram_free(struct tsg_device *device, uint64_t offset, uint64_t size);
uint64_t tsg_vram_available(const struct tsg_device *device);

/* --- Address spaces -------------------------------------------------------------------------- */

int tsg_vm_create(struct tsg_device *device, struct tsg_vm **out);
/*
 * Unmaps everything, invalidates the TLBs, frees the page tables. No channel may use it. Null is
 * allowed.
 */
void tsg_vm_destroy(struct tsg_vm *vm);

struct tsg_extent {
  uint64_t address;
  uint64_t size; /* bytes, multiple of 4096 */
  uint32_t aperture; /* enum tsg_aperture */
  uint32_t reserved; /* 0 */
};

#define TSG_MAP_READ_ONLY (1u << 0)
#define TSG_MAP_NO_ATOMICS (1u << 1)
#define TSG_MAP_PRIVILEGED (1u << 2) /* only channels with AUTH_LEVEL */
#define TSG_MAP_SPARSE (1u << 3)     /* no memory behind it; of the extents only sizes count */

/*
 * Maps the extents one after the other from `va` on; page sizes (2 MiB, 64 KiB, 4 KiB) are chosen
 * from the alignment of va, address and length. The range must be unmapped (-EEXIST otherwise,
 * nothing changed). All or nothing. va and sizes are multiples of 4096, below TSG_VA_LIMIT.
 * -EINVAL, -ENOMEM, -ENOSPC (no VRAM for page tables).
 * New mappings count for the device after tsg_vm_flush.
 */
int tsg_vm_map(struct tsg_vm *vm, uint64_t va, const struct tsg_extent *extents, uint32_t count,
               uint32_t flags);
/*
 * Clears the range; large pages that it covers in part are split (-ENOMEM, -ENOSPC then, nothing
 * changed). Unmapped parts are skipped. The memory behind it may be reused after tsg_vm_flush.
 */
int tsg_vm_unmap(struct tsg_vm *vm, uint64_t va, uint64_t size);
/*
 * Invalidates the GPU's TLBs for this address space and waits for it, if something changed since the
 * last flush; also frees page tables that became empty. -ETIMEDOUT: the device hangs (nothing may be
 * reused then; reset it). 0 when the device is lost.
 */
int tsg_vm_flush(struct tsg_vm *vm);
/* Page-table memory of this address space, bytes. */
uint64_t tsg_vm_table_bytes(const struct tsg_vm *vm);
/* What `va` translates to; -EFAULT when it does not. For tests and debugfs. */
int tsg_vm_translate(struct tsg_vm *vm, uint64_t va, struct tsg_extent *out, uint32_t *flags);

/* --- Channels -------------------------------------------------------------------------------- */

struct tsg_channel_params {
  uint32_t runlist;        /* 0 .. TSG_NUM_RUNLISTS - 1 */
  uint32_t ring_order;     /* log2 of the number of GP entries, 1 .. 16 */
  uint64_t ring_va;        /* 8-aligned, ring ends below TSG_RING_VA_LIMIT */
  uint64_t userd_address;  /* 512-aligned, zeroed by the caller */
  uint32_t userd_aperture; /* enum tsg_aperture */
  uint32_t timeslice_us;   /* 0: default, about 1 ms */
  uint32_t flags;          /* 0 */
  uint32_t reserved;       /* 0 */
};

/*
 * Makes an instance block (and, on the compute runlist, a context buffer in VRAM), binds a CHID,
 * enables it and puts it on the runlist, alone in its TSG. The channel never gets AUTH_LEVEL or
 * HCE_PRIV_MODE. -EINVAL, -ENOSPC (no CHID, no VRAM), -ENOMEM, -EIO, -ETIMEDOUT.
 */
int tsg_channel_create(struct tsg_vm *vm, const struct tsg_channel_params *params,
                       struct tsg_channel **out);
/*
 * Disables the channel, takes it off the hardware, unbinds, frees. Bounded: about 2 s with a device
 * that hangs; the CHID and its memory are then kept until the device goes. Null is allowed.
 */
void tsg_channel_destroy(struct tsg_channel *channel);
uint32_t tsg_channel_chid(const struct tsg_channel *channel);
/* Value to write to the doorbell (doorbell page + 0x90). */
uint32_t tsg_channel_token(const struct tsg_channel *channel);

enum tsg_error_kind {
  TSG_ERROR_NONE = 0,
  TSG_ERROR_MMU_FAULT = 1,   /* fault packet: type < 0x10 */
  TSG_ERROR_ENGINE = 2,      /* fault packet, TS104 types >= 0x10: va is a PC, QMD or method */
  TSG_ERROR_PBDMA = 3,       /* PBDMA interrupt: type = INTR_0, access = INTR_1, va = METHOD0 */
  TSG_ERROR_DEVICE_LOST = 4,
};

struct tsg_error {
  uint32_t kind;   /* enum tsg_error_kind */
  uint32_t chid;
  uint32_t type;   /* NV_MMU_FAULT_PACKET_FAULT_TYPE_*; PBDMA: INTR_0 */
  uint32_t access; /* NV_MMU_FAULT_PACKET_ACCESS_TYPE_*; PBDMA: INTR_1 */
  uint32_t engine; /* NV_MMU_FAULT_PACKET_ENGINE_ID_*; PBDMA: 32 + pbdma */
  uint32_t client; /* CLIENT | MMU_CLIENT_TYPE << 7; PBDMA: 0 */
  uint64_t va;     /* faulting address (4 KiB resolution), PC; PBDMA: METHOD0 | DATA0 << 32 */
  uint64_t gpu_time_ns;
};

struct tsg_channel_status {
  struct tsg_error first; /* first error since creation or recovery; kind NONE: healthy */
  uint32_t error_count;
  uint32_t reserved;
};

/*
 * -EIO when the channel has an error, else 0; *out is filled in both cases. No register access:
 * errors arrive through tsg_service_errors.
 */
int tsg_channel_get_status(struct tsg_channel *channel, struct tsg_channel_status *out);
/*
 * Brings a channel back to the state after creation, in three steps: tsg_channel_stop takes it off
 * the hardware and drops its pending work; the caller zeroes the 512 bytes of USERD;
 * tsg_channel_restart writes a fresh instance block and context, forgets errors and enables it.
 * Stop of a stopped channel and restart of a running one do nothing. -EIO (lost), -ETIMEDOUT.
 */
int tsg_channel_stop(struct tsg_channel *channel);
int tsg_channel_restart(struct tsg_channel *channel);

/* --- Interrupts ------------------------------------------------------------------------------ */

/*
 * tsg_irq: bit r = engines of runlist r may have sent a non-stalling interrupt:
 * whoever waits for them looks at its semaphore.
 */
#define TSG_EVENT_RUNLIST(r) (1u << (r))
#define TSG_EVENT_RUNLISTS 0x7u
/* Call tsg_service_errors from process context. */
#define TSG_EVENT_ERRORS (1u << 8)

/*
 * Interrupt handler's half: acknowledges and says what happened; 0: not ours. `vector` is the MSI-X
 * entry (0-5) or -1 for MSI and INTx. Any context, takes no lock; not concurrently for one vector.
 * Level sources stay masked until tsg_service_errors.
 */
uint32_t tsg_irq(struct tsg_device *device, int vector);
/*
 * Drains the fault buffer and the PBDMA interrupts, records errors in the channels concerned, takes
 * a channel with a PBDMA error off its PBDMA. Fills up to `max` records, one per channel that has a
 * first error which was not returned yet, and returns how many; with more channels than that, call
 * again. Unmasks what tsg_irq masked.
 */
uint32_t tsg_service_errors(struct tsg_device *device, struct tsg_error *records, uint32_t max);

/* Name of a fault type or access type, for messages. Never null. */
const char *tsg_fault_type_name(uint32_t type);
const char *tsg_access_type_name(uint32_t access);

#ifdef __cplusplus
}
#endif

#endif /* GUEST_DRIVER_CORE_GUEST_ABI_H_ */
