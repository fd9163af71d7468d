// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address spaces. drm_gpuvm keeps what is bound where and splits bindings; the core writes the page
 * tables. Binding is synchronous: when the ioctl returns the GPU sees the result.
 *
 * What is unbound stays allocated until the GPU's TLB has been flushed (dead_vas). If the flush
 * fails it goes to the core's limbo until the device has been reset.
 */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include <drm/drm_exec.h>

#include "ts104_drv.h"

#define TS104_BIND_FLAGS (DRM_TS104_BIND_READ_ONLY | DRM_TS104_BIND_NO_ATOMICS)

/* State of one op: what the steps of drm_gpuvm may need is allocated before locks are taken. */
struct ts104_bind {
	struct ts104_vm *vm;
	struct drm_gpuvm_bo *vm_bo;	/* map only */
	u32 map_flags;
	struct ts104_va *spare[3];	/* new binding, rest before it, rest behind it */
	unsigned int spares;
};

static struct ts104_vm *to_ts104_vm(struct drm_gpuvm *gpuvm)
{
	return container_of(gpuvm, struct ts104_vm, gpuvm);
}

static struct ts104_va *to_ts104_va(struct drm_gpuva *gpuva)
{
	return container_of(gpuva, struct ts104_va, gpuva);
}

static int ts104_bind_alloc(struct ts104_bind *bind, unsigned int count)
{
	while (bind->spares < count) {
		struct ts104_va *va = kzalloc(sizeof(*va), GFP_KERNEL_ACCOUNT);

		if (!va)
			return -ENOMEM;
		bind->spare[bind->spares++] = va;
	}
	return 0;
}

static void ts104_bind_free(struct ts104_bind *bind)
{
	while (bind->spares)
		kfree(bind->spare[--bind->spares]);
}

/* Takes a binding out of the books; its memory is kept until the TLB has forgotten it. */
static void ts104_va_bury(struct ts104_vm *vm, struct ts104_va *va)
{
	drm_gem_object_get(va->gpuva.gem.obj);
	drm_gpuva_unlink(&va->gpuva);
	list_add_tail(&va->dead_link, &vm->dead_vas);
}

/* Drops the memory of buried bindings. Not under a dma_resv lock. */
void ts104_vas_free(struct list_head *vas)
{
	struct ts104_va *va, *next;

	list_for_each_entry_safe(va, next, vas, dead_link) {
		list_del(&va->dead_link);
		drm_gem_object_put(va->gpuva.gem.obj);
		kfree(va);
	}
}

/* System memory as the device sees it: neighbours in DMA space become one extent. */
static struct tsg_extent *ts104_sysmem_extents(struct ts104_bo *bo, u64 offset, u64 size,
					       u32 *count)
{
	struct sg_table *sgt = bo->shmem.sgt;
	struct tsg_extent *extents, *last = NULL;
	struct scatterlist *sg;
	u32 n = 0;
	int i;

	extents = kvmalloc_array(sgt->nents, sizeof(*extents), GFP_KERNEL_ACCOUNT);
	if (!extents)
		return NULL;
	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 length = sg_dma_len(sg);
		u64 address = sg_dma_address(sg);

		if (offset >= length) {
			offset -= length;
			continue;
		}
		address += offset;
		length = min(length - offset, size);
		offset = 0;
		if (last && last->address + last->size == address) {
			last->size += length;
		} else {
			last = &extents[n++];
			*last = (struct tsg_extent) {
				.address = address,
				.size = length,
				.aperture = TSG_APERTURE_SYSMEM,
			};
		}
		size -= length;
		if (!size)
			break;
	}
	*count = n;
	return extents;
}

static int ts104_map_pages(struct ts104_vm *vm, const struct drm_gpuva_op_map *op, u32 map_flags)
{
	struct ts104_bo *bo = to_ts104_bo(op->gem.obj);
	struct tsg_extent *extents;
	struct tsg_extent vram;
	u32 count;
	int ret;

	if (bo->placement == DRM_TS104_PLACEMENT_VRAM) {
		vram = (struct tsg_extent) {
			.address = bo->vram + op->gem.offset,
			.size = op->va.range,
			.aperture = TSG_APERTURE_VRAM,
		};
		return tsg_vm_map(vm->tsg, op->va.addr, &vram, 1, map_flags);
	}
	extents = ts104_sysmem_extents(bo, op->gem.offset, op->va.range, &count);
	if (!extents)
		return -ENOMEM;
	ret = tsg_vm_map(vm->tsg, op->va.addr, extents, count, map_flags);
	kvfree(extents);
	return ret;
}

static int ts104_step_map(struct drm_gpuva_op *op, void *priv)
{
	struct ts104_bind *bind = priv;
	struct ts104_va *va;
	int ret;

	ret = ts104_map_pages(bind->vm, &op->map, bind->map_flags);
	if (ret)
		return ret;
	va = bind->spare[--bind->spares];
	va->map_flags = bind->map_flags;
	drm_gpuva_map(&bind->vm->gpuvm, &va->gpuva, &op->map);
	drm_gpuva_link(&va->gpuva, bind->vm_bo);
	return 0;
}

/* What stays on either side keeps its page-table entries: only what lies between is cleared. */
static int ts104_step_remap(struct drm_gpuva_op *op, void *priv)
{
	struct ts104_bind *bind = priv;
	struct ts104_va *old = to_ts104_va(op->remap.unmap->va);
	struct drm_gpuvm_bo *vm_bo = old->gpuva.vm_bo;
	struct ts104_va *prev = NULL, *next = NULL;
	u64 va, range;
	int ret;

	drm_gpuva_op_remap_to_unmap_range(&op->remap, &va, &range);
	ret = tsg_vm_unmap(bind->vm->tsg, va, range);
	if (ret)
		return ret;
	if (op->remap.prev) {
		prev = bind->spare[--bind->spares];
		prev->map_flags = old->map_flags;
	}
	if (op->remap.next) {
		next = bind->spare[--bind->spares];
		next->map_flags = old->map_flags;
	}
	drm_gpuva_remap(prev ? &prev->gpuva : NULL, next ? &next->gpuva : NULL, &op->remap);
	if (prev)
		drm_gpuva_link(&prev->gpuva, vm_bo);
	if (next)
		drm_gpuva_link(&next->gpuva, vm_bo);
	ts104_va_bury(bind->vm, old);
	return 0;
}

static int ts104_step_unmap(struct drm_gpuva_op *op, void *priv)
{
	struct ts104_bind *bind = priv;
	struct ts104_va *va = to_ts104_va(op->unmap.va);
	int ret;

	ret = tsg_vm_unmap(bind->vm->tsg, va->gpuva.va.addr, va->gpuva.va.range);
	if (ret)
		return ret;
	drm_gpuva_unmap(&op->unmap);
	ts104_va_bury(bind->vm, va);
	return 0;
}

static void ts104_gpuvm_free(struct drm_gpuvm *gpuvm)
{
	struct ts104_vm *vm = to_ts104_vm(gpuvm);

	mutex_destroy(&vm->lock);
	ts104_core_put(vm->core);
	kfree(vm);
}

static const struct drm_gpuvm_ops ts104_gpuvm_ops = {
	.vm_free = ts104_gpuvm_free,
	.sm_step_map = ts104_step_map,
	.sm_step_remap = ts104_step_remap,
	.sm_step_unmap = ts104_step_unmap,
};

/* The GPU sees what was bound and forgets what was unbound, whose memory is then dropped. */
static int ts104_vm_flush(struct ts104_vm *vm)
{
	struct ts104_core *core = vm->core;
	int ret = tsg_vm_flush(vm->tsg);

	if (!ret) {
		ts104_vas_free(&vm->dead_vas);
		return 0;
	}
	spin_lock(&core->limbo_lock);
	list_splice_tail_init(&vm->dead_vas, &core->limbo_vas);
	spin_unlock(&core->limbo_lock);
	ts104_device_wedged(core);
	return ret;
}

/* Locks the objects of all bindings in the range and `obj`. Undone by drm_exec_fini in any case. */
static int ts104_vm_lock_range(struct ts104_vm *vm, struct drm_exec *exec, u32 flags, u64 va,
			       u64 range, struct drm_gem_object *obj)
{
	int ret = 0;

	drm_exec_init(exec, flags | DRM_EXEC_IGNORE_DUPLICATES, 0);
	drm_exec_until_all_locked(exec) {
		if (obj)
			ret = drm_exec_lock_obj(exec, obj);
		drm_exec_retry_on_contention(exec);
		if (ret)
			return ret;
		ret = drm_gpuvm_prepare_range(&vm->gpuvm, exec, va, range, 0);
		drm_exec_retry_on_contention(exec);
		if (ret)
			return ret;
	}
	return 0;
}

static int ts104_sm_map(struct ts104_bind *bind, u64 va, u64 range, struct drm_gem_object *obj,
			u64 offset)
{
#ifdef TS104_HAVE_GPUVM_MAP_REQ
	const struct drm_gpuvm_map_req req = {
		.map.va.addr = va,
		.map.va.range = range,
		.map.gem.obj = obj,
		.map.gem.offset = offset,
	};

	return drm_gpuvm_sm_map(&bind->vm->gpuvm, bind, &req);
#else
	return drm_gpuvm_sm_map(&bind->vm->gpuvm, bind, va, range, obj, offset);
#endif
}

static struct drm_gpuvm_bo *ts104_vm_bo_obtain(struct ts104_vm *vm, struct drm_gem_object *obj)
{
#ifdef TS104_HAVE_GPUVM_BO_OBTAIN_LOCKED
	return drm_gpuvm_bo_obtain_locked(&vm->gpuvm, obj);
#else
	return drm_gpuvm_bo_obtain(&vm->gpuvm, obj);
#endif
}

static int ts104_vm_map_op(struct ts104_vm *vm, const struct drm_ts104_bind_op *op,
			   struct drm_gem_object *obj)
{
	struct ts104_bind bind = { .vm = vm };
	struct drm_exec exec;
	int ret;

	if (op->flags & DRM_TS104_BIND_READ_ONLY)
		bind.map_flags |= TSG_MAP_READ_ONLY;
	if (op->flags & DRM_TS104_BIND_NO_ATOMICS)
		bind.map_flags |= TSG_MAP_NO_ATOMICS;
	ret = ts104_bind_alloc(&bind, 3);
	if (ret)
		goto out;
	ret = ts104_vm_lock_range(vm, &exec, DRM_EXEC_INTERRUPTIBLE_WAIT, op->va, op->range, obj);
	if (ret)
		goto out_exec;
	bind.vm_bo = ts104_vm_bo_obtain(vm, obj);
	if (IS_ERR(bind.vm_bo)) {
		ret = PTR_ERR(bind.vm_bo);
		goto out_exec;
	}
	ret = ts104_sm_map(&bind, op->va, op->range, obj, op->bo_offset);
	/* Each binding holds its own reference. */
	drm_gpuvm_bo_put(bind.vm_bo);
out_exec:
	drm_exec_fini(&exec);
out:
	ts104_bind_free(&bind);
	return ret;
}

static int ts104_vm_unmap_range(struct ts104_vm *vm, u64 va, u64 range, u32 exec_flags)
{
	struct ts104_bind bind = { .vm = vm };
	struct drm_exec exec;
	int ret;

	ret = ts104_bind_alloc(&bind, 2);
	if (!ret) {
		ret = ts104_vm_lock_range(vm, &exec, exec_flags, va, range, NULL);
		if (!ret)
			ret = drm_gpuvm_sm_unmap(&vm->gpuvm, &bind, va, range);
		drm_exec_fini(&exec);
	}
	ts104_bind_free(&bind);
	return ret;
}

/* No TLB entry and no channel refers to it. */
void ts104_vm_free(struct ts104_vm *vm)
{
	ts104_vas_free(&vm->dead_vas);
	tsg_vm_destroy(vm->tsg);
	drm_gpuvm_put(&vm->gpuvm);
}

/* The GPU may still walk its page tables: the VM waits for the reset. */
static void ts104_vm_to_limbo(struct ts104_vm *vm)
{
	struct ts104_core *core = vm->core;

	spin_lock(&core->limbo_lock);
	list_add_tail(&vm->limbo_link, &core->limbo_vms);
	spin_unlock(&core->limbo_lock);
	ts104_device_wedged(core);
}

/*
 * The last user is gone. Unlike an unmap this must not fail: the page tables go as a whole, and
 * what was bound is freed once no TLB entry is left.
 */
static void ts104_vm_release(struct kref *kref)
{
	struct ts104_vm *vm = container_of(kref, struct ts104_vm, kref);
	struct drm_gpuva *gpuva, *next;
	int ret;

	mutex_lock(&vm->lock);
	drm_gpuvm_for_each_va_safe(gpuva, next, &vm->gpuvm) {
		struct drm_gem_object *obj = gpuva->gem.obj;

		/* The reference that burying takes keeps the lock over its unlock. */
		dma_resv_lock(obj->resv, NULL);
		drm_gpuva_remove(gpuva);
		ts104_va_bury(vm, to_ts104_va(gpuva));
		dma_resv_unlock(obj->resv);
	}
	ret = tsg_vm_unmap(vm->tsg, 0, TSG_VA_LIMIT);
	if (!ret)
		ret = ts104_vm_flush(vm);
	mutex_unlock(&vm->lock);
	if (ret)
		ts104_vm_to_limbo(vm);
	else
		ts104_vm_free(vm);
}

void ts104_vm_put(struct ts104_vm *vm)
{
	kref_put(&vm->kref, ts104_vm_release);
}

struct ts104_vm *ts104_vm_lookup(struct ts104_file *tf, u32 id)
{
	struct ts104_vm *vm;

	xa_lock(&tf->vms);
	vm = xa_load(&tf->vms, id);
	if (vm)
		kref_get(&vm->kref);
	xa_unlock(&tf->vms);
	return vm;
}

/* Whether every byte of the range is bound. */
bool ts104_vm_is_bound(struct ts104_vm *vm, u64 va, u64 size)
{
	u64 end = va + size;
	struct drm_gpuva *gpuva;

	mutex_lock(&vm->lock);
	drm_gpuvm_for_each_va_range(gpuva, &vm->gpuvm, va, end) {
		if (gpuva->va.addr > va)
			break;
		va = gpuva->va.addr + gpuva->va.range;
	}
	mutex_unlock(&vm->lock);
	return va >= end;
}

static struct ts104_vm *ts104_vm_alloc(struct ts104_device *ts)
{
	struct drm_gem_object *resv_obj;
	struct ts104_vm *vm;
	int ret;

	vm = kzalloc(sizeof(*vm), GFP_KERNEL_ACCOUNT);
	if (!vm)
		return ERR_PTR(-ENOMEM);
	resv_obj = drm_gpuvm_resv_object_alloc(&ts->drm);
	if (!resv_obj) {
		kfree(vm);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&vm->kref);
	mutex_init(&vm->lock);
	INIT_LIST_HEAD(&vm->dead_vas);
	vm->core = ts104_core_get(ts->core);
	drm_gpuvm_init(&vm->gpuvm, "ts104", 0, &ts->drm, resv_obj, 0, TSG_VA_LIMIT, 0, 0,
		       &ts104_gpuvm_ops);
	/* drm_gpuvm has taken its own reference. */
	drm_gem_object_put(resv_obj);

	ret = tsg_vm_create(vm->core->tsg, &vm->tsg);
	if (ret) {
		drm_gpuvm_put(&vm->gpuvm);
		return ERR_PTR(ret);
	}
	return vm;
}

int ts104_vm_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct ts104_file *tf = file->driver_priv;
	struct drm_ts104_vm_create *args = data;
	struct ts104_vm *vm;
	int idx, ret;

	if (args->flags)
		return -EINVAL;
	ret = ts104_enter(ts, &idx);
	if (ret)
		return ret;
	vm = ts104_vm_alloc(ts);
	if (IS_ERR(vm)) {
		ret = PTR_ERR(vm);
	} else {
		ret = xa_alloc(&tf->vms, &args->vm_id, vm, XA_LIMIT(1, TS104_MAX_VMS), GFP_KERNEL);
		if (ret) {
			ts104_vm_put(vm);
			ret = ret == -EBUSY ? -ENOSPC : ret;
		}
	}
	ts104_exit(ts, idx);
	return ret;
}

int ts104_vm_destroy_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct ts104_file *tf = file->driver_priv;
	const struct drm_ts104_vm_destroy *args = data;
	struct ts104_vm *vm;
	int ret = 0;

	if (args->pad)
		return -EINVAL;
	/* Not ts104_enter: a lost VM can be destroyed, too. */
	down_read(&ts->reset_sem);
	mutex_lock(&tf->lock);
	vm = xa_load(&tf->vms, args->vm_id);
	if (!vm)
		ret = -ENOENT;
	else if (vm->channels)
		ret = -EBUSY;
	else
		xa_erase(&tf->vms, args->vm_id);
	mutex_unlock(&tf->lock);
	if (!ret)
		ts104_vm_put(vm);
	up_read(&ts->reset_sem);
	return ret;
}

static bool ts104_bind_op_valid(const struct drm_ts104_bind_op *op)
{
	if (op->pad || !op->range || op->va >= TSG_VA_LIMIT || op->range > TSG_VA_LIMIT - op->va)
		return false;
	if (!IS_ALIGNED(op->va | op->range | op->bo_offset, TSG_PAGE_SIZE))
		return false;
	switch (op->op) {
	case DRM_TS104_BIND_MAP:
		return !(op->flags & ~TS104_BIND_FLAGS);
	case DRM_TS104_BIND_UNMAP:
		return !op->flags && !op->handle && !op->bo_offset;
	default:
		return false;
	}
}

static int ts104_bind_op(struct ts104_vm *vm, const struct drm_ts104_bind_op *op,
			 struct drm_file *file)
{
	struct drm_gem_object *obj;
	int ret;

	if (!ts104_bind_op_valid(op))
		return -EINVAL;
	if (op->op == DRM_TS104_BIND_UNMAP)
		return ts104_vm_unmap_range(vm, op->va, op->range, DRM_EXEC_INTERRUPTIBLE_WAIT);

	obj = drm_gem_object_lookup(file, op->handle);
	if (!obj)
		return -ENOENT;
	if (op->bo_offset > obj->size || op->range > obj->size - op->bo_offset)
		ret = -EINVAL;
	else if (to_ts104_bo(obj)->core && to_ts104_bo(obj)->core != vm->core)
		ret = -EIO;
	else
		ret = ts104_vm_map_op(vm, op, obj);
	drm_gem_object_put(obj);
	return ret;
}

static int ts104_bind_ops(struct ts104_vm *vm, const struct drm_ts104_bind_op *ops, u32 count,
			  u32 *completed, struct drm_file *file)
{
	int ret = 0, flush;
	u32 i;

	if (mutex_lock_interruptible(&vm->lock))
		return -EINTR;
	for (i = 0; i < count && !ret; i++) {
		ret = ts104_bind_op(vm, &ops[i], file);
		if (!ret)
			(*completed)++;
		cond_resched();
	}
	/* One flush for all of them, also when one has failed half-way. */
	flush = ts104_vm_flush(vm);
	mutex_unlock(&vm->lock);
	return ret ? ret : flush;
}

int ts104_vm_bind_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct drm_ts104_vm_bind *args = data;
	struct drm_ts104_bind_op *ops;
	struct ts104_vm *vm;
	int idx, ret;

	args->completed = 0;
	if (args->flags || !args->op_count)
		return -EINVAL;
	if (args->op_count > DRM_TS104_MAX_BIND_OPS)
		return -E2BIG;
	/* Before the device is held: see the lock order. */
	ops = vmemdup_array_user(u64_to_user_ptr(args->ops), args->op_count, sizeof(*ops));
	if (IS_ERR(ops))
		return PTR_ERR(ops);

	vm = ts104_vm_lookup(file->driver_priv, args->vm_id);
	if (!vm) {
		ret = -ENOENT;
		goto out_ops;
	}
	ret = ts104_enter(ts, &idx);
	if (ret) {
		/* Its last reference may be this one: freed like in a destroy. */
		down_read(&ts->reset_sem);
		ts104_vm_put(vm);
		up_read(&ts->reset_sem);
		goto out_ops;
	}
	if (vm->core == ts->core)
		ret = ts104_bind_ops(vm, ops, args->op_count, &args->completed, file);
	else
		ret = -EIO;
	ts104_vm_put(vm);
	ts104_exit(ts, idx);
out_ops:
	kvfree(ops);
	return ret;
}
