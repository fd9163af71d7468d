// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's side of base/runtime_abi.h: memory, bug reports, locks. Every module compiles it once,
 * by including it in a file of its linux/ folder.
 */
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "base/runtime_abi.h"

struct ts_mutex {
	struct mutex mutex;
};

struct ts_spinlock {
	spinlock_t lock;
	/* Interrupt state of whoever holds the lock. */
	unsigned long flags;
};

/*
 * Locks are made in one place for all owners, so without these lockdep would take a vGPU's lock and a
 * physical GPU's lock for the same one and report every nesting of the two.
 */
static struct lock_class_key ts_mutex_keys[TS_LOCK_RANKS];
static struct lock_class_key ts_spinlock_keys[TS_LOCK_RANKS];

void *ts_alloc(__SIZE_TYPE__ size)
{
	/* No warning: a guest may cause a request that cannot be met, and then gets an error. */
	return kvmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
}

void ts_free(void *memory)
{
	kvfree(memory);
}

void ts_report_bug(const char *file, int line, const char *expression)
{
	WARN(1, KBUILD_MODNAME ": %s:%d: bug: %s\n", file, line, expression);
}

struct ts_mutex *ts_mutex_create(unsigned int rank)
{
	struct ts_mutex *m;

	if (WARN_ON_ONCE(rank >= TS_LOCK_RANKS))
		return NULL;
	m = kmalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return NULL;
	mutex_init(&m->mutex);
	lockdep_set_class(&m->mutex, &ts_mutex_keys[rank]);
	return m;
}

void ts_mutex_destroy(struct ts_mutex *m)
{
	if (!m)
		return;
	mutex_destroy(&m->mutex);
	kfree(m);
}

void ts_mutex_lock(struct ts_mutex *m)
{
	mutex_lock(&m->mutex);
}

void ts_mutex_unlock(struct ts_mutex *m)
{
	mutex_unlock(&m->mutex);
}

struct ts_spinlock *ts_spinlock_create(unsigned int rank)
{
	struct ts_spinlock *l;

	if (WARN_ON_ONCE(rank >= TS_LOCK_RANKS))
		return NULL;
	l = kmalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	if (!l)
		return NULL;
	spin_lock_init(&l->lock);
	lockdep_set_class(&l->lock, &ts_spinlock_keys[rank]);
	return l;
}

void ts_spinlock_destroy(struct ts_spinlock *l)
{
	kfree(l);
}

void ts_spinlock_lock(struct ts_spinlock *l)
	__acquires(&l->lock)
{
	unsigned long flags;

	spin_lock_irqsave(&l->lock, flags);
	l->flags = flags;
}

void ts_spinlock_unlock(struct ts_spinlock *l)
	__releases(&l->lock)
{
	spin_unlock_irqrestore(&l->lock, l->flags);
}
