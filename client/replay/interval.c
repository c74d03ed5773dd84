/* Replay interval: a part ends in the prediction when everything that it ended in the recording has
 * ended there, too. */
#include "client/replay/interval.h"

#include <stdint.h>
#include <stdlib.h>

#define PARTS	 20
#define PART_MIN 3 /* minimum average of calls and operations per part */
#define DRAWS	 2000

struct cut {
	const struct plan *plan;
	uint64_t end_ns[PARTS]; /* as predicted; the latest end in it, or 0 */
	uint64_t count;
};

static void add(struct cut *cut, uint64_t recorded_ns, uint64_t predicted_ns)
{
	uint64_t all = cut->plan->end_ns - cut->plan->start_ns;
	uint64_t at = recorded_ns > cut->plan->start_ns ? recorded_ns - cut->plan->start_ns : 0;
	double part = (double)at * PARTS / (double)all;
	uint32_t i = part < PARTS ? (uint32_t)part : PARTS - 1;

	if (predicted_ns > cut->end_ns[i])
		cut->end_ns[i] = predicted_ns;
	cut->count++;
}

static bool cut_up(struct cut *cut, const struct plan_times *predicted)
{
	const struct plan *plan = cut->plan;

	if (plan->end_ns <= plan->start_ns)
		return false;
	for (uint32_t i = 0; i < plan->call_count; i++)
		if (!(plan->call[i].flags & PLAN_DROPPED))
			add(cut, plan->call[i].end_ns, predicted->call_end_ns[i]);
	for (uint32_t i = 0; i < plan->work_count; i++)
		if (!(plan->work[i].flags & (PLAN_DROPPED | PLAN_UNTIMED | PLAN_MARK)))
			add(cut, plan->work[i].end_ns, predicted->work_end_ns[i]);
	return cut->count >= (uint64_t)PARTS * PART_MIN;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The draws are the same each time, so the same question gets the same answer. */
static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % PARTS;
}

bool replay_interval(const struct plan *plan, const struct plan_times *predicted,
		     struct interval *ret)
{
	double part_ns[PARTS], speedup[DRAWS], all = (double)(plan->end_ns - plan->start_ns);
	uint64_t upto_ns = predicted->start_ns, seed = 1;
	size_t out = (size_t)(DRAWS * (1 - REPLAY_CONFIDENCE) / 2);
	struct cut cut = { .plan = plan };

	if (!cut_up(&cut, predicted))
		return false;
	for (int i = 0; i < PARTS; i++) {
		uint64_t end_ns = cut.end_ns[i] > upto_ns ? cut.end_ns[i] : upto_ns;

		part_ns[i] = (double)(end_ns - upto_ns);
		upto_ns = end_ns;
	}
	for (int i = 0; i < DRAWS; i++) {
		double sum = 0;

		for (int j = 0; j < PARTS; j++)
			sum += part_ns[draw(&seed)];
		speedup[i] = all / (sum > 1 ? sum : 1);
	}
	qsort(speedup, DRAWS, sizeof(*speedup), by_value);
	*ret = (struct interval){
		.ratio = all / (double)(predicted->end_ns - predicted->start_ns ?: 1),
		.low = speedup[out],
		.high = speedup[DRAWS - 1 - out],
		.confidence = REPLAY_CONFIDENCE,
	};
	return true;
}
