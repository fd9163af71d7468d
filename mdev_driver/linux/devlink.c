// SPDX-License-Identifier: GPL-2.0-only
/*
 * devlink: what the device is, and its health. docs/sysfs-abi.md shows the commands.
 *
 * Reporters:
 *   hardware  the device does not do what it should, or was reset from outside while vGPUs exist.
 *             Recovering starts it over, which needs that none exists any more.
 *   timeout   a context would not leave an engine. The core has dropped it when this is reported,
 *             so there is nothing left to recover: the figures tell how often, the dump beside whom.
 *
 * An error may come from any context and devlink's locks are mutexes: a work item reports. Several
 * errors before it runs are one report, with the last line.
 */
#include <net/devlink.h>

#include "compat.h"
#include "turnstile.h"

static int tsl_info_get(struct devlink *devlink, struct devlink_info_req *req,
			struct netlink_ext_ack *extack)
{
	struct ts_host_gpu *gpu = *(struct ts_host_gpu **)devlink_priv(devlink);
	char revision[8];
	int ret;

	ret = tsl_devlink_driver_name(req, TSL_NAME);
	if (ret)
		return ret;
	ret = devlink_info_version_fixed_put(req, DEVLINK_INFO_VERSION_GENERIC_ASIC_ID, "TS104");
	if (ret)
		return ret;
	snprintf(revision, sizeof(revision), "%02x", gpu->pdev->revision);
	return devlink_info_version_fixed_put(req, DEVLINK_INFO_VERSION_GENERIC_ASIC_REV, revision);
}

static const struct devlink_ops tsl_devlink_ops = {
	.info_get = tsl_info_get,
};

/* ---- dumps and states ---------------------------------------------------------------------- */

static bool tsl_fmsg_line(struct ts_host_dump *to, const char *line)
{
	devlink_fmsg_string_put(to->reader, line);
	return true;
}

/* What is on the device: the same for both. Message functions fail for want of memory alone. */
static int tsl_health_dump(struct devlink_health_reporter *reporter, struct devlink_fmsg *fmsg,
			   void *context, struct netlink_ext_ack *extack)
{
	struct tsl_health *health = devlink_health_reporter_priv(reporter);
	struct ts_gpu *core = READ_ONCE(health->gpu->core);
	struct ts_host_dump to = { .line = tsl_fmsg_line, .reader = fmsg };

	if (!core)
		return -EIO;
	devlink_fmsg_string_pair_put(fmsg, "policy", ts_gpu_policy(core));
	devlink_fmsg_arr_pair_nest_start(fmsg, "runlists");
	ts_gpu_dump_runlists(core, &to);
	devlink_fmsg_arr_pair_nest_end(fmsg);
	return 0;
}

static void tsl_put_event(struct tsl_health *health, enum tsl_health_kind kind,
			  struct devlink_fmsg *fmsg)
{
	struct tsl_health_event event;

	spin_lock_irq(&health->lock);
	event = health->events[kind];
	spin_unlock_irq(&health->lock);
	devlink_fmsg_u64_pair_put(fmsg, "events", event.count);
	devlink_fmsg_string_pair_put(fmsg, "last", event.line);
}

static int tsl_hardware_diagnose(struct devlink_health_reporter *reporter,
				 struct devlink_fmsg *fmsg, struct netlink_ext_ack *extack)
{
	struct tsl_health *health = devlink_health_reporter_priv(reporter);
	struct ts_host_gpu *gpu = health->gpu;
	unsigned int count;

	mutex_lock(&gpu->vgpus_lock);
	count = gpu->n_vgpus;
	mutex_unlock(&gpu->vgpus_lock);
	devlink_fmsg_bool_pair_put(fmsg, "lost", READ_ONCE(gpu->lost));
	devlink_fmsg_u32_pair_put(fmsg, "vgpus", count);
	tsl_put_event(health, TSL_HEALTH_HARDWARE, fmsg);
	return 0;
}

static int tsl_timeout_diagnose(struct devlink_health_reporter *reporter, struct devlink_fmsg *fmsg,
				struct netlink_ext_ack *extack)
{
	tsl_put_event(devlink_health_reporter_priv(reporter), TSL_HEALTH_TIMEOUT, fmsg);
	return 0;
}

/* ---- recovery ------------------------------------------------------------------------------ */

static int tsl_hardware_recover(struct devlink_health_reporter *reporter, void *context,
				struct netlink_ext_ack *extack)
{
	struct tsl_health *health = devlink_health_reporter_priv(reporter);
	int ret = tsl_recover(health->gpu);

	if (ret == -EBUSY)
		NL_SET_ERR_MSG_MOD(extack, "vGPUs exist: remove them first");
	else if (ret)
		NL_SET_ERR_MSG_MOD(extack, "the device does not answer as a TS104 does");
	return ret;
}

static int tsl_timeout_recover(struct devlink_health_reporter *reporter, void *context,
			       struct netlink_ext_ack *extack)
{
	return 0;
}

static const struct devlink_health_reporter_ops tsl_reporter_ops[TSL_HEALTH_KINDS] = {
	[TSL_HEALTH_HARDWARE] = {
		.name = "hardware",
		.dump = tsl_health_dump,
		.diagnose = tsl_hardware_diagnose,
		.recover = tsl_hardware_recover,
	},
	[TSL_HEALTH_TIMEOUT] = {
		.name = "timeout",
		.dump = tsl_health_dump,
		.diagnose = tsl_timeout_diagnose,
		.recover = tsl_timeout_recover,
	},
};

/* ---- events -------------------------------------------------------------------------------- */

void tsl_health_event(struct ts_host_gpu *gpu, enum tsl_health_kind kind, const char *line)
{
	struct tsl_health *health = &gpu->health;
	struct tsl_health_event *event = &health->events[kind];
	unsigned long flags;

	spin_lock_irqsave(&health->lock, flags);
	event->count++;
	event->fresh = true;
	strscpy(event->line, line, sizeof(event->line));
	if (health->listening)
		queue_work(gpu->queue, &health->work);
	spin_unlock_irqrestore(&health->lock, flags);
}

static void tsl_health_work(struct work_struct *work)
{
	struct tsl_health *health = container_of(work, struct tsl_health, work);
	struct tsl_health_event event;
	int kind;

	for (kind = 0; kind < TSL_HEALTH_KINDS; kind++) {
		spin_lock_irq(&health->lock);
		event = health->events[kind];
		health->events[kind].fresh = false;
		spin_unlock_irq(&health->lock);
		/* Its error says that nothing was recovered, which is what devlink then shows. */
		if (event.fresh)
			devlink_health_report(health->reporters[kind], event.line, NULL);
	}
}

/* ---- life ---------------------------------------------------------------------------------- */

void tsl_health_init(struct ts_host_gpu *gpu)
{
	gpu->health.gpu = gpu;
	spin_lock_init(&gpu->health.lock);
	INIT_WORK(&gpu->health.work, tsl_health_work);
}

static void tsl_health_listen(struct tsl_health *health, bool on)
{
	spin_lock_irq(&health->lock);
	health->listening = on;
	spin_unlock_irq(&health->lock);
	if (!on)
		cancel_work_sync(&health->work);
}

static void tsl_destroy_reporters(struct tsl_health *health)
{
	int kind;

	for (kind = 0; kind < TSL_HEALTH_KINDS; kind++) {
		if (health->reporters[kind])
			devlink_health_reporter_destroy(health->reporters[kind]);
		health->reporters[kind] = NULL;
	}
}

int tsl_devlink_add(struct ts_host_gpu *gpu)
{
	struct tsl_health *health = &gpu->health;
	struct devlink *devlink;
	int kind, ret;

	devlink = devlink_alloc(&tsl_devlink_ops, sizeof(gpu), &gpu->pdev->dev);
	if (!devlink)
		return -ENOMEM;
	*(struct ts_host_gpu **)devlink_priv(devlink) = gpu;
	for (kind = 0; kind < TSL_HEALTH_KINDS; kind++) {
		struct devlink_health_reporter *reporter =
			tsl_health_reporter_create(devlink, &tsl_reporter_ops[kind], health);

		if (IS_ERR(reporter)) {
			ret = PTR_ERR(reporter);
			tsl_destroy_reporters(health);
			devlink_free(devlink);
			return ret;
		}
		health->reporters[kind] = reporter;
	}
	health->devlink = devlink;
	devlink_register(devlink);
	tsl_health_listen(health, true);
	return 0;
}

void tsl_devlink_remove(struct ts_host_gpu *gpu)
{
	struct tsl_health *health = &gpu->health;

	tsl_health_listen(health, false);
	devlink_unregister(health->devlink);
	tsl_destroy_reporters(health);
	devlink_free(health->devlink);
}

void tsl_health_pause(struct ts_host_gpu *gpu)
{
	tsl_health_listen(&gpu->health, false);
}

void tsl_health_resume(struct ts_host_gpu *gpu)
{
	tsl_health_listen(&gpu->health, true);
}
