/* Verdict: all of a life is looked at, then its last two fifths, and less: what was loaded at first
 * does not hide a leak that came later. */
#include "core/leak/verdict.h"

#include <math.h>
#include <stdbool.h>

/* A block has outlived the others at this multiple of the age at which they are freed: the rhythms
 * of a program (its epochs, say) differ in length, but seldom by more. */
#define OUTLIVED 2
/* Of blocks that grow so old, one in ten at most is freed after all, by Laplace's rule. */
#define FREED_LEAK    0.1
#define FREED_GROWING 0.34
#define KEPT_LEAK     14
#define KEPT_GROWING  3
/* And in the end of what was faster before: the last places of a cache are filled so. */
#define KEPT_LEAK_LATER 24
/* Separate times at which blocks were added: a burst is one, however many blocks it has. */
#define ROUNDS_LEAK    8
#define ROUNDS_GROWING 3
/* If they are far apart, these many: a dozen layers are unfrozen one by one, a dozen checkpoints
 * kept. Apart: in fewer than this part of the slots. */
#define ROUNDS_APART 14
#define APART	     0.75
/* From the first to the last of these: what a program does within seconds, and then sits on, are
 * its weights. */
#define ACTIVE_NS	30e9
#define ACTIVE_FREES_NS 20e9
#define ACTIVE_PART_NS	20e9
/* The last third of the time brings no less than this part of what the first one did: what fills
 * up slows down. And no more than this many times as much: a burst at the end is none. */
#define STEADY 0.88
/* If only the end of what fills is steady, the second third is to be so beside the last one. */
#define SETTLED 0.95
#define SUDDEN	4
/* By chance alone, one steady series in 40 slows down by this many standard deviations. The end of
 * what fills up has few blocks: there, what may be slower is. */
#define SIGMA	      2
#define SIGMA_OF_PART 1
/* Where little is freed, it may be a cache that fills, so chance is hardly an excuse. */
#define SIGMA_FILLS 0.5
/* No more blocks come after a pause of this multiple of the mean pause: by chance one in 50 is
 * longer. And a pause in the middle as long as this part of the time divides two bursts. */
#define PAUSE	 4
#define PAUSE_OF 0.34
/* Least live bytes of a quarter of life beside those of the one before it. */
#define RISES 1.05
/* What is held since this part of its life was loaded at once. */
#define LOADED_OF 0.1

/* A process that was idle for this multiple of its active time is not just paused. */
#define IDLE	10

#define PARTS	4
#define HOUR_NS 3600e9
#define MOST	9e18 /* bytes an hour: they fit into 63 bits */

#define POINTS	(HISTORY_SLOTS + 2)

struct look {
	const struct history *history;
	double now_ns;
	double since_ns, cutoff_ns; /* blocks born in between have outlived the usual age */
	bool by_activity;	    /* the clock */
	/* What the process had done when. */
	double at_ns[POINTS], done[POINTS];
	unsigned int points;
};

/* A part of life, up to the cutoff. Times without a unit are the clock's. */
struct part {
	double since_ns, start, end;
	double blocks, bytes;
	double third[3];
	double first_ns, last_ns; /* births */
	double first, last;
	double pause;
	unsigned int rounds;
	uint32_t first_slot, last_slot;
};

static double slot_ns(const struct look *look, const struct history_slot *slot, bool end)
{
	double ns = (double)history_slot_ns(look->history, slot->number + end);

	return fmin(ns, look->now_ns);
}

static void look_point(struct look *look, double ns, double done)
{
	if (look->points && ns <= look->at_ns[look->points - 1])
		return;
	look->at_ns[look->points] = ns;
	look->done[look->points++] = done;
}

/* What is freed says what is normal here. */
static bool verdict_frees(const struct history *history)
{
	return history->frees >= 2 * history->live_count;
}

/* Where most blocks are freed, these tell the time. */
static void look_at_births(struct look *look)
{
	const struct history *history = look->history;
	double born = 0;

	look_point(look, (double)history->sure_ns, 0);
	for (unsigned int i = 0; i < history->count; i++) {
		if (slot_ns(look, &history->slot[i], false) < (double)history->sure_ns)
			continue;
		born += history->slot[i].born;
		look_point(look, slot_ns(look, &history->slot[i], true), born);
	}
	look_point(look, look->now_ns, born);
}

/* The activity of a process is known at events, and even in between. */
static void look_at_activity(struct look *look, uint64_t activity)
{
	const struct history *history = look->history;
	uint64_t own = history->allocations + history->frees;
	double other = activity > own ? (double)(activity - own) : 0;

	look_point(look, (double)history->sure_ns, (double)history->sure_activity);
	for (unsigned int i = 0; i < history->count; i++)
		if (slot_ns(look, &history->slot[i], false) >= (double)history->sure_ns)
			look_point(look, slot_ns(look, &history->slot[i], true),
				   (double)history->slot[i].activity);
	look_point(look, look->now_ns, fmax(other, look->done[look->points - 1]));
}

static double clock_at(const struct look *look, double ns)
{
	unsigned int i = 1;

	if (!look->by_activity)
		return ns;
	if (look->points < 2 || ns <= look->at_ns[0])
		return look->done[0];
	while (i + 1 < look->points && look->at_ns[i] < ns)
		i++;
	return look->done[i - 1] + (fmin(ns, look->at_ns[i]) - look->at_ns[i - 1]) *
					   (look->done[i] - look->done[i - 1]) /
					   (look->at_ns[i] - look->at_ns[i - 1]);
}

/* What a slot brought to each third, if it came evenly. */
static void part_share(struct part *part, double from, double until, double blocks)
{
	double third = (part->end - part->start) / 3;

	for (int i = 0; i < 3; i++) {
		double low = part->start + i * third, high = i == 2 ? INFINITY : low + third;

		if (until > from)
			part->third[i] += blocks / (until - from) *
					  fmax(fmin(until, high) - fmax(from, low), 0);
		else if (from >= low && from < high)
			part->third[i] += blocks;
	}
}

static void part_add(const struct look *look, struct part *part, const struct history_slot *slot)
{
	double from_ns = slot_ns(look, slot, false), until_ns = slot_ns(look, slot, true);
	double from = clock_at(look, from_ns), until = clock_at(look, until_ns);

	part->blocks += slot->alive;
	part->bytes += (double)slot->alive_bytes;
	part_share(part, from, until, slot->alive);
	if (part->rounds++)
		part->pause = fmax(part->pause, from - part->last);
	else
		part->first = from, part->first_ns = from_ns, part->first_slot = slot->number;
	part->last = until;
	part->last_slot = slot->number;
	part->last_ns = until_ns;
}

/* The next edge of a slot, or the last one: a part has whole slots. */
static double edge_ns(const struct look *look, double ns, bool next)
{
	double first_ns = (double)look->history->first_ns;
	double width = (double)(1ull << look->history->shift);
	double slots = (ns - first_ns) / width;

	return fmin(first_ns + (next ? ceil(slots) : floor(slots)) * width, look->now_ns);
}

static struct part part_of(const struct look *look, double since_ns)
{
	const struct history *history = look->history;
	double start_ns = edge_ns(look, since_ns, true);
	double end_ns = look->cutoff_ns < look->now_ns ? edge_ns(look, look->cutoff_ns, false)
						       : look->now_ns;
	struct part part = { .since_ns = since_ns,
			     .start = clock_at(look, start_ns),
			     .end = clock_at(look, end_ns) };

	for (unsigned int i = 0; i < history->count; i++) {
		const struct history_slot *slot = &history->slot[i];

		if (slot->alive && slot_ns(look, slot, false) >= start_ns &&
		    slot_ns(look, slot, true) <= end_ns)
			part_add(look, &part, slot);
	}
	return part;
}

/* What the rest of the process does tells the time, if it does enough in either half of the time in
 * which blocks are added. */
static struct part part_by_activity(struct look *look, double since_ns)
{
	struct part part = part_of(look, since_ns);
	double first, middle, last;

	look->by_activity = true;
	first = clock_at(look, part.first_ns);
	middle = clock_at(look, (part.first_ns + part.last_ns) / 2);
	last = clock_at(look, part.last_ns);
	if (fmin(middle - first, last - middle) >= part.blocks / 4)
		part = part_of(look, since_ns);
	look->by_activity = false;
	return part;
}

static bool part_goes_on(const struct part *part)
{
	double mean = part->rounds > 1 ? (part->last - part->first) / (part->rounds - 1) : 0;

	return part->rounds > 1 && part->end - part->last <= PAUSE * mean;
}

static bool slows_down_below(double steady, double before, double after, double sigma)
{
	return after < steady * before && before - after > sigma * sqrt(before + after);
}

static bool slows_down(double before, double after, double sigma)
{
	return slows_down_below(STEADY, before, after, sigma);
}

static bool part_is_steady(const struct part *part, double sigma)
{
	return !slows_down(part->third[0], part->third[2], sigma) &&
	       !slows_down(part->third[0], part->third[1], sigma);
}

static bool part_is_even(const struct part *part)
{
	return part->third[2] <= SUDDEN * part->third[0] + SUDDEN &&
	       part->pause <= PAUSE_OF * (part->end - part->start);
}

/* Often enough: what a program does one after the other, with pauses, it may do a dozen times. */
static bool part_has_rounds(const struct part *part)
{
	double slots = part->last_slot - part->first_slot + 1;

	return part->rounds >= ROUNDS_APART ||
	       (part->rounds >= ROUNDS_LEAK && part->rounds >= APART * slots);
}

static double kept_in(const struct look *look)
{
	const struct history *history = look->history;
	double kept = 0;

	for (unsigned int i = 0; i < history->count; i++)
		if (slot_ns(look, &history->slot[i], false) >= look->since_ns &&
		    slot_ns(look, &history->slot[i], true) <= look->cutoff_ns)
			kept += history->slot[i].alive;
	return kept;
}

/* The smallest age that few of those that reach it are freed after. */
static bool look_for_age(struct look *look, double most, double at_least, struct verdict *verdict)
{
	const struct history *history = look->history;
	uint64_t freed = history->frees;

	look->since_ns = (double)history->sure_ns;
	for (unsigned int age = 0; age < HISTORY_AGES; freed -= history->age[age++]) {
		uint64_t ns = history_age_ns(age);
		double kept;

		if (age && !history->age[age - 1])
			continue;
		look->cutoff_ns = look->now_ns - OUTLIVED * (double)ns;
		kept = kept_in(look);
		if (kept < at_least)
			return false;
		if ((double)freed + 1 > most * (kept + 2))
			continue;
		verdict->usual_ns = ns;
		verdict->confidence = (uint8_t)(100 - 100 * ((double)freed + 1) / (kept + 2));
		return true;
	}
	return false;
}

static void verdict_grows(struct verdict *verdict, const struct look *look, const struct part *part,
			  enum verdict_kind kind)
{
	double ns = look->cutoff_ns - fmax(part->since_ns, part->first_ns);

	verdict->kind = (uint8_t)kind;
	verdict->kept = (uint64_t)part->blocks;
	verdict->kept_bytes = (uint64_t)part->bytes;
	verdict->since_ns = (uint64_t)part->first_ns;
	verdict->bytes_per_hour = ns > 0 ? fmin(part->bytes / ns * HOUR_NS, MOST) : 0;
}

static double part_start(const struct look *look, int part)
{
	static const double part_of_life[PARTS] = { 1, 0.4, 0.3, 0.2 };

	return look->cutoff_ns - (look->cutoff_ns - look->since_ns) * part_of_life[part];
}

/* What was loaded first is over by now, but this goes on slowing down. */
static bool part_slows_on(const struct part *part)
{
	return slows_down_below(SETTLED, part->third[1], part->third[2], SIGMA_FILLS);
}

static double part_sigma(const struct look *look, int number)
{
	if (!verdict_frees(look->history))
		return SIGMA_FILLS;
	return number ? SIGMA_OF_PART : SIGMA;
}

/* The end of what fills up looks steady, but there was more before. */
static bool part_was_denser(struct look *look, const struct part *part, int number)
{
	double length_ns = look->cutoff_ns - part->since_ns;
	struct part before = part_of(look, part->since_ns - length_ns);

	return number && slows_down(before.blocks - part->blocks, part->blocks,
				    fmin(part_sigma(look, number), SIGMA_OF_PART));
}

/* Where little is freed, it may be a cache yet: the longer it has filled, the less likely. */
static void verdict_may_end(struct verdict *verdict)
{
	double most = 100 - 100 * (double)VERDICT_WATCH_NS /
				    (double)(2 * VERDICT_WATCH_NS + verdict->watched_ns);

	verdict->confidence = (uint8_t)fmin(verdict->confidence, most);
}

static bool verdict_by_parts(struct verdict *verdict, struct look *look, double active_ns)
{
	bool fills = !verdict_frees(look->history);

	for (int i = 0; i < PARTS; i++) {
		struct part by_time = part_of(look, part_start(look, i));
		struct part part = part_by_activity(look, part_start(look, i));

		if (!i && fills && part_slows_on(&part))
			return false;
		if (part.blocks < (i && fills ? KEPT_LEAK_LATER : KEPT_LEAK) ||
		    !part_has_rounds(&part) ||
		    part.last_ns - part.first_ns < (i ? ACTIVE_PART_NS : active_ns) ||
		    !part_is_even(&by_time) || !part_goes_on(&part) ||
		    !part_is_steady(&part, part_sigma(look, i)) || part_was_denser(look, &part, i))
			continue;
		verdict_grows(verdict, look, &part, VERDICT_LEAK);
		if (fills)
			verdict_may_end(verdict);
		return true;
	}
	return false;
}

/* It has freed nothing for longer than any block had lived before. */
static bool look_for_silence(struct look *look, struct verdict *verdict)
{
	const struct history *history = look->history;
	unsigned int age = HISTORY_AGES;

	while (age && !history->age[age - 1])
		age--;
	look->since_ns = (double)history->last_free_ns;
	look->cutoff_ns = look->now_ns;
	if (!age || look->now_ns - look->since_ns < OUTLIVED * (double)history_age_ns(age) ||
	    look->since_ns < (double)history->sure_ns)
		return false;
	verdict->usual_ns = history_age_ns(age);
	verdict->confidence = (uint8_t)(100 - 100 / (kept_in(look) + 2));
	return true;
}

static bool verdict_is_leak(struct verdict *verdict, struct look *look)
{
	double active_ns = verdict_frees(look->history) ? ACTIVE_FREES_NS : ACTIVE_NS;

	return (look_for_age(look, FREED_LEAK, KEPT_LEAK, verdict) &&
		verdict_by_parts(verdict, look, active_ns)) ||
	       (look_for_silence(look, verdict) && verdict_by_parts(verdict, look, ACTIVE_NS));
}

/* What is live at most, at the lowest moment of each quarter of its life: a block that is replaced
 * by a larger one may be freed first. */
static void lows(const struct look *look, double low[4], double *ret_rate)
{
	const struct history *history = look->history;
	double start_ns = fmax((double)history->first_ns, (double)history->past_ns);
	double quarter = (look->now_ns - start_ns) / 4;
	unsigned int slot = 0;
	double level = 0;

	for (int i = 0; i < 4; i++) {
		double until_ns = start_ns + (i + 1) * quarter;

		low[i] = slot ? level : INFINITY;
		for (;
		     slot < history->count && slot_ns(look, &history->slot[slot], true) <= until_ns;
		     slot++) {
			low[i] = fmin(low[i], (double)history->slot[slot].high_bytes);
			level = (double)history->slot[slot].high_bytes;
		}
		low[i] = fmin(low[i], level);
	}
	*ret_rate = fmin((low[3] - low[1]) / (2 * quarter) * HOUR_NS, MOST);
}

static bool verdict_is_growing(struct verdict *verdict, struct look *look)
{
	double low[4], rate;

	if (look_for_age(look, FREED_GROWING, KEPT_GROWING, verdict))
		for (int i = 0; i < PARTS; i++) {
			struct part part = part_by_activity(look, part_start(look, i));

			if (part.rounds < ROUNDS_GROWING || !part_goes_on(&part))
				continue;
			verdict_grows(verdict, look, &part, VERDICT_GROWING);
			return true;
		}
	lows(look, low, &rate);
	if (low[3] <= RISES * low[2] || low[2] <= RISES * low[1] || low[1] <= 0)
		return false;
	verdict->kind = VERDICT_GROWING;
	verdict->confidence = 50;
	verdict->bytes_per_hour = rate;
	return true;
}

/* It does not grow: what does it hold? */
static void verdict_rests(struct verdict *verdict, const struct history *history)
{
	uint64_t grew_ns = history->last_birth_ns - history->first_ns;
	uint64_t life_ns = grew_ns + verdict->quiet_ns;

	verdict->confidence = 90;
	if (!history->live_count || history->live_bytes < history->peak_bytes / 2)
		verdict->kind = VERDICT_HEALTHY;
	else if (history->frees > history->live_count)
		verdict->kind = VERDICT_CACHE;
	else if ((double)grew_ns <= LOADED_OF * (double)life_ns || history->count <= 2)
		verdict->kind = VERDICT_HELD;
	else
		verdict->kind = VERDICT_CACHE;
}

/* While a process does nothing at all, nothing can grow: time stops, for as long as that is not the
 * way it is. */
static uint64_t time_of(const struct history *history, uint64_t now_ns, uint64_t activity)
{
	bool idle = activity && activity <= history->last_activity;

	return idle && now_ns - history->last_ns <= IDLE * (history->last_ns - history->first_ns)
		       ? history->last_ns
		       : now_ns;
}

struct verdict verdict_of(const struct history *history, uint64_t now_ns, uint64_t activity)
{
	uint64_t watch_ns = verdict_frees(history) ? VERDICT_WATCH_FREES_NS : VERDICT_WATCH_NS;
	struct look look = { .history = history };
	struct verdict verdict = {
		.kind = VERDICT_YOUNG,
		.laplace = 1 - ((double)history->frees + 1) / ((double)history->live_count + 2),
	};

	if (now_ns < history->last_ns)
		now_ns = history->last_ns;
	look.now_ns = (double)time_of(history, now_ns, activity);
	verdict.watched_ns = now_ns > history->sure_ns ? now_ns - history->sure_ns : 0;
	verdict.quiet_ns = now_ns - history->last_birth_ns;
	if (verdict.watched_ns < watch_ns) {
		verdict.needs_ns = watch_ns - verdict.watched_ns;
		return verdict;
	}
	if (verdict_frees(history))
		look_at_births(&look);
	else
		look_at_activity(&look, activity);
	if (!verdict_is_leak(&verdict, &look) && !verdict_is_growing(&verdict, &look))
		verdict_rests(&verdict, history);
	return verdict;
}
