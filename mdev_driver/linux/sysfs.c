// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attributes: of a GPU in /sys/bus/pci/devices/ADDRESS/turnstile, of a vGPU in
 * /sys/bus/mdev/devices/UUID/turnstile. One value per file.
 */
#include <linux/sysfs.h>

#include "turnstile.h"

/* ---- GPU ----------------------------------------------------------------------------------- */

static ssize_t policy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);

	return gpu->core ? sysfs_emit(buf, "%s\n", ts_gpu_policy(gpu->core)) : -EIO;
}

static ssize_t policy_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);
	char name[32];
	int ret;

	if (!gpu->core)
		return -EIO;
	strscpy(name, buf, sizeof(name));
	ret = ts_gpu_set_policy(gpu->core, strim(name));
	if (ret == -EINVAL)
		tsl_log_policies(dev, strim(name));
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(policy);

/* A number that the scheduler has; the core checks ranges and logs the legal one. */
struct tsl_sched_attr {
	struct device_attribute attr;
	u32 param;
};

#define to_sched_attr(a) container_of(a, struct tsl_sched_attr, attr)

/* A decimal number. What is none is refused here, with a line; the core knows the ranges. */
static int tsl_parse_number(struct device *dev, struct device_attribute *attr, const char *buf,
			    u32 *value)
{
	int length = min_t(size_t, strcspn(buf, "\n"), 32);
	int ret = kstrtou32(buf, 10, value);

	if (ret)
		dev_warn(dev, "%s: \"%*pE\" is no number of 0 to %u\n", attr->attr.name, length, buf,
			 U32_MAX);
	return ret ? -EINVAL : 0;
}

static ssize_t tsl_gpu_sched_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);

	if (!gpu->core)
		return -EIO;
	return sysfs_emit(buf, "%u\n",
			  ts_gpu_get_sched_param(gpu->core, to_sched_attr(attr)->param));
}

static ssize_t tsl_gpu_sched_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t count)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);
	u32 value;
	int ret;

	if (!gpu->core)
		return -EIO;
	ret = tsl_parse_number(dev, attr, buf, &value);
	if (!ret)
		ret = ts_gpu_set_sched_param(gpu->core, to_sched_attr(attr)->param, value);
	return ret ? ret : count;
}

#define TSL_GPU_SCHED_ATTR(name, number)                                                           \
	static struct tsl_sched_attr tsl_gpu_##name = {                                            \
		.attr = __ATTR(name, 0644, tsl_gpu_sched_show, tsl_gpu_sched_store),               \
		.param = number,                                                                   \
	}

TSL_GPU_SCHED_ATTR(arr, TS_SCHED_ARR);
TSL_GPU_SCHED_ATTR(frequency_hz, TS_SCHED_FREQUENCY_HZ);
TSL_GPU_SCHED_ATTR(averaging_factor, TS_SCHED_AVERAGING_FACTOR);
TSL_GPU_SCHED_ATTR(timeslice_us, TS_SCHED_TIMESLICE_US);
TSL_GPU_SCHED_ATTR(hold_us, TS_SCHED_HOLD_US);
TSL_GPU_SCHED_ATTR(ctxsw_timeout_ms, TS_SCHED_CTXSW_TIMEOUT_MS);
TSL_GPU_SCHED_ATTR(strict, TS_SCHED_STRICT);

static ssize_t vram_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ts_host_gpu *gpu = dev_get_drvdata(dev);
	struct ts_gpu_info info;

	if (!gpu->core)
		return -EIO;
	ts_gpu_get_info(gpu->core, &info);
	return sysfs_emit(buf, "%llu\n", info.vram_bytes);
}
static DEVICE_ATTR_RO(vram_bytes);

static struct attribute *tsl_gpu_attrs[] = {
	&dev_attr_policy.attr,
	&dev_attr_vram_bytes.attr,
	&tsl_gpu_arr.attr.attr,
	&tsl_gpu_frequency_hz.attr.attr,
	&tsl_gpu_averaging_factor.attr.attr,
	&tsl_gpu_timeslice_us.attr.attr,
	&tsl_gpu_hold_us.attr.attr,
	&tsl_gpu_ctxsw_timeout_ms.attr.attr,
	&tsl_gpu_strict.attr.attr,
	NULL,
};

static const struct attribute_group tsl_gpu_group = {
	.name = TSL_NAME,
	.attrs = tsl_gpu_attrs,
};

const struct attribute_group *tsl_gpu_groups[] = { &tsl_gpu_group, NULL };

/* ---- vGPU ---------------------------------------------------------------------------------- */

#define TSL_COUNTER(field) { .name = #field, .offset = offsetof(struct ts_counters, field) }

/* All figures, in the order in which debugfs prints them. */
const struct tsl_counter tsl_counters[] = {
	TSL_COUNTER(csr_exits_total),	 TSL_COUNTER(csr_reads),
	TSL_COUNTER(csr_writes),	 TSL_COUNTER(interrupt_tree_accesses),
	TSL_COUNTER(config_accesses),	 TSL_COUNTER(submissions),
	TSL_COUNTER(interrupts_injected),
	TSL_COUNTER(gpu_time_ns),	 TSL_COUNTER(pages_pinned),
	TSL_COUNTER(pages_pinned_total), TSL_COUNTER(pin_calls),
	TSL_COUNTER(invalidates),	 TSL_COUNTER(mem_ops),
	TSL_COUNTER(ptes_translated),	 TSL_COUNTER(faults_forwarded),
	TSL_COUNTER(pbdma_errors),	 TSL_COUNTER(resets),
	TSL_COUNTER(memory_bytes),	 TSL_COUNTER(channels),
};

const unsigned int tsl_n_counters = ARRAY_SIZE(tsl_counters);

static ssize_t tsl_show_counter(struct device *dev, char *buf, size_t offset)
{
	struct ts_host_vgpu *vgpu = dev_get_drvdata(dev);
	struct ts_counters counters;

	ts_vgpu_get_counters(vgpu->core, &counters);
	return sysfs_emit(buf, "%llu\n", *(u64 *)((u8 *)&counters + offset));
}

#define TSL_COUNTER_ATTR(field)                                                                    \
	static ssize_t field##_show(struct device *dev, struct device_attribute *attr, char *buf)  \
	{                                                                                          \
		return tsl_show_counter(dev, buf, offsetof(struct ts_counters, field));            \
	}                                                                                          \
	static DEVICE_ATTR_RO(field)

TSL_COUNTER_ATTR(csr_exits_total);
TSL_COUNTER_ATTR(submissions);
TSL_COUNTER_ATTR(interrupts_injected);
TSL_COUNTER_ATTR(faults_forwarded);
TSL_COUNTER_ATTR(gpu_time_ns);
TSL_COUNTER_ATTR(pages_pinned);
TSL_COUNTER_ATTR(memory_bytes);

static ssize_t function_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ts_host_vgpu *vgpu = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", ts_vgpu_function(vgpu->core));
}
static DEVICE_ATTR_RO(function);

static ssize_t tsl_vgpu_sched_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ts_host_vgpu *vgpu = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n",
			  ts_vgpu_get_sched_param(vgpu->core, to_sched_attr(attr)->param));
}

static ssize_t tsl_vgpu_sched_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t count)
{
	struct ts_host_vgpu *vgpu = dev_get_drvdata(dev);
	u32 value;
	int ret = tsl_parse_number(dev, attr, buf, &value);

	if (!ret)
		ret = ts_vgpu_set_sched_param(vgpu->core, to_sched_attr(attr)->param, value);
	return ret ? ret : count;
}

#define TSL_VGPU_SCHED_ATTR(name, number)                                                          \
	static struct tsl_sched_attr tsl_vgpu_##name = {                                           \
		.attr = __ATTR(name, 0644, tsl_vgpu_sched_show, tsl_vgpu_sched_store),             \
		.param = number,                                                                   \
	}

TSL_VGPU_SCHED_ATTR(weight, TS_VGPU_SCHED_WEIGHT);
TSL_VGPU_SCHED_ATTR(cap_percent, TS_VGPU_SCHED_CAP_PERCENT);
TSL_VGPU_SCHED_ATTR(latency_us, TS_VGPU_SCHED_LATENCY_US);

/* What the scheduler accounted: a file for each engine group and figure. */
struct tsl_account_attr {
	struct device_attribute attr;
	u32 runlist;
	size_t offset; /* in struct ts_sched_figures, a u64 */
};

static ssize_t tsl_account_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct tsl_account_attr *account = container_of(attr, struct tsl_account_attr, attr);
	struct ts_host_vgpu *vgpu = dev_get_drvdata(dev);
	struct ts_sched_figures figures;
	int ret = ts_vgpu_sched_figures(vgpu->core, account->runlist, &figures);

	if (ret)
		return ret;
	return sysfs_emit(buf, "%llu\n", *(u64 *)((u8 *)&figures + account->offset));
}

#define TSL_ACCOUNT_ATTR(engine, number, field)                                                    \
	static struct tsl_account_attr tsl_##engine##_##field = {                                  \
		.attr = __ATTR(engine##_##field, 0444, tsl_account_show, NULL),                    \
		.runlist = number,                                                                 \
		.offset = offsetof(struct ts_sched_figures, field),                                \
	}

#define TSL_ACCOUNT_ATTRS(engine, number)                                                          \
	TSL_ACCOUNT_ATTR(engine, number, run_ns);                                                  \
	TSL_ACCOUNT_ATTR(engine, number, wait_ns);                                                 \
	TSL_ACCOUNT_ATTR(engine, number, longest_wait_ns);                                         \
	TSL_ACCOUNT_ATTR(engine, number, slices);                                                  \
	TSL_ACCOUNT_ATTR(engine, number, preemptions);                                             \
	TSL_ACCOUNT_ATTR(engine, number, overshoot_ns)

#define TSL_ACCOUNT_LIST(engine)                                                                   \
	&tsl_##engine##_run_ns.attr.attr,                                                          \
	&tsl_##engine##_wait_ns.attr.attr,                                                         \
	&tsl_##engine##_longest_wait_ns.attr.attr,                                                 \
	&tsl_##engine##_slices.attr.attr,                                                          \
	&tsl_##engine##_preemptions.attr.attr,                                                     \
	&tsl_##engine##_overshoot_ns.attr.attr

TSL_ACCOUNT_ATTRS(gr, 0);
TSL_ACCOUNT_ATTRS(ce2, 1);
TSL_ACCOUNT_ATTRS(ce3, 2);

static struct attribute *tsl_vgpu_attrs[] = {
	&tsl_vgpu_weight.attr.attr,
	&tsl_vgpu_cap_percent.attr.attr,
	&tsl_vgpu_latency_us.attr.attr,
	&dev_attr_csr_exits_total.attr,
	&dev_attr_submissions.attr,
	&dev_attr_interrupts_injected.attr,
	&dev_attr_faults_forwarded.attr,
	&dev_attr_gpu_time_ns.attr,
	&dev_attr_pages_pinned.attr,
	&dev_attr_memory_bytes.attr,
	&dev_attr_function.attr,
	TSL_ACCOUNT_LIST(gr),
	TSL_ACCOUNT_LIST(ce2),
	TSL_ACCOUNT_LIST(ce3),
	NULL,
};

static const struct attribute_group tsl_vgpu_group = {
	.name = TSL_NAME,
	.attrs = tsl_vgpu_attrs,
};

const struct attribute_group *tsl_vgpu_groups[] = { &tsl_vgpu_group, NULL };
