// SPDX-License-Identifier: GPL-2.0-only
/*
 * Channels. User space submits by itself: it writes GP entries into its ring, GP_PUT into its USERD
 * page and the token into the doorbell page. The kernel makes channels and ends them.
 *
 * USERD is a page of its own per channel, so that a process reaches no other channel's GP_PUT. It
 * is system memory, so that polling GP_GET stays off the bus.
 */
#include <linux/sizes.h>

#include <drm/drm_vma_manager.h>

#include "ts104_drv.h"

/* The instance block has 40 address bits for USERD. */
#define TS104_USERD_LIMIT BIT_ULL(40)

static void ts104_channel_kref_free(struct kref *kref)
{
	struct ts104_channel *ch = container_of(kref, struct ts104_channel, kref);

	mutex_destroy(&ch->lock);
	ts104_core_put(ch->core);
	kfree(ch);
}

void ts104_channel_put(struct ts104_channel *ch)
{
	kref_put(&ch->kref, ts104_channel_kref_free);
}

struct ts104_channel *ts104_channel_lookup(struct ts104_file *tf, u32 id)
{
	struct ts104_channel *ch;

	xa_lock(&tf->channels);
	ch = xa_load(&tf->channels, id);
	if (ch)
		kref_get(&ch->kref);
	xa_unlock(&tf->channels);
	return ch;
}

/* A closed channel is off the hardware: frees what it used. Within reset_sem. */
void ts104_channel_free(struct ts104_channel *ch)
{
	tsg_channel_destroy(ch->tsg);
	atomic_dec(&ch->core->ts->runlist_channels[ch->runlist]);
	drm_gem_object_put(&ch->userd->shmem.base);
	ts104_vm_put(ch->vm);
	ts104_channel_put(ch);
}

/*
 * Takes a channel that cannot be looked up any more off the hardware. If the GPU does not let go of
 * it, all it uses stays until the reset. Within reset_sem.
 */
void ts104_channel_close(struct ts104_channel *ch, struct drm_file *file)
{
	struct ts104_file *tf = file->driver_priv;
	struct ts104_core *core = ch->core;
	int ret;

	drm_vma_node_revoke(&ch->userd->shmem.base.vma_node, file);
	ts104_usage_remove(ch);
	mutex_lock(&tf->lock);
	ch->vm->channels--;
	mutex_unlock(&tf->lock);

	mutex_lock(&ch->lock);
	ret = tsg_channel_stop(ch->tsg);
	WRITE_ONCE(ch->closed, true);
	mutex_unlock(&ch->lock);
	ts104_wake_waiters(core->ts);

	if (ret != -ETIMEDOUT) {
		ts104_channel_free(ch);
		return;
	}
	spin_lock(&core->limbo_lock);
	list_add_tail(&ch->limbo_link, &core->limbo_channels);
	spin_unlock(&core->limbo_lock);
	ts104_device_wedged(core);
}

/*
 * For waiters: 0 healthy, -EIO it has an error, -ENOENT it was closed. The hardware is asked only
 * if some channel has had an error since the last look, so that waiting costs a vGPU no exits.
 */
int ts104_channel_check(struct ts104_channel *ch)
{
	struct ts104_device *ts = ch->core->ts;
	int seq = atomic_read_acquire(&ch->core->error_seq);
	struct tsg_channel_status status;
	int ret;

	if (READ_ONCE(ch->checked_seq) == seq && !READ_ONCE(ch->closed))
		return 0;
	down_read(&ts->reset_sem);
	mutex_lock(&ch->lock);
	ret = ch->closed ? -ENOENT : tsg_channel_get_status(ch->tsg, &status);
	if (!ret)
		WRITE_ONCE(ch->checked_seq, seq);
	mutex_unlock(&ch->lock);
	up_read(&ts->reset_sem);
	return ret;
}

static int ts104_pick_runlist(struct ts104_device *ts, u32 engine, u32 *runlist)
{
	const struct tsg_device_info *info = &ts->core->info;
	int load, least = INT_MAX;
	u32 r;

	if (engine == DRM_TS104_ENGINE_COMPUTE) {
		*runlist = info->compute_runlist;
		return 0;
	}
	for (r = 0; r < TSG_NUM_RUNLISTS; r++) {
		load = atomic_read(&ts->runlist_channels[r]);
		if (info->copy_runlist_mask & BIT(r) && load < least) {
			least = load;
			*runlist = r;
		}
	}
	return least == INT_MAX ? -EOPNOTSUPP : 0;
}

static struct ts104_bo *ts104_userd_create(struct ts104_device *ts,
					   struct tsg_channel_params *params)
{
	struct ts104_bo *bo = ts104_bo_create(ts, SZ_4K, DRM_TS104_PLACEMENT_SYSMEM);

	if (IS_ERR(bo))
		return bo;
	params->userd_address = ts104_bo_dma_address(bo);
	params->userd_aperture = TSG_APERTURE_SYSMEM;
	if (params->userd_address < TS104_USERD_LIMIT)
		return bo;

	drm_gem_object_put(&bo->shmem.base);
	bo = ts104_bo_create(ts, SZ_4K, DRM_TS104_PLACEMENT_VRAM);
	if (IS_ERR(bo))
		return bo;
	params->userd_address = bo->vram;
	params->userd_aperture = TSG_APERTURE_VRAM;
	return bo;
}

/* The caller's reference of `vm` becomes the channel's, on success only. Within ts104_enter. */
static struct ts104_channel *ts104_channel_new(struct ts104_device *ts, struct ts104_file *tf,
					       struct ts104_vm *vm,
					       const struct drm_ts104_channel_create *args)
{
	struct tsg_channel_params params = {
		.ring_order = args->ring_order,
		.ring_va = args->ring_va,
	};
	struct ts104_channel *ch;
	int ret;

	if (vm->core != ts->core)
		return ERR_PTR(-EIO);
	if (!ts104_vm_is_bound(vm, args->ring_va, 8ull << args->ring_order))
		return ERR_PTR(-EINVAL);
	ret = ts104_pick_runlist(ts, args->engine, &params.runlist);
	if (ret)
		return ERR_PTR(ret);

	ch = kzalloc(sizeof(*ch), GFP_KERNEL_ACCOUNT);
	if (!ch)
		return ERR_PTR(-ENOMEM);
	ch->userd = ts104_userd_create(ts, &params);
	if (IS_ERR(ch->userd)) {
		ret = PTR_ERR(ch->userd);
		goto err_free;
	}
	ch->checked_seq = atomic_read(&ts->core->error_seq);
	ret = tsg_channel_create(vm->tsg, &params, &ch->tsg);
	if (ret == -ETIMEDOUT)
		ts104_device_wedged(ts->core);
	if (ret)
		goto err_userd;

	kref_init(&ch->kref);
	mutex_init(&ch->lock);
	ch->core = ts104_core_get(ts->core);
	ch->vm = vm;
	ch->file = tf;
	ch->engine = args->engine;
	ch->runlist = params.runlist;
	ts104_usage_add(ch);
	atomic_inc(&ts->runlist_channels[ch->runlist]);
	return ch;

err_userd:
	drm_gem_object_put(&ch->userd->shmem.base);
err_free:
	kfree(ch);
	return ERR_PTR(ret);
}

/* Counted, so that it cannot be destroyed before the channel. */
static struct ts104_vm *ts104_channel_take_vm(struct ts104_file *tf, u32 id)
{
	struct ts104_vm *vm;

	mutex_lock(&tf->lock);
	vm = ts104_vm_lookup(tf, id);
	if (vm)
		vm->channels++;
	mutex_unlock(&tf->lock);
	return vm;
}

static int ts104_channel_publish(struct ts104_channel *ch, struct drm_file *file, u32 *id)
{
	struct ts104_file *tf = file->driver_priv;
	struct drm_vma_offset_node *node = &ch->userd->shmem.base.vma_node;
	int ret;

	ret = drm_vma_node_allow(node, file);
	if (!ret)
		ret = xa_alloc(&tf->channels, id, ch, XA_LIMIT(1, TS104_MAX_CHANNELS), GFP_KERNEL);
	if (ret)
		ts104_channel_close(ch, file);
	return ret == -EBUSY ? -ENOSPC : ret;
}

int ts104_channel_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct ts104_file *tf = file->driver_priv;
	struct drm_ts104_channel_create *args = data;
	struct ts104_channel *ch;
	struct ts104_vm *vm;
	u64 userd_offset;
	int idx, ret;
	u32 token;

	if (args->flags || args->engine > DRM_TS104_ENGINE_COPY ||
	    args->ring_order < 1 || args->ring_order > 16 || !IS_ALIGNED(args->ring_va, 8) ||
	    args->ring_va > TSG_RING_VA_LIMIT - (8ull << args->ring_order))
		return -EINVAL;

	ret = ts104_enter(ts, &idx);
	if (ret)
		return ret;
	vm = ts104_channel_take_vm(tf, args->vm_id);
	if (!vm) {
		ret = -ENOENT;
		goto out;
	}
	ch = ts104_channel_new(ts, tf, vm, args);
	if (IS_ERR(ch)) {
		mutex_lock(&tf->lock);
		vm->channels--;
		mutex_unlock(&tf->lock);
		ts104_vm_put(vm);
		ret = PTR_ERR(ch);
		goto out;
	}
	/* Once published, another thread may guess the id and destroy it. */
	token = tsg_channel_token(ch->tsg);
	userd_offset = drm_vma_node_offset_addr(&ch->userd->shmem.base.vma_node);
	ret = ts104_channel_publish(ch, file, &args->channel_id);
	if (!ret) {
		args->token = token;
		args->userd_offset = userd_offset;
		args->doorbell_offset = TS104_DOORBELL_MMAP_OFFSET;
	}
out:
	ts104_exit(ts, idx);
	return ret;
}

int ts104_channel_destroy_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct ts104_file *tf = file->driver_priv;
	const struct drm_ts104_channel_destroy *args = data;
	struct ts104_channel *ch;

	if (args->pad)
		return -EINVAL;
	/* Not ts104_enter: a lost channel can be destroyed, too. */
	down_read(&ts->reset_sem);
	ch = xa_erase(&tf->channels, args->channel_id);
	if (ch)
		ts104_channel_close(ch, file);
	up_read(&ts->reset_sem);
	return ch ? 0 : -ENOENT;
}

int ts104_channel_status_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct drm_ts104_channel_status *args = data;
	struct tsg_channel_status status = {};
	struct ts104_channel *ch;
	int ret = 0;

	static_assert((int)TSG_ERROR_NONE == (int)DRM_TS104_ERROR_NONE);
	static_assert((int)TSG_ERROR_MMU_FAULT == (int)DRM_TS104_ERROR_MMU_FAULT);
	static_assert((int)TSG_ERROR_ENGINE == (int)DRM_TS104_ERROR_ENGINE);
	static_assert((int)TSG_ERROR_PBDMA == (int)DRM_TS104_ERROR_PBDMA);
	static_assert((int)TSG_ERROR_DEVICE_LOST == (int)DRM_TS104_ERROR_DEVICE_LOST);

	ch = ts104_channel_lookup(file->driver_priv, args->channel_id);
	if (!ch)
		return -ENOENT;
	/* Not ts104_enter: that the device is lost is an answer. */
	down_read(&ts->reset_sem);
	mutex_lock(&ch->lock);
	if (ch->closed)
		ret = -ENOENT;
	else
		tsg_channel_get_status(ch->tsg, &status);
	mutex_unlock(&ch->lock);
	up_read(&ts->reset_sem);
	ts104_channel_put(ch);

	args->kind = status.first.kind;
	args->type = status.first.type;
	args->access = status.first.access;
	args->engine = status.first.engine;
	args->count = status.error_count;
	args->va = status.first.va;
	args->gpu_time_ns = status.first.gpu_time_ns;
	return ret;
}

static int ts104_channel_restart(struct ts104_channel *ch)
{
	int ret;

	ret = tsg_channel_stop(ch->tsg);
	if (ret)
		return ret;
	ts104_bo_zero_first_page(ch->userd);
	return tsg_channel_restart(ch->tsg);
}

int ts104_channel_reset_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	const struct drm_ts104_channel_reset *args = data;
	struct ts104_channel *ch;
	int idx, ret;

	if (args->flags)
		return -EINVAL;
	ch = ts104_channel_lookup(file->driver_priv, args->channel_id);
	if (!ch)
		return -ENOENT;
	ret = ts104_enter(ts, &idx);
	if (ret)
		goto out;
	mutex_lock(&ch->lock);
	if (ch->closed)
		ret = -ENOENT;
	else if (ch->core != ts->core)
		ret = -EIO;
	else
		ret = ts104_channel_restart(ch);
	mutex_unlock(&ch->lock);
	if (ret == -ETIMEDOUT)
		ts104_device_wedged(ts->core);
	ts104_exit(ts, idx);
out:
	ts104_channel_put(ch);
	return ret;
}
