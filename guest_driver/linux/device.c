// SPDX-License-Identifier: GPL-2.0-only
/*
 * Start, stop and reset of the device.
 *
 * A reset (asked for through sysfs, by the PCI core, or by us when the GPU does not answer) loses
 * all VRAM and all channels. What user space made before it is lost: VMs, channels and VRAM objects
 * answer -EIO and are made anew; objects in system memory keep their contents.
 */
#include <linux/module.h>

#include <drm/drm_drv.h>

#include "ts104_drv.h"

static bool sysmem_tables;
module_param(sysmem_tables, bool, 0444);
MODULE_PARM_DESC(sysmem_tables, "Keep GPU page tables in system memory instead of VRAM (default N)");

static void ts104_core_free(struct kref *kref)
{
	struct ts104_core *core = container_of(kref, struct ts104_core, kref);

	tsg_device_destroy(core->tsg);
	kfree(core);
}

struct ts104_core *ts104_core_get(struct ts104_core *core)
{
	kref_get(&core->kref);
	return core;
}

void ts104_core_put(struct ts104_core *core)
{
	kref_put(&core->kref, ts104_core_free);
}

/*
 * Begins a use of the device: 0 and ts->core is set and stays until ts104_exit, or -ENODEV
 * (unplugged) or -EIO (being reset, or did not come back from it). May sleep.
 */
int ts104_enter(struct ts104_device *ts, int *idx)
{
	if (!drm_dev_enter(&ts->drm, idx))
		return -ENODEV;
	down_read(&ts->reset_sem);
	if (ts->core)
		return 0;
	ts104_exit(ts, *idx);
	return -EIO;
}

void ts104_exit(struct ts104_device *ts, int idx)
{
	up_read(&ts->reset_sem);
	drm_dev_exit(idx);
}

/* User space's mappings of the doorbell and of VRAM are asked for again at the next touch. */
static void ts104_zap_mappings(struct ts104_device *ts)
{
	unmap_mapping_range(ts->drm.anon_inode->i_mapping, 0, 0, 1);
}

/* Once the hardware cannot reach system memory any more. Channels first: they hold their VMs. */
static void ts104_core_free_limbo(struct ts104_core *core)
{
	struct ts104_channel *ch, *next_ch;
	struct ts104_vm *vm, *next_vm;
	LIST_HEAD(channels);
	LIST_HEAD(vms);
	LIST_HEAD(vas);

	/* No lock: a lost core gets no new entries, one without users never had any. */
	list_splice_init(&core->limbo_channels, &channels);
	list_for_each_entry_safe(ch, next_ch, &channels, limbo_link)
		ts104_channel_free(ch);
	list_splice_init(&core->limbo_vms, &vms);
	list_for_each_entry_safe(vm, next_vm, &vms, limbo_link)
		ts104_vm_free(vm);
	list_splice_init(&core->limbo_vas, &vas);
	ts104_vas_free(&vas);
}

/* Takes a freshly reset device into operation. Interrupts are off; the caller turns them on. */
int ts104_device_start(struct ts104_device *ts)
{
	struct ts104_core *core;
	int ret;

	core = kzalloc(sizeof(*core), GFP_KERNEL);
	if (!core)
		return -ENOMEM;
	kref_init(&core->kref);
	core->ts = ts;
	spin_lock_init(&core->limbo_lock);
	INIT_LIST_HEAD(&core->limbo_channels);
	INIT_LIST_HEAD(&core->limbo_vms);
	INIT_LIST_HEAD(&core->limbo_vas);

	ret = tsg_device_create(&ts104_os_ops, core, sysmem_tables ? TSG_CREATE_SYSMEM_TABLES : 0,
				&core->tsg);
	if (ret) {
		kfree(core);
		return ret;
	}
	tsg_device_get_info(core->tsg, &core->info);
	if (core->info.vram_bytes > ts->bar1_size) {
		dev_err(&ts->pdev->dev, "VRAM of %llu bytes, but BAR1 shows only %llu\n",
			core->info.vram_bytes, ts->bar1_size);
		ts104_core_put(core);
		return -ENODEV;
	}

	ts104_usage_start(core);
	down_write(&ts->reset_sem);
	ts->core = core;
	up_write(&ts->reset_sem);
	ts104_zap_mappings(ts);
	return 0;
}

/*
 * Ends the use of the device: takes channels off it where it still answers, and marks everything
 * made on it lost. Then nothing of this driver touches it until ts104_device_start.
 * Interrupts are off; does nothing on a stopped device.
 */
void ts104_device_stop(struct ts104_device *ts, bool answers)
{
	struct ts104_core *core;
	bool used;

	down_write(&ts->reset_sem);
	core = ts->core;
	ts->core = NULL;
	if (!core) {
		up_write(&ts->reset_sem);
		return;
	}
	/* Nobody can make anything new on it now, so this count only falls. */
	used = kref_read(&core->kref) > 1;
	if (used && answers && tsg_device_quiesce(core->tsg))
		dev_warn(&ts->pdev->dev, "channels do not leave the GPU\n");
	if (used || !answers) {
		WRITE_ONCE(core->lost, true);
		tsg_device_mark_lost(core->tsg);
	}
	up_write(&ts->reset_sem);

	ts104_zap_mappings(ts);
	ts104_wake_waiters(ts);
	/* A channel that did not leave must not write to memory that has a new owner by then. */
	pci_clear_master(ts->pdev);
	ts104_core_free_limbo(core);
	ts104_core_put(core);
}

/* The GPU does not answer: reset it soon. Process context, any locks but none of reset_work's. */
void ts104_device_wedged(struct ts104_core *core)
{
	struct ts104_device *ts = core->ts;

	if (READ_ONCE(core->lost))
		return;
	if (schedule_delayed_work(&ts->reset_work, 0))
		dev_err(&ts->pdev->dev, "GPU does not answer, resetting it\n");
}

void ts104_reset_work(struct work_struct *work)
{
	struct ts104_device *ts = container_of(work, struct ts104_device, reset_work.work);
	int ret;

	/*
	 * Comes back through reset_prepare and reset_done. Not the waiting variant: remove holds
	 * the device's lock while it waits for this work.
	 */
	ret = pci_try_reset_function(ts->pdev);
	if (ret == -EAGAIN) {
		schedule_delayed_work(&ts->reset_work, HZ / 10);
	} else if (ret) {
		dev_err(&ts->pdev->dev, "reset failed (%d), the GPU is out of use\n", ret);
		ts104_irq_disable(ts);
		ts104_device_stop(ts, false);
		ts104_irq_enable(ts);
	}
}
