/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels this driver is built for, 6.1 to 7.x, and nothing else. The
 * other files are written against the newest of them.
 */
#ifndef TURNSTILE_COMPAT_H_
#define TURNSTILE_COMPAT_H_

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <linux/vfio.h>
#if IS_ENABLED(CONFIG_NET_DEVLINK)
#include <net/devlink.h>
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#include <linux/pfn_t.h>
#endif

#define TSL_KERNEL_BEFORE(a, b) (LINUX_VERSION_CODE < KERNEL_VERSION(a, b, 0))

/* From 6.19 on VFIO answers VFIO_DEVICE_GET_REGION_INFO itself and asks get_region_info_caps. */
#define TSL_REGION_INFO_BY_VFIO (!TSL_KERNEL_BEFORE(6, 19))

/* Up to 6.1 the driver frees the vfio_device in its release function. */
#define TSL_DRIVER_FREES_DEVICE TSL_KERNEL_BEFORE(6, 2)

/* Emulated devices must name these four from 6.2 on; they are NULL without CONFIG_IOMMUFD. */
#if TSL_KERNEL_BEFORE(6, 2)
#define TSL_IOMMUFD_OPS
#elif TSL_KERNEL_BEFORE(6, 6)
#define TSL_IOMMUFD_OPS                                                                            \
	.bind_iommufd = vfio_iommufd_emulated_bind,                                                \
	.unbind_iommufd = vfio_iommufd_emulated_unbind,                                            \
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
#else
#define TSL_IOMMUFD_OPS                                                                            \
	.bind_iommufd = vfio_iommufd_emulated_bind,                                                \
	.unbind_iommufd = vfio_iommufd_emulated_unbind,                                            \
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,                                          \
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
#endif

static inline void tsl_eventfd_signal(struct eventfd_ctx *ctx)
{
#if TSL_KERNEL_BEFORE(6, 8)
	eventfd_signal(ctx, 1);
#else
	eventfd_signal(ctx);
#endif
}

static inline void tsl_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if TSL_KERNEL_BEFORE(6, 3)
	vma->vm_flags |= flags;
#else
	vm_flags_set(vma, flags);
#endif
}

static inline void tsl_hrtimer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*function)(struct hrtimer *))
{
#if TSL_KERNEL_BEFORE(6, 13)
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = function;
#else
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#endif
}

/*
 * Before 6.12 KVM cannot follow a huge entry that maps no struct page, and a guest that touches it
 * would stop.
 */
#if !TSL_KERNEL_BEFORE(6, 12) && defined(CONFIG_ARCH_SUPPORTS_PMD_PFNMAP)
#define TSL_HUGE_PFNMAP 1
#else
#define TSL_HUGE_PFNMAP 0
#endif

#if TSL_HUGE_PFNMAP
static inline vm_fault_t tsl_insert_pfn_pmd(struct vm_fault *vmf, unsigned long pfn, bool write)
{
#if TSL_KERNEL_BEFORE(6, 17)
	return vmf_insert_pfn_pmd(vmf, __pfn_to_pfn_t(pfn, PFN_DEV), write);
#else
	return vmf_insert_pfn_pmd(vmf, pfn, write);
#endif
}
#endif

#if IS_ENABLED(CONFIG_NET_DEVLINK)
/* Since 6.2 devlink knows the driver's name by itself. */
static inline int tsl_devlink_driver_name(struct devlink_info_req *req, const char *name)
{
#if TSL_KERNEL_BEFORE(6, 2)
	return devlink_info_driver_name_put(req, name);
#else
	return 0;
#endif
}

/*
 * Old kernels dump with a lock that destroying a reporter does not take: a driver that leaves would
 * be dumped after it has gone.
 */
#define TSL_DEVLINK_DUMPS (!TSL_KERNEL_BEFORE(6, 7))

/* The grace period is an operation's since 6.18: given in both places, it counts in one. */
#if TSL_KERNEL_BEFORE(6, 18)
#define TSL_HEALTH_GRACE(ms)
#else
#define TSL_HEALTH_GRACE(ms) .default_graceful_period = (ms),
#endif

static inline struct devlink_health_reporter *
tsl_health_reporter_create(struct devlink *devlink, const struct devlink_health_reporter_ops *ops,
			   u64 grace_ms, void *priv)
{
#if TSL_KERNEL_BEFORE(6, 18)
	return devlink_health_reporter_create(devlink, ops, grace_ms, priv);
#else
	return devlink_health_reporter_create(devlink, ops, priv);
#endif
}
#endif

/* __assign_str() takes its value from __string() since 6.10. */
#if TSL_KERNEL_BEFORE(6, 10)
#define tsl_assign_str(field, value) __assign_str(field, value)
#else
#define tsl_assign_str(field, value) __assign_str(field)
#endif

#endif /* TURNSTILE_COMPAT_H_ */
