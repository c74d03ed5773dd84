/* Price: a watch for each process that makes hot calls. What opens first in a window closes last:
 * so each record of the exact tier has its call. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/price/hit.h"
#include "daemon/price/internal.h"
#include "daemon/proc/procfs.h"

#define TICK_WINDOWS_MS 25  /* while a process is watched in windows */
#define TICK_GAP_MS	250 /* between two windows */
#define TICK_WHOLE_MS	1000
#define REPORT_NS	NS_PER_S
#define NODE_STEP_NS	1000
#define STACKS_STEP_NS	10
#define NODES_KEPT	0.75		  /* of the past */
#define EXACT_SWITCH_NS (50 * NS_PER_MS)  /* for CUPTI to come and go */
#define CLOSE_AHEAD_NS	(20 * NS_PER_MS)  /* for the library to hear of it in time */
#define CLOSING_NS	(2 * NS_PER_MS)	  /* that it then needs to stop recording */
#define LOOK_NS		(900 * NS_PER_MS) /* at its callers: at each tick of TICK_WHOLE_MS */
#define LOST_SURELY	100		  /* calls */

static struct watch_config price_watch_config(const struct price *price)
{
	return (struct watch_config){
		.budget = price->config.windows ? price->config.budget : 0,
		.hit_ns = price->config.hit_ns,
	};
}

struct priced *price_find(struct price *price, uint32_t pid)
{
	if (!price->last || price->last->pid != pid)
		price->last = map_get(&price->by_pid, (struct map_key){ pid, 0 });
	return price->last;
}

static struct priced *price_add(struct price *price, uint32_t pid)
{
	struct watch_config config = price_watch_config(price);
	struct priced *priced = calloc(1, sizeof(*priced));

	if (!priced)
		return NULL;
	priced->pid = pid;
	tally_init(&priced->tally);
	if (map_put(&price->by_pid, (struct map_key){ pid, 0 }, priced) < 0) {
		free(priced);
		return NULL;
	}
	watch_init(&priced->watch, &config, uv_hrtime() * 0x9e3779b97f4a7c15 ^ pid);
	walks_tick(&priced->walks, uv_hrtime());
	list_append(&price->processes, &priced->link);
	if (!uv_is_active((uv_handle_t *)&price->timer))
		price_run(price, TICK_WHOLE_MS);
	return priced;
}

static void price_remove(struct price *price, struct priced *priced)
{
	map_remove(&price->by_pid, (struct map_key){ priced->pid, 0 });
	list_remove(&priced->link);
	price->last = NULL;
	free(priced);
}

static bool price_hot(struct price *price, const struct ts_event *event)
{
	struct priced *priced = price_find(price, event->tgid);

	if (!priced)
		priced = price_add(price, event->tgid);
	if (!priced)
		return true;
	priced->received++;
	if (!tally_hit(&priced->tally, event->start_ns))
		return false;
	callers_call(&priced->callers, event->tid);
	priced->hot_ns = event->start_ns;
	if (watch_hit(&priced->watch))
		price_run(price, 0);
	return true;
}

void price_counted(struct price *price, uint32_t pid, const struct probe_hits *grown)
{
	struct priced *priced = price_find(price, pid);

	if (!priced)
		return;
	walks_add(&priced->walks, WALK_SAMPLED, grown->walks[PROBE_WALK_SAMPLED],
		  grown->walk_ns[PROBE_WALK_SAMPLED]);
	walks_add(&priced->walks, WALK_ALWAYS,
		  grown->walks[PROBE_WALK_ALWAYS] + grown->walks[PROBE_WALK_REPORT],
		  grown->walk_ns[PROBE_WALK_ALWAYS] + grown->walk_ns[PROBE_WALK_REPORT]);
	watch_cold_hits(&priced->watch, (uint32_t)grown->hits[PROBE_REPORTS]);
	/* Those that were counted the last time have come by now. */
	if (priced->counted > priced->received + priced->lost + LOST_SURELY) {
		watch_lost_hits(&priced->watch, priced->counted - priced->received - priced->lost);
		priced->lost = priced->counted - priced->received;
	}
	priced->counted += grown->hits[PROBE_HOT];
}

void price_other_hits(struct price *price, uint32_t pid, uint32_t hits)
{
	struct priced *priced = price_find(price, pid);

	if (priced)
		watch_cold_hits(&priced->watch, hits);
}

/* Reports may stop at any time, so they show no pace; and not each is an event. */
static void price_cold(struct price *price, const struct ts_event *event)
{
	struct priced *priced = price_find(price, event->tgid);

	if (!priced || (event->fn < ARRAY_SIZE(price->report) && price->report[event->fn]))
		return;
	watch_cold_hits(&priced->watch, event->flags & TS_EVENT_RETURNED ? 2 : 1);
	watch_cold_call(&priced->watch);
	if (callers_have(&priced->callers, event->tid))
		watch_cold(&priced->watch, event->start_ns);
}

void price_reports(struct price *price, uint32_t pid, double *ret_budget, double *ret_part)
{
	const struct priced *priced = price_find(price, pid);

	*ret_budget = price->config.budget;
	*ret_part = 1;
	if (!priced || !price->config.windows)
		return;
	*ret_budget = priced->watch.config.budget;
	*ret_part = watch_cold_part(&priced->watch);
}

void price_process_gone(struct price *price, uint32_t pid, uint64_t time_ns)
{
	struct priced *priced = price_find(price, pid);

	if (!priced)
		return;
	watch_end(&priced->watch, time_ns);
	price_take_cycle(price, priced);
	price_tell_parts(price, priced, 0, time_ns);
	price_remove(price, priced);
}

bool price_event(struct price *price, const struct ts_event *event)
{
	if (event->kind == TS_EVENT_API) {
		if (event->fn < ARRAY_SIZE(price->hot) && price->hot[event->fn])
			return price_hot(price, event);
		price_cold(price, event);
		return true;
	}
	if (event->kind == TS_EVENT_EXIT || event->kind == TS_EVENT_EXEC) {
		price_process_gone(price, event->tgid, event->start_ns);
		/* It may run another program. */
		libraries_watch(price->libraries, event->tgid, HOT_WHOLE);
	}
	return true;
}

const struct given_budget *priced_given(const struct priced *priced)
{
	for (size_t i = 0; i < PRICE_GIVERS; i++)
		if (priced->given[i].set && !(priced->exact && i == PRICE_BY_RECORDING))
			return &priced->given[i];
	return NULL;
}

enum price_part priced_told_part(const struct priced *priced)
{
	return priced->exact || priced->recorded ? PRICE_EXACT : PRICE_PROBES;
}

static enum hot_want priced_want(const struct priced *priced, bool open)
{
	if (priced->watch.phase == WATCH_WHOLE)
		return HOT_WHOLE;
	return open ? HOT_OPEN : HOT_CLOSED;
}

/* Whether it is watched now. Neither this nor its contrary: as it is not wanted. */
static bool priced_is_open(struct price *price, const struct priced *priced,
			   const struct price_tier *tier)
{
	enum hot_state state = libraries_hot_state(price->libraries, priced->pid);
	bool open = state == HOT_IS_OPEN;

	if (tier->inside)
		return true;
	if (state == HOT_IS_CHANGING || (priced->exact && tier->recording != open))
		return !watch_is_open(&priced->watch);
	return open;
}

/* It comes under another kind of watch, for which nothing is known. */
static void price_restart(struct price *price, struct priced *priced, const struct price_tier *tier,
			  uint64_t now_ns)
{
	struct watch before;

	watch_end(&priced->watch, now_ns);
	price_take_cycle(price, priced);
	price_tell_parts(price, priced, 0, now_ns);
	price_report_nothing(price, priced, priced_told_part(priced));
	priced->exact = tier->windows;
	priced->recorded = tier->recording && !tier->windows;
	priced->reported_ns = 0;
	before = priced->watch;
	watch_init_after(&priced->watch, &before.config, &before);
}

static void priced_expire(struct priced *priced, uint64_t now_ns)
{
	for (size_t i = 0; i < PRICE_GIVERS; i++)
		if (priced->given[i].until_ns && priced->given[i].until_ns <= now_ns)
			priced->given[i] = (struct given_budget){ 0 };
}

/* The records of a call may come after its time, and a budget leaves them out part of the time. */
void price_nodes(struct price *price, uint32_t pid, uint64_t nodes)
{
	struct priced *priced = price_find(price, pid);
	uint64_t calls;

	if (!priced)
		return;
	calls = priced->received - priced->noded;
	priced->noded = priced->received;
	if (!nodes && !calls)
		return;
	priced->nodes = NODES_KEPT * priced->nodes + (double)nodes;
	priced->node_calls = NODES_KEPT * priced->node_calls + (double)calls;
}

/* In steps, or the price would be another one at each tick. */
static uint64_t priced_nodes_ns(const struct priced *priced)
{
	double nodes_ns = priced->nodes * TS_NODE_NS / fmax(priced->node_calls, 1);

	return (uint64_t)(fmin(nodes_ns, NS_PER_S) / NODE_STEP_NS) * NODE_STEP_NS;
}

/* In steps, as above. */
static uint64_t priced_stacks_ns(const struct priced *priced, uint64_t walk_ns, uint64_t probe_ns)
{
	return walks_call_ns(&priced->walks, walk_ns, probe_ns) / STACKS_STEP_NS * STACKS_STEP_NS;
}

/* What a call costs, with all that follows from it. */
static uint64_t price_hit_ns(const struct price *price, const struct priced *priced,
			     const struct price_tier *tier, uint64_t stacks_ns)
{
	uint64_t probe_ns = price->config.hit_ns, hit_ns = HIT_EXACT_NS;

	if (!tier->recording && !tier->windows)
		return tier->inside ? HIT_INSIDE_NS + stacks_ns : probe_ns;
	if (tier->inside)
		hit_ns = hit_ns > probe_ns + HIT_INSIDE_NS ? hit_ns - probe_ns : HIT_INSIDE_NS;
	return hit_ns + stacks_ns + priced_nodes_ns(priced);
}

static void price_apply(struct price *price, struct priced *priced, const struct price_tier *tier,
			uint64_t now_ns)
{
	struct watch_config config = price_watch_config(price), now = priced->watch.config;
	uint64_t stacks_ns = 0;
	const struct given_budget *given;

	if (priced->exact != tier->windows ||
	    priced->recorded != (tier->recording && !tier->windows))
		price_restart(price, priced, tier, now_ns);
	if (priced->exact || priced->recorded)
		config = (struct watch_config){
			.budget = priced->exact ? tier->budget : 0,
			.cold_hit_ns = price->config.hit_ns,
			.turn_ns = REST_TURN_NS,
			.switch_ns = EXACT_SWITCH_NS,
		};
	if (tier->inside && !tier->recording)
		config.cold_hit_ns = price->config.hit_ns;
	if (tier->inside)
		stacks_ns = priced_stacks_ns(priced, tier->walk_ns, price->config.hit_ns);
	config.hit_ns = price_hit_ns(price, priced, tier, stacks_ns);
	priced->inside_ns = tier->inside ? HIT_INSIDE_NS + stacks_ns : 0;
	priced->walk_ns = tier->inside ? tier->walk_ns : 0;
	priced->offered |= tier->inside;
	priced->kept = tier->budget;
	priced_expire(priced, now_ns);
	given = priced_given(priced);
	if (given && price->config.windows)
		config.budget = given->budget;
	/* Records of the exact tier are joined with calls that the probes see. A process
	 * without a known mapping has no link. */
	if ((tier->exact && !priced->exact) || !libraries_has(price->libraries, priced->pid))
		config.budget = 0;
	if (config.budget != now.budget || config.hit_ns != now.hit_ns)
		watch_configure(&priced->watch, &config);
	if (priced->exact)
		rest_choose(priced, tier);
}

void price_inside(struct price *price, const struct ts_event *event)
{
	struct priced *priced = price_find(price, event->tgid);
	struct price_tier tier;
	bool stub;

	if (!priced && (priced = price_add(price, event->tgid))) {
		price->callbacks.tier(price->data, priced->pid, &tier);
		price_apply(price, priced, &tier, uv_hrtime());
	}
	if (!priced || !priced->inside_ns)
		return;
	/* It walked first, and called the stub for a stack that was not known. */
	stub = event->flags & TS_EVENT_INSIDE;
	walks_call(&priced->walks, stub || event->stack_id, stub);
	price_hot(price, event);
}

void price_inside_begins(struct price *price, uint32_t pid, uint64_t time_ns)
{
	const struct priced *priced = price_find(price, pid);

	if (priced && priced->reported_walks.part)
		price_report_nothing(price, priced, PRICE_STACKS);
	if (priced && priced->reported_inside.part)
		price_report_nothing(price, priced, PRICE_STACKS_INSIDE);
	price_process_gone(price, pid, time_ns);
}

static void price_open(struct price *price, struct priced *priced, bool open, uint64_t now_ns)
{
	libraries_watch(price->libraries, priced->pid, priced_want(priced, true));
	if (open && !tally_is_open(&priced->tally))
		tally_open(&priced->tally, now_ns);
	if (priced->exact && libraries_hot_state(price->libraries, priced->pid) == HOT_IS_OPEN)
		price->callbacks.window(price->data, priced->pid, TS_WINDOW_OPEN, 0);
}

static void price_shut(struct price *price, struct priced *priced, const struct price_tier *tier,
		       uint64_t now_ns)
{
	if (tally_is_open(&priced->tally) && priced->exact)
		tally_shut(&priced->tally, now_ns + (uint64_t)CLOSE_AHEAD_NS, CLOSING_NS);
	else if (tally_is_open(&priced->tally))
		tally_shut(&priced->tally, now_ns, 0);
	if (priced->exact && tier->recording)
		price->callbacks.window(price->data, priced->pid,
					priced->rest ? TS_WINDOW_REST : TS_WINDOW_OUT,
					priced->tally.until_ns);
	else
		libraries_watch(price->libraries, priced->pid, HOT_CLOSED);
}

/* Its price is known, and it is not found cheap. */
static void price_offer(struct price *price, struct priced *priced)
{
	const struct watch *watch = &priced->watch;

	if (priced->offered || priced->exact || priced->recorded || watch->phase == WATCH_WHOLE ||
	    !(watch->config.budget > 0) || watch_is_measuring(watch))
		return;
	priced->offered = true;
	price->callbacks.windows(price->data, priced->pid);
}

/* Of a thread, by the kernel's scheduler. */
static bool thread_times(void *data, uint32_t tid, uint64_t *ret_ran_ns, uint64_t *ret_waited_ns)
{
	const struct priced *priced = data;
	char name[32], text[64];

	snprintf(name, sizeof(name), "task/%u/schedstat", tid);
	return procfs_file(priced->pid, name, text, sizeof(text)) > 0 &&
	       sscanf(text, "%" SCNu64 " %" SCNu64, ret_ran_ns, ret_waited_ns) == 2;
}

static void priced_look_at_callers(struct priced *priced, uint64_t now_ns)
{
	uint32_t threads = callers_count(&priced->callers);
	double share = 0;

	if (threads)
		watch_threads(&priced->watch, threads);
	if (now_ns >= priced->callers.since_ns + (uint64_t)LOOK_NS)
		share = callers_turn(&priced->callers, now_ns, thread_times, priced);
	if (share > 0)
		watch_had(&priced->watch, share);
}

static void price_tick_process(struct price *price, struct priced *priced, uint64_t now_ns)
{
	struct price_tier tier;
	bool open, whole;

	price->callbacks.tier(price->data, priced->pid, &tier);
	price_apply(price, priced, &tier, now_ns);
	priced_look_at_callers(priced, now_ns);
	open = priced_is_open(price, priced, &tier);
	whole = priced->watch.phase == WATCH_WHOLE && priced->watch.since_ns;
	if (watch_tick(&priced->watch, now_ns, open))
		price_open(price, priced, open, now_ns);
	else
		price_shut(price, priced, &tier, now_ns);
	price_take_cycle(price, priced);
	price_tell_parts(price, priced, priced->watch.parted_ns, now_ns);
	price_offer(price, priced);
	/* What changes a row wakes a disk: not at every tick. */
	if (whole && (priced->watch.phase != WATCH_WHOLE ||
		      now_ns - priced->tally.told_ns >= (uint64_t)REPORT_NS))
		price_take_whole(price, priced, tier.recording, now_ns);
	price_report(price, priced, now_ns);
}

void price_recording(struct price *price, uint32_t pid, bool on, uint64_t since_ns)
{
	struct priced *priced = price_find(price, pid);

	if (!priced)
		return;
	/* What came before it was not recorded. */
	if (priced->watch.phase == WATCH_WHOLE && priced->watch.since_ns)
		price_take_whole(price, priced, !on, since_ns);
	if (priced->exact && on && watch_is_open(&priced->watch))
		tally_open(&priced->tally, since_ns);
	/* Its budget holds from now on. */
	if (on)
		price_run(price, 0);
}

/* How long it may wait for its next tick. Wake-ups are most of what windows cost the daemon. */
static uint64_t priced_wait_ms(const struct priced *priced, uint64_t now_ns)
{
	uint64_t until_ns = watch_rests_until(&priced->watch), ms;

	if (until_ns == UINT64_MAX)
		return TICK_WHOLE_MS;
	ms = until_ns > now_ns ? (until_ns - now_ns) / (uint64_t)NS_PER_MS + 1 : 0;
	return ms < TICK_WINDOWS_MS ? TICK_WINDOWS_MS : ms > TICK_GAP_MS ? TICK_GAP_MS : ms;
}

static bool price_has_turns(const struct price *price)
{
	const struct priced *priced;

	list_for_each(priced, &price->processes, link)
		if (!watch_rests_until(&priced->watch))
			return true;
	return false;
}

static void price_on_tick(uv_timer_t *timer)
{
	uint64_t wait_ms = TICK_WHOLE_MS, now_ns, ms;
	struct price *price = timer->data;
	struct priced *priced;

	/* What was made in a turn belongs to it. */
	if (price_has_turns(price))
		price->callbacks.catch_up(price->data);
	now_ns = uv_hrtime();
	list_for_each(priced, &price->processes, link) {
		price_tick_process(price, priced, now_ns);
		ms = priced_wait_ms(priced, now_ns);
		wait_ms = ms < wait_ms ? ms : wait_ms;
	}
	if (!list_empty(&price->processes))
		price_run(price, wait_ms);
}

void price_run(struct price *price, uint64_t ms)
{
	uv_timer_start(&price->timer, price_on_tick, ms, 0);
}

static void price_note_function(struct price *price, const struct library_function *function)
{
	enum probe_group group = library_group(function);

	price->hot[function->number] = group == PROBE_HOT;
	price->report[function->number] = group == PROBE_REPORTS;
}

int price_new(uv_loop_t *loop, struct libraries *libraries, const struct price_config *config,
	      const struct price_callbacks *callbacks, void *data, struct price **ret)
{
	struct price *price = calloc(1, sizeof(*price));
	const struct library_row *row;

	if (!price)
		return -ENOMEM;
	price->loop = loop;
	price->libraries = libraries;
	price->config = *config;
	price->callbacks = *callbacks;
	price->data = data;
	list_init(&price->processes);
	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++)
			price_note_function(price, &row->function[k]);
	uv_timer_init(loop, &price->timer);
	price->timer.data = price;
	*ret = price;
	return 0;
}

static void price_on_closed(uv_handle_t *handle)
{
	struct price *price = handle->data;
	struct priced *priced;

	list_for_each(priced, &price->processes, link)
		price_remove(price, priced);
	map_clear(&price->by_pid);
	price->closed(price->data);
	free(price);
}

void price_close(struct price *price, void (*closed)(void *data))
{
	price->closed = closed;
	uv_close((uv_handle_t *)&price->timer, price_on_closed);
}

void price_configure(struct price *price, const struct price_config *config)
{
	price->config = *config;
}

/* Who asks next is to be told the new one. */
static void price_tell_budget(struct price *price, struct priced *priced)
{
	priced->reported_ns = 0;
	price_tick_process(price, priced, uv_hrtime());
}

int price_set_budget(struct price *price, uint32_t pid, enum price_giver giver, double budget,
		     uint64_t until_ns)
{
	struct priced *priced = price_find(price, pid);

	if (!priced)
		priced = price_add(price, pid);
	if (!priced)
		return -ENOMEM;
	priced->given[giver] = (struct given_budget){ true, budget, until_ns };
	price_tell_budget(price, priced);
	return 0;
}

void price_reset_budget(struct price *price, uint32_t pid, enum price_giver giver)
{
	struct priced *priced = price_find(price, pid);

	if (!priced)
		return;
	priced->given[giver] = (struct given_budget){ 0 };
	price_tell_budget(price, priced);
}
