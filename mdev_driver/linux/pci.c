// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI function of TS104: probe and remove, interrupts, power management.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pm.h>

#include "ts104/regs.h"
#include "turnstile.h"

/* The device's addresses in page tables and instance blocks have 47 bits. */
#define TSL_DMA_BITS 47

static irqreturn_t tsl_irq_hard(int irq, void *data)
{
	struct ts_host_gpu *gpu = data;

	switch (ts_gpu_irq(gpu->core)) {
	case TS_IRQ_HANDLED:
		return IRQ_HANDLED;
	case TS_IRQ_WAKE:
		return IRQ_WAKE_THREAD;
	default:
		return IRQ_NONE;
	}
}

static irqreturn_t tsl_irq_thread(int irq, void *data)
{
	struct ts_host_gpu *gpu = data;

	ts_gpu_irq_thread(gpu->core);
	return IRQ_HANDLED;
}

static void tsl_free_irqs(struct ts_host_gpu *gpu)
{
	int i;

	for (i = 0; i < gpu->n_irqs; i++)
		free_irq(pci_irq_vector(gpu->pdev, i), gpu);
	gpu->n_irqs = 0;
	pci_free_irq_vectors(gpu->pdev);
}

/*
 * All six MSI-X vectors, else one MSI or INTx: the core finds out from the interrupt trees what has
 * happened, whichever message told of it.
 */
static int tsl_request_irqs(struct ts_host_gpu *gpu)
{
	struct pci_dev *pdev = gpu->pdev;
	unsigned long flags;
	int count, ret, i;

	count = pci_alloc_irq_vectors(pdev, TS104_PCI_MSIX_VECTORS, TS104_PCI_MSIX_VECTORS,
				      PCI_IRQ_MSIX);
	if (count < 0)
		count = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_ALL_TYPES & ~PCI_IRQ_MSIX);
	if (count < 0)
		return count;
	flags = pdev->msix_enabled || pdev->msi_enabled ? 0 : IRQF_SHARED;
	for (i = 0; i < count; i++) {
		ret = request_threaded_irq(pci_irq_vector(pdev, i), tsl_irq_hard, tsl_irq_thread,
					   flags, TSL_NAME, gpu);
		if (ret) {
			tsl_free_irqs(gpu);
			return ret;
		}
		gpu->n_irqs = i + 1;
	}
	return 0;
}

/* Hands the device to the core and lets its interrupts through. */
static int tsl_start(struct ts_host_gpu *gpu)
{
	struct ts_gpu_params params = {
		.bar1_bytes = gpu->bar1_bytes,
		.policy = tsl_policy,
		.pin_batch = gpu->pin_batch,
	};
	int ret;

	pci_set_master(gpu->pdev);
	ret = ts_gpu_create(gpu, &params, &gpu->core);
	if (ret) {
		dev_err(&gpu->pdev->dev, "TS104 does not start: error %d\n", ret);
		goto err_master;
	}
	ret = tsl_request_irqs(gpu);
	if (ret) {
		dev_err(&gpu->pdev->dev, "no interrupts: error %d\n", ret);
		goto err_core;
	}
	/* What the core asked for while it was made found no core to work. */
	queue_work(gpu->queue, &gpu->work);
	return 0;

err_core:
	tsl_host_stop_gpu(gpu);
	ts_gpu_destroy(gpu->core);
	gpu->core = NULL;
err_master:
	pci_clear_master(gpu->pdev);
	return ret;
}

int tsl_recover(struct ts_host_gpu *gpu)
{
	struct ts_gpu *core = READ_ONCE(gpu->core);
	int ret;

	mutex_lock(&gpu->vgpus_lock);
	if (gpu->resetting)
		ret = -EBUSY;
	else
		ret = core ? ts_gpu_recover(core) : -EIO;
	if (!ret)
		WRITE_ONCE(gpu->lost, false);
	mutex_unlock(&gpu->vgpus_lock);
	if (!ret)
		dev_info(&gpu->pdev->dev, "started over\n");
	return ret == -ENOENT || ret == -ETIMEDOUT ? -EIO : ret;
}

static void tsl_stop(struct ts_host_gpu *gpu)
{
	if (!gpu->core)
		return;
	tsl_free_irqs(gpu);
	tsl_host_stop_gpu(gpu);
	ts_gpu_destroy(gpu->core);
	gpu->core = NULL;
	pci_clear_master(gpu->pdev);
}

static int tsl_map_bars(struct ts_host_gpu *gpu)
{
	struct pci_dev *pdev = gpu->pdev;

	gpu->bar1_bytes = pci_resource_len(pdev, TS104_PCI_BAR1_INDEX);
	if (pci_resource_len(pdev, TS104_PCI_BAR0_INDEX) != TS104_PCI_BAR0_SIZE ||
	    pci_resource_len(pdev, TS104_PCI_BAR3_INDEX) != TS104_PCI_BAR3_SIZE ||
	    !gpu->bar1_bytes) {
		dev_err(&pdev->dev, "BARs of %llu, %llu, %llu bytes are not those of a TS104\n",
			(u64)pci_resource_len(pdev, TS104_PCI_BAR0_INDEX), gpu->bar1_bytes,
			(u64)pci_resource_len(pdev, TS104_PCI_BAR3_INDEX));
		return -ENODEV;
	}
	gpu->bar0 = ioremap(pci_resource_start(pdev, TS104_PCI_BAR0_INDEX), TS104_PCI_BAR0_SIZE);
	if (!gpu->bar0)
		return -ENOMEM;
	/* BAR1 is memory behind PCI: write-combining, see vfio_mmap.c. BAR3 is only for guests. */
	gpu->bar1 = ioremap_wc(pci_resource_start(pdev, TS104_PCI_BAR1_INDEX), gpu->bar1_bytes);
	if (!gpu->bar1) {
		iounmap(gpu->bar0);
		return -ENOMEM;
	}
	return 0;
}

static int tsl_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct ts_gpu_info info;
	struct ts_host_gpu *gpu;
	int ret;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return -ENOMEM;
	gpu->pdev = pdev;
	gpu->pin_batch = tsl_pin_batch;
	mutex_init(&gpu->vgpus_lock);
	INIT_LIST_HEAD(&gpu->vgpus);
	tsl_host_init_gpu(gpu);
	pci_set_drvdata(pdev, gpu);

	ret = pci_enable_device(pdev);
	if (ret)
		goto err_free;
	ret = pci_request_regions(pdev, TSL_NAME);
	if (ret)
		goto err_disable;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(TSL_DMA_BITS));
	if (ret)
		goto err_regions;
	ret = tsl_map_bars(gpu);
	if (ret)
		goto err_regions;
	gpu->queue = alloc_workqueue(TSL_NAME "-%s", WQ_UNBOUND, 0, pci_name(pdev));
	if (!gpu->queue) {
		ret = -ENOMEM;
		goto err_unmap;
	}
	ret = tsl_start(gpu);
	if (ret)
		goto err_queue;
	ret = tsl_devlink_add(gpu);
	if (ret)
		goto err_stop;
	tsl_debugfs_add_gpu(gpu);
	/* Last: a uevent tells user space that vGPUs can be created from now on. */
	ret = tsl_mdev_register(gpu);
	if (ret)
		goto err_debugfs;

	ts_gpu_get_info(gpu->core, &info);
	dev_info(&pdev->dev, "TS104: %llu MiB VRAM, %u channels, %u SMs at %u MHz, policy %s\n",
		 info.vram_bytes >> 20, info.channels, info.sm_count, info.engine_mhz,
		 ts_gpu_policy(gpu->core));
	return 0;

err_debugfs:
	tsl_debugfs_remove_gpu(gpu);
	tsl_devlink_remove(gpu);
err_stop:
	tsl_stop(gpu);
err_queue:
	destroy_workqueue(gpu->queue);
err_unmap:
	iounmap(gpu->bar1);
	iounmap(gpu->bar0);
err_regions:
	pci_release_regions(pdev);
err_disable:
	pci_disable_device(pdev);
err_free:
	kfree(gpu);
	return ret;
}

/* Nothing that a vGPU had on the device is there any more: its user gets errors, no silence. */
static void tsl_pci_lost(struct ts_host_gpu *gpu)
{
	struct ts_host_vgpu *vgpu;

	WRITE_ONCE(gpu->lost, true);
	mutex_lock(&gpu->vgpus_lock);
	list_for_each_entry(vgpu, &gpu->vgpus, link)
		tsl_mmap_revoke(vgpu);
	mutex_unlock(&gpu->vgpus_lock);
}

/*
 * VFIO asks the user of each open vGPU to let go (tsl_irq_request) and waits for it; what this
 * driver does after that is bounded. A vGPU is never taken from a running machine, unless the
 * device itself went.
 */
static void tsl_pci_remove(struct pci_dev *pdev)
{
	struct ts_host_gpu *gpu = pci_get_drvdata(pdev);

	if (!pci_device_is_present(pdev))
		tsl_pci_lost(gpu);
	tsl_mdev_unregister(gpu);
	tsl_debugfs_remove_gpu(gpu);
	tsl_devlink_remove(gpu);
	tsl_stop(gpu);
	destroy_workqueue(gpu->queue);
	iounmap(gpu->bar1);
	iounmap(gpu->bar0);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
	mutex_destroy(&gpu->vgpus_lock);
	kfree(gpu);
}

/*
 * VRAM does not survive the sleep of the machine and nothing here saves it. So the machine does not
 * sleep while a vGPU exists; prepare comes before any device is suspended.
 */
static int tsl_pm_prepare(struct device *dev)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);
	unsigned int count;

	mutex_lock(&gpu->vgpus_lock);
	count = gpu->n_vgpus;
	mutex_unlock(&gpu->vgpus_lock);
	if (!count)
		return 0;
	dev_err(dev, "no suspend or hibernation while vGPUs exist (%u): remove them first\n",
		count);
	return -EBUSY;
}

static int tsl_pm_suspend(struct device *dev)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);

	tsl_health_pause(gpu);
	tsl_stop(gpu);
	return 0;
}

static int tsl_pm_resume(struct device *dev)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);
	int ret = tsl_start(gpu);

	if (!ret)
		WRITE_ONCE(gpu->lost, false);
	tsl_health_resume(gpu);
	if (!ret)
		tsl_health_is_good(gpu);
	return ret;
}

static const struct dev_pm_ops tsl_pm_ops = {
	.prepare = pm_sleep_ptr(tsl_pm_prepare),
	SYSTEM_SLEEP_PM_OPS(tsl_pm_suspend, tsl_pm_resume)
};

/*
 * Somebody resets the device by sysfs; that cannot be refused. Neither the registers that the core
 * set up nor the VRAM of the guests survive it.
 */
static void tsl_reset_prepare(struct pci_dev *pdev)
{
	struct ts_host_gpu *gpu = pci_get_drvdata(pdev);

	dev_err(&pdev->dev, "reset from outside: what vGPUs had on it is lost\n");
	mutex_lock(&gpu->vgpus_lock);
	gpu->resetting = true;
	mutex_unlock(&gpu->vgpus_lock);
	tsl_pci_lost(gpu);
}

static void tsl_reset_done(struct pci_dev *pdev)
{
	struct ts_host_gpu *gpu = pci_get_drvdata(pdev);
	int ret;

	mutex_lock(&gpu->vgpus_lock);
	gpu->resetting = false;
	mutex_unlock(&gpu->vgpus_lock);
	ret = tsl_recover(gpu);
	if (!ret) {
		tsl_health_is_good(gpu);
		return;
	}
	dev_err(&pdev->dev,
		"not started over (%pe): remove its vGPUs, then bind its driver anew or have devlink recover it\n",
		ERR_PTR(ret));
	tsl_health_event(gpu, TSL_HEALTH_HARDWARE, "reset from outside and not started over");
}

static const struct pci_error_handlers tsl_error_handlers = {
	.reset_prepare = tsl_reset_prepare,
	.reset_done = tsl_reset_done,
};

static const struct pci_device_id tsl_pci_ids[] = {
	{ PCI_DEVICE(TS104_PCI_VENDOR_ID, TS104_PCI_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, tsl_pci_ids);

/* The name is the first part of the type ids, e.g. turnstile-ts104_v4: part of the ABI. */
struct pci_driver tsl_pci_driver = {
	.name = TSL_NAME,
	.id_table = tsl_pci_ids,
	.probe = tsl_pci_probe,
	.remove = tsl_pci_remove,
	.dev_groups = tsl_gpu_groups,
	.err_handler = &tsl_error_handlers,
	.driver.pm = pm_ptr(&tsl_pm_ops),
};
