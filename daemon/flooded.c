/* Flooded: who is left out because it called too often. */
#include "core/base/log.h"
#include "daemon/daemon_internal.h"

#define PPM	  1e6
#define LOG_BURST 4

static const enum loss_reason left_out[PROBE_GROUPS] = {
	[PROBE_COLD] = LOSS_LEFT_OUT,
	[PROBE_HOT] = LOSS_LEFT_OUT_HOT,
	[PROBE_REPORTS] = LOSS_TENSORS,
};

static void on_out(void *data, uint32_t pid, enum probe_group group, uint64_t since_ns, bool first)
{
	struct daemon *daemon = data;

	/* It reports its hot calls itself: from then on no more than their stacks are missing. */
	if (group == PROBE_HOT && daemon->exact && exact_flooded(daemon->exact, pid, first))
		ledger_close(&daemon->ledger, pid, left_out[group], LEDGER_FLOOD,
			     exact_inside_from(daemon->exact, pid));
	else
		ledger_open(&daemon->ledger, pid, left_out[group], LEDGER_FLOOD, since_ns);
}

static void on_in(void *data, uint32_t pid, enum probe_group group, uint64_t now_ns)
{
	struct daemon *daemon = data;

	ledger_close(&daemon->ledger, pid, left_out[group], LEDGER_FLOOD, now_ns);
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

static bool on_relieve(void *data, uint32_t pid)
{
	struct daemon *daemon = data;
	struct probe_stats stats;

	probe_stats(daemon->probe, &stats, NULL, 0);
	return stats.single && daemon->exact && exact_relieve(daemon->exact, pid);
}

static void on_counted(void *data, uint32_t pid, const struct probe_hits *grown)
{
	struct daemon *daemon = data;

	price_counted(daemon->price, pid, grown);
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
		.in = on_in,
		.relieve = on_relieve,
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
