// SPDX-License-Identifier: GPL-2.0-only
/*
 * WAIT: sleeps until a word in memory has reached a value. Every interrupt of an engine makes all
 * sleepers look at their word: which channel wrote it is not known, and a look is one load.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>

#include <drm/drm_drv.h>

#include "ts104_drv.h"

struct ts104_wait {
	struct ts104_core *core;
	struct ts104_bo *bo;
	struct ts104_channel *ch;	/* NULL: none is watched */
	u64 offset;
	u64 value;
	bool wide;
};

/* 1: the word has the value; 0: not yet; -EIO: it never will. */
static int ts104_wait_look(struct ts104_device *ts, const struct ts104_wait *wait)
{
	u64 word;
	int idx;

	if (!drm_dev_enter(&ts->drm, &idx))
		return -ENODEV;
	word = ts104_bo_read(wait->bo, wait->offset, wait->wide);
	drm_dev_exit(idx);

	/* After the read: a device in reset reads as all ones. */
	if (READ_ONCE(wait->core->lost))
		return -EIO;
	if (wait->wide ? (s64)(word - wait->value) >= 0 : (s32)((u32)word - (u32)wait->value) >= 0)
		return 1;
	return wait->ch ? ts104_channel_check(wait->ch) : 0;
}

static int ts104_wait_sleep(struct ts104_device *ts, const struct ts104_wait *wait, s64 deadline_ns)
{
	s64 now;
	int seq, ret;

	for (;;) {
		/* Before the look, so that what happens after it is seen as a change. */
		seq = atomic_read_acquire(&ts->event_seq);
		ret = ts104_wait_look(ts, wait);
		if (ret)
			return ret < 0 ? ret : 0;
		now = ktime_get_ns();
		if (deadline_ns <= now)
			return -ETIME;
		ret = wait_event_interruptible_hrtimeout(ts->event_wq,
							 atomic_read(&ts->event_seq) != seq,
							 ns_to_ktime(deadline_ns - now));
		/* At the deadline the loop looks once more. */
		if (ret && ret != -ETIME)
			return ret;
	}
}

int ts104_wait_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct ts104_device *ts = to_ts104(drm);
	const struct drm_ts104_wait *args = data;
	struct ts104_wait wait = {
		.offset = args->offset,
		.value = args->value,
		.wide = args->flags & DRM_TS104_WAIT_64BIT,
	};
	u32 width = wait.wide ? 8 : 4;
	struct drm_gem_object *obj;
	int idx, ret;

	if (args->flags & ~DRM_TS104_WAIT_64BIT || args->pad || !IS_ALIGNED(args->offset, width))
		return -EINVAL;
	if (!wait.wide && upper_32_bits(args->value))
		return -EINVAL;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	wait.bo = to_ts104_bo(obj);
	if (args->offset > obj->size - width) {
		ret = -EINVAL;
		goto out_obj;
	}
	if (args->channel_id) {
		wait.ch = ts104_channel_lookup(file->driver_priv, args->channel_id);
		if (!wait.ch) {
			ret = -ENOENT;
			goto out_obj;
		}
	}

	ret = ts104_enter(ts, &idx);
	if (ret)
		goto out_channel;
	/* Made before the last reset: nobody will write the word. */
	if ((wait.bo->core && wait.bo->core != ts->core) || (wait.ch && wait.ch->core != ts->core))
		ret = -EIO;
	else
		wait.core = ts104_core_get(ts->core);
	ts104_exit(ts, idx);
	if (ret)
		goto out_channel;

	ret = ts104_wait_sleep(ts, &wait, args->deadline_ns);
	ts104_core_put(wait.core);
out_channel:
	if (wait.ch)
		ts104_channel_put(wait.ch);
out_obj:
	drm_gem_object_put(obj);
	return ret;
}
