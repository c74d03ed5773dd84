/* Flooded: tells the model who is left out because it called too often, and what links missed. */
#include "core/base/log.h"
#include "daemon/daemon_internal.h"

#define PPM	  1e6
#define LOG_BURST 4

static const enum loss_reason left_out[PROBE_GROUPS] = {
	[PROBE_COLD] = LOSS_LEFT_OUT,
	[PROBE_HOT] = LOSS_LEFT_OUT_HOT,
	[PROBE_REPORTS] = LOSS_TENSORS,
};
static const enum loss_reason missed[PROBE_GROUPS] = {
	[PROBE_HOT] = LOSS_WINDOWS,
	[PROBE_REPORTS] = LOSS_TENSORS,
};

static void on_out(void *data, uint32_t pid, enum probe_group group, uint64_t start_ns,
		   uint64_t end_ns, bool first)
{
	const struct daemon *daemon = data;

	/* It reports its hot calls itself: no more than their stacks are missing. */
	if (group == PROBE_HOT && daemon->exact && exact_flooded(daemon->exact, pid, first))
		return;
	daemon_miss(data, pid, left_out[group], start_ns, end_ns, first);
}

static void on_may(void *data, uint32_t pid, struct flood_may *ret)
{
	const struct daemon *daemon = data;

	*ret = (struct flood_may){ .part = 1 };
	if (daemon->config->tensors == TENSORS_WITHIN_BUDGET)
		price_reports(daemon->price, pid, &ret->budget, &ret->part);
}

static void on_reports(void *data, uint32_t pid, bool watched, double share)
{
	static struct log_limit limit;
	const struct daemon *daemon = data;

	core_follow_blocks(daemon->core, pid, watched);
	if (!watched && log_allowed(&limit, LOG_BURST))
		log_info(
			"Process %u: to follow its tensors takes %.1f %% of its time, which is not "
			"within its budget: it has sums only, for now",
			pid, 100 * share);
}

static void on_counted(void *data, uint32_t pid, const struct probe_hits *grown)
{
	struct daemon *daemon = data;

	price_counted(daemon->price, pid, grown);
}

/* Whoever has not initialized the driver by now made no hot call before. */
static bool is_before_init(struct daemon *daemon, uint32_t pid)
{
	uint64_t now_ns = uv_hrtime();

	if (core_has_used(daemon->core, pid) || intake_reach(daemon->turn.intake, now_ns) < now_ns)
		return false;
	return !core_has_used(daemon->core, pid);
}

void daemon_missed(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group,
		   uint64_t start_ns, bool first)
{
	const struct daemon *daemon = data;

	if (group == PROBE_HOT && pid && !libraries_is_hooked(daemon->libraries, pid) &&
	    is_before_init(data, pid))
		return;
	/* Its probes come back before the library ends to report. */
	if (group == PROBE_HOT && daemon->exact && exact_inside_since(daemon->exact, pid, start_ns))
		return;
	if (group == PROBE_REPORTS)
		core_forget_blocks(daemon->core, pid);
	daemon_miss(data, pid, group == PROBE_COLD ? gap : missed[group], start_ns, uv_hrtime(),
		    first);
}

bool daemon_is_out(void *data, uint32_t pid, enum probe_group group)
{
	const struct daemon *daemon = data;

	return flood_is_out(daemon->flood, pid, group);
}

static struct flood_config flood_config(const struct daemon *daemon)
{
	return (struct flood_config){
		.limit = (double)daemon->config->trap_limit_ppm / PPM,
		.hit_ns = daemon_hit_ns(daemon),
	};
}

int daemon_start_flood(struct daemon *daemon)
{
	struct flood_callbacks callbacks = {
		.may = on_may,
		.reports = on_reports,
		.out = on_out,
		.counted = on_counted,
	};
	struct flood_config config = flood_config(daemon);

	return flood_new(&daemon->loop, daemon->probe, daemon->libraries, &config, &callbacks,
			 daemon, &daemon->flood);
}

void daemon_configure_flood(struct daemon *daemon)
{
	struct flood_config config = flood_config(daemon);

	if (daemon->flood)
		flood_configure(daemon->flood, &config);
}
