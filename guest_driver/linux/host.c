// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of the kernel (struct tsg_os_ops). `os` is the struct ts104_core.
 *
 * The BARs are mapped as long as the driver is bound; a core that lives longer is marked lost and
 * does not come here any more.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ktime.h>

#include "ts104_drv.h"

static u32 ts104_os_read32(void *os, u32 offset)
{
	struct ts104_core *core = os;

	return readl(core->ts->bar0 + offset);
}

static void ts104_os_write32(void *os, u32 offset, u32 value)
{
	struct ts104_core *core = os;

	writel(value, core->ts->bar0 + offset);
}

static void ts104_os_vram_read(void *os, u64 offset, void *to, size_t length)
{
	struct ts104_core *core = os;

	__ioread32_copy(to, core->ts->bar1 + offset, length / 4);
}

static void ts104_os_vram_write(void *os, u64 offset, const void *from, size_t length)
{
	struct ts104_core *core = os;
	void __iomem *to = core->ts->bar1 + offset;

	/* Page-table entries are 64 bits wide and may be read by the GPU meanwhile: no halves. */
	if (IS_ALIGNED(offset | length | (unsigned long)from, 8))
		__iowrite64_copy(to, from, length / 8);
	else
		__iowrite32_copy(to, from, length / 4);
	/* Out of the write-combining buffers before the register write that refers to it. */
	wmb();
}

static void ts104_os_vram_zero(void *os, u64 offset, u64 length)
{
	struct ts104_core *core = os;
	void __iomem *to = core->ts->bar1 + offset;
	u64 i = 0;

	/*
	 * Not memset_io: on x86 it is a string instruction on bytes, which an emulated CPU carries
	 * out one byte at a time.
	 */
	if (!IS_ALIGNED(offset, 8) && length) {
		__raw_writel(0, to);
		i = 4;
	}
	for (; i + 8 <= length; i += 8)
		__raw_writeq(0, to + i);
	if (i < length)
		__raw_writel(0, to + i);
	/* As in ts104_os_vram_write. */
	wmb();
}

static int ts104_os_dma_page_alloc(void *os, struct tsg_dma_page *page)
{
	struct ts104_core *core = os;

	return ts104_dma_page_alloc(core->ts, page);
}

static void ts104_os_dma_page_free(void *os, const struct tsg_dma_page *page)
{
	struct ts104_core *core = os;

	ts104_dma_page_free(core->ts, page);
}

static u64 ts104_os_now_ns(void *os)
{
	return ktime_get_ns();
}

static void ts104_os_relax(void *os, u32 us)
{
	if (us < 10)
		udelay(us);
	else
		usleep_range(us, us + us / 2);
}

static void ts104_os_log(void *os, enum tsg_log_level level, const char *line)
{
	struct ts104_core *core = os;
	struct device *dev = &core->ts->pdev->dev;

	/* What a program does wrong may end here. */
	switch (level) {
	case TSG_LOG_ERROR:
		dev_err_ratelimited(dev, "%s\n", line);
		break;
	case TSG_LOG_WARN:
		dev_warn_ratelimited(dev, "%s\n", line);
		break;
	case TSG_LOG_INFO:
		dev_info(dev, "%s\n", line);
		break;
	case TSG_LOG_DEBUG:
		dev_dbg(dev, "%s\n", line);
		break;
	}
}

const struct tsg_os_ops ts104_os_ops = {
	.read32 = ts104_os_read32,
	.write32 = ts104_os_write32,
	.vram_read = ts104_os_vram_read,
	.vram_write = ts104_os_vram_write,
	.vram_zero = ts104_os_vram_zero,
	.dma_page_alloc = ts104_os_dma_page_alloc,
	.dma_page_free = ts104_os_dma_page_free,
	.now_ns = ts104_os_now_ns,
	.relax = ts104_os_relax,
	.log = ts104_os_log,
};
