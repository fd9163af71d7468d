// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts: six MSI-X vectors, else one MSI, else INTx. The core acknowledges, and in the
 * threaded half finds out whose error it was; here waiters are woken.
 */
#include <linux/interrupt.h>

#include "ts104_drv.h"

void ts104_wake_waiters(struct ts104_device *ts)
{
	atomic_inc(&ts->event_seq);
	wake_up_all(&ts->event_wq);
}

/* ts->core is stable here: it changes only while the interrupts are disabled. */
static irqreturn_t ts104_irq(int irq, void *arg)
{
	struct ts104_irq *vector = arg;
	struct ts104_device *ts = vector->ts;
	struct ts104_core *core = READ_ONCE(ts->core);
	u32 events = 0;

	if (core)
		events = tsg_irq(core->tsg, vector->vector);
	if (events & TSG_EVENT_RUNLISTS)
		ts104_wake_waiters(ts);
	if (events & TSG_EVENT_ERRORS)
		return IRQ_WAKE_THREAD;
	/* A message whose cause an earlier one has cleared is ours all the same. */
	return events || ts->pdev->msi_enabled || ts->pdev->msix_enabled ? IRQ_HANDLED : IRQ_NONE;
}

static irqreturn_t ts104_irq_thread(int irq, void *arg)
{
	struct ts104_irq *vector = arg;
	struct ts104_device *ts = vector->ts;
	struct ts104_core *core = READ_ONCE(ts->core);
	struct tsg_error record;

	/* Only whether there was one: the core has logged them, and the channels know theirs. */
	if (!core || !tsg_service_errors(core->tsg, &record, 1))
		return IRQ_HANDLED;
	/* After the channels know: a waiter that sees the new number asks its channel. */
	atomic_inc(&core->error_seq);
	ts104_wake_waiters(ts);
	return IRQ_HANDLED;
}

void ts104_irq_disable(struct ts104_device *ts)
{
	int i;

	for (i = 0; i < ts->num_irqs; i++)
		disable_irq(pci_irq_vector(ts->pdev, i));
}

void ts104_irq_enable(struct ts104_device *ts)
{
	int i;

	for (i = 0; i < ts->num_irqs; i++)
		enable_irq(pci_irq_vector(ts->pdev, i));
}

void ts104_irq_fini(struct ts104_device *ts)
{
	while (ts->num_irqs) {
		ts->num_irqs--;
		pci_free_irq(ts->pdev, ts->num_irqs, &ts->irqs[ts->num_irqs]);
	}
	pci_free_irq_vectors(ts->pdev);
}

int ts104_irq_init(struct ts104_device *ts)
{
	struct pci_dev *pdev = ts->pdev;
	int count, i, ret;

	count = pci_alloc_irq_vectors(pdev, TS104_PCI_MSIX_VECTORS, TS104_PCI_MSIX_VECTORS,
				      PCI_IRQ_MSIX);
	if (count < 0)
		count = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI | PCI_IRQ_INTX);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++) {
		ts->irqs[i].ts = ts;
		ts->irqs[i].vector = pdev->msix_enabled ? i : -1;
		ret = pci_request_irq(pdev, i, ts104_irq, ts104_irq_thread, &ts->irqs[i],
				      "ts104-%s-%d", pci_name(pdev), i);
		if (ret) {
			ts104_irq_fini(ts);
			return ret;
		}
		ts->num_irqs = i + 1;
	}
	return 0;
}
