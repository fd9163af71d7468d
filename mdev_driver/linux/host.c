// SPDX-License-Identifier: GPL-2.0-only
/*
 * host_abi.h for everything but guest memory and interrupts: DMA memory, the device's BARs, time,
 * deferred work, the log.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/sched.h>

#include "compat.h"
#include "turnstile.h"

int ts_host_dma_alloc(struct ts_host_gpu *gpu, size_t size, struct ts_host_dma *out)
{
	dma_addr_t address;

	/* No warning: a guest can cause a request that cannot be met, and then gets an error. */
	out->cpu = dma_alloc_coherent(&gpu->pdev->dev, size, &address, GFP_KERNEL | __GFP_NOWARN);
	if (!out->cpu)
		return -ENOMEM;
	out->dma = address;
	return 0;
}

void ts_host_dma_free(struct ts_host_gpu *gpu, size_t size, const struct ts_host_dma *memory)
{
	if (memory->cpu)
		dma_free_coherent(&gpu->pdev->dev, size, memory->cpu, memory->dma);
}

uint32_t ts_host_read32(struct ts_host_gpu *gpu, uint32_t offset)
{
	return readl(gpu->bar0 + offset);
}

void ts_host_write32(struct ts_host_gpu *gpu, uint32_t offset, uint32_t value)
{
	writel(value, gpu->bar0 + offset);
}

void ts_host_vram_read(struct ts_host_gpu *gpu, uint64_t offset, void *buffer, size_t length)
{
	memcpy_fromio(buffer, gpu->bar1 + offset, length);
}

void ts_host_vram_write(struct ts_host_gpu *gpu, uint64_t offset, const void *buffer,
			size_t length)
{
	memcpy_toio(gpu->bar1 + offset, buffer, length);
	/* Out of the write-combining buffers before the register write that makes it count. */
	wmb();
}

static void tsl_clear_work(struct work_struct *work)
{
	struct ts_host_vgpu *vgpu = container_of(work, struct ts_host_vgpu, clear_work);
	u8 __iomem *to = vgpu->gpu->bar1 + vgpu->clear_offset;
	u8 __iomem *end = to + vgpu->clear_length;
	unsigned int i;

	/*
	 * Not memset_io: that stores single bytes, and a partition of some GiB is cleared at every
	 * close. Whole cache lines fill the write-combining buffers.
	 */
	while (to < end) {
		for (i = 0; i < TS_PAGE_SIZE; i += 64, to += 64) {
			__raw_writeq(0, to);
			__raw_writeq(0, to + 8);
			__raw_writeq(0, to + 16);
			__raw_writeq(0, to + 24);
			__raw_writeq(0, to + 32);
			__raw_writeq(0, to + 40);
			__raw_writeq(0, to + 48);
			__raw_writeq(0, to + 56);
		}
		cond_resched();
	}
	/* Out of the write-combining buffers before anybody else may touch it. */
	wmb();
	smp_store_release(&vgpu->clearing, false);
	wake_up_all(&vgpu->cleared);
}

void ts_host_vram_clear_start(struct ts_host_vgpu *vgpu, uint64_t offset, uint64_t length)
{
	/* Nobody has touched it since it began. */
	if (READ_ONCE(vgpu->clearing))
		return;
	vgpu->clear_offset = offset;
	vgpu->clear_length = length;
	tsl_mmap_block_vram(vgpu);
	queue_work(vgpu->gpu->queue, &vgpu->clear_work);
}

void ts_host_vram_clear_wait(struct ts_host_vgpu *vgpu)
{
	wait_event(vgpu->cleared, !smp_load_acquire(&vgpu->clearing));
}

uint64_t ts_host_now_ns(void)
{
	return ktime_get_ns();
}

void ts_host_sleep_us(uint32_t microseconds)
{
	usleep_range(microseconds, microseconds + microseconds / 4 + 1);
}

void ts_host_queue_vgpu_work(struct ts_host_vgpu *vgpu)
{
	queue_work(vgpu->gpu->queue, &vgpu->work);
}

void ts_host_queue_gpu_work(struct ts_host_gpu *gpu)
{
	queue_work(gpu->queue, &gpu->work);
}

void ts_host_arm_timer(struct ts_host_gpu *gpu, uint64_t delay_ns)
{
	/* Cancel does not wait for a running callback: this may be called from it. */
	if (!delay_ns)
		hrtimer_try_to_cancel(&gpu->timer);
	else
		hrtimer_start(&gpu->timer, ns_to_ktime(delay_ns), HRTIMER_MODE_REL);
}

void ts_host_log(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu, enum ts_log_level level,
		 enum ts_log_kind kind, const char *line)
{
	struct ratelimit_state *limits = vgpu ? vgpu->log_limits : gpu->log_limits;
	struct device *dev = vgpu ? vgpu->vdev.dev : &gpu->pdev->dev;

	if (kind == TS_LOG_HARDWARE)
		tsl_health_event(gpu, TSL_HEALTH_HARDWARE, line);
	else if (kind == TS_LOG_TIMEOUT)
		tsl_health_event(gpu, TSL_HEALTH_TIMEOUT, line);
	if (kind != TS_LOG_UNLIMITED && !___ratelimit(&limits[kind], TSL_NAME))
		return;
	switch (level) {
	case TS_LOG_ERROR:
		dev_err(dev, "%s\n", line);
		break;
	case TS_LOG_WARNING:
		dev_warn(dev, "%s\n", line);
		break;
	case TS_LOG_INFO:
		dev_info(dev, "%s\n", line);
		break;
	}
}

bool ts_host_dump_line(struct ts_host_dump *to, const char *line)
{
	return to->line(to, line);
}

/* A line of each kind, then none for a while. */
static void tsl_init_log_limits(struct ratelimit_state *limits)
{
	int kind;

	for (kind = 0; kind < TS_LOG_KINDS; kind++)
		ratelimit_state_init(&limits[kind], DEFAULT_RATELIMIT_INTERVAL, 1);
}

/* The core is null while it is being made: there is nothing to do for it yet. */
static void tsl_gpu_work(struct work_struct *work)
{
	struct ts_gpu *core = READ_ONCE(container_of(work, struct ts_host_gpu, work)->core);

	if (core)
		ts_gpu_work(core);
}

static enum hrtimer_restart tsl_gpu_timer(struct hrtimer *timer)
{
	struct ts_gpu *core = READ_ONCE(container_of(timer, struct ts_host_gpu, timer)->core);

	if (core)
		ts_gpu_timer(core);
	return HRTIMER_NORESTART;
}

static void tsl_vgpu_work(struct work_struct *work)
{
	struct ts_vgpu *core = READ_ONCE(container_of(work, struct ts_host_vgpu, work)->core);

	if (core)
		ts_vgpu_work(core);
}

void tsl_host_init_gpu(struct ts_host_gpu *gpu)
{
	INIT_WORK(&gpu->work, tsl_gpu_work);
	tsl_hrtimer_setup(&gpu->timer, tsl_gpu_timer);
	tsl_init_log_limits(gpu->log_limits);
	tsl_health_init(gpu);
}

void tsl_host_stop_gpu(struct ts_host_gpu *gpu)
{
	/* Work may arm the timer and the timer queue work: twice catches what was in flight. */
	hrtimer_cancel(&gpu->timer);
	cancel_work_sync(&gpu->work);
	hrtimer_cancel(&gpu->timer);
	cancel_work_sync(&gpu->work);
}

void tsl_host_init_vgpu(struct ts_host_vgpu *vgpu)
{
	INIT_WORK(&vgpu->work, tsl_vgpu_work);
	INIT_WORK(&vgpu->clear_work, tsl_clear_work);
	init_waitqueue_head(&vgpu->cleared);
	tsl_init_log_limits(vgpu->log_limits);
}
