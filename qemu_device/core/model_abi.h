/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The TS104 model seen from C: what a PCI shim or a test needs to run it.
 *
 * The model is one GPU function without the PCI part. The shim owns config space (also its
 * read-only mirror at BAR0 + 0x88000), the MSI-X table and PBA (BAR0 + 0xb90000 and 0xba0000) and
 * lays them over BAR0; every other BAR0 and BAR3 access goes to the functions below. VRAM is plain
 * memory of the caller: BAR1 maps it directly, the model uses it from its own thread.
 *
 * Threads. Register accesses, ts104_bus_master and ts104_reset may come from any thread, also at
 * the same time. They never wait for running work, but for ts104_reset and the write to PMC ENABLE
 * that resets PFIFO: these wait for the piece of work at hand, some milliseconds. Create, destroy,
 * start and stop belong to one thread. With the thread stopped (as after create) the caller drives
 * the model with ts104_run_until.
 */
#ifndef TS104_MODEL_ABI_H_
#define TS104_MODEL_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts104_model ts104_model;

struct ts104_config {
  uint64_t vram_bytes; /* power of two, 64 MiB .. 16 GiB */
  uint32_t engine_mhz; /* 1 .. 10000: cycles of one SM per microsecond */
  uint32_t sms;        /* 1 .. 64: CTAs that run at the same time */
  uint32_t ctxsw_us;   /* 0 .. 1000000: cost of a context switch */
};

/*
 * What the model needs from its host. All but vram_clear and touched must be set.
 *
 * dma_read, dma_write: move bytes of system memory. 0 on success; anything else is seen by the GPU
 *   as an access that the platform rejects. Called from the model's thread, from ts104_run_until
 *   and from a PRAMIN access, never with a lock of the model held. They must not take a lock that
 *   the caller of ts104_reset or ts104_stop_thread may hold (QEMU's big lock): refuse what is not
 *   plain memory.
 * now_ns: the device clock, nanoseconds since the Unix epoch. Never goes back. Any thread.
 * irq: interrupts of function 0 and of PMC. May be called with the model's lock held and from any
 *   thread, so it must not block nor call back into the model (a shim schedules a bottom half).
 *   msix_pulse_mask: MSI-X entries to send once each. msi_pulse: send the MSI message once.
 *   intx_level: state of INTx from now on. Which of the three counts is for the shim to say.
 * vram_clear: makes all VRAM read 0, faster than writing it; 0 on success. May be NULL; then, and
 *   on any other value, the model writes zeros. Called from ts104_reset.
 * touched: for tests, may be NULL. A context of function gfid is about to reach [addr, addr + len)
 *   of VRAM or system memory: USERD, a physical context buffer, or through the page tables. Context
 *   as dma_read; dma_read or dma_write follows when it is system memory. Structures of the device
 *   itself (lists, instance blocks, page tables, fault buffer) are not reported.
 */
struct ts104_host_ops {
  int (*dma_read)(void *opaque, uint64_t addr, void *buf, uint64_t len);
  int (*dma_write)(void *opaque, uint64_t addr, const void *buf, uint64_t len);
  uint64_t (*now_ns)(void *opaque);
  void (*irq)(void *opaque, uint32_t msix_pulse_mask, bool msi_pulse, bool intx_level);
  int (*vram_clear)(void *opaque);
  void (*touched)(void *opaque, uint32_t gfid, bool system, uint64_t addr, uint64_t len);
};

/*
 * A model in its reset state, thread stopped, bus mastering off. `vram` holds vram_bytes, page
 * aligned, and reads 0; it and `opaque` must outlive the model. `ops` is copied. NULL on failure:
 * one line that names the cause and the legal range is in err (errlen bytes with the ending 0; may
 * be NULL, 0).
 */
ts104_model *ts104_create(const struct ts104_config *cfg, void *vram,
                          const struct ts104_host_ops *ops, void *opaque, char *err, size_t errlen);
void ts104_destroy(ts104_model *m); /* stops the thread; NULL is allowed */

/*
 * Register accesses of 1, 2 or 4 bytes, naturally aligned (an 8-byte one is two of 4, low first).
 * Anything else reads 0 and writes nothing. BAR0: off < 16 MiB. BAR3: off < 4 MiB.
 */
uint32_t ts104_bar0_read(ts104_model *m, uint64_t off, unsigned size);
void ts104_bar0_write(ts104_model *m, uint64_t off, unsigned size, uint32_t val);
uint32_t ts104_bar3_read(ts104_model *m, uint64_t off, unsigned size);
void ts104_bar3_write(ts104_model *m, uint64_t off, unsigned size, uint32_t val);

/* Bus mastering as in the PCI command register. Off: every DMA is rejected. Reset turns it off. */
void ts104_bus_master(ts104_model *m, bool on);

/*
 * FLR, bus and system reset: returns when nothing runs any more and registers, TLBs, contexts,
 * pending work and VRAM are cleared. The thread, if started, goes on afterwards. Calls irq with
 * INTx low. Not from within an op.
 */
void ts104_reset(ts104_model *m);

/* The model's own thread, which runs work when its modelled time has come. start: 0 or an errno. */
int ts104_start_thread(ts104_model *m);
void ts104_stop_thread(ts104_model *m); /* returns when it has ended; pending work stays */

/*
 * Without the thread. ts104_run_until does everything that is due up to and including `ns`,
 * exactly and repeatably; set the clock to `ns` first. ts104_next_event: when there is something
 * to do next, UINT64_MAX when nothing is. Work that a register write starts is due at once.
 */
void ts104_run_until(ts104_model *m, uint64_t ns);
uint64_t ts104_next_event(ts104_model *m);

#ifdef __cplusplus
}
#endif

#endif /* TS104_MODEL_ABI_H_ */
