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

#if TSL_DEVLINK_DUMPS
#define TSL_DUMP_BYTES (4097 * 192)

/* Lines one after the other, each with its zero. */
struct tsl_text {
	char *bytes;
	size_t used;
};

/* The core's locks are held: no memory is allocated here. */
static bool tsl_text_line(struct ts_host_dump *to, const char *line)
{
	struct tsl_text *text = to->reader;
	size_t size = strlen(line) + 1;

	if (size > TSL_DUMP_BYTES - text->used)
		return false;
	memcpy(text->bytes + text->used, line, size);
	text->used += size;
	return true;
}

/* What is on the device: the same for both. */
static int tsl_health_dump(struct devlink_health_reporter *reporter, struct devlink_fmsg *fmsg,
			   void *context, struct netlink_ext_ack *extack)
{
	struct tsl_health *health = devlink_health_reporter_priv(reporter);
	struct ts_gpu *core = READ_ONCE(health->gpu->core);
	struct tsl_text text = {};
	struct ts_host_dump to = { .line = tsl_text_line, .reader = &text };
	size_t at;

	if (!core)
		return -EIO;
	text.bytes = kvmalloc(TSL_DUMP_BYTES, GFP_KERNEL);
	if (!text.bytes)
		return -ENOMEM;
	ts_gpu_dump_runlists(core, &to);
	devlink_fmsg_string_pair_put(fmsg, "policy", ts_gpu_policy(core));
	devlink_fmsg_arr_pair_nest_start(fmsg, "runlists");
	for (at = 0; at < text.used; at += strlen(text.bytes + at) + 1)
		devlink_fmsg_string_put(fmsg, text.bytes + at);
	devlink_fmsg_arr_pair_nest_end(fmsg);
	kvfree(text.bytes);
	return 0;
}
#define TSL_HEALTH_DUMP .dump = tsl_health_dump,
#else
#define TSL_HEALTH_DUMP
#endif

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
	else if (ret == -EIO)
		NL_SET_ERR_MSG_MOD(extack, "the device does not answer as a TS104 does");
	return ret;
}

static int tsl_timeout_recover(struct devlink_health_reporter *reporter, void *context,
			       struct netlink_ext_ack *extack)
{
	return 0;
}

/*
 * A device that is sick again right after it was started over is not started over for ever: within
 * the grace period it is left as it is, until somebody asks.
 */
#define TSL_HARDWARE_GRACE_MS 10000

static const struct devlink_health_reporter_ops tsl_reporter_ops[TSL_HEALTH_KINDS] = {
	[TSL_HEALTH_HARDWARE] = {
		.name = "hardware",
		TSL_HEALTH_GRACE(TSL_HARDWARE_GRACE_MS)
		TSL_HEALTH_DUMP
		.diagnose = tsl_hardware_diagnose,
		.recover = tsl_hardware_recover,
	},
	[TSL_HEALTH_TIMEOUT] = {
		.name = "timeout",
		TSL_HEALTH_DUMP
		.diagnose = tsl_timeout_diagnose,
		.recover = tsl_timeout_recover,
	},
};

/* ---- events -------------------------------------------------------------------------------- */

/* A report is a message to every listener, and a guest can cause one: so many seconds are between. */
#define TSL_HEALTH_INTERVAL DEFAULT_RATELIMIT_INTERVAL

/* With health->lock held. */
static void tsl_health_queue(struct tsl_health *health)
{
	unsigned long now = jiffies;

	queue_delayed_work(health->gpu->queue, &health->work,
			   time_before(now, health->next) ? health->next - now : 0);
}

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
		tsl_health_queue(health);
	spin_unlock_irqrestore(&health->lock, flags);
}

static void tsl_health_work(struct work_struct *work)
{
	struct tsl_health *health = container_of(work, struct tsl_health, work.work);
	struct tsl_health_event event;
	int kind;

	spin_lock_irq(&health->lock);
	health->next = jiffies + TSL_HEALTH_INTERVAL;
	spin_unlock_irq(&health->lock);
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
	INIT_DELAYED_WORK(&gpu->health.work, tsl_health_work);
	gpu->health.next = jiffies;
}

static void tsl_health_listen(struct tsl_health *health, bool on)
{
	int kind;

	spin_lock_irq(&health->lock);
	health->listening = on;
	/* What happened while nobody listened. */
	for (kind = 0; on && kind < TSL_HEALTH_KINDS; kind++) {
		if (health->events[kind].fresh)
			tsl_health_queue(health);
	}
	spin_unlock_irq(&health->lock);
	if (!on)
		cancel_delayed_work_sync(&health->work);
}

void tsl_health_is_good(struct ts_host_gpu *gpu)
{
	struct tsl_health *health = &gpu->health;
	bool listening;

	spin_lock_irq(&health->lock);
	health->events[TSL_HEALTH_HARDWARE].fresh = false;
	listening = health->listening;
	spin_unlock_irq(&health->lock);
	/* The caller holds the device's lock, so the reporter stays. */
	if (listening)
		devlink_health_reporter_state_update(health->reporters[TSL_HEALTH_HARDWARE],
						     DEVLINK_HEALTH_REPORTER_STATE_HEALTHY);
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
			tsl_health_reporter_create(devlink, &tsl_reporter_ops[kind],
						   kind == TSL_HEALTH_HARDWARE ?
							   TSL_HARDWARE_GRACE_MS : 0,
						   health);

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
