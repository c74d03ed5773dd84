/* Watch: the phases of windows, their random times, and the price that they show. */
#include "core/price/watch.h"

#include <math.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/price/share.h"

/* A turn is as long as the calls need that a pace takes, within bounds: a kernel needs some 50 ms
 * to put probes in or take them out, and who waits longer than 8 s for its calls has no pace. */
#define TURN_MIN_NS (250 * NS_PER_MS)
#define TURN_MAX_NS (8 * NS_PER_S)
#define TURN_CALLS  16
#define PACE_CALLS  8

/* What a long gap misses is told meanwhile, by the window before it. */
#define TELL_NS	     (10 * NS_PER_S)
#define CYCLE_MAX_NS (120 * NS_PER_S) /* a window comes at least this often */
#define PAIRS_MIN    6		      /* to judge by */
#define PACELESS_MAX 3
#define CONFIDENCE   0.9
/* An estimate may be short by its half; a price changes with the rate of calls, and with time. */
#define NEAR	      0.5
#define WORTH	      0.1 /* of a budget, to save by windows */
#define RATE_CHANGE   1.25
#define CHEAP_KEPT_NS (1800 * NS_PER_S)
#define KNOWN_NS      (300 * NS_PER_S)
#define KEPT	      0.9 /* of the past, from one cycle to the next */

void watch_init(struct watch *watch, const struct watch_config *config, uint64_t seed)
{
	*watch = (struct watch){ .config = *config, .seed = seed | 1, .share = 1, .had = 1 };
}

/* G. Marsaglia: Xorshift RNGs, 2003. */
static double watch_random(struct watch *watch)
{
	watch->seed ^= watch->seed << 13;
	watch->seed ^= watch->seed >> 7;
	watch->seed ^= watch->seed << 17;
	return (double)(watch->seed >> 11) / (double)(UINT64_C(1) << 53);
}

static void pace_add(struct pace *pace, uint64_t time_ns)
{
	if (!pace->calls++)
		pace->first_ns = time_ns;
	pace->last_ns = time_ns;
}

/* 0: too few calls. */
static double pace_ns(const struct pace *pace)
{
	if (pace->calls < PACE_CALLS || pace->last_ns <= pace->first_ns)
		return 0;
	return (double)(pace->last_ns - pace->first_ns) / (pace->calls - 1);
}

bool watch_is_open(const struct watch *watch)
{
	return watch->phase == WATCH_WHOLE || watch->phase == WATCH_WINDOW;
}

static struct pace *watch_pace(struct watch *watch)
{
	if (watch->phase == WATCH_WINDOW)
		return &watch->on;
	return watch->phase == WATCH_BEFORE || watch->phase == WATCH_AFTER ? &watch->off : NULL;
}

static void watch_enter(struct watch *watch, enum watch_phase phase)
{
	struct pace *pace;

	watch->phase = phase;
	watch->since_ns = 0;
	watch->hits = 0;
	pace = watch_pace(watch);
	if (pace)
		*pace = (struct pace){ 0 };
}

void watch_hit(struct watch *watch)
{
	watch->hits++;
}

void watch_lost_hits(struct watch *watch, uint64_t hits)
{
	watch->hits += hits;
}

void watch_cold_hits(struct watch *watch, uint32_t hits)
{
	watch->cold_hits += hits;
}

void watch_had(struct watch *watch, double share)
{
	watch->had = share;
}

void watch_cold(struct watch *watch, uint64_t time_ns)
{
	struct pace *pace = watch_pace(watch);

	if (pace && watch->since_ns && time_ns >= watch->since_ns)
		pace_add(pace, time_ns);
	else if (!watch->since_ns)
		watch->switch_calls++;
}

static uint64_t watch_turn_ns(const struct watch *watch)
{
	return watch->config.turn_ns ? watch->config.turn_ns : (uint64_t)TURN_MIN_NS;
}

static double watch_estimate(const struct watch *watch)
{
	return watch->rate * (double)watch->config.hit_ns / NS_PER_S / watch->had;
}

static void watch_add_pair(struct watch *watch, double ratio)
{
	size_t count =
		++watch->pairs < ARRAY_SIZE(watch->pair) ? watch->pairs : ARRAY_SIZE(watch->pair);
	struct interval interval;

	watch->pair[(watch->pairs - 1) % ARRAY_SIZE(watch->pair)] = log(ratio);
	interval = interval_middle(watch->pair, count, CONFIDENCE);
	watch->middle.low = expm1(interval.low);
	watch->middle.ratio = expm1(interval.ratio);
	watch->middle.high = expm1(interval.high);
}

/* By how much the process falls behind in a cycle, for the switches. */
static double watch_switch_ns(const struct watch *watch)
{
	if (!watch->config.switch_costs || !(watch->lost_cycles > 0))
		return 0;
	return fmax(watch->lost_ns, 0) / watch->lost_cycles;
}

/* Which part of a window's length that is. */
static double watch_switch_part(const struct watch *watch)
{
	return watch->window_ns ? watch_switch_ns(watch) / (double)watch->window_ns : 0;
}

static bool watch_measured(const struct watch *watch, struct interval *ret)
{
	if (watch->pairs < PAIRS_MIN)
		return false;
	*ret = watch->middle;
	return true;
}

/* The price to keep the budget by: on the safe side of what was measured. */
static double watch_judged(const struct watch *watch)
{
	struct interval interval;

	if (watch_measured(watch, &interval))
		return fmax((fmax(interval.ratio, 0) + interval.high) / 2, 0);
	return watch_estimate(watch);
}

/* What a hit takes of the time, so that the calls of a window were made in the rest of it. */
static double watch_hit_price_ns(const struct watch *watch)
{
	double price = watch->middle.ratio;

	if (!(price > 0) || !(watch->windows_hits > 0))
		return 0;
	return price / (1 + price) * watch->windows_ns / watch->windows_hits;
}

/* Unwatched, it makes more calls by its price. How far that may be off, as a share of them. */
static double watch_unsure(const struct watch *watch)
{
	const struct interval *middle = &watch->middle;

	if (!(watch->windows_hits > 0))
		return 0;
	return (middle->high - middle->low) / 2 / (1 + fmax(middle->ratio, 0));
}

/* What calls that are always seen cost: a share of the time. */
static double watch_cold_share(const struct watch *watch)
{
	double hit_ns = (double)watch->config.cold_hit_ns;

	if (!(hit_ns > 0) && watch->pairs >= PAIRS_MIN)
		return watch->cold_rate * watch_hit_price_ns(watch) / NS_PER_S;
	if (!(hit_ns > 0))
		hit_ns = (double)watch->config.hit_ns;
	return watch->cold_rate * hit_ns / NS_PER_S / watch->had;
}

/* What they leave of the budget. */
static double watch_budget(const struct watch *watch)
{
	return fmax(watch->config.budget - watch_cold_share(watch), 0);
}

static void watch_end_window(struct watch *watch, uint64_t now_ns)
{
	watch->window_ns = now_ns - watch->since_ns;
	watch->opened_ns = watch->since_ns;
	watch->window_hits = watch->hits;
	watch->windows_ns += (double)watch->window_ns;
	watch->windows_hits += (double)watch->hits;
}

/* `window`: it has one; without, the last one stands for it, too. */
static void watch_note_cycle(struct watch *watch, uint64_t now_ns, bool window)
{
	double hits = (double)watch->window_hits, window_ns = (double)watch->window_ns;
	double free_ns = fmax(window_ns - hits * watch_hit_price_ns(watch), window_ns / 10);
	struct watch_cycle *cycle = &watch->cycle;
	double missed_ns;

	if (!watch->window_ns || now_ns <= watch->last_ns)
		return;
	*cycle = (struct watch_cycle){
		.start_ns = watch->last_ns,
		.end_ns = now_ns,
		.opened_ns = watch->opened_ns,
		.watched_ns = window ? watch->window_ns : 0,
		.hits = window ? watch->window_hits : 0,
		.window = window,
	};
	missed_ns = (double)(now_ns - watch->last_ns - cycle->watched_ns);
	if (window)
		missed_ns -= fmin(watch_switch_ns(watch), missed_ns);
	cycle->missed = (uint64_t)(hits / free_ns * missed_ns);
	cycle->missed_by = (uint64_t)((double)cycle->missed * watch_unsure(watch));
	watch->last_ns = now_ns;
}

void watch_end(struct watch *watch, uint64_t now_ns)
{
	bool window = watch->phase == WATCH_WINDOW && watch->since_ns;

	if (watch->phase == WATCH_WHOLE && watch->since_ns)
		return;
	if (window)
		watch_end_window(watch, now_ns);
	watch_note_cycle(watch, now_ns, window || watch->phase == WATCH_AFTER);
}

bool watch_take_cycle(struct watch *watch, struct watch_cycle *ret)
{
	*ret = watch->cycle;
	watch->cycle = (struct watch_cycle){ 0 };
	return ret->end_ns;
}

static double share_min(const struct watch *watch)
{
	return (double)(watch->window_ns ? watch->window_ns : watch_turn_ns(watch)) / CYCLE_MAX_NS;
}

/* A window costs from the first probe that is put in to the last one that is taken out. */
static void watch_plan_gap(struct watch *watch)
{
	double open_ns = fmax((double)watch->open_ns, (double)watch->window_ns);
	double gap_ns = open_ns / watch->share - open_ns - (double)watch->off_ns;

	watch->length_ns = gap_ns > 0 ? (uint64_t)(gap_ns * 2 * watch_random(watch)) : 0;
}

/* On a noisy host that takes more turns. */
static bool watch_is_cheap(const struct watch *watch)
{
	struct interval interval;

	if (!(watch->config.budget > 0))
		return true;
	if (watch_measured(watch, &interval))
		return interval.high <= watch_budget(watch);
	return watch_estimate(watch) <= watch_budget(watch);
}

static void watch_cheap(struct watch *watch, uint64_t now_ns)
{
	watch->share = 1;
	watch->cheap_rate = watch->rate;
	watch->cheap_ns = now_ns + CHEAP_KEPT_NS;
	watch_enter(watch, WATCH_WHOLE);
}

/* By what is known: watched whole, or in windows of this share. */
static void watch_judge(struct watch *watch, uint64_t now_ns)
{
	double share;

	if (watch_is_cheap(watch)) {
		watch_cheap(watch, now_ns);
		return;
	}
	share = share_within(watch_budget(watch), watch_judged(watch), watch_switch_part(watch));
	watch->share = fmax(share, share_min(watch));
	watch_plan_gap(watch);
}

/* While links change the process is slower by nobody knows what: by as much as it falls behind. */
static void watch_note_switches(struct watch *watch, double off_ns)
{
	double behind_ns = (double)watch->switch_ns - watch->switch_calls * off_ns;

	watch->lost_ns = KEPT * watch->lost_ns + behind_ns;
	watch->lost_cycles = KEPT * watch->lost_cycles + 1;
}

bool watch_is_paceless(const struct watch *watch)
{
	return watch->paceless >= PACELESS_MAX;
}

bool watch_is_measuring(const struct watch *watch)
{
	return watch->phase != WATCH_WHOLE && watch->pairs < watch->wanted &&
	       !watch_is_paceless(watch);
}

/* The share of the time is that of the plan from now on, no longer that of the measurement. */
static void watch_forget_turns(struct watch *watch)
{
	if (watch->planned || watch->phase == WATCH_WHOLE)
		return;
	watch->planned = true;
	watch->on_ns = fmax((double)watch->open_ns, (double)watch->window_ns);
	watch->all_ns = watch->on_ns / watch->share;
}

/* A window and what it is compared with are over. */
static void watch_end_cycle(struct watch *watch, uint64_t now_ns)
{
	double on = pace_ns(&watch->on), off = pace_ns(&watch->off);

	if (on > 0 && off > 0) {
		watch->turned_ns = now_ns;
		watch_add_pair(watch, on / off);
		watch->paceless = 0;
		watch_note_switches(watch, off);
	} else {
		watch->paceless++;
	}
	watch->switch_ns = watch->switch_calls = 0;
	watch_note_cycle(watch, now_ns, true);
	watch->on_ns *= KEPT;
	watch->all_ns *= KEPT;
	watch->windows_ns *= KEPT;
	watch->windows_hits *= KEPT;
	watch->after = watch_random(watch) < 0.5;
	watch_enter(watch, WATCH_GAP);
	if (watch_is_measuring(watch)) {
		watch->share = 0.5;
		watch->length_ns = (uint64_t)((double)watch_turn_ns(watch) * watch_random(watch));
	} else {
		watch->known_rate = watch->rate;
		watch->known_ns = now_ns;
		watch_judge(watch, now_ns);
		watch_forget_turns(watch);
	}
	watch->open_ns = 0;
}

/* A change holds now, not at the end of a long gap. */
void watch_configure(struct watch *watch, const struct watch_config *config)
{
	watch->config = *config;
	watch->cheap_ns = 0;
	if (watch->phase == WATCH_WHOLE)
		return;
	if (!(config->budget > 0)) {
		watch_end(watch, watch->ticked_ns);
		watch->share = 1;
		watch_enter(watch, WATCH_WHOLE);
	} else if (watch->phase == WATCH_GAP && !watch_is_measuring(watch)) {
		watch_end(watch, watch->ticked_ns);
		watch_judge(watch, watch->ticked_ns);
	}
}

static void watch_measure_from(struct watch *watch, uint32_t pairs)
{
	watch->wanted = pairs;
	watch->planned = false;
	watch->turned_ns = 0;
	watch->pairs = watch->paceless = 0;
	watch->middle = (struct interval){ 0 };
	watch->window_ns = watch->off_ns = 0;
	watch->on_ns = watch->all_ns = watch->windows_ns = watch->windows_hits = 0;
	watch->lost_ns = watch->lost_cycles = 0;
	watch->switch_ns = watch->switch_calls = 0;
	watch->last_ns = watch->ticked_ns;
	watch->share = 0.5;
	watch->after = watch_random(watch) < 0.5;
	watch->length_ns = 0;
	watch_enter(watch, WATCH_GAP);
}

/* What it measured a moment ago still holds: at most, if it makes fewer calls now. */
static bool watch_is_known(const struct watch *watch, uint64_t now_ns)
{
	return watch->known_ns && now_ns - watch->known_ns < (uint64_t)KNOWN_NS &&
	       watch->rate < RATE_CHANGE * watch->known_rate;
}

static void watch_resume(struct watch *watch, uint64_t now_ns)
{
	watch->on_ns = watch->all_ns = 0;
	watch->last_ns = now_ns;
	watch->after = watch_random(watch) < 0.5;
	watch_enter(watch, WATCH_GAP);
	watch_judge(watch, now_ns);
}

void watch_measure(struct watch *watch)
{
	if (watch->phase != WATCH_WHOLE)
		watch_end(watch, watch->ticked_ns);
	watch_measure_from(watch, WATCH_MEASURE_PAIRS);
}

static void watch_tick_whole(struct watch *watch, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - watch->since_ns;

	if (passed_ns < (uint64_t)NS_PER_S)
		return;
	watch->rate = (double)watch->hits * NS_PER_S / (double)passed_ns;
	watch->since_ns = now_ns;
	watch->hits = 0;
	watch->on_ns = watch->all_ns = 0;
	if (watch->cheap_ns > now_ns && watch->rate < RATE_CHANGE * watch->cheap_rate)
		return;
	if (watch->config.budget > 0 &&
	    watch_estimate(watch) + watch_cold_share(watch) > NEAR * watch->config.budget &&
	    watch_estimate(watch) > WORTH * watch->config.budget) {
		if (watch_is_known(watch, now_ns))
			watch_resume(watch, now_ns);
		else
			watch_measure_from(watch, PAIRS_MIN);
	}
}

/* A turn that is compared needs its calls. */
static bool turn_is_over(const struct watch *watch, const struct pace *pace, uint64_t passed_ns)
{
	if (passed_ns < watch_turn_ns(watch))
		return false;
	return pace->calls >= TURN_CALLS || passed_ns >= (uint64_t)TURN_MAX_NS ||
	       watch_is_paceless(watch);
}

static void watch_open_window(struct watch *watch)
{
	double off_ns = (double)(watch->off_ns ? watch->off_ns : watch_turn_ns(watch));
	double long_ns = off_ns * watch->share / (1 - watch->share);

	watch_enter(watch, WATCH_WINDOW);
	watch->length_ns =
		watch->share > 0.5 ? (uint64_t)(long_ns * (0.5 + watch_random(watch))) : 0;
}

static void watch_tick_window(struct watch *watch, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - watch->since_ns;

	if (passed_ns < watch->length_ns || !turn_is_over(watch, &watch->on, passed_ns))
		return;
	watch_end_window(watch, now_ns);
	watch->rate = (double)watch->hits * NS_PER_S / (double)passed_ns;
	if (watch->after)
		watch_enter(watch, WATCH_AFTER);
	else
		watch_end_cycle(watch, now_ns);
}

static void watch_tick_closed(struct watch *watch, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - watch->since_ns;

	if (watch->phase == WATCH_GAP) {
		if (now_ns - watch->last_ns >= (uint64_t)TELL_NS)
			watch_note_cycle(watch, now_ns, false);
		if (passed_ns < watch->length_ns)
			return;
		if (watch->after)
			watch_open_window(watch);
		else
			watch_enter(watch, WATCH_BEFORE);
		return;
	}
	if (!turn_is_over(watch, &watch->off, passed_ns))
		return;
	watch->off_ns = passed_ns;
	if (watch->phase == WATCH_BEFORE)
		watch_open_window(watch);
	else
		watch_end_cycle(watch, now_ns);
}

static void watch_pass(struct watch *watch, uint64_t now_ns, bool open)
{
	double passed_ns = watch->ticked_ns ? (double)(now_ns - watch->ticked_ns) : 0;

	watch->ticked_ns = now_ns;
	watch->opened = open;
	watch->all_ns += passed_ns;
	if (open) {
		watch->on_ns += passed_ns;
		watch->open_ns += (uint64_t)passed_ns;
	}
	if (!watch->since_ns)
		watch->switch_ns += (uint64_t)passed_ns;
	if (now_ns - watch->cold_ns < (uint64_t)NS_PER_S)
		return;
	if (watch->cold_ns)
		watch->cold_rate =
			(double)watch->cold_hits * NS_PER_S / (double)(now_ns - watch->cold_ns);
	watch->cold_hits = 0;
	watch->cold_ns = now_ns;
}

bool watch_tick(struct watch *watch, uint64_t now_ns, bool open)
{
	watch_pass(watch, now_ns, open);
	/* The time that it takes to put probes in or out belongs to no turn. */
	if (open != watch_is_open(watch))
		return watch_is_open(watch);
	if (!watch->since_ns) {
		watch->since_ns = now_ns;
		watch->hits = 0;
		/* From the end of the last cycle to now nothing was watched. */
		if (watch->phase == WATCH_WHOLE && watch->last_ns)
			watch_note_cycle(watch, now_ns, false);
		return open;
	}
	if (watch->phase == WATCH_WHOLE)
		watch_tick_whole(watch, now_ns);
	else if (watch->phase == WATCH_WINDOW)
		watch_tick_window(watch, now_ns);
	else
		watch_tick_closed(watch, now_ns);
	return watch_is_open(watch);
}

uint64_t watch_rests_until(const struct watch *watch)
{
	if (watch->phase == WATCH_WHOLE)
		return UINT64_MAX;
	return watch->phase == WATCH_GAP && watch->since_ns ? watch->since_ns + watch->length_ns
							    : 0;
}

struct watch_price watch_price(const struct watch *watch)
{
	struct watch_price price = {
		.share = 1,
		.pairs = watch->pairs,
		.turned_ns = watch->turned_ns,
		.rate = watch->rate,
		.cold_rate = watch->cold_rate,
	};
	struct interval interval;
	double switches;

	/* That it is to be watched whole does not mean that its links are there. */
	if ((watch->phase != WATCH_WHOLE || !watch->opened) && watch->all_ns > 0)
		price.share = watch->on_ns / watch->all_ns;
	if (watch_measured(watch, &interval)) {
		price.basis = WATCH_MEASURED;
		price.whole = interval.ratio;
		price.whole_low = interval.low;
		price.whole_high = interval.high;
	} else {
		price.whole = price.whole_low = price.whole_high = watch_estimate(watch);
	}
	price.cold = watch_cold_share(watch);
	switches = watch->phase == WATCH_WHOLE ? 0 : watch_switch_part(watch);
	price.now = share_price(price.whole, switches, price.share) + price.cold;
	price.now_low = share_price(price.whole_low, switches, price.share) + price.cold;
	price.now_high = share_price(price.whole_high, switches, price.share) + price.cold;
	price.over = watch->config.budget > 0 &&
		     share_price(price.whole, switches, share_min(watch)) + price.cold >
			     watch->config.budget;
	price.whole += price.cold;
	price.whole_low += price.cold;
	price.whole_high += price.cold;
	return price;
}
