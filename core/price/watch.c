/* Watch: the phases of windows, their random times, and the price that they show. */
#include "core/price/watch.h"

#include <math.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/price/share.h"

/* Who waits longer than this for the calls that a pace takes has none. */
#define TURN_MAX_NS (8 * NS_PER_S)
#define TURN_CALLS  16
#define PACE_CALLS  8

/* What a long gap misses is told meanwhile, by the windows before it. */
#define TELL_NS	      (10 * NS_PER_S)
#define FIRST_SHARE   0.05	      /* of the time at least, until there is a price, */
#define TURNS_SHARE   0.5	      /* and if one turn follows the other */
#define REPAY_MAX_NS  (60 * NS_PER_S) /* for more than the budget has */
#define CONFIDENCE    0.9
#define RATE_CHANGE   1.25
#define CHEAP_KEPT_NS (1800 * NS_PER_S)
#define KNOWN_NS      (300 * NS_PER_S)
#define KEPT	      0.9 /* of the past, from one cycle to the next */

void watch_init(struct watch *watch, const struct watch_config *config, uint64_t seed)
{
	*watch = (struct watch){
		.config = *config, .seed = seed | 1, .share = 1, .had = 1, .threads = 1
	};
}

void watch_init_after(struct watch *watch, const struct watch_config *config,
		      const struct watch *before)
{
	struct watch was = *before;

	watch_init(watch, config, was.seed);
	watch->rate = was.rate;
	watch->had = was.had;
	watch->threads = was.threads;
	watch->between = was.between;
	between_close(&watch->between);
	watch->foretold = was.rate > 0;
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
	watch->hits = watch->colds = 0;
	pace = watch_pace(watch);
	if (pace)
		*pace = (struct pace){ 0 };
}

bool watch_hit(struct watch *watch)
{
	return ++watch->hits == watch->due_hits;
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

void watch_threads(struct watch *watch, uint32_t threads)
{
	watch->threads = threads;
}

void watch_cold_call(struct watch *watch)
{
	if (watch_is_open(watch) && watch->since_ns)
		watch->colds++;
	else
		watch->missed_colds++;
}

void watch_cold(struct watch *watch, uint64_t time_ns)
{
	struct pace *pace = watch_pace(watch);

	if (pace && watch->since_ns && time_ns >= watch->since_ns)
		pace_add(pace, time_ns);
	else if (!watch->since_ns)
		watch->switch_calls++;
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

/* A window costs from the first probe that is put in to the last one that is taken out. */
static void watch_plan_gap(struct watch *watch)
{
	double open_ns = fmax((double)watch->open_ns, (double)watch->window_ns);
	double gap_ns = open_ns / watch->share - open_ns - (double)watch->off_ns;

	watch->length_ns = gap_ns > 0 ? (uint64_t)(gap_ns * 2 * watch_random(watch)) : 0;
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
	watch->share = fmax(share, watch_share_min(watch));
	watch_plan_gap(watch);
}

/* Of a measurement. Where windows cost something by themselves the budget holds already, as far as
 * turns come often enough, unless somebody waits for the price. */
static void watch_plan_turn(struct watch *watch)
{
	double share =
		share_within(watch_budget(watch), watch_judged(watch), watch_switch_part(watch));

	if (watch->asked || !watch->config.switch_ns) {
		watch->share = TURNS_SHARE;
		watch->length_ns = (uint64_t)((double)watch_turn_ns(watch) * watch_random(watch));
		return;
	}
	watch->share = fmin(fmax(share, FIRST_SHARE), TURNS_SHARE);
	watch_plan_gap(watch);
}

/* How long it takes until what the turns spent is within the budget. */
static uint64_t watch_repay_ns(const struct watch *watch, uint64_t now_ns)
{
	double passed_ns = (double)(now_ns - watch->began_ns);
	double repay_ns = (double)watch->spent_ns / watch->share - passed_ns;

	if (watch->asked || !(watch->config.budget > 0))
		return 0;
	return (uint64_t)fmin(fmax(repay_ns, 0), REPAY_MAX_NS);
}

/* While links change the process is slower by nobody knows what: by as much as it falls behind. */
static void watch_note_switches(struct watch *watch, double off_ns)
{
	double behind_ns = (double)watch->switch_ns - watch->switch_calls * off_ns;

	watch->lost_ns = KEPT * watch->lost_ns + behind_ns;
	watch->lost_cycles = KEPT * watch->lost_cycles + 1;
}

/* The share of the time is that of the plan from now on, no longer that of the measurement. */
static void watch_forget_turns(struct watch *watch, uint64_t now_ns)
{
	if (watch->planned || watch->phase == WATCH_WHOLE)
		return;
	watch->planned = true;
	watch->length_ns += watch_repay_ns(watch, now_ns);
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
	watch->on_ns *= KEPT;
	watch->all_ns *= KEPT;
	watch->windows_ns *= KEPT;
	watch->windows_hits *= KEPT;
	watch->after = watch_random(watch) < 0.5;
	watch_enter(watch, WATCH_GAP);
	if (watch_is_measuring(watch)) {
		watch_plan_turn(watch);
	} else {
		watch->known_rate = watch->rate;
		watch->known_ns = now_ns;
		watch_judge(watch, now_ns);
		watch_forget_turns(watch, now_ns);
	}
	watch->open_ns = 0;
}

static void watch_set_due(struct watch *watch)
{
	watch->due_hits = watch->cheap_ns <= watch->ticked_ns ? watch_too_many(watch) : 0;
}

/* A change holds now, not at the end of a long gap. */
void watch_configure(struct watch *watch, const struct watch_config *config)
{
	watch->config = *config;
	watch->cheap_ns = 0;
	watch_set_due(watch);
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

/* It was watched whole up to now, or that is reported. */
static void watch_begin_gap(struct watch *watch, uint64_t now_ns)
{
	if (now_ns > watch->last_ns)
		watch->last_ns = now_ns;
	watch->missed_colds = 0;
}

/* `open_ns`: the time before that belongs to its first cycle. */
static void watch_measure_from(struct watch *watch, uint32_t pairs, uint64_t open_ns)
{
	watch->wanted = pairs;
	watch->asked = pairs == WATCH_MEASURE_PAIRS;
	watch->planned = false;
	watch->turned_ns = 0;
	watch->pairs = watch->paceless = 0;
	watch->middle = (struct interval){ 0 };
	watch->window_ns = watch->off_ns = 0;
	watch->on_ns = watch->all_ns = watch->windows_ns = watch->windows_hits = 0;
	watch->open_ns = watch->spent_ns = open_ns;
	watch->began_ns = watch->ticked_ns - open_ns;
	watch->lost_ns = (double)watch->config.switch_ns;
	watch->lost_cycles = 1;
	watch->switch_ns = watch->switch_calls = 0;
	watch_begin_gap(watch, watch->ticked_ns);
	if (!watch->parted_ns)
		watch->parted_ns = watch->ticked_ns;
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
	watch->parted_ns = now_ns;
	watch_begin_gap(watch, now_ns);
	watch->after = watch_random(watch) < 0.5;
	watch_enter(watch, WATCH_GAP);
	watch_judge(watch, now_ns);
}

void watch_measure(struct watch *watch)
{
	if (watch->phase != WATCH_WHOLE)
		watch_end(watch, watch->ticked_ns);
	watch_measure_from(watch, WATCH_MEASURE_PAIRS, 0);
}

static bool watch_is_due(const struct watch *watch)
{
	return watch->foretold || (watch->due_hits && watch->hits >= watch->due_hits);
}

static void watch_tick_whole(struct watch *watch, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - watch->since_ns;
	uint64_t enough_ns = watch_is_due(watch) ? (uint64_t)WATCH_TURN_MIN_NS : (uint64_t)NS_PER_S;

	if (passed_ns < enough_ns && !watch->foretold)
		return;
	if (!watch->foretold) {
		watch->rate = (double)watch->hits * NS_PER_S / (double)passed_ns;
		watch_see(watch, passed_ns);
	}
	watch->opened_ns = watch->foretold ? now_ns : watch->since_ns;
	watch->foretold = false;
	watch->since_ns = now_ns;
	watch->hits = watch->colds = 0;
	watch->on_ns = watch->all_ns = 0;
	watch_set_due(watch);
	if (watch->cheap_ns > now_ns && watch->rate < RATE_CHANGE * watch->cheap_rate)
		return;
	if (!watch_is_dear(watch, watch->rate))
		return;
	if (watch_is_known(watch, now_ns))
		watch_resume(watch, now_ns);
	else
		watch_measure_from(watch, WATCH_PAIRS_MIN, passed_ns);
}

/* A turn that is compared needs its calls. */
static bool turn_is_over(const struct watch *watch, const struct pace *pace, uint64_t passed_ns)
{
	if (passed_ns < watch_turn_ns(watch))
		return false;
	return pace->calls >= TURN_CALLS || passed_ns >= (uint64_t)TURN_MAX_NS ||
	       watch_is_paceless(watch);
}

static void watch_open_window(struct watch *watch, uint64_t now_ns)
{
	double off_ns = (double)(watch->off_ns ? watch->off_ns : watch_turn_ns(watch));
	double long_ns = off_ns * watch->share / (1 - watch->share);

	watch_halve_gap(watch, now_ns);
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
			watch_note_gap(watch, now_ns);
		if (passed_ns < watch->length_ns || watch->config.closed)
			return;
		if (watch->after)
			watch_open_window(watch, now_ns);
		else
			watch_enter(watch, WATCH_BEFORE);
		return;
	}
	if (!turn_is_over(watch, &watch->off, passed_ns))
		return;
	watch->off_ns = passed_ns;
	if (watch->phase == WATCH_BEFORE)
		watch_open_window(watch, now_ns);
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
		watch->spent_ns += (uint64_t)passed_ns;
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
		watch->hits = watch->colds = 0;
		watch_set_due(watch);
		/* From the end of the last cycle to now nothing was watched. */
		if (watch->phase == WATCH_WHOLE && watch->last_ns)
			watch_note_gap(watch, now_ns);
		if (watch->phase == WATCH_WHOLE) {
			between_close(&watch->between);
			watch->parted_ns = 0;
		}
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
	if (watch->phase == WATCH_WHOLE && watch_is_due(watch) && watch->since_ns)
		return watch->foretold ? 0 : watch->since_ns + (uint64_t)WATCH_TURN_MIN_NS;
	if (watch->phase == WATCH_WHOLE)
		return UINT64_MAX;
	if (watch->phase != WATCH_GAP || !watch->since_ns)
		return 0;
	/* Until then the loss is still reported. */
	if (watch->config.closed)
		return watch->last_ns + (uint64_t)TELL_NS;
	return watch->since_ns + watch->length_ns;
}
