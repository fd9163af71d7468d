// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of the guest: pinned for the device, read and written by the CPU, and given back when VFIO
 * takes it away.
 *
 * VFIO calls dma_unmap for memory that leaves and then looks whether pins remain; if so it calls
 * again, and after ten rounds stops the host with BUG(). Nothing tells the driver when that is
 * over, and the guest's other CPUs can make it pin the same pages again at that very moment. So a
 * range that was unmapped takes no pin for TSL_LEAVING_MS: much longer than VFIO needs to look.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>

#include "compat.h"
#include "trace.h"
#include "turnstile.h"

#define TSL_LEAVING_MS 50

/* ---- ranges that leave --------------------------------------------------------------------- */

static void tsl_leaving_add(struct tsl_leaving *leaving, u64 first, u64 last)
{
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&leaving->lock, flags);
	for (i = 0; i < TSL_LEAVING_SLOTS; i++) {
		if (leaving->slots[i].used && leaving->slots[i].first == first &&
		    leaving->slots[i].last == last)
			break;
	}
	if (i == TSL_LEAVING_SLOTS)
		i = leaving->next++ % TSL_LEAVING_SLOTS;
	leaving->slots[i].first = first;
	leaving->slots[i].last = last;
	leaving->slots[i].until = jiffies + msecs_to_jiffies(TSL_LEAVING_MS);
	leaving->slots[i].used = true;
	spin_unlock_irqrestore(&leaving->lock, flags);
}

static bool tsl_is_leaving(struct tsl_leaving *leaving, u64 first, u64 last)
{
	unsigned long flags;
	bool found = false;
	unsigned int i;

	spin_lock_irqsave(&leaving->lock, flags);
	for (i = 0; i < TSL_LEAVING_SLOTS; i++) {
		if (leaving->slots[i].used && time_after(jiffies, leaving->slots[i].until))
			leaving->slots[i].used = false;
		if (leaving->slots[i].used && first <= leaving->slots[i].last &&
		    last >= leaving->slots[i].first)
			found = true;
	}
	spin_unlock_irqrestore(&leaving->lock, flags);
	return found;
}

void tsl_dma_unmap(struct vfio_device *vdev, u64 iova, u64 length)
{
	struct ts_host_vgpu *vgpu = tsl_vgpu_of(vdev);
	u64 last = iova + length - 1;

	if (!length)
		return;
	if (last < iova)
		last = U64_MAX;
	trace_turnstile_dma_unmap(dev_name(vdev->dev), iova, length);
	tsl_leaving_add(&vgpu->leaving, iova, last);
	/* Not while the benchmark has pins that the core does not know of. */
	mutex_lock(&vgpu->bench_lock);
	mutex_unlock(&vgpu->bench_lock);
	ts_vgpu_dma_unmap(vgpu->core, iova, length);
	/* Again: the time counts from the end of this call. */
	tsl_leaving_add(&vgpu->leaving, iova, last);
}

/* ---- pins ---------------------------------------------------------------------------------- */

/*
 * VFIO writes a line to the kernel's log for each page above the user's limit of locked memory, and
 * a guest can make the driver ask for any number of them. After ten failures within five seconds
 * VFIO is asked once a second: the guest gets its faults all the same.
 */
#define TSL_PIN_FAILURES 10
#define TSL_PIN_PAUSE_MS 1000

static bool tsl_pins_are_paused(struct ts_host_vgpu *vgpu)
{
	return time_before(jiffies, READ_ONCE(vgpu->pin_pause));
}

static void tsl_pin_has_failed(struct ts_host_vgpu *vgpu, int error)
{
	if (error == -ENOMEM && !___ratelimit(&vgpu->pin_failures, TSL_NAME))
		WRITE_ONCE(vgpu->pin_pause, jiffies + msecs_to_jiffies(TSL_PIN_PAUSE_MS));
}

/* In place: pages[i] becomes dma[i]. Returns how many from the front have an address. */
static u32 tsl_map_pages(struct device *dev, u32 count, u64 *dma)
{
	struct page **pages = (struct page **)dma;
	dma_addr_t address;
	u32 i;

	for (i = 0; i < count; i++) {
		/* Another device's BAR in guest memory has a frame, but no struct page. */
		if (!pfn_valid(page_to_pfn(pages[i])))
			break;
		address = dma_map_page(dev, pages[i], 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
		if (dma_mapping_error(dev, address))
			break;
		dma[i] = address;
	}
	return i;
}

static void tsl_unmap_pages(struct device *dev, u32 count, const u64 *dma)
{
	u32 i;

	for (i = 0; i < count; i++)
		dma_unmap_page(dev, dma[i], PAGE_SIZE, DMA_BIDIRECTIONAL);
}

uint32_t ts_host_pin(struct ts_host_vgpu *vgpu, uint64_t gpa, uint32_t count, uint64_t *dma)
{
	struct device *dev = &vgpu->gpu->pdev->dev;
	u32 done = 0, batch = count, mapped;
	int ret;

	/* One array for both saves a page of stack or an allocation. */
	BUILD_BUG_ON(sizeof(struct page *) != sizeof(*dma));
	BUILD_BUG_ON(PAGE_SIZE != TS_PAGE_SIZE);

	if (tsl_is_leaving(&vgpu->leaving, gpa, gpa + (u64)count * PAGE_SIZE - 1) ||
	    tsl_pins_are_paused(vgpu))
		return 0;
	while (done < count) {
		u32 n = min(batch, count - done);

		/* All n or an error, which does not say how far it came: halve until it fits. */
		ret = vfio_pin_pages(&vgpu->vdev, gpa + (u64)done * PAGE_SIZE, n,
				     IOMMU_READ | IOMMU_WRITE, (struct page **)&dma[done]);
		if (ret <= 0) {
			tsl_pin_has_failed(vgpu, ret);
			if (n == 1 || tsl_pins_are_paused(vgpu))
				break;
			batch = n / 2;
			continue;
		}
		mapped = tsl_map_pages(dev, ret, &dma[done]);
		if (mapped < ret)
			vfio_unpin_pages(&vgpu->vdev, gpa + (u64)(done + mapped) * PAGE_SIZE,
					 ret - mapped);
		done += mapped;
		if (mapped < ret)
			break;
	}
	atomic_long_add(done, &vgpu->pages_pinned);
	trace_turnstile_pin(dev_name(vgpu->vdev.dev), gpa, count, done);
	return done;
}

void ts_host_unpin(struct ts_host_vgpu *vgpu, uint64_t gpa, uint32_t count, const uint64_t *dma)
{
	tsl_unmap_pages(&vgpu->gpu->pdev->dev, count, dma);
	vfio_unpin_pages(&vgpu->vdev, gpa, count);
	atomic_long_sub(count, &vgpu->pages_pinned);
	trace_turnstile_unpin(dev_name(vgpu->vdev.dev), gpa, count, count);
}

/* ---- access by the CPU --------------------------------------------------------------------- */

int ts_host_guest_read(struct ts_host_vgpu *vgpu, uint64_t gpa, void *buffer, size_t length)
{
	return vfio_dma_rw(&vgpu->vdev, gpa, buffer, length, false) ? -EFAULT : 0;
}

int ts_host_guest_write(struct ts_host_vgpu *vgpu, uint64_t gpa, const void *buffer,
			size_t length)
{
	return vfio_dma_rw(&vgpu->vdev, gpa, (void *)buffer, length, true) ? -EFAULT : 0;
}

/* ---- benchmark ----------------------------------------------------------------------------- */

/* bench_lock held and the vGPU open. */
static struct tsl_pin_bench tsl_pin_bench_measure(struct ts_host_vgpu *vgpu, u64 gpa, u32 pages,
						  u32 batch, u64 *dma)
{
	struct tsl_pin_bench result = { .batch = batch };
	u64 start, middle;
	u32 n, i;

	start = ktime_get_ns();
	while (result.pages < pages && !result.error) {
		n = min(batch, pages - result.pages);
		i = ts_host_pin(vgpu, gpa + (u64)result.pages * PAGE_SIZE, n, &dma[result.pages]);
		result.pages += i;
		if (i < n)
			result.error = -EFAULT;
	}
	middle = ktime_get_ns();
	for (i = 0; i < result.pages; i += n) {
		n = min(batch, result.pages - i);
		ts_host_unpin(vgpu, gpa + (u64)i * PAGE_SIZE, n, &dma[i]);
	}
	result.pin_ns = middle - start;
	result.unpin_ns = ktime_get_ns() - middle;
	return result;
}

/*
 * Pins `pages` pages from `gpa` with `batch` of them in a call, unpins them and leaves the times in
 * vgpu->bench. The core does not see it. -ENODEV: not open; -EFAULT: no such guest memory. Process.
 */
int tsl_pin_bench_run(struct ts_host_vgpu *vgpu, u64 gpa, u32 pages, u32 batch)
{
	u64 *dma;
	int ret;

	dma = kvcalloc(pages, sizeof(*dma), GFP_KERNEL);
	if (!dma)
		return -ENOMEM;
	mutex_lock(&vgpu->bench_lock);
	if (vgpu->opened) {
		vgpu->bench = tsl_pin_bench_measure(vgpu, gpa, pages, batch, dma);
		ret = vgpu->bench.error;
	} else {
		ret = -ENODEV;
	}
	mutex_unlock(&vgpu->bench_lock);
	kvfree(dma);
	return ret;
}

void tsl_guest_memory_init(struct ts_host_vgpu *vgpu)
{
	ratelimit_state_init(&vgpu->pin_failures, DEFAULT_RATELIMIT_INTERVAL, TSL_PIN_FAILURES);
	/* Not a word about how many there were. */
	ratelimit_set_flags(&vgpu->pin_failures, RATELIMIT_MSG_ON_RELEASE);
	vgpu->pin_pause = jiffies;
	spin_lock_init(&vgpu->leaving.lock);
	mutex_init(&vgpu->bench_lock);
}
