/* Between: the numbers in here are those with which tests/unit/test_query_rhythms has intervals
 * that hold as often as they say, of programs of all its kinds together. */
#include "core/price/between.h"

#include <math.h>
#include <stdbool.h>

#define KEPT 0.9 /* decay of older windows' weight, per window */
/* Variance of a gap's rate, relative to the mean squared prediction error of a window: */
#define AS_FORETOLD 0.45 /* between two windows, */
#define AS_LATEST   0.25 /* in a gap longer than the latest windows, whose mean counts too, */
#define OPEN	    2	 /* and this many times that while no window follows */
#define DOUBT	    0.15 /* least relative error of the rate, after one window */
#define PRIOR	    0.1	 /* least squared prediction error, in squares of a step */
#define ERROR2_MAX  1e16 /* so that sums of them fit in 64 bits */
#define UNKNOWN	    0.7	 /* relative error until a window has been predicted */
#define SOON	    0.25 /* a window shorter than this, relative to the last, was cut off */

/* Hot calls for each cold one, of late. */
static double between_step(const struct between *between)
{
	return between->latest.colds > 0 ? between->latest.hits / between->latest.colds : 0;
}

/* Windows of few cold calls tell little of them: one more is as it was of late. */
static double by_colds(const struct between *between, const struct sight *sight, double colds)
{
	return (sight->hits + between_step(between)) / (sight->colds + 1) * colds;
}

static double by_time(const struct sight *sight, double ns)
{
	return sight->ns > 0 ? sight->hits / sight->ns * ns : 0;
}

static double weight_of_colds(const struct between *between)
{
	double both = between->by_time2 + between->by_colds2;

	if (!(between->latest.colds > 0))
		return 0;
	return both > 0 ? between->by_time2 / both : 0.5;
}

static double hits_in(const struct between *between, const struct sight *sight,
		      const struct sight *passed)
{
	double weight = weight_of_colds(between);

	return weight * by_colds(between, sight, passed->colds) +
	       (1 - weight) * by_time(sight, passed->ns);
}

/* The square of how far a rate is off. */
static double rate_error2(const struct between *between)
{
	double colds = weight_of_colds(between), time = 1 - colds;
	double doubt = DOUBT * by_time(&between->latest, 1) / between->foretold;

	return (colds * colds * between->by_colds2 + time * time * between->by_time2 +
		2 * colds * time * between->by_both) /
		       between->foretold +
	       doubt * doubt;
}

static bool is_long(const struct between *between, const struct sight *passed)
{
	return passed->ns > between->latest.ns;
}

/* Variance of the estimate for a gap: that of the rate, the disagreement of both methods, and one
 * step, as the gap may start and end within one. */
static double error2(const struct between *between, const struct sight *passed)
{
	double weight = weight_of_colds(between), step = fmax(between_step(between), 1);
	double apart = by_colds(between, &between->last, passed->colds) -
		       by_time(&between->last, passed->ns);

	return (is_long(between, passed) ? AS_LATEST : AS_FORETOLD) * passed->ns * passed->ns *
		       rate_error2(between) +
	       weight * (1 - weight) * apart * apart + step * step;
}

void between_close(struct between *between)
{
	between->passed = (struct sight){ 0 };
	between->told = between->told2 = 0;
}

void between_see(struct between *between, const struct sight *sight)
{
	between->last = between->latest = *sight;
	between_close(between);
}

/* The part of the gap's estimate that is not reported yet. */
static struct guess between_tell(struct between *between, double hits, double hits2)
{
	struct guess guess = { .hits = hits - between->told,
			       .error2 = hits2 - between->told2,
			       .by_time = 1 - weight_of_colds(between) };

	between->told = hits;
	between->told2 = hits2;
	return guess;
}

/* Nothing has come after it. */
static double open_error2(const struct between *between, const struct sight *passed, double hits)
{
	double open2 =
		between->foretold > 0 ? OPEN * error2(between, passed) : pow(UNKNOWN * hits, 2);

	return fmin(open2, ERROR2_MAX);
}

struct guess between_pass(struct between *between, const struct sight *passed)
{
	struct sight *all = &between->passed;
	double hits;

	all->ns += passed->ns;
	all->colds += passed->colds;
	hits = hits_in(between, &between->last, all);
	if (between->foretold > 0)
		hits = (hits + hits_in(between, &between->latest, all)) / 2;
	return between_tell(between, hits, open_error2(between, all, hits));
}

struct guess between_halve(struct between *between, struct sight *passed)
{
	struct sight *all = &between->passed;
	struct sight half = { .ns = (all->ns + passed->ns) / 2,
			      .colds = floor((all->colds + passed->colds) / 2) };
	double hits = hits_in(between, &between->last, &half);

	*passed = (struct sight){ 0 };
	if (half.ns <= all->ns)
		return (struct guess){ 0 };
	half.colds = fmax(half.colds, all->colds);
	passed->ns = half.ns - all->ns;
	passed->colds = half.colds - all->colds;
	*all = half;
	return between_tell(between, hits, open_error2(between, &half, hits));
}

/* How far the last window would have had this one off. */
static void between_learn(struct between *between, const struct sight *window)
{
	double time = by_time(&between->last, window->ns) - window->hits;
	double colds = by_colds(between, &between->last, window->colds) - window->hits;
	double prior = PRIOR * pow(window->hits / (window->colds + 1), 2);
	double ns2 = window->ns * window->ns;

	between->by_time2 = KEPT * between->by_time2 + (time * time + prior) / ns2;
	between->by_colds2 = KEPT * between->by_colds2 + (colds * colds + prior) / ns2;
	between->by_both = KEPT * between->by_both + time * colds / ns2;
	between->foretold = KEPT * between->foretold + 1;
}

static void sight_add(struct sight *to, double part, const struct sight *more)
{
	to->hits = part * to->hits + more->hits;
	to->colds = part * to->colds + more->colds;
	to->ns = part * to->ns + more->ns;
}

struct guess between_end(struct between *between, const struct sight *passed,
			 const struct sight *window)
{
	struct sight all = { .ns = between->passed.ns + passed->ns,
			     .colds = between->passed.colds + passed->colds };
	struct sight before = between->last, after = *window;
	bool cut = window->ns < SOON * before.ns;
	struct guess guess;
	double hits, all2;

	if (cut)
		sight_add(&after, 1, &before);
	else if (before.ns > 0)
		between_learn(between, window);
	sight_add(&between->latest, cut ? 1 : KEPT, window);
	between->last = after;
	hits = hits_in(between, &after, &all);
	if (before.ns > 0)
		hits = (hits + hits_in(between, &before, &all)) / 2;
	if (is_long(between, &all))
		hits = (hits + hits_in(between, &between->latest, &all)) / 2;
	all2 = fmin(between->foretold > 0 ? error2(between, &all) : hits * hits, ERROR2_MAX);
	guess = between_tell(between, hits, between->told2);
	guess.before2 = all2 / 2 - between->told2;
	guess.error2 = all2 / 2;
	between_close(between);
	return guess;
}
