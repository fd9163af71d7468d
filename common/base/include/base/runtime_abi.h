/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What base asks of the operating system: nine C functions. Included by C and C++, so it uses no
 * typedef that either side would have to include a header for.
 *
 * Kernel: common/base/linux/ts_runtime.c. User space: common/base/src/user_runtime.cc, which needs
 * no ts_alloc and ts_free because there the compiler's own operator new is used.
 */
#ifndef BASE_RUNTIME_ABI_H_
#define BASE_RUNTIME_ABI_H_

#ifdef __cplusplus
extern "C" {
#endif

struct ts_mutex;
struct ts_spinlock;

/*
 * Memory behind operator new and delete, aligned to 8 bytes, contents undefined. Null when there is
 * none. Process context; may sleep. ts_free(null) does nothing.
 */
void* ts_alloc(__SIZE_TYPE__ size);
void ts_free(void* memory);

/*
 * Reports a broken invariant: file, line and the text of the condition. Must return: the caller
 * then executes a trap instruction. Not declared noreturn, because objtool knows only the kernel's
 * own list of functions that do not return. Any context, any lock may be held.
 */
void ts_report_bug(const char* file, int line, const char* expression);

/*
 * Locks. `rank` orders acquisition: a thread may take only locks of a higher rank than those it
 * holds. 0 <= rank < TS_LOCK_RANKS; docs/locking.md lists the ranks. In the kernel every rank is a
 * lockdep class, in user space the order is checked at every acquisition.
 *
 * Create: null when there is no memory; may sleep. Destroy: held by nobody; null is allowed.
 */
#define TS_LOCK_RANKS 32

/* Sleeping lock: process context only. */
struct ts_mutex* ts_mutex_create(unsigned int rank);
void ts_mutex_destroy(struct ts_mutex* mutex);
void ts_mutex_lock(struct ts_mutex* mutex);
void ts_mutex_unlock(struct ts_mutex* mutex);

/* Any context. Interrupts of this CPU are off while it is held: no sleeping, no allocation. */
struct ts_spinlock* ts_spinlock_create(unsigned int rank);
void ts_spinlock_destroy(struct ts_spinlock* lock);
void ts_spinlock_lock(struct ts_spinlock* lock);
void ts_spinlock_unlock(struct ts_spinlock* lock);

#ifdef __cplusplus
}
#endif

#endif /* BASE_RUNTIME_ABI_H_ */
