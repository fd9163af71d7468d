// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/turnstile/ADDRESS: for the lab and for debugging, no stable interface.
 *   pin_batch        pages per pin call, 1 to 512
 *   slices           the last 200 slices of every runlist, oldest first
 *   runlists         what is on the runlists: the hardware's state, every guest's list
 *   UUID/counters    all figures of a vGPU, name=value
 *   UUID/sched       what the scheduler accounted for a vGPU, one line per runlist
 *   UUID/channels    the guest's channels
 *   UUID/shadow      what the device finds in the shadow page tables
 *   UUID/pins        which guest pages are pinned
 *   UUID/pin_bench   write "GPA PAGES BATCH" while the vGPU is open; read the times of the last run
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "turnstile.h"

/* 1 GiB: dma_unmap waits for a run that is in progress. */
#define TSL_BENCH_PAGES_MAX 262144

static struct dentry *tsl_debugfs_root;

static int tsl_counters_show(struct seq_file *file, void *unused)
{
	struct ts_host_vgpu *vgpu = file->private;
	struct ts_counters counters;
	unsigned int i;

	ts_vgpu_get_counters(vgpu->core, &counters);
	for (i = 0; i < tsl_n_counters; i++)
		seq_printf(file, "%s=%llu\n", tsl_counters[i].name,
			   *(u64 *)((u8 *)&counters + tsl_counters[i].offset));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tsl_counters);

static int tsl_sched_show(struct seq_file *file, void *unused)
{
	struct ts_host_vgpu *vgpu = file->private;
	struct ts_sched_figures figures;
	u32 runlist;

	for (runlist = 0; runlist < TS_RUNLISTS; runlist++) {
		if (ts_vgpu_sched_figures(vgpu->core, runlist, &figures))
			continue;
		seq_printf(file,
			   "runlist=%u run_ns=%llu wait_ns=%llu longest_wait_ns=%llu slices=%llu "
			   "preemptions=%llu overshoot_ns=%llu\n",
			   runlist, figures.run_ns, figures.wait_ns, figures.longest_wait_ns,
			   figures.slices, figures.preemptions, figures.overshoot_ns);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tsl_sched);

static int tsl_slices_show(struct seq_file *file, void *unused)
{
	struct ts_host_gpu *gpu = file->private;
	struct ts_slice *slices;
	u32 runlist, count, i;

	if (!gpu->core)
		return -EIO;
	slices = kcalloc(TS_SLICES_MAX, sizeof(*slices), GFP_KERNEL);
	if (!slices)
		return -ENOMEM;
	for (runlist = 0; runlist < TS_RUNLISTS; runlist++) {
		count = ts_gpu_slices(gpu->core, runlist, slices, TS_SLICES_MAX);
		for (i = 0; i < count; i++)
			seq_printf(file,
				   "runlist=%u time_ns=%llu run_ns=%llu target_ns=%llu function=%u "
				   "preemptions=%llu start_ns=%llu total_run_ns=%llu\n",
				   runlist, slices[i].timestamp_ns, slices[i].run_ns,
				   slices[i].target_ns, slices[i].function, slices[i].preemptions,
				   slices[i].start_ns, slices[i].total_run_ns);
	}
	kfree(slices);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tsl_slices);

static bool tsl_seq_line(struct ts_host_dump *to, const char *line)
{
	struct seq_file *file = to->reader;

	seq_printf(file, "%s\n", line);
	/* It comes again with twice the room. */
	return !seq_has_overflowed(file);
}

static int tsl_runlists_show(struct seq_file *file, void *unused)
{
	struct ts_host_gpu *gpu = file->private;
	struct ts_host_dump to = { .line = tsl_seq_line, .reader = file };

	if (!gpu->core)
		return -EIO;
	ts_gpu_dump_runlists(gpu->core, &to);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tsl_runlists);

static int tsl_dump_vgpu(struct seq_file *file, enum ts_vgpu_dump_kind kind)
{
	struct ts_host_vgpu *vgpu = file->private;
	struct ts_host_dump to = { .line = tsl_seq_line, .reader = file };

	ts_vgpu_dump(vgpu->core, kind, &to);
	return 0;
}

static int tsl_channels_show(struct seq_file *file, void *unused)
{
	return tsl_dump_vgpu(file, TS_VGPU_DUMP_CHANNELS);
}
DEFINE_SHOW_ATTRIBUTE(tsl_channels);

static int tsl_shadow_show(struct seq_file *file, void *unused)
{
	return tsl_dump_vgpu(file, TS_VGPU_DUMP_SHADOW);
}
DEFINE_SHOW_ATTRIBUTE(tsl_shadow);

static int tsl_pins_show(struct seq_file *file, void *unused)
{
	return tsl_dump_vgpu(file, TS_VGPU_DUMP_PINS);
}
DEFINE_SHOW_ATTRIBUTE(tsl_pins);

static int tsl_pin_bench_show(struct seq_file *file, void *unused)
{
	struct ts_host_vgpu *vgpu = file->private;
	struct tsl_pin_bench bench;

	mutex_lock(&vgpu->bench_lock);
	bench = vgpu->bench;
	mutex_unlock(&vgpu->bench_lock);
	seq_printf(file, "pages=%u\nbatch=%u\npin_ns=%llu\nunpin_ns=%llu\nerror=%d\n", bench.pages,
		   bench.batch, bench.pin_ns, bench.unpin_ns, bench.error);
	return 0;
}

static ssize_t tsl_pin_bench_write(struct file *file, const char __user *user, size_t count,
				   loff_t *position)
{
	struct ts_host_vgpu *vgpu = file_inode(file)->i_private;
	u32 pages, batch;
	char text[64];
	u64 gpa;
	int ret;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, user, count))
		return -EFAULT;
	text[count] = '\0';
	if (sscanf(text, "%lli %u %u", &gpa, &pages, &batch) != 3 || !PAGE_ALIGNED(gpa) || !pages ||
	    pages > TSL_BENCH_PAGES_MAX || !batch || batch > TSL_PIN_BATCH_MAX)
		return -EINVAL;
	ret = tsl_pin_bench_run(vgpu, gpa, pages, batch);
	return ret ? ret : count;
}

static int tsl_pin_bench_open(struct inode *inode, struct file *file)
{
	return single_open(file, tsl_pin_bench_show, inode->i_private);
}

static const struct file_operations tsl_pin_bench_fops = {
	.owner = THIS_MODULE,
	.open = tsl_pin_bench_open,
	.read = seq_read,
	.write = tsl_pin_bench_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int tsl_pin_batch_get(void *data, u64 *value)
{
	*value = ((struct ts_host_gpu *)data)->pin_batch;
	return 0;
}

static int tsl_pin_batch_set(void *data, u64 value)
{
	struct ts_host_gpu *gpu = data;
	int ret;

	if (value > TSL_PIN_BATCH_MAX)
		return -EINVAL;
	if (!gpu->core)
		return -EIO;
	ret = ts_gpu_set_pin_batch(gpu->core, value);
	if (!ret)
		gpu->pin_batch = value;
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(tsl_pin_batch_fops, tsl_pin_batch_get, tsl_pin_batch_set, "%llu\n");

void tsl_debugfs_add_gpu(struct ts_host_gpu *gpu)
{
	gpu->debugfs = debugfs_create_dir(pci_name(gpu->pdev), tsl_debugfs_root);
	debugfs_create_file("slices", 0400, gpu->debugfs, gpu, &tsl_slices_fops);
	debugfs_create_file("runlists", 0400, gpu->debugfs, gpu, &tsl_runlists_fops);
	debugfs_create_file("pin_batch", 0600, gpu->debugfs, gpu, &tsl_pin_batch_fops);
}

void tsl_debugfs_remove_gpu(struct ts_host_gpu *gpu)
{
	debugfs_remove_recursive(gpu->debugfs);
}

void tsl_debugfs_add_vgpu(struct ts_host_vgpu *vgpu)
{
	vgpu->debugfs = debugfs_create_dir(dev_name(vgpu->vdev.dev), vgpu->gpu->debugfs);
	debugfs_create_file("counters", 0400, vgpu->debugfs, vgpu, &tsl_counters_fops);
	debugfs_create_file("sched", 0400, vgpu->debugfs, vgpu, &tsl_sched_fops);
	debugfs_create_file("channels", 0400, vgpu->debugfs, vgpu, &tsl_channels_fops);
	debugfs_create_file("shadow", 0400, vgpu->debugfs, vgpu, &tsl_shadow_fops);
	debugfs_create_file("pins", 0400, vgpu->debugfs, vgpu, &tsl_pins_fops);
	debugfs_create_file("pin_bench", 0600, vgpu->debugfs, vgpu, &tsl_pin_bench_fops);
}

/* Waits for readers and writers of the files. */
void tsl_debugfs_remove_vgpu(struct ts_host_vgpu *vgpu)
{
	debugfs_remove_recursive(vgpu->debugfs);
}

void tsl_debugfs_init(void)
{
	tsl_debugfs_root = debugfs_create_dir(TSL_NAME, NULL);
}

void tsl_debugfs_exit(void)
{
	debugfs_remove_recursive(tsl_debugfs_root);
}
