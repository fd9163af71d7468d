// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mdev side: types that can be created, and their creation and removal.
 */
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "trace.h"
#include "turnstile.h"

/* Numbers of all vGPUs of all GPUs: they tell the region offsets of one from another's. */
static DEFINE_IDA(tsl_slots);

static struct tsl_type *tsl_type_of(struct mdev_type *mtype)
{
	return container_of(mtype, struct tsl_type, mdev);
}

static struct ts_host_gpu *tsl_gpu_of(struct mdev_type *mtype)
{
	return container_of(mtype->parent, struct ts_host_gpu, parent);
}

static unsigned int tsl_get_available(struct mdev_type *mtype)
{
	struct ts_host_gpu *gpu = tsl_gpu_of(mtype);

	if (!gpu->core || READ_ONCE(gpu->lost))
		return 0;
	return ts_gpu_available(gpu->core, tsl_type_of(mtype)->index);
}

static ssize_t tsl_show_description(struct mdev_type *mtype, char *buf)
{
	struct ts_host_gpu *gpu = tsl_gpu_of(mtype);
	struct ts_type_info info;

	if (!gpu->core || ts_gpu_type_info(gpu->core, tsl_type_of(mtype)->index, &info))
		return -EIO;
	return sysfs_emit(buf, "framebuffer=%lluM, max_instance=%u, channels=%u\n",
			  info.vram_bytes >> 20, info.instances, info.channels);
}

static void tsl_vgpu_link(struct ts_host_vgpu *vgpu)
{
	struct ts_host_gpu *gpu = vgpu->gpu;

	mutex_lock(&gpu->vgpus_lock);
	list_add_tail(&vgpu->link, &gpu->vgpus);
	gpu->n_vgpus++;
	mutex_unlock(&gpu->vgpus_lock);
}

static void tsl_vgpu_unlink(struct ts_host_vgpu *vgpu)
{
	struct ts_host_gpu *gpu = vgpu->gpu;

	mutex_lock(&gpu->vgpus_lock);
	list_del(&vgpu->link);
	gpu->n_vgpus--;
	mutex_unlock(&gpu->vgpus_lock);
}

/* Gives back capacity and number; the memory goes with the last reference of the vfio_device. */
static void tsl_vgpu_free(struct ts_host_vgpu *vgpu)
{
	struct ts_vgpu *core = vgpu->core;

	cancel_work_sync(&vgpu->work);
	WRITE_ONCE(vgpu->core, NULL);
	ts_vgpu_destroy(core);
	/* An interrupt may have asked for work until the core was gone. */
	cancel_work_sync(&vgpu->work);
	/* It has told whoever waited; its function may still have to return. */
	flush_work(&vgpu->clear_work);
	ida_free(&tsl_slots, vgpu->slot);
	mutex_destroy(&vgpu->bench_lock);
	mutex_destroy(&vgpu->irqs.gate);
}

static int tsl_make_vgpu(struct ts_host_gpu *gpu, struct mdev_device *mdev)
{
	struct ts_host_vgpu *vgpu;
	int ret;

	vgpu = vfio_alloc_device(ts_host_vgpu, vdev, &mdev->dev, &tsl_vfio_ops);
	if (IS_ERR(vgpu))
		return PTR_ERR(vgpu);
	vgpu->gpu = gpu;
	vgpu->mdev = mdev;
	tsl_host_init_vgpu(vgpu);
	tsl_irq_init(vgpu);
	tsl_mmap_init(vgpu);
	tsl_guest_memory_init(vgpu);
	ret = ida_alloc_range(&tsl_slots, 1, TSL_SLOT_MAX, GFP_KERNEL);
	if (ret < 0)
		goto err_put;
	vgpu->slot = ret;

	/* Without capacity this is -ENOSPC, and the core has logged what is free. */
	ret = ts_vgpu_create(gpu->core, tsl_type_of(mdev->type)->index, vgpu, &vgpu->core);
	if (trace_turnstile_vgpu_create_enabled())
		trace_turnstile_vgpu_create(dev_name(&mdev->dev), tsl_type_of(mdev->type)->index,
					    ret ? 0 : ts_vgpu_function(vgpu->core), ret);
	if (ret)
		goto err_slot;
	dev_set_drvdata(&mdev->dev, vgpu);
	tsl_debugfs_add_vgpu(vgpu);
	tsl_vgpu_link(vgpu);
	ret = vfio_register_emulated_iommu_dev(&vgpu->vdev);
	if (ret)
		goto err_unlink;
	return 0;

err_unlink:
	tsl_vgpu_unlink(vgpu);
	tsl_debugfs_remove_vgpu(vgpu);
	tsl_vgpu_free(vgpu);
	goto err_put;
err_slot:
	ida_free(&tsl_slots, vgpu->slot);
err_put:
	vfio_put_device(&vgpu->vdev);
	return ret;
}

/* Every error has a line: whoever wrote to "create" sees no more than the errno. */
static int tsl_mdev_probe(struct mdev_device *mdev)
{
	struct ts_host_gpu *gpu = tsl_gpu_of(mdev->type);
	int ret;

	if (!gpu->core || READ_ONCE(gpu->lost)) {
		dev_err(&mdev->dev, "the GPU %s is gone or was reset: bind its driver anew\n",
			pci_name(gpu->pdev));
		return -ENODEV;
	}
	ret = tsl_make_vgpu(gpu, mdev);
	if (ret && ret != -ENOSPC)
		dev_err(&mdev->dev, "a vGPU of type %s cannot be made: error %pe\n",
			mdev->type->sysfs_name, ERR_PTR(ret));
	return ret;
}

static void tsl_mdev_remove(struct mdev_device *mdev)
{
	struct ts_host_vgpu *vgpu = dev_get_drvdata(&mdev->dev);

	/* Waits until the last user has closed it; tsl_irq_request asks for that. */
	vfio_unregister_group_dev(&vgpu->vdev);
	tsl_vgpu_unlink(vgpu);
	tsl_debugfs_remove_vgpu(vgpu);
	/* Here, not at the last reference: what was freed can be created again at once. */
	tsl_vgpu_free(vgpu);
	trace_turnstile_vgpu_destroy(dev_name(&mdev->dev));
	vfio_put_device(&vgpu->vdev);
}

struct mdev_driver tsl_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.probe = tsl_mdev_probe,
	.remove = tsl_mdev_remove,
	.get_available = tsl_get_available,
	.show_description = tsl_show_description,
	.driver = {
		.name = TSL_NAME,
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = tsl_vgpu_groups,
	},
};

int tsl_mdev_register(struct ts_host_gpu *gpu)
{
	struct ts_type_info info;
	int ret;
	u32 i;

	for (i = 0; i < TS_TYPE_COUNT; i++) {
		struct tsl_type *type = &gpu->types[i];

		ret = ts_gpu_type_info(gpu->core, i, &info);
		if (ret)
			return ret;
		/* Two words and unique: tools take the second one for the product's name. */
		snprintf(type->pretty_name, sizeof(type->pretty_name), "Turnstile TS104-%u",
			 info.instances);
		type->index = i;
		type->mdev.sysfs_name = info.name;
		type->mdev.pretty_name = type->pretty_name;
		gpu->type_list[i] = &type->mdev;
	}
	return mdev_register_parent(&gpu->parent, &gpu->pdev->dev, &tsl_mdev_driver, gpu->type_list,
				    TS_TYPE_COUNT);
}

void tsl_mdev_unregister(struct ts_host_gpu *gpu)
{
	mdev_unregister_parent(&gpu->parent);
}
