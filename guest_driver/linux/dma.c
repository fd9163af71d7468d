// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system memory that the device may reach, so that all of it can be taken away at once.
 *
 * Files stay open when the driver leaves the device, and keep their objects. Their mappings for DMA
 * must not stay: they belong to the driver, and whoever drives the device next (vfio-pci, say) has
 * its IOMMU for itself. The memory remains what it is; only the device does not reach it any more.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "ts104_drv.h"

/* A page of the core's own structures. Streaming like the objects': the GPU snoops. */
struct ts104_dma_page {
	struct list_head link;
	struct page *page;
	dma_addr_t dma;
	bool mapped;
};

void ts104_dma_init(struct ts104_device *ts)
{
	mutex_init(&ts->dma_lock);
	INIT_LIST_HEAD(&ts->dma_bos);
	INIT_LIST_HEAD(&ts->dma_pages);
}

int ts104_dma_page_alloc(struct ts104_device *ts, struct tsg_dma_page *out)
{
	struct ts104_dma_page *page = kzalloc(sizeof(*page), GFP_KERNEL);

	if (!page)
		return -ENOMEM;
	page->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page->page)
		goto err_free;
	page->dma = dma_map_page(&ts->pdev->dev, page->page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(&ts->pdev->dev, page->dma))
		goto err_page;
	page->mapped = true;
	mutex_lock(&ts->dma_lock);
	list_add(&page->link, &ts->dma_pages);
	mutex_unlock(&ts->dma_lock);
	out->cpu = page_address(page->page);
	out->dma = page->dma;
	out->cookie = page;
	return 0;

err_page:
	__free_page(page->page);
err_free:
	kfree(page);
	return -ENOMEM;
}

/* Under dma_lock. */
static void ts104_dma_page_unmap(struct ts104_device *ts, struct ts104_dma_page *page)
{
	if (page->mapped)
		dma_unmap_page(&ts->pdev->dev, page->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	page->mapped = false;
}

void ts104_dma_page_free(struct ts104_device *ts, const struct tsg_dma_page *in)
{
	struct ts104_dma_page *page = in->cookie;

	mutex_lock(&ts->dma_lock);
	ts104_dma_page_unmap(ts, page);
	list_del(&page->link);
	mutex_unlock(&ts->dma_lock);
	__free_page(page->page);
	kfree(page);
}

/* An object in system memory that has its table, and so is mapped. */
void ts104_dma_bo_add(struct ts104_device *ts, struct ts104_bo *bo)
{
	mutex_lock(&ts->dma_lock);
	list_add(&bo->dma_link, &ts->dma_bos);
	mutex_unlock(&ts->dma_lock);
}

/* Of an object that is freed; it need not have been added. The shmem helper unmaps what is left. */
void ts104_dma_bo_remove(struct ts104_device *ts, struct ts104_bo *bo)
{
	mutex_lock(&ts->dma_lock);
	list_del_init(&bo->dma_link);
	mutex_unlock(&ts->dma_lock);
}

/*
 * The driver leaves the device, which is unplugged for user space and may not master the bus any
 * more: nobody makes mappings, or looks at those that are there, but to free them.
 */
void ts104_dma_unmap_all(struct ts104_device *ts)
{
	struct ts104_dma_page *page;
	struct ts104_bo *bo, *next;
	struct sg_table *sgt;

	mutex_lock(&ts->dma_lock);
	list_for_each_entry(page, &ts->dma_pages, link)
		ts104_dma_page_unmap(ts, page);
	list_for_each_entry_safe(bo, next, &ts->dma_bos, dma_link) {
		sgt = bo->shmem.sgt;
		bo->shmem.sgt = NULL;
		dma_unmap_sgtable(&ts->pdev->dev, sgt, DMA_BIDIRECTIONAL, 0);
		sg_free_table(sgt);
		kfree(sgt);
		list_del_init(&bo->dma_link);
	}
	mutex_unlock(&ts->dma_lock);
}
