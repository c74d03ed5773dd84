/* Watch cycle: what a window saw, and what was missed around it. */
#include <math.h>
#include <string.h>

#include "core/price/watch.h"

/* As if it had not been watched: by what its hits took, it would have made more. */
static struct sight watch_sight(const struct watch *watch, uint64_t passed_ns)
{
	double hits = (double)watch->hits, ns = (double)passed_ns;
	double more = ns / fmax(ns - hits * watch_hit_price_ns(watch), ns / 10);

	return (struct sight){ .hits = more * hits,
			       .colds = more * (double)watch->colds,
			       .ns = ns };
}

void watch_see(struct watch *watch, uint64_t passed_ns)
{
	struct sight seen = watch_sight(watch, passed_ns);

	between_see(&watch->between, &seen);
}

static struct watch_cycle *watch_next_cycle(struct watch *watch)
{
	uint32_t last = watch->cycles < WATCH_CYCLES ? watch->cycles++ : WATCH_CYCLES - 1;

	return &watch->cycle[last];
}

/* Up to then, guessed. */
static struct watch_cycle *watch_note_cycle(struct watch *watch, uint64_t end_ns,
					    const struct guess *guess)
{
	double missed = guess->hits + watch->missed_part;
	struct watch_cycle *cycle = watch_next_cycle(watch);

	*cycle = (struct watch_cycle){
		.start_ns = watch->last_ns,
		.end_ns = end_ns,
		.opened_ns = watch->opened_ns,
		.missed = (int64_t)floor(missed),
		.missed_by =
			(uint64_t)(fmax(guess->hits, 0) * guess->by_time * watch_unsure(watch)),
		.error2 = (int64_t)guess->error2,
	};
	watch->missed_part = missed - (double)cycle->missed;
	watch->last_ns = end_ns;
	return cycle;
}

/* What was reported of the window before; without one, this window has all of it. */
static void watch_correct(struct watch *watch, struct guess *guess)
{
	double missed = fmin(guess->hits, 0);

	if (!watch->opened_ns) {
		guess->error2 += guess->before2;
		return;
	}
	*watch_next_cycle(watch) = (struct watch_cycle){
		.start_ns = watch->last_ns,
		.end_ns = watch->last_ns,
		.opened_ns = watch->opened_ns,
		.missed = (int64_t)missed,
		.error2 = (int64_t)guess->before2,
	};
	guess->hits -= missed;
}

static struct sight watch_passed(const struct watch *watch, uint64_t now_ns)
{
	uint64_t ns = now_ns > watch->last_ns ? now_ns - watch->last_ns : 0;

	return (struct sight){ .ns = (double)ns, .colds = (double)watch->missed_colds };
}

/* So far without a window. */
void watch_note_gap(struct watch *watch, uint64_t now_ns)
{
	struct sight passed = watch_passed(watch, now_ns);
	struct guess guess;

	if (!watch->opened_ns || now_ns <= watch->last_ns)
		return;
	guess = between_pass(&watch->between, &passed);
	watch->missed_colds = 0;
	watch_note_cycle(watch, now_ns, &guess);
}

/* Reports how long the open window has lasted; its hits are reported when it ends. */
static void watch_note_window(struct watch *watch, uint64_t now_ns)
{
	if (watch->last_ns < watch->since_ns || now_ns <= watch->last_ns)
		return;
	*watch_next_cycle(watch) = (struct watch_cycle){
		.start_ns = watch->last_ns,
		.end_ns = now_ns,
		.opened_ns = watch->since_ns,
		.watched_ns = now_ns - watch->last_ns,
	};
	watch->last_ns = now_ns;
}

/* A window is wanted: the last one stands for the first half of what is between them. */
void watch_halve_gap(struct watch *watch, uint64_t now_ns)
{
	struct sight passed = watch_passed(watch, now_ns);
	struct guess guess;

	if (!watch->opened_ns)
		return;
	guess = between_halve(&watch->between, &passed);
	watch->missed_colds -= (uint64_t)passed.colds;
	if (passed.ns >= 1)
		watch_note_cycle(watch, watch->last_ns + (uint64_t)passed.ns, &guess);
}

void watch_end_window(struct watch *watch, uint64_t now_ns)
{
	struct sight passed = watch_passed(watch, watch->since_ns), window;
	struct watch_cycle *cycle;
	struct guess guess;
	uint64_t told_ns;

	watch->window_ns = now_ns - watch->since_ns;
	watch->windows_ns += (double)watch->window_ns;
	watch->windows_hits += (double)watch->hits;
	window = watch_sight(watch, watch->window_ns);
	passed.ns -= fmin(watch_switch_ns(watch), passed.ns);
	guess = between_end(&watch->between, &passed, &window);
	watch->missed_colds = 0;
	watch_correct(watch, &guess);
	watch->opened_ns = watch->since_ns;
	told_ns = watch->last_ns > watch->since_ns ? watch->last_ns : watch->since_ns;
	cycle = watch_note_cycle(watch, now_ns > told_ns ? now_ns : told_ns, &guess);
	cycle->window = true;
	cycle->watched_ns = cycle->end_ns - told_ns;
	cycle->hits = watch->hits;
}

void watch_end(struct watch *watch, uint64_t now_ns)
{
	if (watch->phase == WATCH_WHOLE && watch->since_ns)
		return;
	if (watch->phase == WATCH_WINDOW && watch->since_ns && now_ns > watch->since_ns)
		watch_end_window(watch, now_ns);
	else
		watch_note_gap(watch, now_ns);
}

void watch_tell(struct watch *watch, uint64_t now_ns)
{
	if (watch->phase == WATCH_WINDOW && watch->since_ns) {
		watch_note_gap(watch, watch->since_ns);
		watch_note_window(watch, now_ns);
	} else if (!watch->opened && (watch->phase != WATCH_WHOLE || !watch->since_ns)) {
		watch_note_gap(watch, now_ns);
	}
}

bool watch_take_cycle(struct watch *watch, struct watch_cycle *ret)
{
	if (!watch->cycles)
		return false;
	*ret = watch->cycle[0];
	watch->cycles--;
	memmove(watch->cycle, watch->cycle + 1, watch->cycles * sizeof(*watch->cycle));
	return true;
}
