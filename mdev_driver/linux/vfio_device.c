// SPDX-License-Identifier: GPL-2.0-only
/*
 * A vGPU as a VFIO PCI device: open and close, information, access to its regions.
 */
#include <linux/module.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "trace.h"
#include "ts104/regs.h"
#include "turnstile.h"

/* One access of VRAM without a mapping; the bounce buffer is allocated. */
#define TSL_VRAM_CHUNK SZ_16K

static int tsl_open(struct vfio_device *vdev)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	int ret;

	ret = READ_ONCE(vgpu->gpu->lost) ? -ENODEV : ts_vgpu_open(vgpu->core);
	trace_turnstile_vgpu_open(dev_name(vdev->dev), ret);
	if (ret) {
		dev_err(vdev->dev, "cannot be opened: error %pe\n", ERR_PTR(ret));
		return ret;
	}
	mutex_lock(&vgpu->bench_lock);
	vgpu->opened = true;
	mutex_unlock(&vgpu->bench_lock);
	return 0;
}

/* The last descriptor and the last mapping are gone, by close or because the process was killed. */
static void tsl_close(struct vfio_device *vdev)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	long pinned;

	mutex_lock(&vgpu->bench_lock);
	vgpu->opened = false;
	mutex_unlock(&vgpu->bench_lock);
	tsl_irq_release(vgpu);
	ts_vgpu_close(vgpu->core);
	trace_turnstile_vgpu_close(dev_name(vdev->dev));
	cancel_work_sync(&vgpu->work);
	WRITE_ONCE(vgpu->mapping, NULL);
	pinned = atomic_long_read(&vgpu->pages_pinned);
	if (WARN(pinned, TSL_NAME ": %ld guest pages still pinned after close\n", pinned))
		atomic_long_set(&vgpu->pages_pinned, 0);
}

static int tsl_get_device_info(void __user *arg)
{
	struct vfio_device_info info = {};
	const size_t min = offsetofend(struct vfio_device_info, num_irqs);

	if (copy_from_user(&info, arg, min))
		return -EFAULT;
	if (info.argsz < min)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, min) ? -EFAULT : 0;
}

static int tsl_add_sparse(const struct ts_region_info *region, struct vfio_info_cap *caps)
{
	struct vfio_region_info_cap_sparse_mmap *sparse;
	u32 i;
	int ret;

	sparse = kzalloc(struct_size(sparse, areas, region->n_areas), GFP_KERNEL);
	if (!sparse)
		return -ENOMEM;
	sparse->header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
	sparse->header.version = 1;
	sparse->nr_areas = region->n_areas;
	for (i = 0; i < region->n_areas; i++) {
		sparse->areas[i].offset = region->areas[i].offset;
		sparse->areas[i].size = region->areas[i].size;
	}
	ret = vfio_info_add_capability(caps, &sparse->header,
				       struct_size(sparse, areas, region->n_areas));
	kfree(sparse);
	return ret;
}

/* Fills in what follows from info->index; VFIO, or tsl_get_region_info, hands it to the user. */
static int tsl_fill_region_info(struct vfio_device *vdev, struct vfio_region_info *info,
				struct vfio_info_cap *caps)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	struct ts_region_info region;
	int ret;

	ret = ts_vgpu_region_info(vgpu->core, info->index, &region);
	if (ret)
		return ret;
	info->size = region.size;
	info->offset = tsl_region_offset(vgpu, info->index);
	info->flags = 0;
	if (region.flags & TS_REGION_READ)
		info->flags |= VFIO_REGION_INFO_FLAG_READ;
	if (region.flags & TS_REGION_WRITE)
		info->flags |= VFIO_REGION_INFO_FLAG_WRITE;
	if (region.flags & TS_REGION_MMAP)
		info->flags |= VFIO_REGION_INFO_FLAG_MMAP;
	return region.n_areas ? tsl_add_sparse(&region, caps) : 0;
}

#if !TSL_REGION_INFO_BY_VFIO
static int tsl_get_region_info(struct vfio_device *vdev, void __user *arg)
{
	const size_t min = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info = {};
	struct vfio_info_cap caps = {};
	int ret;

	if (copy_from_user(&info, arg, min))
		return -EFAULT;
	if (info.argsz < min)
		return -EINVAL;
	info.cap_offset = 0;
	ret = tsl_fill_region_info(vdev, &info, &caps);
	if (ret)
		return ret;
	if (caps.size) {
		info.flags |= VFIO_REGION_INFO_FLAG_CAPS;
		if (info.argsz < sizeof(info) + caps.size) {
			/* The user comes again with as much room. */
			info.argsz = sizeof(info) + caps.size;
		} else {
			vfio_info_cap_shift(&caps, sizeof(info));
			if (copy_to_user(arg + sizeof(info), caps.buf, caps.size))
				ret = -EFAULT;
			info.cap_offset = sizeof(info);
		}
		kfree(caps.buf);
	}
	if (!ret && copy_to_user(arg, &info, min))
		ret = -EFAULT;
	return ret;
}
#endif

static long tsl_ioctl(struct vfio_device *vdev, unsigned int cmd, unsigned long arg)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case VFIO_DEVICE_GET_INFO:
		return tsl_get_device_info(user);
#if !TSL_REGION_INFO_BY_VFIO
	case VFIO_DEVICE_GET_REGION_INFO:
		return tsl_get_region_info(vdev, user);
#endif
	case VFIO_DEVICE_GET_IRQ_INFO:
		return tsl_irq_get_info(vgpu, user);
	case VFIO_DEVICE_SET_IRQS:
		return tsl_irq_set(vgpu, user);
	case VFIO_DEVICE_RESET:
		return READ_ONCE(vgpu->gpu->lost) ? -EIO : ts_vgpu_reset(vgpu->core);
	default:
		return -ENOTTY;
	}
}

/* The largest access that the region takes: naturally aligned, 32 bits for config space. */
static size_t tsl_access_size(u32 index, u64 offset, size_t count)
{
	size_t size = index == VFIO_PCI_CONFIG_REGION_INDEX ? 4 : 8;

	while (size > count || !IS_ALIGNED(offset, size))
		size /= 2;
	return size;
}

static void tsl_trace_access(struct ts_host_vgpu *vgpu, u32 index, u64 offset, const void *buffer,
			     size_t size, bool write)
{
	u64 value = 0;
	u32 runlist;

	if (!trace_turnstile_csr_access_enabled() && !trace_turnstile_runlist_submit_enabled())
		return;
	memcpy(&value, buffer, size);
	trace_turnstile_csr_access(dev_name(vgpu->vdev.dev), index, offset, size, value, write);
	if (!write || index != VFIO_PCI_BAR0_REGION_INDEX || size < 4)
		return;
	for (runlist = 0; runlist < NV_PFIFO_RUNLIST_SUBMIT__COUNT; runlist++) {
		if (offset == NV_PFIFO_RUNLIST_SUBMIT(runlist))
			trace_turnstile_runlist_submit(dev_name(vgpu->vdev.dev), runlist, value);
	}
}

/* Registers and config space: split into accesses of the hardware's sizes. */
static ssize_t tsl_access_registers(struct ts_host_vgpu *vgpu, u32 index, u64 offset,
				    char __user *user, size_t count, bool write)
{
	size_t done = 0;
	u8 buffer[8];
	int ret = 0;

	while (done < count) {
		size_t size = tsl_access_size(index, offset + done, count - done);

		if (write && copy_from_user(buffer, user + done, size)) {
			ret = -EFAULT;
			break;
		}
		ret = ts_vgpu_region_rw(vgpu->core, index, offset + done, buffer, size, write);
		if (ret)
			break;
		tsl_trace_access(vgpu, index, offset + done, buffer, size, write);
		if (!write && copy_to_user(user + done, buffer, size)) {
			ret = -EFAULT;
			break;
		}
		done += size;
		cond_resched();
	}
	return done ? done : ret;
}

/* VRAM of a user that has no mapping. */
static ssize_t tsl_access_vram(struct ts_host_vgpu *vgpu, u32 index, u64 offset, char __user *user,
			       size_t count, bool write)
{
	void *buffer = kmalloc(min_t(size_t, count, TSL_VRAM_CHUNK), GFP_KERNEL);
	size_t done = 0;
	int ret = 0;

	if (!buffer)
		return -ENOMEM;
	while (done < count && !ret) {
		size_t size = min_t(size_t, count - done, TSL_VRAM_CHUNK);

		if (write && copy_from_user(buffer, user + done, size))
			ret = -EFAULT;
		if (!ret)
			ret = ts_vgpu_region_rw(vgpu->core, index, offset + done, buffer, size,
						write);
		if (!ret && !write && copy_to_user(user + done, buffer, size))
			ret = -EFAULT;
		if (!ret)
			done += size;
		cond_resched();
	}
	kfree(buffer);
	return done ? done : ret;
}

static ssize_t tsl_access(struct vfio_device *vdev, char __user *user, size_t count, loff_t *ppos,
			  bool write)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	struct ts_region_info region;
	ssize_t done;
	u64 offset;
	u32 index;

	if (READ_ONCE(vgpu->gpu->lost))
		return -EIO;
	if (*ppos < 0 || !tsl_region_of(vgpu, *ppos, &index, &offset) ||
	    ts_vgpu_region_info(vgpu->core, index, &region))
		return -EINVAL;
	if (!count)
		return 0;
	if (offset >= region.size || !(region.flags & (write ? TS_REGION_WRITE : TS_REGION_READ)))
		return -EINVAL;
	count = min_t(u64, count, region.size - offset);
	if (index == VFIO_PCI_BAR1_REGION_INDEX)
		done = tsl_access_vram(vgpu, index, offset, user, count, write);
	else
		done = tsl_access_registers(vgpu, index, offset, user, count, write);
	if (done > 0)
		*ppos += done;
	return done;
}

static ssize_t tsl_read(struct vfio_device *vdev, char __user *buf, size_t count, loff_t *ppos)
{
	return tsl_access(vdev, buf, count, ppos, false);
}

static ssize_t tsl_write(struct vfio_device *vdev, const char __user *buf, size_t count,
			 loff_t *ppos)
{
	return tsl_access(vdev, (char __user *)buf, count, ppos, true);
}

static void tsl_request(struct vfio_device *vdev, unsigned int count)
{
	tsl_irq_request(tsl_vgpu_of(vdev), count);
}

#if TSL_DRIVER_FREES_DEVICE
static void tsl_release(struct vfio_device *vdev)
{
	vfio_free_device(vdev);
}
#endif

const struct vfio_device_ops tsl_vfio_ops = {
	.name = TSL_NAME,
#if TSL_DRIVER_FREES_DEVICE
	.release = tsl_release,
#endif
	TSL_IOMMUFD_OPS
	.open_device = tsl_open,
	.close_device = tsl_close,
	.read = tsl_read,
	.write = tsl_write,
	.ioctl = tsl_ioctl,
#if TSL_REGION_INFO_BY_VFIO
	.get_region_info_caps = tsl_fill_region_info,
#endif
	.mmap = tsl_mmap,
	.request = tsl_request,
	.dma_unmap = tsl_dma_unmap,
};
