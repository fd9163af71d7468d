// SPDX-License-Identifier: GPL-2.0-only
/*
 * User mappings of a vGPU's regions: the doorbell page, which leads to this vGPU's own window of
 * physical BAR3, and the VRAM partition. Faults make the entries, so that they can be taken away.
 *
 * Everything here runs under mmap_lock, so no lock of the core is taken (turnstile.h).
 *
 * Memory types. Registers: uncached, each store reaches the device by itself and in order. VRAM:
 * write-combining. It is memory, but behind PCI: the CPU would not see the device's writes to lines
 * in its caches, so cached is wrong; uncached would make a transaction of every store of a copy.
 */
#include <linux/mm.h>
#include <linux/pci.h>

#include "compat.h"
#include "turnstile.h"

/* The first frame for `pages` pages from page `pgoff` of the file; false: may not be mapped. */
static bool tsl_mmap_pfn(struct ts_host_vgpu *vgpu, u64 pgoff, u64 pages, unsigned long *pfn,
			 bool *cached)
{
	struct ts_mmap_target target;
	u32 index;
	u64 offset;

	if (!tsl_region_of(vgpu, pgoff << PAGE_SHIFT, &index, &offset) ||
	    ts_vgpu_mmap(vgpu->core, index, offset, pages << PAGE_SHIFT, &target))
		return false;
	*pfn = (pci_resource_start(vgpu->gpu->pdev, target.bar) + target.bar_offset) >> PAGE_SHIFT;
	*cached = target.cached;
	return true;
}

/*
 * Where the block of 2^order pages around the fault begins and leads. A block that is not whole in
 * the mapping and in one area of the region: VM_FAULT_FALLBACK.
 */
static vm_fault_t tsl_fault_block(struct vm_fault *vmf, unsigned int order, unsigned long *address,
				  unsigned long *pfn)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long size = PAGE_SIZE << order;
	bool cached;
	u64 pgoff;

	*address = ALIGN_DOWN(vmf->address, size);
	if (*address < vma->vm_start || *address + size > vma->vm_end)
		return VM_FAULT_FALLBACK;
	pgoff = vma->vm_pgoff + ((*address - vma->vm_start) >> PAGE_SHIFT);
	if (!tsl_mmap_pfn(vma->vm_private_data, pgoff, 1ul << order, pfn, &cached))
		return VM_FAULT_FALLBACK;
	return 0;
}

static vm_fault_t tsl_insert_pages(struct vm_fault *vmf, unsigned int order)
{
	unsigned long address, pfn, i;
	vm_fault_t ret;

	ret = tsl_fault_block(vmf, order, &address, &pfn);
	if (ret)
		return ret;
	for (i = 0; i < 1ul << order; i++) {
		ret = vmf_insert_pfn(vmf->vma, address + i * PAGE_SIZE, pfn + i);
		if (ret != VM_FAULT_NOPAGE)
			break;
	}
	return ret;
}

static bool tsl_is_blocked(struct ts_host_vgpu *vgpu, const struct vm_fault *vmf)
{
	u32 index;
	u64 offset;

	return READ_ONCE(vgpu->clearing) &&
	       tsl_region_of(vgpu, (u64)vmf->pgoff << PAGE_SHIFT, &index, &offset) &&
	       index == VFIO_PCI_BAR1_REGION_INDEX;
}

/* Takes map_lock for reading, with VRAM cleared. false: without it, the process is being killed. */
static bool tsl_lock_map(struct ts_host_vgpu *vgpu, const struct vm_fault *vmf)
{
	down_read(&vgpu->map_lock);
	while (tsl_is_blocked(vgpu, vmf)) {
		up_read(&vgpu->map_lock);
		if (wait_event_killable(vgpu->cleared, !smp_load_acquire(&vgpu->clearing)))
			return false;
		down_read(&vgpu->map_lock);
	}
	return true;
}

/*
 * One fault makes 2 MiB of entries where it can: it comes from a guest, where it is a nested fault
 * and dear.
 */
static vm_fault_t tsl_fault(struct vm_fault *vmf)
{
	struct ts_host_vgpu *vgpu = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (!tsl_lock_map(vgpu, vmf))
		return VM_FAULT_NOPAGE;
	if (!vgpu->revoked) {
		ret = tsl_insert_pages(vmf, PMD_SHIFT - PAGE_SHIFT);
		if (ret == VM_FAULT_FALLBACK)
			ret = tsl_insert_pages(vmf, 0);
		if (ret == VM_FAULT_FALLBACK)
			ret = VM_FAULT_SIGBUS;
	}
	up_read(&vgpu->map_lock);
	return ret;
}

#if TSL_HUGE_PFNMAP
static vm_fault_t tsl_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct ts_host_vgpu *vgpu = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	unsigned long address, pfn;

	if (order != PMD_SHIFT - PAGE_SHIFT)
		return VM_FAULT_FALLBACK;
	if (!tsl_lock_map(vgpu, vmf))
		return VM_FAULT_NOPAGE;
	if (!vgpu->revoked && !tsl_fault_block(vmf, order, &address, &pfn) &&
	    IS_ALIGNED(pfn, PTRS_PER_PMD))
		ret = tsl_insert_pfn_pmd(vmf, pfn, vmf->flags & FAULT_FLAG_WRITE);
	up_read(&vgpu->map_lock);
	return ret;
}
#endif

static const struct vm_operations_struct tsl_vm_ops = {
	.fault = tsl_fault,
#if TSL_HUGE_PFNMAP
	.huge_fault = tsl_huge_fault,
#endif
};

int tsl_mmap(struct vfio_device *vdev, struct vm_area_struct *vma)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	unsigned long pfn;
	bool cached;

	/* A private mapping would be copied by its first write, and the device never see it. */
	if (!(vma->vm_flags & VM_SHARED) ||
	    !tsl_mmap_pfn(vgpu, vma->vm_pgoff, vma_pages(vma), &pfn, &cached))
		return -EINVAL;

	if (cached)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	else
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	tsl_vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = vgpu;
	vma->vm_ops = &tsl_vm_ops;
	WRITE_ONCE(vgpu->mapping, vma->vm_file->f_mapping);
	return 0;
}

void tsl_mmap_init(struct ts_host_vgpu *vgpu)
{
	init_rwsem(&vgpu->map_lock);
}

void tsl_mmap_block_vram(struct ts_host_vgpu *vgpu)
{
	struct address_space *mapping;

	down_write(&vgpu->map_lock);
	vgpu->clearing = true;
	up_write(&vgpu->map_lock);
	mapping = READ_ONCE(vgpu->mapping);
	if (mapping)
		unmap_mapping_range(mapping, tsl_region_offset(vgpu, VFIO_PCI_BAR1_REGION_INDEX),
				    BIT_ULL(TSL_REGION_SHIFT), 1);
}

void tsl_mmap_revoke(struct ts_host_vgpu *vgpu)
{
	struct address_space *mapping;

	down_write(&vgpu->map_lock);
	vgpu->revoked = true;
	up_write(&vgpu->map_lock);
	mapping = READ_ONCE(vgpu->mapping);
	if (mapping)
		unmap_mapping_range(mapping, (u64)vgpu->slot << TSL_SLOT_SHIFT,
				    BIT_ULL(TSL_SLOT_SHIFT), 1);
}
