/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * turnstile.ko, the kernel's side: what its files share. It owns all that is Linux (PCI, VFIO,
 * mdev, eventfds, user mappings, pages). What a vGPU does is decided in core/, which is reached
 * through core_abi.h and asks for Linux through host_abi.h.
 *
 * Names: tsl_ is this side, ts_host_ is what the core calls, ts_gpu_ and ts_vgpu_ are the core's.
 *
 * Locks, outermost first (the core's own locks are in docs/locking.md):
 *   tsl_irqs.gate       who configures a vGPU's interrupts; held across ts_vgpu_set_irq_mode
 *   ts_host_vgpu.bench_lock  pin benchmark against dma_unmap and close; held across pins
 *   core locks
 *   tsl_irqs.lock, tsl_leaving.lock, tsl_health.lock   spinlocks, taken last, never held across a
 *                       call of the core
 * devlink calls the core, and takes vgpus_lock, with its own locks held: nothing calls devlink with
 * a lock of this driver held.
 * The core pins guest pages under its locks and pinning takes mmap_lock. So whatever runs under
 * mmap_lock (mmap, page faults) must not take a lock of the core, and the C code touches no user
 * memory while it holds one.
 */
#ifndef TURNSTILE_TURNSTILE_H_
#define TURNSTILE_TURNSTILE_H_

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/ratelimit.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/vfio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "core/core_abi.h"

#define TSL_NAME "turnstile"

/* Pages in one call of vfio_pin_pages() at most; VFIO_PIN_PAGES_MAX_ENTRIES with 4 KiB pages. */
#define TSL_PIN_BATCH_MAX 512

/* What devlink's health reporters are about; see devlink.c. */
enum tsl_health_kind { TSL_HEALTH_HARDWARE, TSL_HEALTH_TIMEOUT };

#define TSL_HEALTH_KINDS 2

struct tsl_health_event {
	u64 count;
	bool fresh; /* not reported yet */
	char line[192]; /* the last one's */
};

struct tsl_health {
	struct ts_host_gpu *gpu;
	struct devlink *devlink;
	struct devlink_health_reporter *reporters[TSL_HEALTH_KINDS];
	struct delayed_work work;
	spinlock_t lock; /* of the next three */
	bool listening;
	unsigned long next; /* jiffies; no report before */
	struct tsl_health_event events[TSL_HEALTH_KINDS];
};

struct tsl_type {
	struct mdev_type mdev;
	char pretty_name[32];
	u32 index;
};

/* A TS104, as the host sees it. Lives from PCI probe to remove. */
struct ts_host_gpu {
	struct pci_dev *pdev;
	/* Null only while the machine sleeps. */
	struct ts_gpu *core;

	u8 __iomem *bar0;
	u8 __iomem *bar1;
	u64 bar1_bytes;
	/* Removed by surprise or reset behind our back: what vGPUs had on it is lost for good. */
	bool lost;

	u32 pin_batch;
	int n_irqs;
	struct workqueue_struct *queue;
	struct work_struct work;
	struct hrtimer timer;
	struct ratelimit_state log_limits[TS_LOG_KINDS];
	struct tsl_health health;

	struct mdev_parent parent;
	struct tsl_type types[TS_TYPE_COUNT];
	struct mdev_type *type_list[TS_TYPE_COUNT];

	struct mutex vgpus_lock; /* of the next three; lost is set to false under it */
	struct list_head vgpus;
	unsigned int n_vgpus;
	/* Between reset_prepare and reset_done, when nobody else may start the device over. */
	bool resetting;

	struct dentry *debugfs;
};

/*
 * What the user of a vGPU wants to be told, and how. A null context: nobody listens. Contexts are
 * changed under gate and used under RCU, never under lock: a wake-up of a user's eventfd may come
 * back as tsl_intx_unmask_handler.
 */
struct tsl_irqs {
	struct mutex gate; /* of all but what lock guards */
	enum ts_irq_mode mode;
	struct eventfd_ctx __rcu *intx;
	struct eventfd_ctx __rcu *msi;
	struct eventfd_ctx __rcu *msix[TS_MSIX_VECTORS];
	struct eventfd_ctx __rcu *request;
	/* Unmasking and masking by eventfd, which is how KVM tells of an end of interrupt. */
	struct virqfd *intx_unmask;
	struct virqfd *intx_mask;
	spinlock_t lock; /* of the next two */
	bool intx_level;
	bool intx_masked;
};

/* Guest memory that VFIO is taking away; see guest_memory.c. */
#define TSL_LEAVING_SLOTS 16
struct tsl_leaving {
	spinlock_t lock; /* of all */
	unsigned int next;
	struct {
		u64 first;
		u64 last;
		unsigned long until; /* jiffies; slot in use until then */
		bool used;
	} slots[TSL_LEAVING_SLOTS];
};

struct tsl_pin_bench {
	u32 pages;
	u32 batch;
	u64 pin_ns;
	u64 unpin_ns;
	int error;
};

/* A mediated device. Lives from mdev probe to the last reference of its vfio_device. */
struct ts_host_vgpu {
	struct vfio_device vdev; /* first: VFIO frees it by this address */
	struct ts_host_gpu *gpu;
	struct mdev_device *mdev;
	struct ts_vgpu *core;
	struct list_head link; /* gpu->vgpus */
	/* 1..TSL_SLOT_MAX, part of the region offsets; see tsl_region_offset(). */
	int slot;

	struct work_struct work;
	struct tsl_irqs irqs;
	struct ratelimit_state log_limits[TS_LOG_KINDS];

	/* Read: a page fault makes entries. Written: the next two change. Taken under mmap_lock. */
	struct rw_semaphore map_lock;
	bool revoked;
	/*
	 * VRAM [clear_offset, +clear_length) is being cleared: set under map_lock, and whoever faults
	 * waits. clear_work takes no lock, so waiting for it is right under any.
	 */
	bool clearing;
	u64 clear_offset;
	u64 clear_length;
	struct work_struct clear_work;
	wait_queue_head_t cleared;
	/* Of the open file; null while nothing was mapped. */
	struct address_space *mapping;

	struct tsl_leaving leaving;
	atomic_long_t pages_pinned;
	struct ratelimit_state pin_failures; /* for want of memory */
	unsigned long pin_pause; /* jiffies; no pins until then */
	struct mutex bench_lock; /* of the next two */
	bool opened;
	struct tsl_pin_bench bench;

	struct dentry *debugfs;
};

static inline struct ts_host_vgpu *tsl_vgpu_of(struct vfio_device *vdev)
{
	return container_of(vdev, struct ts_host_vgpu, vdev);
}

/*
 * Regions in the device file: bits 39:0 the offset in the region, 47:40 its index, 62:48 the vGPU.
 * The vGPU is in it because up to 6.1 the files of all vGPUs share one address space with every
 * other anonymous inode: only an offset that no one else uses can be unmapped without hitting them.
 */
#define TSL_REGION_SHIFT 40
#define TSL_SLOT_SHIFT 48
#define TSL_SLOT_MAX 0x7fff

static inline u64 tsl_region_offset(const struct ts_host_vgpu *vgpu, u32 index)
{
	return ((u64)vgpu->slot << TSL_SLOT_SHIFT) | ((u64)index << TSL_REGION_SHIFT);
}

/* Splits a file offset. false: not one of this vGPU. */
static inline bool tsl_region_of(const struct ts_host_vgpu *vgpu, u64 position, u32 *index,
				 u64 *offset)
{
	*index = (position >> TSL_REGION_SHIFT) & 0xff;
	*offset = position & (BIT_ULL(TSL_REGION_SHIFT) - 1);
	return position >> TSL_SLOT_SHIFT == vgpu->slot && *index < VFIO_PCI_NUM_REGIONS;
}

/* Who reads a dump of the core: debugfs or devlink. */
struct ts_host_dump {
	/* As ts_host_dump_line. */
	bool (*line)(struct ts_host_dump *to, const char *line);
	void *reader;
};

/* module.c */
extern char *tsl_policy;
extern unsigned int tsl_pin_batch;
void tsl_log_policies(struct device *dev, const char *wrong);

/* pci.c */
extern struct pci_driver tsl_pci_driver;
/*
 * Starts the device over, whatever it went through. -EBUSY: vGPUs exist, or it is being reset. -EIO:
 * it does not answer as a TS104 does, or the machine sleeps. Process.
 */
int tsl_recover(struct ts_host_gpu *gpu);

/* host.c */
void tsl_host_init_gpu(struct ts_host_gpu *gpu);
/* After it nothing of the core runs by itself. */
void tsl_host_stop_gpu(struct ts_host_gpu *gpu);
void tsl_host_init_vgpu(struct ts_host_vgpu *vgpu);

/* mdev.c */
extern struct mdev_driver tsl_mdev_driver;
int tsl_mdev_register(struct ts_host_gpu *gpu);
void tsl_mdev_unregister(struct ts_host_gpu *gpu);

/* vfio_device.c */
extern const struct vfio_device_ops tsl_vfio_ops;

/* vfio_irq.c */
void tsl_irq_init(struct ts_host_vgpu *vgpu);
/* Forgets every eventfd. Process. */
void tsl_irq_release(struct ts_host_vgpu *vgpu);
int tsl_irq_get_info(struct ts_host_vgpu *vgpu, void __user *arg);
int tsl_irq_set(struct ts_host_vgpu *vgpu, void __user *arg);
void tsl_irq_request(struct ts_host_vgpu *vgpu, unsigned int count);

/* vfio_mmap.c */
void tsl_mmap_init(struct ts_host_vgpu *vgpu);
int tsl_mmap(struct vfio_device *vdev, struct vm_area_struct *vma);
/* Takes the mappings of VRAM away; from now on they come back when `clearing` is over. Process. */
void tsl_mmap_block_vram(struct ts_host_vgpu *vgpu);
/* Takes every mapping away; touching one is SIGBUS from now on. Process. */
void tsl_mmap_revoke(struct ts_host_vgpu *vgpu);

/* guest_memory.c */
void tsl_guest_memory_init(struct ts_host_vgpu *vgpu);
void tsl_dma_unmap(struct vfio_device *vdev, u64 iova, u64 length);
int tsl_pin_bench_run(struct ts_host_vgpu *vgpu, u64 gpa, u32 pages, u32 batch);

/* sysfs.c */
struct tsl_counter {
	const char *name;
	size_t offset; /* in struct ts_counters, a u64 */
};

extern const struct tsl_counter tsl_counters[];
extern const unsigned int tsl_n_counters;
extern const struct attribute_group *tsl_gpu_groups[];
extern const struct attribute_group *tsl_vgpu_groups[];

/* devlink.c */
#if IS_ENABLED(CONFIG_NET_DEVLINK)
/* Before anything that could be an event. Process. */
void tsl_health_init(struct ts_host_gpu *gpu);
/* One that happens while nobody listens is counted. Any. */
void tsl_health_event(struct ts_host_gpu *gpu, enum tsl_health_kind kind, const char *line);
/* While the machine sleeps nothing is reported, and no recovery meets a core that goes. Process. */
void tsl_health_pause(struct ts_host_gpu *gpu);
void tsl_health_resume(struct ts_host_gpu *gpu);
/* The device was started over without devlink. Process, with the device's lock. */
void tsl_health_is_good(struct ts_host_gpu *gpu);
/* Process. -ENOMEM. */
int tsl_devlink_add(struct ts_host_gpu *gpu);
void tsl_devlink_remove(struct ts_host_gpu *gpu);
#else
static inline void tsl_health_init(struct ts_host_gpu *gpu)
{
}

static inline void tsl_health_event(struct ts_host_gpu *gpu, enum tsl_health_kind kind,
				    const char *line)
{
}

static inline void tsl_health_pause(struct ts_host_gpu *gpu)
{
}

static inline void tsl_health_resume(struct ts_host_gpu *gpu)
{
}

static inline void tsl_health_is_good(struct ts_host_gpu *gpu)
{
}

static inline int tsl_devlink_add(struct ts_host_gpu *gpu)
{
	return 0;
}

static inline void tsl_devlink_remove(struct ts_host_gpu *gpu)
{
}
#endif

/* debugfs.c */
void tsl_debugfs_init(void);
void tsl_debugfs_exit(void);
void tsl_debugfs_add_gpu(struct ts_host_gpu *gpu);
void tsl_debugfs_remove_gpu(struct ts_host_gpu *gpu);
void tsl_debugfs_add_vgpu(struct ts_host_vgpu *vgpu);
void tsl_debugfs_remove_vgpu(struct ts_host_vgpu *vgpu);

#endif /* TURNSTILE_TURNSTILE_H_ */
