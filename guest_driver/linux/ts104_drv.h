/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ts104.ko: DRM render driver of the TS104 GPU. Shared by the files of this folder.
 *
 * The thinking (page tables, channels, interrupts) is the C++ core's, core/guest_abi.h. The files
 * here give it a PCI device and give user space the ioctls of include/uapi/ts104_drm.h.
 *
 * Locks, outermost first:
 *   ts104_device.reset_sem   read: whoever uses the device; write: stop and start of the device.
 *                            No access to user memory under it: faults of our mappings take it.
 *   ts104_file.lock          the tables of VMs and channels against each other
 *   ts104_vm.lock            the bookkeeping of one address space
 *   dma_resv of GEM objects  as drm_gpuvm wants it, through drm_exec
 *   ts104_channel.lock       one channel's core object
 *   ts104_device.usage_lock  engine time of the clients
 *   the core's own           core/guest_abi.h, TSG_RANK_*
 *   ts104_device.dma_lock    what of system memory is mapped for the device
 */
#ifndef TS104_DRV_H
#define TS104_DRV_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_gpuvm.h>

#include "core/guest_abi.h"
#include "include/uapi/ts104_drm.h"
#include "ts104/regs.h"

/* Caps per open file: what the hardware has would otherwise go to whoever asks first. */
#define TS104_MAX_VMS 256
#define TS104_MAX_CHANNELS 128

/* Values of enum drm_ts104_engine. */
#define TS104_NUM_ENGINE_KINDS 2

/* mmap offset of the doorbell page: below all offsets of GEM objects. */
#define TS104_DOORBELL_MMAP_OFFSET 0x10000ull

struct ts104_device;

/*
 * The device from one start to the next reset. What was made on it (VMs, channels, VRAM objects)
 * keeps it alive; after a reset such objects are lost and only good for being freed.
 */
struct ts104_core {
	struct kref kref;
	struct ts104_device *ts;
	struct tsg_device *tsg;
	struct tsg_device_info info;
	bool lost;		/* set once; read with READ_ONCE */
	atomic_t error_seq;	/* counts calls of tsg_service_errors that found something */

	/* What the hardware may still use because it did not answer: kept until it was reset. */
	spinlock_t limbo_lock;
	struct list_head limbo_channels;
	struct list_head limbo_vms;
	struct list_head limbo_vas;
};

struct ts104_irq {
	struct ts104_device *ts;
	int vector;		/* MSI-X entry; -1: MSI or INTx */
};

struct ts104_device {
	struct drm_device drm;
	struct pci_dev *pdev;
	void __iomem *bar0;
	void __iomem *bar1;	/* write-combining */
	resource_size_t bar0_phys;
	resource_size_t bar1_phys;
	u64 bar1_size;

	struct rw_semaphore reset_sem;
	struct ts104_core *core;	/* NULL: being reset, or gone for good */
	struct delayed_work reset_work;

	int num_irqs;
	struct ts104_irq irqs[TS104_PCI_MSIX_VECTORS];

	/* Interrupts that may have ended somebody's wait; event_seq changes before the wake-up. */
	wait_queue_head_t event_wq;
	atomic_t event_seq;

	atomic_t runlist_channels[TSG_NUM_RUNLISTS];

	/* dma.c */
	struct mutex dma_lock;		/* the next two, and their members' mappings */
	struct list_head dma_bos;	/* objects in system memory */
	struct list_head dma_pages;	/* pages of the cores' own structures */

	/* usage.c */
	struct mutex usage_lock;	/* the next two, and engine_ns of all files */
	struct list_head usage_channels;
	u64 usage_time[TSG_NUM_RUNLISTS];
	u32 copy_engines;
};

static inline struct ts104_device *to_ts104(struct drm_device *drm)
{
	return container_of(drm, struct ts104_device, drm);
}

struct ts104_file {
	struct mutex lock;	/* vms and channels against each other */
	struct xarray vms;
	struct xarray channels;
	struct page *dummy;	/* behind the doorbell mapping when the device is gone */
	u64 engine_ns[TS104_NUM_ENGINE_KINDS];
};

/* Both placements; a VRAM object uses of shmem only the GEM object in it. */
struct ts104_bo {
	struct drm_gem_shmem_object shmem;	/* first: its helpers free it */
	u32 placement;
	struct ts104_core *core;	/* VRAM: whose allocator `vram` comes from */
	u64 vram;
	struct list_head dma_link;	/* system memory: in ts104_device.dma_bos */
	struct page *dummy;		/* VRAM: behind mappings when the memory is gone */
};

static inline struct ts104_bo *to_ts104_bo(struct drm_gem_object *obj)
{
	return container_of(to_drm_gem_shmem_obj(obj), struct ts104_bo, shmem);
}

struct ts104_vm {
	struct drm_gpuvm gpuvm;
	struct kref kref;
	struct ts104_core *core;
	struct tsg_vm *tsg;
	struct mutex lock;		/* gpuvm and dead_vas */
	struct list_head dead_vas;	/* unmapped, but the TLB may still know them */
	unsigned int channels;		/* under ts104_file.lock */
	struct list_head limbo_link;
};

/* One binding. */
struct ts104_va {
	struct drm_gpuva gpuva;
	u32 map_flags;			/* TSG_MAP_* */
	struct list_head dead_link;
};

struct ts104_channel {
	struct kref kref;
	struct ts104_core *core;
	struct ts104_vm *vm;
	struct ts104_bo *userd;
	u32 runlist;
	struct mutex lock;		/* tsg */
	struct tsg_channel *tsg;	/* not to be used once closed */
	bool closed;			/* under lock; a peek without it by READ_ONCE */
	struct ts104_file *file;	/* not to be used once closed */
	u32 engine;			/* enum drm_ts104_engine */
	struct list_head usage_link;
	u32 usage_gp_get;
	bool usage_active;
	int checked_seq;		/* core->error_seq at which the channel was found healthy */
	struct list_head limbo_link;
};

/* device.c: start, stop, reset of the hardware */
int ts104_device_start(struct ts104_device *ts);
void ts104_device_stop(struct ts104_device *ts, bool answers);
void ts104_device_wedged(struct ts104_core *core);
void ts104_reset_work(struct work_struct *work);
int ts104_enter(struct ts104_device *ts, int *idx);
void ts104_exit(struct ts104_device *ts, int idx);
struct ts104_core *ts104_core_get(struct ts104_core *core);
void ts104_core_put(struct ts104_core *core);

/* host.c: what the core asks of the kernel */
extern const struct tsg_os_ops ts104_os_ops;

/* irq.c */
int ts104_irq_init(struct ts104_device *ts);
void ts104_irq_fini(struct ts104_device *ts);
void ts104_irq_disable(struct ts104_device *ts);
void ts104_irq_enable(struct ts104_device *ts);
void ts104_wake_waiters(struct ts104_device *ts);

/* drm.c */
extern const struct drm_driver ts104_drm_driver;

/* dma.c */
void ts104_dma_init(struct ts104_device *ts);
int ts104_dma_page_alloc(struct ts104_device *ts, struct tsg_dma_page *out);
void ts104_dma_page_free(struct ts104_device *ts, const struct tsg_dma_page *in);
void ts104_dma_bo_add(struct ts104_device *ts, struct ts104_bo *bo);
void ts104_dma_bo_remove(struct ts104_device *ts, struct ts104_bo *bo);
void ts104_dma_unmap_all(struct ts104_device *ts);

/* gem.c */
struct ts104_bo *ts104_bo_create(struct ts104_device *ts, u64 size, u32 placement);
struct drm_gem_object *ts104_gem_create_object(struct drm_device *drm, size_t size);
u64 ts104_bo_read(struct ts104_bo *bo, u64 offset, bool wide);
void ts104_bo_zero_first_page(struct ts104_bo *bo);
u64 ts104_bo_dma_address(struct ts104_bo *bo);
int ts104_mmap(struct file *filp, struct vm_area_struct *vma);
int ts104_gem_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_gem_mmap_offset_ioctl(struct drm_device *drm, void *data, struct drm_file *file);

/* vm.c */
struct ts104_vm *ts104_vm_lookup(struct ts104_file *tf, u32 id);
void ts104_vm_put(struct ts104_vm *vm);
void ts104_vm_free(struct ts104_vm *vm);
bool ts104_vm_is_bound(struct ts104_vm *vm, u64 va, u64 size);
void ts104_vas_free(struct list_head *vas);
int ts104_vm_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_vm_destroy_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_vm_bind_ioctl(struct drm_device *drm, void *data, struct drm_file *file);

/* channel.c */
struct ts104_channel *ts104_channel_lookup(struct ts104_file *tf, u32 id);
void ts104_channel_put(struct ts104_channel *ch);
void ts104_channel_close(struct ts104_channel *ch, struct drm_file *file);
int ts104_channel_check(struct ts104_channel *ch);
void ts104_channel_free(struct ts104_channel *ch);
int ts104_channel_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_channel_destroy_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_channel_status_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int ts104_channel_reset_ioctl(struct drm_device *drm, void *data, struct drm_file *file);

/* usage.c */
void ts104_usage_start(struct ts104_core *core);
void ts104_usage_add(struct ts104_channel *ch);
void ts104_usage_remove(struct ts104_channel *ch);
void ts104_usage_read(struct ts104_device *ts, struct ts104_file *tf, u64 *engine_ns);

/* wait.c */
int ts104_wait_ioctl(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* TS104_DRV_H */
