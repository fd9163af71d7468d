// SPDX-License-Identifier: GPL-2.0-only
/*
 * Engine time per open file, for fdinfo.
 *
 * The GPU counts per runlist how long its engines ran for this function, not for whom. The time
 * between two samples is divided evenly among the channels that had work then: exact as long as one
 * client uses an engine, an estimate when several do. Nothing is sampled while work is submitted:
 * only when a channel comes or goes and when somebody reads fdinfo.
 */
#include <linux/math64.h>

#include "ts104_drv.h"

static u64 ts104_runlist_time(struct ts104_device *ts, u32 runlist)
{
	/* The function's own counters: index 64 * runlist + 0. LO latches HI. */
	u32 lo = readl(ts->bar0 + NV_TS104_FUNCTION_TIME_LO(64 * runlist));
	u32 hi = readl(ts->bar0 + NV_TS104_FUNCTION_TIME_HI(64 * runlist));

	return (u64)hi << 32 | lo;
}

/* Whether the channel got on since the last sample, or has entries left. */
static bool ts104_channel_was_active(struct ts104_channel *ch)
{
	u32 get = ts104_bo_read(ch->userd, NV_USERD_GP_GET, false);
	u32 put = ts104_bo_read(ch->userd, NV_USERD_GP_PUT, false);
	bool active = get != ch->usage_gp_get || get != put;

	ch->usage_gp_get = get;
	return active;
}

static void ts104_usage_sample_runlist(struct ts104_device *ts, u32 runlist)
{
	u64 now = ts104_runlist_time(ts, runlist);
	u64 spent = now - ts->usage_time[runlist];
	struct ts104_channel *ch;
	u32 active = 0;

	ts->usage_time[runlist] = now;
	list_for_each_entry(ch, &ts->usage_channels, usage_link) {
		ch->usage_active = ch->runlist == runlist && ch->core == ts->core &&
				   ts104_channel_was_active(ch);
		active += ch->usage_active;
	}
	if (!active)
		return;
	spent = div_u64(spent, active);
	list_for_each_entry(ch, &ts->usage_channels, usage_link) {
		if (ch->usage_active)
			ch->file->engine_ns[ch->engine] += spent;
	}
}

static void ts104_usage_sample_locked(struct ts104_device *ts)
{
	u32 r;

	lockdep_assert_held(&ts->usage_lock);
	if (!ts->core)
		return;
	for (r = 0; r < TSG_NUM_RUNLISTS; r++)
		ts104_usage_sample_runlist(ts, r);
}

/* The counters start anew with the device, or continue where another driver left them. */
void ts104_usage_start(struct ts104_core *core)
{
	struct ts104_device *ts = core->ts;
	u32 r;

	mutex_lock(&ts->usage_lock);
	ts->copy_engines = hweight32(core->info.copy_runlist_mask);
	for (r = 0; r < TSG_NUM_RUNLISTS; r++)
		ts->usage_time[r] = ts104_runlist_time(ts, r);
	mutex_unlock(&ts->usage_lock);
}

/* Within reset_sem. */
void ts104_usage_add(struct ts104_channel *ch)
{
	struct ts104_device *ts = ch->core->ts;

	mutex_lock(&ts->usage_lock);
	ts104_usage_sample_locked(ts);
	list_add_tail(&ch->usage_link, &ts->usage_channels);
	mutex_unlock(&ts->usage_lock);
}

/* Within reset_sem. */
void ts104_usage_remove(struct ts104_channel *ch)
{
	struct ts104_device *ts = ch->core->ts;

	mutex_lock(&ts->usage_lock);
	ts104_usage_sample_locked(ts);
	list_del(&ch->usage_link);
	mutex_unlock(&ts->usage_lock);
}

/* Nanoseconds per enum drm_ts104_engine. May sleep. */
void ts104_usage_read(struct ts104_device *ts, struct ts104_file *tf, u64 *engine_ns)
{
	down_read(&ts->reset_sem);
	mutex_lock(&ts->usage_lock);
	ts104_usage_sample_locked(ts);
	memcpy(engine_ns, tf->engine_ns, sizeof(tf->engine_ns));
	mutex_unlock(&ts->usage_lock);
	up_read(&ts->reset_sem);
}
