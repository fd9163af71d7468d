// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PCI side: probe, remove, reset, suspend. A bare TS104, one passed through and a vGPU are the
 * same here.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include <drm/drm_drv.h>

#include "ts104_drv.h"

#define TS104_DMA_BITS 47

static int ts104_map_bars(struct ts104_device *ts)
{
	struct pci_dev *pdev = ts->pdev;

	if (pci_resource_len(pdev, TS104_PCI_BAR0_INDEX) < TS104_PCI_BAR0_SIZE ||
	    !pci_resource_len(pdev, TS104_PCI_BAR1_INDEX)) {
		dev_err(&pdev->dev, "BAR0 or BAR1 is missing\n");
		return -ENODEV;
	}
	ts->bar0_phys = pci_resource_start(pdev, TS104_PCI_BAR0_INDEX);
	ts->bar1_phys = pci_resource_start(pdev, TS104_PCI_BAR1_INDEX);
	ts->bar1_size = pci_resource_len(pdev, TS104_PCI_BAR1_INDEX);

	ts->bar0 = pcim_iomap(pdev, TS104_PCI_BAR0_INDEX, 0);
	/*
	 * VRAM is write-combining for the kernel and for user space alike: it lies across PCIe,
	 * where a cached copy would not notice what the GPU writes.
	 */
	ts->bar1 = devm_ioremap_wc(&pdev->dev, ts->bar1_phys, ts->bar1_size);
	return ts->bar0 && ts->bar1 ? 0 : -ENOMEM;
}

static int ts104_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct ts104_device *ts;
	int ret;

	ts = devm_drm_dev_alloc(&pdev->dev, &ts104_drm_driver, struct ts104_device, drm);
	if (IS_ERR(ts))
		return PTR_ERR(ts);
	ts->pdev = pdev;
	init_rwsem(&ts->reset_sem);
	init_waitqueue_head(&ts->event_wq);
	ts104_dma_init(ts);
	mutex_init(&ts->usage_lock);
	INIT_LIST_HEAD(&ts->usage_channels);
	INIT_DELAYED_WORK(&ts->reset_work, ts104_reset_work);
	pci_set_drvdata(pdev, ts);

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pcim_request_all_regions(pdev, "ts104");
	if (ret)
		return ret;
	ret = ts104_map_bars(ts);
	if (ret)
		return ret;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(TS104_DMA_BITS));
	if (ret)
		return ret;
	pci_set_master(pdev);
	/* For slot_reset. */
	pci_save_state(pdev);

	/* Before the interrupts: messages sent meanwhile wait in the vector's pending bit. */
	ret = ts104_device_start(ts);
	if (ret) {
		dev_err(&pdev->dev, "the GPU cannot be started: %d\n", ret);
		goto err_master;
	}
	ret = ts104_irq_init(ts);
	if (ret)
		goto err_stop;
	ret = drm_dev_register(&ts->drm, 0);
	if (ret)
		goto err_irq;

	dev_info(&pdev->dev, "TS104%s, %llu MiB of VRAM, %u channels, %u SMs\n",
		 ts->core->info.is_vgpu ? " vGPU" : "", ts->core->info.vram_bytes >> 20,
		 ts->core->info.num_chids, ts->core->info.sm_count);
	return 0;

err_irq:
	ts104_irq_fini(ts);
err_stop:
	ts104_device_stop(ts, true);
err_master:
	pci_clear_master(pdev);
	return ret;
}

/*
 * Also while files are open: they keep their objects, ioctls answer -ENODEV, mappings of the device
 * turn into ordinary pages, and the device reaches nothing of theirs any more.
 */
static void ts104_remove(struct pci_dev *pdev)
{
	struct ts104_device *ts = pci_get_drvdata(pdev);

	drm_dev_unplug(&ts->drm);
	ts104_irq_fini(ts);
	ts104_device_stop(ts, pci_device_is_present(pdev));
	cancel_delayed_work_sync(&ts->reset_work);
	ts104_dma_unmap_all(ts);
}

static void ts104_shutdown(struct pci_dev *pdev)
{
	ts104_remove(pdev);
}

/* FLR, bus reset: from sysfs, from the PCI core, from ts104_reset_work. */
static void ts104_reset_prepare(struct pci_dev *pdev)
{
	struct ts104_device *ts = pci_get_drvdata(pdev);

	ts104_irq_disable(ts);
	ts104_device_stop(ts, false);
}

static void ts104_reset_done(struct pci_dev *pdev)
{
	struct ts104_device *ts = pci_get_drvdata(pdev);
	int ret;

	pci_set_master(pdev);
	ret = ts104_device_start(ts);
	if (ret)
		dev_err(&pdev->dev, "the GPU does not come back from its reset: %d\n", ret);
	else
		dev_info(&pdev->dev, "the GPU was reset\n");
	ts104_irq_enable(ts);
}

static pci_ers_result_t ts104_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	ts104_reset_prepare(pdev);
	if (state == pci_channel_io_perm_failure) {
		ts104_irq_enable(pci_get_drvdata(pdev));
		return PCI_ERS_RESULT_DISCONNECT;
	}
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t ts104_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers ts104_err_handlers = {
	.error_detected = ts104_error_detected,
	.slot_reset = ts104_slot_reset,
	.resume = ts104_reset_done,
	.reset_prepare = ts104_reset_prepare,
	.reset_done = ts104_reset_done,
};

/* VRAM does not survive, and there is nobody to save it: only an unused GPU may be suspended. */
static int ts104_suspend(struct device *dev)
{
	struct ts104_device *ts = dev_get_drvdata(dev);
	bool used;

	down_read(&ts->reset_sem);
	used = ts->core && kref_read(&ts->core->kref) > 1;
	up_read(&ts->reset_sem);
	if (used) {
		dev_warn(dev, "suspend refused: programs have memory in VRAM or channels\n");
		return -EBUSY;
	}
	ts104_irq_disable(ts);
	ts104_device_stop(ts, true);
	return 0;
}

static int ts104_resume(struct device *dev)
{
	ts104_reset_done(to_pci_dev(dev));
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(ts104_pm_ops, ts104_suspend, ts104_resume);

static const struct pci_device_id ts104_pci_ids[] = {
	{ PCI_DEVICE(TS104_PCI_VENDOR_ID, TS104_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ts104_pci_ids);

static struct pci_driver ts104_pci_driver = {
	.name = "ts104",
	.id_table = ts104_pci_ids,
	.probe = ts104_probe,
	.remove = ts104_remove,
	.shutdown = ts104_shutdown,
	.err_handler = &ts104_err_handlers,
	.driver.pm = pm_sleep_ptr(&ts104_pm_ops),
};
module_pci_driver(ts104_pci_driver);

MODULE_DESCRIPTION("DRM render driver of the TS104 GPU");
MODULE_LICENSE("GPL");
