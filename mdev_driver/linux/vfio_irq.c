// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts to the user of a vGPU: VFIO_DEVICE_GET_IRQ_INFO, VFIO_DEVICE_SET_IRQS, and the signals
 * of host_abi.h. INTx, MSI and MSI-X exclude each other; INTx masks itself when it is signalled.
 */
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "trace.h"
#include "turnstile.h"

/* How many of an index there are; VFIO_PCI_ERR_IRQ_INDEX: none, a vGPU has no AER. */
static u32 tsl_irq_count(u32 index)
{
	switch (index) {
	case VFIO_PCI_INTX_IRQ_INDEX:
	case VFIO_PCI_MSI_IRQ_INDEX:
	case VFIO_PCI_REQ_IRQ_INDEX:
		return 1;
	case VFIO_PCI_MSIX_IRQ_INDEX:
		return TS_MSIX_VECTORS;
	default:
		return 0;
	}
}

static enum ts_irq_mode tsl_irq_mode(u32 index)
{
	switch (index) {
	case VFIO_PCI_INTX_IRQ_INDEX:
		return TS_IRQ_MODE_INTX;
	case VFIO_PCI_MSI_IRQ_INDEX:
		return TS_IRQ_MODE_MSI;
	default:
		return TS_IRQ_MODE_MSIX;
	}
}

/* ---- signals ------------------------------------------------------------------------------- */

static void tsl_signal(struct ts_host_vgpu *vgpu, struct eventfd_ctx __rcu **slot,
		       enum ts_irq_mode kind, u32 vector)
{
	struct eventfd_ctx *ctx;

	rcu_read_lock();
	ctx = rcu_dereference(*slot);
	trace_turnstile_irq_inject(dev_name(vgpu->vdev.dev), kind, vector, ctx);
	if (ctx)
		tsl_eventfd_signal(ctx);
	rcu_read_unlock();
}

void ts_host_signal_msix(struct ts_host_vgpu *vgpu, uint32_t vector)
{
	if (vector < TS_MSIX_VECTORS)
		tsl_signal(vgpu, &vgpu->irqs.msix[vector], TS_IRQ_MODE_MSIX, vector);
}

void ts_host_signal_msi(struct ts_host_vgpu *vgpu)
{
	tsl_signal(vgpu, &vgpu->irqs.msi, TS_IRQ_MODE_MSI, 0);
}

/* Signals INTx if it is high and not masked, and masks it then. */
static void tsl_signal_intx(struct ts_host_vgpu *vgpu)
{
	struct tsl_irqs *irqs = &vgpu->irqs;
	unsigned long flags;
	bool signal;

	spin_lock_irqsave(&irqs->lock, flags);
	signal = irqs->intx_level && !irqs->intx_masked;
	if (signal)
		irqs->intx_masked = true;
	spin_unlock_irqrestore(&irqs->lock, flags);
	if (signal)
		tsl_signal(vgpu, &irqs->intx, TS_IRQ_MODE_INTX, 0);
}

void ts_host_set_intx(struct ts_host_vgpu *vgpu, bool level)
{
	struct tsl_irqs *irqs = &vgpu->irqs;
	unsigned long flags;

	spin_lock_irqsave(&irqs->lock, flags);
	irqs->intx_level = level;
	spin_unlock_irqrestore(&irqs->lock, flags);
	tsl_signal_intx(vgpu);
}

/* Returns whether INTx is high. */
static bool tsl_intx_set_masked(struct ts_host_vgpu *vgpu, bool masked)
{
	struct tsl_irqs *irqs = &vgpu->irqs;
	unsigned long flags;
	bool level;

	spin_lock_irqsave(&irqs->lock, flags);
	irqs->intx_masked = masked;
	level = irqs->intx_level;
	spin_unlock_irqrestore(&irqs->lock, flags);
	return level;
}

/*
 * The eventfd that unmasks was written. Called from inside that write, where no other eventfd may
 * be signalled: non-zero asks for tsl_intx_unmask_thread.
 */
static int tsl_intx_unmask_handler(void *opaque, void *unused)
{
	return tsl_intx_set_masked(opaque, false);
}

static void tsl_intx_unmask_thread(void *opaque, void *unused)
{
	tsl_signal_intx(opaque);
}

static int tsl_intx_mask_handler(void *opaque, void *unused)
{
	tsl_intx_set_masked(opaque, true);
	return 0;
}

/* ---- set up; everything here with gate held ------------------------------------------------ */

/* Contexts that were replaced: put once no one can be signalling them. At most one per slot. */
struct tsl_stale {
	struct eventfd_ctx *ctx[TS_MSIX_VECTORS + 3];
	unsigned int count;
};

static void tsl_stale_put(struct tsl_stale *stale)
{
	unsigned int i;

	if (!stale->count)
		return;
	synchronize_rcu();
	for (i = 0; i < stale->count; i++)
		eventfd_ctx_put(stale->ctx[i]);
}

/* Where the eventfd of one vector is kept; index and vector were checked. */
static struct eventfd_ctx __rcu **tsl_irq_slot(struct ts_host_vgpu *vgpu, u32 index, u32 vector)
{
	struct tsl_irqs *irqs = &vgpu->irqs;

	switch (index) {
	case VFIO_PCI_INTX_IRQ_INDEX:
		return &irqs->intx;
	case VFIO_PCI_MSI_IRQ_INDEX:
		return &irqs->msi;
	case VFIO_PCI_MSIX_IRQ_INDEX:
		return &irqs->msix[array_index_nospec(vector, TS_MSIX_VECTORS)];
	default:
		return &irqs->request;
	}
}

static void tsl_irq_replace(struct ts_host_vgpu *vgpu, u32 index, u32 vector,
			    struct eventfd_ctx *ctx, struct tsl_stale *stale)
{
	struct eventfd_ctx *old;

	old = rcu_replace_pointer(*tsl_irq_slot(vgpu, index, vector), ctx,
				  lockdep_is_held(&vgpu->irqs.gate));
	if (old)
		stale->ctx[stale->count++] = old;
}

static void tsl_irq_drop_all(struct ts_host_vgpu *vgpu, u32 index, struct tsl_stale *stale)
{
	u32 i;

	for (i = 0; i < tsl_irq_count(index); i++)
		tsl_irq_replace(vgpu, index, i, NULL, stale);
}

/* All of them or none; descriptor -1: nobody listens any more. */
static int tsl_irq_set_eventfds(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
				const s32 *fds, struct tsl_stale *stale)
{
	struct eventfd_ctx *ctx[TS_MSIX_VECTORS] = {};
	int ret;
	u32 i;

	for (i = 0; i < set->count; i++) {
		if (fds[i] == -1)
			continue;
		ctx[i] = eventfd_ctx_fdget(fds[i]);
		if (IS_ERR(ctx[i])) {
			ret = PTR_ERR(ctx[i]);
			goto err_put;
		}
	}
	for (i = 0; i < set->count; i++)
		tsl_irq_replace(vgpu, set->index, set->start + i, ctx[i], stale);
	return 0;

err_put:
	while (i--) {
		if (ctx[i])
			eventfd_ctx_put(ctx[i]);
	}
	return ret;
}

/* The user signals its own eventfds, to try them out. */
static void tsl_irq_loop_back(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
			      const u8 *wanted)
{
	struct eventfd_ctx *ctx;
	u32 i;

	for (i = 0; i < set->count; i++) {
		ctx = rcu_dereference_protected(*tsl_irq_slot(vgpu, set->index, set->start + i),
						lockdep_is_held(&vgpu->irqs.gate));
		if (ctx && (!wanted || wanted[i]))
			tsl_eventfd_signal(ctx);
	}
}

static void tsl_irq_disable(struct ts_host_vgpu *vgpu, struct tsl_stale *stale)
{
	struct tsl_irqs *irqs = &vgpu->irqs;
	unsigned long flags;

	ts_vgpu_set_irq_mode(vgpu->core, TS_IRQ_MODE_OFF);
	irqs->mode = TS_IRQ_MODE_OFF;
	vfio_virqfd_disable(&irqs->intx_unmask);
	vfio_virqfd_disable(&irqs->intx_mask);
	tsl_irq_drop_all(vgpu, VFIO_PCI_INTX_IRQ_INDEX, stale);
	tsl_irq_drop_all(vgpu, VFIO_PCI_MSI_IRQ_INDEX, stale);
	tsl_irq_drop_all(vgpu, VFIO_PCI_MSIX_IRQ_INDEX, stale);
	spin_lock_irqsave(&irqs->lock, flags);
	irqs->intx_level = false;
	irqs->intx_masked = false;
	spin_unlock_irqrestore(&irqs->lock, flags);
}

/* INTx, MSI, MSI-X: the first eventfd turns the mode on, no data and no count turn it off. */
static int tsl_irq_trigger(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
			   const void *data, struct tsl_stale *stale)
{
	enum ts_irq_mode mode = tsl_irq_mode(set->index);
	struct tsl_irqs *irqs = &vgpu->irqs;
	int ret;

	if (!set->count) {
		if (!(set->flags & VFIO_IRQ_SET_DATA_NONE))
			return -EINVAL;
		if (irqs->mode == mode)
			tsl_irq_disable(vgpu, stale);
		return 0;
	}
	if (!(set->flags & VFIO_IRQ_SET_DATA_EVENTFD)) {
		if (irqs->mode != mode)
			return -EINVAL;
		tsl_irq_loop_back(vgpu, set, data);
		return 0;
	}
	if (irqs->mode != TS_IRQ_MODE_OFF && irqs->mode != mode)
		return -EINVAL;
	ret = tsl_irq_set_eventfds(vgpu, set, data, stale);
	if (!ret && irqs->mode != mode) {
		irqs->mode = mode;
		ts_vgpu_set_irq_mode(vgpu->core, mode);
	}
	return ret;
}

/* INTx only: QEMU keeps the masks of MSI and MSI-X itself. */
static int tsl_irq_mask(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
			const void *data, bool mask)
{
	struct tsl_irqs *irqs = &vgpu->irqs;
	struct virqfd **virqfd = mask ? &irqs->intx_mask : &irqs->intx_unmask;
	s32 fd;

	if (set->index != VFIO_PCI_INTX_IRQ_INDEX)
		return -ENOTTY;
	if (irqs->mode != TS_IRQ_MODE_INTX || set->count != 1)
		return -EINVAL;
	if (set->flags & VFIO_IRQ_SET_DATA_EVENTFD) {
		fd = *(const s32 *)data;
		if (fd < 0) {
			vfio_virqfd_disable(virqfd);
			return 0;
		}
		return vfio_virqfd_enable(vgpu,
					  mask ? tsl_intx_mask_handler : tsl_intx_unmask_handler,
					  mask ? NULL : tsl_intx_unmask_thread, NULL, virqfd, fd);
	}
	if (!data || *(const u8 *)data) {
		tsl_intx_set_masked(vgpu, mask);
		tsl_signal_intx(vgpu);
	}
	return 0;
}

static int tsl_irq_set_request(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
			       const void *data, struct tsl_stale *stale)
{
	if ((set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) != VFIO_IRQ_SET_ACTION_TRIGGER)
		return -ENOTTY;
	if (!set->count) {
		if (!(set->flags & VFIO_IRQ_SET_DATA_NONE))
			return -EINVAL;
		tsl_irq_drop_all(vgpu, VFIO_PCI_REQ_IRQ_INDEX, stale);
		return 0;
	}
	if (set->flags & VFIO_IRQ_SET_DATA_EVENTFD)
		return tsl_irq_set_eventfds(vgpu, set, data, stale);
	tsl_irq_loop_back(vgpu, set, data);
	return 0;
}

static int tsl_irq_set_locked(struct ts_host_vgpu *vgpu, const struct vfio_irq_set *set,
			      const void *data, struct tsl_stale *stale)
{
	if (set->index == VFIO_PCI_REQ_IRQ_INDEX)
		return tsl_irq_set_request(vgpu, set, data, stale);
	switch (set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) {
	case VFIO_IRQ_SET_ACTION_MASK:
		return tsl_irq_mask(vgpu, set, data, true);
	case VFIO_IRQ_SET_ACTION_UNMASK:
		return tsl_irq_mask(vgpu, set, data, false);
	case VFIO_IRQ_SET_ACTION_TRIGGER:
		return tsl_irq_trigger(vgpu, set, data, stale);
	default:
		return -ENOTTY;
	}
}

int tsl_irq_set(struct ts_host_vgpu *vgpu, void __user *arg)
{
	const size_t min = offsetofend(struct vfio_irq_set, count);
	struct tsl_stale stale = {};
	struct vfio_irq_set set;
	void *data = NULL;
	size_t size = 0;
	int ret;

	if (copy_from_user(&set, arg, min))
		return -EFAULT;
	if (set.index < VFIO_PCI_NUM_IRQS && !tsl_irq_count(set.index))
		return -ENOTTY;
	/* Afterwards start + count lies within the index, and there is one kind of data. */
	ret = vfio_set_irqs_validate_and_prepare(&set, tsl_irq_count(set.index), VFIO_PCI_NUM_IRQS,
						 &size);
	if (ret)
		return ret;
	if (size) {
		data = memdup_user(arg + min, size);
		if (IS_ERR(data))
			return PTR_ERR(data);
	}
	mutex_lock(&vgpu->irqs.gate);
	ret = tsl_irq_set_locked(vgpu, &set, data, &stale);
	mutex_unlock(&vgpu->irqs.gate);
	tsl_stale_put(&stale);
	kfree(data);
	return ret;
}

int tsl_irq_get_info(struct ts_host_vgpu *vgpu, void __user *arg)
{
	const size_t min = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info = {};

	if (copy_from_user(&info, arg, min))
		return -EFAULT;
	if (info.argsz < min || info.index >= VFIO_PCI_NUM_IRQS || !tsl_irq_count(info.index))
		return -EINVAL;
	info.count = tsl_irq_count(info.index);
	info.flags = VFIO_IRQ_INFO_EVENTFD;
	if (info.index == VFIO_PCI_INTX_IRQ_INDEX)
		info.flags |= VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED;
	else if (info.index != VFIO_PCI_MSIX_IRQ_INDEX)
		info.flags |= VFIO_IRQ_INFO_NORESIZE;
	return copy_to_user(arg, &info, min) ? -EFAULT : 0;
}

/* VFIO waits for the user to close the device: at once and then every ten seconds. */
void tsl_irq_request(struct ts_host_vgpu *vgpu, unsigned int count)
{
	struct device *dev = vgpu->vdev.dev;
	struct eventfd_ctx *ctx;

	rcu_read_lock();
	ctx = rcu_dereference(vgpu->irqs.request);
	if (ctx)
		tsl_eventfd_signal(ctx);
	rcu_read_unlock();
	if (ctx)
		dev_notice_ratelimited(dev, "asking the user to let go (%u)\n", count + 1);
	else if (!count)
		dev_warn(dev, "in use, and its user takes no requests: waiting for its close\n");
}

void tsl_irq_init(struct ts_host_vgpu *vgpu)
{
	mutex_init(&vgpu->irqs.gate);
	spin_lock_init(&vgpu->irqs.lock);
}

void tsl_irq_release(struct ts_host_vgpu *vgpu)
{
	struct tsl_stale stale = {};

	mutex_lock(&vgpu->irqs.gate);
	tsl_irq_disable(vgpu, &stale);
	tsl_irq_drop_all(vgpu, VFIO_PCI_REQ_IRQ_INDEX, &stale);
	mutex_unlock(&vgpu->irqs.gate);
	tsl_stale_put(&stale);
}
