// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory objects and their mappings into processes.
 *
 * VRAM comes from the core's allocator and is mapped through BAR1, page frames without struct page.
 * System memory is shmem, resident and mapped for DMA from creation on, cached for the CPU: the GPU
 * takes part in its coherence. When the device is reset or goes, its mappings are taken away, and
 * the next touch finds an ordinary page instead of a signal.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sched/signal.h>

#include <drm/drm_drv.h>
#include <drm/drm_vma_manager.h>

#include "ts104_drv.h"

/* Pages mapped per page fault. */
#define TS104_FAULT_PAGES 64
/* VRAM zeroed between two looks at the scheduler. */
#define TS104_ZERO_CHUNK SZ_4M

static void ts104_bo_free(struct drm_gem_object *obj)
{
	struct ts104_bo *bo = to_ts104_bo(obj);
	struct ts104_core *core = bo->core;

	if (bo->placement == DRM_TS104_PLACEMENT_SYSMEM) {
		ts104_dma_bo_remove(to_ts104(obj->dev), bo);
		drm_gem_shmem_free(&bo->shmem);
		return;
	}
	if (core) {
		tsg_vram_free(core->tsg, bo->vram, obj->size);
		ts104_core_put(core);
	}
	if (bo->dummy)
		__free_page(bo->dummy);
	drm_gem_object_release(obj);
	kfree(bo);
}

/* The page that stands in for device memory; one per object, so that no two processes share it. */
static struct page *ts104_dummy_page(struct page **slot)
{
	struct page *page = READ_ONCE(*slot);
	struct page *other;

	if (page)
		return page;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page)
		return NULL;
	other = cmpxchg(slot, NULL, page);
	if (!other)
		return page;
	__free_page(page);
	return other;
}

static vm_fault_t ts104_fault_dummy(struct vm_fault *vmf, struct page **slot)
{
	struct page *page = ts104_dummy_page(slot);

	if (!page)
		return VM_FAULT_OOM;
	return vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
}

static unsigned long ts104_bo_pfn(struct ts104_bo *bo, pgoff_t page)
{
	struct ts104_device *ts = to_ts104(bo->shmem.base.dev);

	if (bo->placement == DRM_TS104_PLACEMENT_VRAM)
		return PHYS_PFN(ts->bar1_phys + bo->vram) + page;
	return page_to_pfn(bo->shmem.pages[page]);
}

/*
 * Not the shmem helper's: that counts pages from the beginning of the VMA, which is wrong once a
 * part of a mapping has been unmapped, and maps one page at a time.
 */
static vm_fault_t ts104_bo_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct drm_gem_object *obj = vma->vm_private_data;
	struct ts104_device *ts = to_ts104(obj->dev);
	struct ts104_bo *bo = to_ts104_bo(obj);
	unsigned long address = ALIGN_DOWN(vmf->address, PAGE_SIZE);
	pgoff_t page = vmf->pgoff - drm_vma_node_start(&obj->vma_node);
	unsigned long end;
	vm_fault_t ret;

	down_read(&ts->reset_sem);
	if (bo->core && bo->core != ts->core) {
		ret = ts104_fault_dummy(vmf, &bo->dummy);
		goto out;
	}
	ret = vmf_insert_pfn(vma, address, ts104_bo_pfn(bo, page));

	/* The pages that follow, as far as they come for free. */
	end = min(vma->vm_end, address + TS104_FAULT_PAGES * PAGE_SIZE);
	while (ret == VM_FAULT_NOPAGE && (address += PAGE_SIZE) < end) {
		if (vmf_insert_pfn(vma, address, ts104_bo_pfn(bo, ++page)) != VM_FAULT_NOPAGE)
			break;
	}
out:
	up_read(&ts->reset_sem);
	return ret;
}

static const struct vm_operations_struct ts104_bo_vm_ops = {
	.fault = ts104_bo_fault,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static int ts104_mmap_pfns(struct vm_area_struct *vma, vm_flags_t flags, pgprot_t prot)
{
	/* A private mapping would be copied at the first write: not the GPU's memory any more. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, flags | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_page_prot = prot;
	return 0;
}

static int ts104_vram_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	return ts104_mmap_pfns(vma, VM_IO, pgprot_writecombine(vm_get_page_prot(vma->vm_flags)));
}

static int ts104_sysmem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	return ts104_mmap_pfns(vma, 0, vm_get_page_prot(vma->vm_flags));
}

static enum drm_gem_object_status ts104_bo_status(struct drm_gem_object *obj)
{
	return DRM_GEM_OBJECT_RESIDENT;
}

static const struct drm_gem_object_funcs ts104_vram_funcs = {
	.free = ts104_bo_free,
	.mmap = ts104_vram_mmap,
	.vm_ops = &ts104_bo_vm_ops,
	.status = ts104_bo_status,
};

static const struct drm_gem_object_funcs ts104_sysmem_funcs = {
	.free = ts104_bo_free,
	.print_info = drm_gem_shmem_object_print_info,
	.pin = drm_gem_shmem_object_pin,
	.unpin = drm_gem_shmem_object_unpin,
	.get_sg_table = drm_gem_shmem_object_get_sg_table,
	.vmap = drm_gem_shmem_object_vmap,
	.vunmap = drm_gem_shmem_object_vunmap,
	.mmap = ts104_sysmem_mmap,
	.vm_ops = &ts104_bo_vm_ops,
	.status = ts104_bo_status,
};

struct drm_gem_object *ts104_gem_create_object(struct drm_device *drm, size_t size)
{
	struct ts104_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL_ACCOUNT);

	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->placement = DRM_TS104_PLACEMENT_SYSMEM;
	INIT_LIST_HEAD(&bo->dma_link);
	bo->shmem.pages_mark_dirty_on_put = true;
	bo->shmem.base.funcs = &ts104_sysmem_funcs;
	return &bo->shmem.base;
}

static struct ts104_bo *ts104_sysmem_create(struct ts104_device *ts, u64 size)
{
	struct drm_gem_shmem_object *shmem;
	struct sg_table *sgt;

	if (size > (u64)totalram_pages() << PAGE_SHIFT)
		return ERR_PTR(-ENOMEM);
	shmem = drm_gem_shmem_create(&ts->drm, size);
	if (IS_ERR(shmem))
		return ERR_CAST(shmem);
	sgt = drm_gem_shmem_get_pages_sgt(shmem);
	if (IS_ERR(sgt)) {
		drm_gem_object_put(&shmem->base);
		return ERR_CAST(sgt);
	}
	ts104_dma_bo_add(ts, to_ts104_bo(&shmem->base));
	return to_ts104_bo(&shmem->base);
}

static int ts104_vram_zero(struct ts104_bo *bo)
{
	u64 size = bo->shmem.base.size;
	u64 done, chunk;

	for (done = 0; done < size; done += chunk) {
		chunk = min_t(u64, size - done, TS104_ZERO_CHUNK);
		ts104_os_ops.vram_zero(bo->core, bo->vram + done, chunk);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int ts104_vram_alloc(struct ts104_core *core, u64 size, u64 *offset)
{
	/* Aligned as large pages want it, unless that is what makes it not fit. */
	u64 align = size >= SZ_2M ? SZ_2M : size >= SZ_64K ? SZ_64K : SZ_4K;
	int ret = tsg_vram_alloc(core->tsg, size, align, offset);

	if (ret == -ENOSPC && align > SZ_4K)
		ret = tsg_vram_alloc(core->tsg, size, SZ_4K, offset);
	return ret;
}

static struct ts104_bo *ts104_vram_create(struct ts104_device *ts, u64 size)
{
	struct ts104_core *core = ts->core;
	struct ts104_bo *bo;
	int ret;

	if (size > core->info.vram_bytes)
		return ERR_PTR(-ENOSPC);
	bo = kzalloc(sizeof(*bo), GFP_KERNEL_ACCOUNT);
	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->placement = DRM_TS104_PLACEMENT_VRAM;
	bo->shmem.base.funcs = &ts104_vram_funcs;
	drm_gem_private_object_init(&ts->drm, &bo->shmem.base, size);

	ret = ts104_vram_alloc(core, size, &bo->vram);
	if (!ret) {
		bo->core = ts104_core_get(core);
		ret = ts104_vram_zero(bo);
	}
	if (!ret)
		ret = drm_gem_create_mmap_offset(&bo->shmem.base);
	if (ret) {
		drm_gem_object_put(&bo->shmem.base);
		return ERR_PTR(ret);
	}
	return bo;
}

/* Zeroed. `size` is a multiple of the page size. Within ts104_enter. -ENOSPC, -ENOMEM, -EINTR. */
struct ts104_bo *ts104_bo_create(struct ts104_device *ts, u64 size, u32 placement)
{
	if (placement == DRM_TS104_PLACEMENT_VRAM)
		return ts104_vram_create(ts, size);
	return ts104_sysmem_create(ts, size);
}

/* Within ts104_enter, of an object that is not lost. */
void ts104_bo_zero_first_page(struct ts104_bo *bo)
{
	if (bo->placement == DRM_TS104_PLACEMENT_VRAM)
		ts104_os_ops.vram_zero(bo->core, bo->vram, SZ_4K);
	else
		clear_highpage(bo->shmem.pages[0]);
}

/* System memory of one page. */
u64 ts104_bo_dma_address(struct ts104_bo *bo)
{
	return sg_dma_address(bo->shmem.sgt->sgl);
}

/*
 * The naturally aligned 32- or 64-bit word at `offset`, which lies inside. A VRAM object's BAR must
 * be there: within drm_dev_enter.
 */
u64 ts104_bo_read(struct ts104_bo *bo, u64 offset, bool wide)
{
	struct ts104_device *ts = to_ts104(bo->shmem.base.dev);
	void *page;
	u64 value;

	if (bo->placement == DRM_TS104_PLACEMENT_VRAM) {
		void __iomem *word = ts->bar1 + bo->vram + offset;

		return wide ? readq(word) : readl(word);
	}
	page = kmap_local_page(bo->shmem.pages[offset >> PAGE_SHIFT]);
	page += offset_in_page(offset);
	value = wide ? READ_ONCE(*(u64 *)page) : READ_ONCE(*(u32 *)page);
	kunmap_local(page);
	return value;
}

int ts104_gem_create_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	struct drm_ts104_gem_create *args = data;
	struct ts104_bo *bo;
	int idx, ret;

	if (args->flags || args->pad || args->placement > DRM_TS104_PLACEMENT_SYSMEM)
		return -EINVAL;
	if (!args->size || args->size > TSG_VA_LIMIT)
		return -EINVAL;
	args->size = PAGE_ALIGN(args->size);

	ret = ts104_enter(ts, &idx);
	if (ret)
		return ret;
	bo = ts104_bo_create(ts, args->size, args->placement);
	ts104_exit(ts, idx);
	if (IS_ERR(bo))
		return PTR_ERR(bo);

	ret = drm_gem_handle_create(file, &bo->shmem.base, &args->handle);
	/* The handle holds it from here on. */
	drm_gem_object_put(&bo->shmem.base);
	return ret;
}

int ts104_gem_mmap_offset_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_ts104_gem_mmap_offset *args = data;
	struct drm_gem_object *obj;

	if (args->flags)
		return -EINVAL;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	args->offset = drm_vma_node_offset_addr(&obj->vma_node);
	drm_gem_object_put(obj);
	return 0;
}

/*
 * The doorbell page is the same for everybody: the token says which channel has work, and a wrong
 * one only makes the GPU look at a GP_PUT that has not moved.
 */
static vm_fault_t ts104_doorbell_fault(struct vm_fault *vmf)
{
	struct drm_file *file = vmf->vma->vm_private_data;
	struct ts104_file *tf = file->driver_priv;
	struct ts104_device *ts = to_ts104(file->minor->dev);
	vm_fault_t ret;

	down_read(&ts->reset_sem);
	if (ts->core)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     PHYS_PFN(ts->bar0_phys + ts->core->info.doorbell_offset));
	else
		ret = ts104_fault_dummy(vmf, &tf->dummy);
	up_read(&ts->reset_sem);
	return ret;
}

static const struct vm_operations_struct ts104_doorbell_vm_ops = {
	.fault = ts104_doorbell_fault,
};

int ts104_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;
	int ret;

	if (vma->vm_pgoff != PHYS_PFN(TS104_DOORBELL_MMAP_OFFSET))
		return drm_gem_mmap(filp, vma);

	if (drm_dev_is_unplugged(file->minor->dev))
		return -ENODEV;
	if (vma_pages(vma) != 1)
		return -EINVAL;
	ret = ts104_mmap_pfns(vma, VM_IO, pgprot_noncached(vm_get_page_prot(vma->vm_flags)));
	if (ret)
		return ret;
	/* The file outlives its mappings. */
	vma->vm_private_data = file;
	vma->vm_ops = &ts104_doorbell_vm_ops;
	return 0;
}
