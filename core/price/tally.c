/* Tally: time is added up when it can no longer change. */
#include "core/price/tally.h"

#include <math.h>

#include "core/base/time.h"

/* Of what was guessed of the rest of a cycle, unless that is short: then it corrects what was
 * guessed before. */
#define PART_MIN 0.5
#define PART_MAX 2
#define SHORT_NS (100 * NS_PER_MS)

void tally_init(struct tally *tally)
{
	*tally = (struct tally){ .until_ns = UINT64_MAX };
}

bool tally_is_open(const struct tally *tally)
{
	return tally->until_ns == UINT64_MAX;
}

static void tally_pass(struct tally *tally, uint64_t now_ns)
{
	uint64_t from_ns = tally->from_ns > tally->told_ns ? tally->from_ns : tally->told_ns;
	uint64_t to_ns = tally->until_ns < now_ns ? tally->until_ns : now_ns;

	if (to_ns > from_ns)
		tally->ns += to_ns - from_ns;
	if (now_ns > tally->told_ns)
		tally->told_ns = now_ns;
}

void tally_open(struct tally *tally, uint64_t from_ns)
{
	tally_pass(tally, from_ns);
	tally->from_ns = from_ns;
	tally->until_ns = UINT64_MAX;
}

void tally_shut(struct tally *tally, uint64_t until_ns, uint64_t grace_ns)
{
	tally->until_ns = until_ns;
	tally->grace_ns = grace_ns;
}

bool tally_hit(struct tally *tally, uint64_t time_ns)
{
	if (time_ns < tally->from_ns)
		return false;
	if (time_ns < tally->until_ns) {
		tally->hits++;
		return true;
	}
	return time_ns - tally->until_ns < tally->grace_ns;
}

uint64_t tally_take(struct tally *tally, uint64_t now_ns)
{
	uint64_t hits = tally->hits;

	tally->hits = tally->ns = 0;
	tally->told_ns = now_ns;
	return hits;
}

void tally_cycle(struct tally *tally, struct watch_cycle *cycle)
{
	uint64_t all_ns = cycle->end_ns - cycle->start_ns, watched_ns;
	double rest_ns = (double)(all_ns - cycle->watched_ns), part = 1;

	if (!all_ns && !cycle->window)
		return;
	tally_pass(tally, cycle->end_ns);
	watched_ns = tally->ns < all_ns ? tally->ns : all_ns;
	if (rest_ns > SHORT_NS)
		part = fmin(fmax((double)(all_ns - watched_ns) / rest_ns, PART_MIN), PART_MAX);
	cycle->watched_ns = watched_ns;
	cycle->missed = (int64_t)((double)cycle->missed * part);
	cycle->missed_by = (uint64_t)((double)cycle->missed_by * part);
	cycle->error2 = (int64_t)((double)cycle->error2 * part * part);
	/* Those of a window that goes on are its. */
	cycle->hits = tally->ns = 0;
	if (cycle->window || !tally_is_open(tally))
		cycle->hits = tally_take(tally, cycle->end_ns);
}
