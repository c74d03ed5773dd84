/* Flood: a bound for each process that runs into probes, and the timer by which it is kept. */
#include "daemon/price/flood.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "core/price/bound.h"
#include "core/price/starve.h"
#include "daemon/limits.h"

#define TICK_BUSY_MS 250
#define TICK_CALM_MS 1000
#define BUSY	     0.01 /* of a CPU, that a process spends in traps, */
#define HEAVY	     0.05 /* or for which the host can blame it */
#define TELL_NS	     (5 * NS_PER_S)
#define LATELY_NS    (10 * NS_PER_S)
#define LOG_BURST    4
#define REPORTS_PART 0.5 /* of the budget */

_Static_assert(BOUND_GROUPS == (int)PROBE_GROUPS, "a bound is for each group");

struct flooder {
	struct list link;
	uint32_t pid;
	struct probe_hits seen;
	double spent_ns[PROBE_GROUPS]; /* in the last turn */
	double walks_ns;	       /* for stacks of reports, likewise */
	struct bound bound;
	struct bound reports;	/* by the budget */
	bool unwatched;		/* its reports are */
	bool out[PROBE_GROUPS]; /* as told */
	bool for_host;
	uint64_t relieved_ns; /* since then its library is to report its hot calls, 0: never */
	uint64_t out_ns[PROBE_GROUPS], told_ns;
	uint32_t turn; /* when it was last found */
};

struct flood {
	uv_timer_t timer;
	struct probe *probe;
	struct libraries *libraries;
	struct flood_config config;
	struct flood_callbacks callbacks;
	void *data;
	void (*closed)(void *data);
	struct list flooders;
	struct map by_pid;
	uint32_t turn, failures;
	bool busy;
	uint64_t now_ns, before_ns; /* this turn and the last one */
	uint64_t processes;
	struct starve starve;
	/* How long work waits: in this half of LATELY_NS and in the last one, since then. */
	bool measured;
	uint64_t half_ns, longest_ns[2], worst_ns;
};

static struct bound_config flood_bound(const struct flood *flood)
{
	return (struct bound_config){
		.limit = flood->config.limit,
		.burst_ns = LIMIT_LEFT_OUT_BURST_NS,
		.min_ns = LIMIT_LEFT_OUT_MIN_NS,
		.max_ns = LIMIT_LEFT_OUT_MAX_NS,
	};
}

/* A program that starts, or loads a model, may take its time. Who was out lately is let in only to
 * see whether it still makes as many. */
static struct bound_config flooder_bound(const struct flooder *flooder, double limit)
{
	const struct bound *bound = &flooder->reports;
	bool lately = bound->length_ns && bound->ticked_ns - bound->back_ns < bound->length_ns;

	return (struct bound_config){
		.limit = limit,
		.burst_ns = lately ? LIMIT_LEFT_OUT_BURST_NS : LIMIT_REPORTS_BURST_NS,
		.min_ns = LIMIT_REPORTS_OUT_MIN_NS,
		.max_ns = LIMIT_REPORTS_OUT_MAX_NS,
	};
}

static bool flooder_is_out(const struct flooder *flooder, enum probe_group group)
{
	return flooder->bound.out[group] || flooder->reports.out[group];
}

static struct flooder *flood_find(const struct flood *flood, uint32_t pid)
{
	return map_get(&flood->by_pid, (struct map_key){ pid, 0 });
}

static struct flooder *flood_add(struct flood *flood, uint32_t pid)
{
	struct flooder *flooder = calloc(1, sizeof(*flooder));

	if (!flooder)
		return NULL;
	flooder->pid = pid;
	flooder->bound.ticked_ns = flooder->reports.ticked_ns = flood->before_ns;
	if (map_put(&flood->by_pid, (struct map_key){ pid, 0 }, flooder) < 0) {
		free(flooder);
		return NULL;
	}
	list_append(&flood->flooders, &flooder->link);
	return flooder;
}

static void flood_remove(struct flood *flood, struct flooder *flooder)
{
	map_remove(&flood->by_pid, (struct map_key){ flooder->pid, 0 });
	list_remove(&flooder->link);
	free(flooder);
}

/* A count starts anew with another process of the same number. */
static uint64_t grown_since(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

static struct probe_hits hits_grown(const struct probe_hits *before, const struct probe_hits *now)
{
	struct probe_hits grown;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		grown.hits[group] = grown_since(before->hits[group], now->hits[group]);
	for (enum probe_walk kind = 0; kind < PROBE_WALKS; kind++) {
		grown.walks[kind] = grown_since(before->walks[kind], now->walks[kind]);
		grown.walk_ns[kind] = grown_since(before->walk_ns[kind], now->walk_ns[kind]);
	}
	return grown;
}

static void on_hits(void *data, uint32_t pid, const struct probe_hits *hits)
{
	struct flood *flood = data;
	struct flooder *flooder = flood_find(flood, pid);
	struct probe_hits grown;

	if (!flooder)
		flooder = flood_add(flood, pid);
	if (!flooder)
		return;
	grown = hits_grown(&flooder->seen, hits);
	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		flooder->spent_ns[group] = (double)grown.hits[group] * (double)flood->config.hit_ns;
	flooder->walks_ns = (double)grown.walk_ns[PROBE_WALK_REPORT];
	flooder->seen = *hits;
	flooder->turn = flood->turn;
	if (grown.hits[PROBE_HOT] || grown.hits[PROBE_COLD] || grown.hits[PROBE_REPORTS])
		flood->callbacks.counted(flood->data, pid, &grown);
}

static double flooder_spent_ns(const struct flooder *flooder)
{
	double all = 0;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		all += flooder->spent_ns[group];
	return all;
}

/* A process that has just been let in is not seen until its links are there: so its time is told up
 * to the turn after. */
static void flooder_tell(struct flood *flood, struct flooder *flooder, enum probe_group group)
{
	bool out = flooder_is_out(flooder, group), was = flooder->out[group];

	if (!out && !was)
		return;
	if (out && !was)
		flooder->out_ns[group] = flood->now_ns;
	flooder->out[group] = out;
	if (out && was && flood->now_ns < flooder->told_ns + (uint64_t)TELL_NS)
		return;
	flooder->told_ns = flood->now_ns;
	if (out)
		flood->callbacks.out(flood->data, flooder->pid, group, flooder->out_ns[group],
				     !was);
	else
		flood->callbacks.in(flood->data, flooder->pid, group, flood->now_ns);
}

const char *flood_calls(const bool out[PROBE_GROUPS])
{
	if (!out[PROBE_COLD] && !out[PROBE_HOT])
		return "tensors";
	if (!out[PROBE_COLD])
		return "launches, copies, sets and events";
	return out[PROBE_HOT] ? "calls" : "allocations, waits and all but its most frequent calls";
}

/* Hits a second. */
static double flood_rate(const struct flood *flood, const struct bound *bound)
{
	return bound->share * NS_PER_S / (double)flood->config.hit_ns;
}

static void flooder_log(struct flood *flood, struct flooder *flooder)
{
	static struct log_limit limit;

	flood->processes++;
	if (!log_allowed(&limit, LOG_BURST))
		return;
	log_warning("Process %u hit probes %.0f times a second%s: not tracing its %s for %lu s",
		    flooder->pid, flood_rate(flood, &flooder->bound),
		    flooder->for_host ? ", while the kernel's workers fell behind" : "",
		    flood_calls(flooder->bound.out), flooder->bound.length_ns / (uint64_t)NS_PER_S);
}

static void flooder_apply_reports(struct flood *flood, struct flooder *flooder)
{
	bool out = flooder_is_out(flooder, PROBE_REPORTS);

	if (out == flooder->unwatched)
		return;
	flooder->unwatched = out;
	libraries_leave_out(flood->libraries, flooder->pid, PROBE_REPORTS, out);
	flood->callbacks.reports(flood->data, flooder->pid, !out, flooder->reports.share);
}

static void flooder_apply(struct flood *flood, struct flooder *flooder, bool was_out)
{
	for (enum probe_group group = PROBE_COLD; group <= PROBE_HOT; group++)
		libraries_leave_out(flood->libraries, flooder->pid, group,
				    flooder->bound.out[group]);
	flooder_apply_reports(flood, flooder);
	if (bound_is_out(&flooder->bound) && !was_out)
		flooder_log(flood, flooder);
}

/* Whether they are within its budget. */
static void flooder_turn_reports(struct flood *flood, struct flooder *flooder)
{
	double spent_ns[PROBE_GROUPS] = { 0 };
	struct bound_config config;
	struct flood_may may;

	if (!flooder->seen.hits[PROBE_REPORTS])
		return;
	flood->callbacks.may(flood->data, flooder->pid, &may);
	spent_ns[PROBE_REPORTS] = may.part * (flooder->spent_ns[PROBE_REPORTS] + flooder->walks_ns);
	config = flooder_bound(flooder, REPORTS_PART * may.budget);
	if (bound_tick(&flooder->reports, &config, flood->now_ns, spent_ns))
		flooder_apply_reports(flood, flooder);
}

/* Whether its hot calls do not count against its limit: its library is to report them itself, which
 * it does soon or never. */
static bool flooder_is_relieved(struct flood *flood, struct flooder *flooder,
				const struct bound_config *config)
{
	const double *spent_ns = flooder->spent_ns;

	if (bound_is_out(&flooder->bound) || spent_ns[PROBE_HOT] < spent_ns[PROBE_COLD] ||
	    !bound_is_due(&flooder->bound, config, flood->now_ns, spent_ns))
		return false;
	if (flooder->relieved_ns && flood->now_ns - flooder->relieved_ns > LIMIT_RELIEF_NS)
		return false;
	if (!flood->callbacks.relieve(flood->data, flooder->pid))
		return false;
	if (!flooder->relieved_ns)
		flooder->relieved_ns = flood->now_ns;
	return true;
}

static bool flooder_tick(struct flood *flood, struct flooder *flooder,
			 const struct bound_config *config)
{
	double spent_ns[PROBE_GROUPS];

	memcpy(spent_ns, flooder->spent_ns, sizeof(spent_ns));
	if (flooder_is_relieved(flood, flooder, config)) {
		bound_forgive(&flooder->bound);
		spent_ns[PROBE_HOT] = 0;
	}
	return bound_tick(&flooder->bound, config, flood->now_ns, spent_ns);
}

static void flooder_turn(struct flood *flood, struct flooder *flooder)
{
	struct bound_config config = flood_bound(flood);
	bool was_out = bound_is_out(&flooder->bound);

	if (!was_out)
		flooder->for_host = false;
	if (flooder_tick(flood, flooder, &config))
		flooder_apply(flood, flooder, was_out);
	flooder_turn_reports(flood, flooder);
	flood->busy |=
		was_out || bound_is_out(&flooder->bound) ||
		flooder_spent_ns(flooder) > BUSY * (double)(flood->now_ns - flood->before_ns);
}

static void on_wait(void *data, uint64_t waited_ns, uint64_t hits)
{
	struct flood *flood = data;

	starve_wait(&flood->starve, waited_ns, (double)hits * (double)flood->config.hit_ns);
	if (waited_ns > flood->longest_ns[0])
		flood->longest_ns[0] = waited_ns;
	if (waited_ns > flood->worst_ns)
		flood->worst_ns = waited_ns;
}

/* Whether work waits too long, and because of the probes. */
static bool flood_starves(struct flood *flood)
{
	if (flood->now_ns - flood->half_ns > (uint64_t)LATELY_NS / 2) {
		flood->half_ns = flood->now_ns;
		flood->longest_ns[1] = flood->longest_ns[0];
		flood->longest_ns[0] = 0;
	}
	probe_read_workers(flood->probe, flood->now_ns, on_wait, flood);
	return starve_turn(&flood->starve, flood->now_ns) && flood->measured;
}

static struct flooder *flood_worst(const struct flood *flood)
{
	double least_ns = HEAVY * (double)(flood->now_ns - flood->before_ns);
	struct flooder *flooder, *worst = NULL;

	list_for_each(flooder, &flood->flooders, link)
		if (flooder_spent_ns(flooder) > least_ns &&
		    (!worst || flooder_spent_ns(flooder) > flooder_spent_ns(worst)))
			worst = flooder;
	return worst;
}

/* The one who spends most is left out, and then it is looked at again. */
static void flood_back_off(struct flood *flood)
{
	struct bound_config config = flood_bound(flood);
	struct flooder *worst;
	bool was_out;

	worst = flood_worst(flood);
	if (!worst)
		return;
	was_out = bound_is_out(&worst->bound);
	/* The host cannot wait until its library takes over. */
	if (worst->spent_ns[PROBE_HOT] > worst->spent_ns[PROBE_COLD])
		flood->callbacks.relieve(flood->data, worst->pid);
	worst->for_host = !was_out;
	if (!bound_put_out(&worst->bound, &config, flood->now_ns, worst->spent_ns,
			   flood->now_ns - flood->before_ns))
		return;
	flooder_apply(flood, worst, was_out);
	flood->busy = true;
}

static void flood_run(struct flood *flood);

static void on_tick(uv_timer_t *timer)
{
	struct flood *flood = timer->data;
	struct flooder *flooder;

	flood->before_ns = flood->now_ns;
	flood->now_ns = uv_hrtime();
	flood->turn++;
	flood->busy = false;
	if (probe_read_hits(flood->probe, on_hits, flood) < 0)
		flood->failures++;
	list_for_each(flooder, &flood->flooders, link)
		if (flooder->turn == flood->turn)
			flooder_turn(flood, flooder);
	if (flood_starves(flood))
		flood_back_off(flood);
	list_for_each(flooder, &flood->flooders, link) {
		bool gone = flooder->turn != flood->turn;

		for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
			flooder->bound.out[group] &= !gone;
			flooder->reports.out[group] &= !gone;
			flooder_tell(flood, flooder, group);
		}
		if (gone)
			flood_remove(flood, flooder);
	}
	flood_run(flood);
}

/* The last turn tells what is still to be told. */
static void flood_run(struct flood *flood)
{
	uint64_t ms = flood->busy ? TICK_BUSY_MS : TICK_CALM_MS;

	if (libraries_at_rest(flood->libraries) && list_empty(&flood->flooders)) {
		probe_watch_workers(flood->probe, false);
		return;
	}
	uv_timer_start(&flood->timer, on_tick, ms, 0);
}

void flood_wake(struct flood *flood)
{
	if (!flood || uv_is_active((uv_handle_t *)&flood->timer) ||
	    uv_is_closing((uv_handle_t *)&flood->timer))
		return;
	flood->now_ns = uv_hrtime();
	flood->measured = probe_watch_workers(flood->probe, true);
	uv_timer_start(&flood->timer, on_tick, TICK_BUSY_MS, 0);
}

bool flood_is_out(const struct flood *flood, uint32_t pid, enum probe_group group)
{
	const struct flooder *flooder = flood ? flood_find(flood, pid) : NULL;

	return flooder && flooder_is_out(flooder, group);
}

int flood_new(uv_loop_t *loop, struct probe *probe, struct libraries *libraries,
	      const struct flood_config *config, const struct flood_callbacks *callbacks,
	      void *data, struct flood **ret)
{
	struct flood *flood = calloc(1, sizeof(*flood));

	if (!flood)
		return -ENOMEM;
	flood->probe = probe;
	flood->libraries = libraries;
	flood->config = *config;
	flood->callbacks = *callbacks;
	flood->data = data;
	list_init(&flood->flooders);
	uv_timer_init(loop, &flood->timer);
	flood->timer.data = flood;
	*ret = flood;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct flood *flood = handle->data;
	struct flooder *flooder;

	list_for_each(flooder, &flood->flooders, link)
		flood_remove(flood, flooder);
	map_clear(&flood->by_pid);
	flood->closed(flood->data);
	free(flood);
}

void flood_close(struct flood *flood, void (*closed)(void *data))
{
	flood->closed = closed;
	uv_close((uv_handle_t *)&flood->timer, on_closed);
}

void flood_configure(struct flood *flood, const struct flood_config *config)
{
	flood->config = *config;
}

void flood_stats(const struct flood *flood, struct flood_stats *ret)
{
	const struct flooder *flooder;

	*ret = (struct flood_stats){
		.measured = flood->measured,
		.last_ns = flood->longest_ns[0] > flood->longest_ns[1] ? flood->longest_ns[0]
								       : flood->longest_ns[1],
		.worst_ns = flood->worst_ns,
		.processes = flood->processes,
	};
	list_for_each(flooder, &flood->flooders, link)
		ret->unwatched += flooder->unwatched;
}

uint32_t flood_list(const struct flood *flood, struct flood_out *out, uint32_t max)
{
	const struct flooder *flooder;
	uint64_t now_ns = uv_hrtime();
	uint32_t count = 0;

	list_for_each(flooder, &flood->flooders, link) {
		const struct bound *bound = &flooder->bound;

		if (!bound_is_out(bound))
			continue;
		if (count < max) {
			out[count] = (struct flood_out){
				.pid = flooder->pid,
				.of = { bound->out[0], bound->out[1], bound->out[2] },
				.for_host = flooder->for_host,
				.share = bound->share,
				.rate = flood_rate(flood, bound),
				.left_ns = bound->until_ns > now_ns ? bound->until_ns - now_ns : 0,
			};
		}
		count++;
	}
	return count;
}
