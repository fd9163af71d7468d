/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Everything the core asks of the operating system, besides memory and locks (base/runtime_abi.h).
 * The kernel's side is mdev_driver/linux, the tests' side tests/fakes/fake_host.cc.
 *
 * Contexts: "process" may sleep; "any" may be called from the hard interrupt handler and with a
 * spinlock held, so it must not sleep. Return values: 0 or a negative errno where not said
 * otherwise. Locks of the core may be held across every call (docs/locking.md): an implementation
 * must not call back into the core from inside one.
 */
#ifndef MDEV_DRIVER_CORE_HOST_ABI_H_
#define MDEV_DRIVER_CORE_HOST_ABI_H_

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
extern "C" {
#else
#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif
#endif

/* One TS104 / one mediated device, as the operating system's side knows them. */
struct ts_host_gpu;
struct ts_host_vgpu;

#define TS_PAGE_SIZE 4096u

/* ---- memory the device may reach ---------------------------------------------------------- */

struct ts_host_dma {
  void* cpu;    /* null: not allocated */
  uint64_t dma; /* what the device puts on the bus */
};

/*
 * Coherent DMA memory, zeroed, aligned to 4 KiB. `size`: a multiple of 4 KiB, at most 1 MiB.
 * Process. -ENOMEM.
 */
int ts_host_dma_alloc(struct ts_host_gpu* gpu, size_t size, struct ts_host_dma* out);
/* Process. `memory->cpu` null: nothing happens. */
void ts_host_dma_free(struct ts_host_gpu* gpu, size_t size, const struct ts_host_dma* memory);

/* ---- the device ---------------------------------------------------------------------------- */

/* Aligned 32-bit access to physical BAR0. Any. After a surprise removal reads give 0xffffffff. */
uint32_t ts_host_read32(struct ts_host_gpu* gpu, uint32_t offset);
void ts_host_write32(struct ts_host_gpu* gpu, uint32_t offset, uint32_t value);

/*
 * VRAM through BAR1. The caller has checked that the range lies in VRAM. Process. Any alignment.
 */
void ts_host_vram_read(struct ts_host_gpu* gpu, uint64_t offset, void* buffer, size_t length);
void ts_host_vram_write(struct ts_host_gpu* gpu, uint64_t offset, const void* buffer,
                        size_t length);
/*
 * Clears the vGPU's VRAM, [offset, offset + length) on the card in 4 KiB units, in the background:
 * that of a large one takes seconds, and a reset must not. Until it is done user mappings of BAR1
 * are taken away and whoever touches them waits. Is it going on already, nothing happens. Takes no
 * lock of the core while it goes on. Process.
 */
void ts_host_vram_clear_start(struct ts_host_vgpu* vgpu, uint64_t offset, uint64_t length);
/* Waits until no clear is going on; at once if none is. Process. */
void ts_host_vram_clear_wait(struct ts_host_vgpu* vgpu);

/* ---- memory of the guest ------------------------------------------------------------------- */

/*
 * Pins `count` (1..512) pages from guest-physical `gpa` (4 KiB aligned) for reading and writing by
 * the device and gives their DMA addresses in dma[0..count).
 *
 * Returns how many from the front are pinned now, 0..count. Fewer than `count` means that the page
 * after them cannot be pinned (no such memory, limit reached); nothing beyond it is pinned.
 * Process.
 */
uint32_t ts_host_pin(struct ts_host_vgpu* vgpu, uint64_t gpa, uint32_t count, uint64_t* dma);
/* Undoes that for `count` (1..512) pages from `gpa`; dma[i] as ts_host_pin gave them. Process. */
void ts_host_unpin(struct ts_host_vgpu* vgpu, uint64_t gpa, uint32_t count, const uint64_t* dma);

/*
 * Copies from and to guest memory by CPU. Any alignment, may cross pages; `length` at most 64 KiB.
 * Process. -EFAULT: part of the range is no memory (the buffer's content is then undefined).
 */
int ts_host_guest_read(struct ts_host_vgpu* vgpu, uint64_t gpa, void* buffer, size_t length);
int ts_host_guest_write(struct ts_host_vgpu* vgpu, uint64_t gpa, const void* buffer, size_t length);

/* ---- interrupts of the guest --------------------------------------------------------------- */

/* One MSI-X message of `vector` (0..5). Any. Ignored when the user gave no eventfd for it. */
void ts_host_signal_msix(struct ts_host_vgpu* vgpu, uint32_t vector);
/* One MSI message. Any. */
void ts_host_signal_msi(struct ts_host_vgpu* vgpu);
/*
 * Level of INTx from now on. Any; the core calls it on changes only. On a rise (and when the user
 * unmasks while it is high) the shim signals the eventfd and masks.
 */
void ts_host_set_intx(struct ts_host_vgpu* vgpu, bool level);

/* ---- time and deferral --------------------------------------------------------------------- */

/* Monotonic nanoseconds. Any. */
uint64_t ts_host_now_ns(void);
/* Sleeps about this long (microseconds, 1..10000). Process. */
void ts_host_sleep_us(uint32_t microseconds);
/* Calls ts_vgpu_work() soon from process context; one call for many requests. Any. */
void ts_host_queue_vgpu_work(struct ts_host_vgpu* vgpu);
/* Calls ts_gpu_work() soon from process context; one call for many requests. Any. */
void ts_host_queue_gpu_work(struct ts_host_gpu* gpu);
/*
 * Calls ts_gpu_timer() once, `delay_ns` from now, replacing an earlier request. 0 cancels. Any.
 * (Scheduling policies with time slices; best effort arms none.)
 */
void ts_host_arm_timer(struct ts_host_gpu* gpu, uint64_t delay_ns);

/* ---- log ----------------------------------------------------------------------------------- */

enum ts_log_level { TS_LOG_ERROR = 0, TS_LOG_WARNING = 1, TS_LOG_INFO = 2 };

/*
 * What a line that a guest can cause is about. Each kind has a limit of its own per vGPU, and per
 * GPU: a guest that floods one does not hide the others.
 */
enum ts_log_kind {
  TS_LOG_UNLIMITED = 0,
  TS_LOG_CHANNEL,  /* instance blocks and USERD */
  TS_LOG_RUNLIST,  /* lists that are wrong */
  TS_LOG_FAULT,    /* fault packets */
  TS_LOG_PBDMA,    /* errors of a PBDMA */
  TS_LOG_TIMEOUT,  /* contexts that do not leave */
  TS_LOG_CAPACITY, /* tables and pins */
  TS_LOG_HARDWARE, /* the device does not do what it should */
  TS_LOG_KINDS
};

/*
 * One line without a newline. `vgpu` may be null: then the line is the GPU's. All but
 * TS_LOG_UNLIMITED are rate limited. Any.
 */
void ts_host_log(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu, enum ts_log_level level,
                 enum ts_log_kind kind, const char* line);

/* ---- dumps --------------------------------------------------------------------------------- */

/* Who reads a dump, as the operating system's side knows it. */
struct ts_host_dump;

/*
 * One line of a dump without a newline; locks of the core are held. false: the reader has no room
 * left and wants no more of this dump. Process, never sleeps for long.
 */
bool ts_host_dump_line(struct ts_host_dump* to, const char* line);

/* ---- trace --------------------------------------------------------------------------------- */

/*
 * What happens, for tracepoints (docs/sysfs-abi.md). While nobody listens a call costs the call and
 * a jump that is patched in when somebody does. `vgpu` null: it is nobody's. Any.
 */

/* A slice of one runlist, which has ended. */
struct ts_slice {
  uint64_t start_ns;     /* clock of ts_host_now_ns */
  uint64_t timestamp_ns; /* its end */
  uint64_t run_ns;       /* in it, the GPU's clock */
  uint64_t target_ns;
  uint64_t total_run_ns; /* of the function since it was opened, slices and what came late */
  uint64_t overshoot_ns; /* of the function so far: what came late */
  uint64_t preemptions;  /* of the function so far */
  uint32_t function;     /* 0: a slice that belongs to nobody */
};

void ts_host_trace_slice(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu, uint32_t runlist,
                         const struct ts_slice* slice);
/* `function` has work left, and `next` is next. */
void ts_host_trace_preempt(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu, uint32_t runlist,
                           uint32_t function, uint32_t next);
/* The hardware gets the list of `to` (0: an empty one), whose vGPU it is, instead of that of
 * `from`. */
void ts_host_trace_switch(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu, uint32_t runlist,
                          uint32_t from, uint32_t to, uint32_t entries);
/* A function that was idle may have work: its doorbell told (`doorbell`), or its guest by a trap.
 */
void ts_host_trace_wake(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu, uint32_t function,
                        bool doorbell);
/* A TSG (physical id) would not leave an engine and was dropped. */
void ts_host_trace_ctxsw_timeout(struct ts_host_gpu* gpu, struct ts_host_vgpu* vgpu,
                                 uint32_t engine, uint32_t tsgid);
/* Shadow page tables follow the guest's: so many entries; `more`: the rest is done later. */
void ts_host_trace_shadow_update(struct ts_host_vgpu* vgpu, uint64_t entries, bool more);
/* A fault packet goes to the guest: type, engine and access are the packet's fields. */
void ts_host_trace_fault(struct ts_host_vgpu* vgpu, uint32_t type, uint32_t engine, uint32_t access,
                         uint64_t address);
/* The vGPU is in its power-on state again. */
void ts_host_trace_reset(struct ts_host_vgpu* vgpu);

#ifdef __cplusplus
}
#endif

#endif /* MDEV_DRIVER_CORE_HOST_ABI_H_ */
