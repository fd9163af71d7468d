// SPDX-License-Identifier: GPL-2.0-only
/*
 * The DRM driver: open files, ioctl table, parameters, fdinfo.
 */
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>

#include "ts104_drv.h"

#define TS104_UAPI_VERSION 1

static int ts104_get_param_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct drm_ts104_get_param *args = data;
	const struct tsg_device_info *info;
	int idx, ret;

	if (args->pad)
		return -EINVAL;
	ret = ts104_enter(ts, &idx);
	if (ret)
		return ret;
	info = &ts->core->info;
	switch (args->param) {
	case DRM_TS104_PARAM_UAPI_VERSION:
		args->value = TS104_UAPI_VERSION;
		break;
	case DRM_TS104_PARAM_CHIP_ID:
		args->value = info->chip_id;
		break;
	case DRM_TS104_PARAM_IS_VGPU:
		args->value = info->is_vgpu;
		break;
	case DRM_TS104_PARAM_VRAM_SIZE:
		args->value = info->vram_bytes;
		break;
	case DRM_TS104_PARAM_VRAM_FREE:
		args->value = tsg_vram_available(ts->core->tsg);
		break;
	case DRM_TS104_PARAM_SM_COUNT:
		args->value = info->sm_count;
		break;
	case DRM_TS104_PARAM_ENGINE_MHZ:
		args->value = info->engine_mhz;
		break;
	case DRM_TS104_PARAM_GPU_TIME:
		args->value = tsg_device_gpu_time(ts->core->tsg);
		break;
	case DRM_TS104_PARAM_MAX_CHANNELS:
		args->value = info->num_chids;
		break;
	default:
		ret = -EINVAL;
		break;
	}
	ts104_exit(ts, idx);
	return ret;
}

static int ts104_open(struct drm_device *drm, struct drm_file *file)
{
	struct ts104_file *tf;

	tf = kzalloc(sizeof(*tf), GFP_KERNEL_ACCOUNT);
	if (!tf)
		return -ENOMEM;
	mutex_init(&tf->lock);
	xa_init_flags(&tf->vms, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&tf->channels, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	file->driver_priv = tf;
	return 0;
}

/* Also for a process that was killed, and after the device went. */
static void ts104_postclose(struct drm_device *drm, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct ts104_file *tf = file->driver_priv;
	struct ts104_channel *ch;
	struct ts104_vm *vm;
	unsigned long id;

	/* Not ts104_enter: a lost device must not keep anything. */
	down_read(&ts->reset_sem);
	xa_for_each(&tf->channels, id, ch)
		ts104_channel_close(ch, file);
	xa_for_each(&tf->vms, id, vm)
		ts104_vm_put(vm);
	up_read(&ts->reset_sem);

	xa_destroy(&tf->channels);
	xa_destroy(&tf->vms);
	if (tf->dummy)
		__free_page(tf->dummy);
	mutex_destroy(&tf->lock);
	kfree(tf);
}

static void ts104_show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	static const char * const regions[] = {
		[DRM_TS104_PLACEMENT_VRAM] = "vram",
		[DRM_TS104_PLACEMENT_SYSMEM] = "system",
	};
	struct drm_memory_stats stats[ARRAY_SIZE(regions)] = {};
	struct ts104_device *ts = to_ts104(file->minor->dev);
	u64 engine_ns[TS104_NUM_ENGINE_KINDS];
	struct drm_gem_object *obj;
	unsigned int i;
	int id;

	ts104_usage_read(ts, file->driver_priv, engine_ns);
	drm_printf(p, "drm-engine-compute:\t%llu ns\n", engine_ns[DRM_TS104_ENGINE_COMPUTE]);
	drm_printf(p, "drm-engine-copy:\t%llu ns\n", engine_ns[DRM_TS104_ENGINE_COPY]);
	drm_printf(p, "drm-engine-capacity-copy:\t%u\n", ts->copy_engines);

	/* drm_show_memory_stats knows one region only; ours are two. */
	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		struct drm_memory_stats *s = &stats[to_ts104_bo(obj)->placement];

		if (drm_gem_object_is_shared_for_memory_stats(obj))
			s->shared += obj->size;
		else
			s->private += obj->size;
		s->resident += obj->size;
	}
	spin_unlock(&file->table_lock);
	for (i = 0; i < ARRAY_SIZE(regions); i++)
		drm_print_memory_stats(p, &stats[i], DRM_GEM_OBJECT_RESIDENT, regions[i]);
}

static const struct drm_ioctl_desc ts104_ioctls[] = {
	DRM_IOCTL_DEF_DRV(TS104_GET_PARAM, ts104_get_param_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_GEM_CREATE, ts104_gem_create_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_GEM_MMAP_OFFSET, ts104_gem_mmap_offset_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_VM_CREATE, ts104_vm_create_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_VM_DESTROY, ts104_vm_destroy_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_VM_BIND, ts104_vm_bind_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_CHANNEL_CREATE, ts104_channel_create_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_CHANNEL_DESTROY, ts104_channel_destroy_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_WAIT, ts104_wait_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_CHANNEL_STATUS, ts104_channel_status_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TS104_CHANNEL_RESET, ts104_channel_reset_ioctl, DRM_RENDER_ALLOW),
};

static const struct file_operations ts104_fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = ts104_mmap,
	.fop_flags = FOP_UNSIGNED_OFFSET,
	.show_fdinfo = drm_show_fdinfo,
};

#ifdef TS104_HAVE_DRIVER_GEM_GPUVA
#define TS104_FEATURE_GPUVA DRIVER_GEM_GPUVA
#else
#define TS104_FEATURE_GPUVA 0	/* part of every GEM driver */
#endif

const struct drm_driver ts104_drm_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER | TS104_FEATURE_GPUVA,
	.open = ts104_open,
	.postclose = ts104_postclose,
	.show_fdinfo = ts104_show_fdinfo,
	.gem_create_object = ts104_gem_create_object,
	.ioctls = ts104_ioctls,
	.num_ioctls = ARRAY_SIZE(ts104_ioctls),
	.fops = &ts104_fops,
	.name = "ts104",
	.desc = "TS104 GPU",
#ifdef TS104_HAVE_DRIVER_DATE
	.date = "20261129",
#endif
	.major = 1,
	.minor = 0,
};
