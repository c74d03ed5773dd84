/* Between: the numbers in here are those with which tests/unit/test_query_rhythms has intervals
 * that hold as often as they say, of programs of all its kinds together. */
#include "core/price/between.h"

#include <math.h>
#include <stdbool.h>

#define KEPT	    0.9	 /* of the past, from one window to the next */
#define AS_FORETOLD 0.45 /* of the squares: a gap lies between two windows */
#define OPEN	    2	 /* times as much: none has come after it */
#define DOUBT	    0.15 /* of the rate, by one window: nothing is surer than that */
#define PRIOR	    0.1	 /* of the square of a step: no way is right for sure by one window */
#define UNKNOWN	    0.7	 /* of what is guessed, until a window was foretold */

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

/* Of what passed, by what is known now: of the rate, of the ways, and of the steps that its ends
 * cut. */
static double error2(const struct between *between, const struct sight *passed)
{
	double weight = weight_of_colds(between), step = fmax(between_step(between), 1);
	double apart = by_colds(between, &between->last, passed->colds) -
		       by_time(&between->last, passed->ns);

	return AS_FORETOLD * passed->ns * passed->ns * rate_error2(between) +
	       weight * (1 - weight) * apart * apart + step * step;
}

void between_see(struct between *between, const struct sight *sight)
{
	between->last = *sight;
	between->passed = (struct sight){ 0 };
}

struct guess between_pass(struct between *between, const struct sight *passed)
{
	struct guess guess = { .hits = hits_in(between, &between->last, passed),
			       .by_time = 1 - weight_of_colds(between) };

	between->passed.ns += passed->ns;
	between->passed.colds += passed->colds;
	if (between->foretold > 0) {
		guess.hits = (guess.hits + hits_in(between, &between->latest, passed)) / 2;
		guess.error2 = OPEN * error2(between, passed);
	} else {
		guess.error2 = pow(UNKNOWN * guess.hits, 2);
	}
	return guess;
}

struct guess between_halve(struct between *between, struct sight *passed)
{
	struct sight told = between->passed;

	between->passed = (struct sight){ 0 };
	/* Nothing is known of how to foretell: it waits for the window. */
	if (!(between->foretold > 0)) {
		*passed = (struct sight){ 0 };
		return (struct guess){ 0 };
	}
	passed->ns = fmax((passed->ns + told.ns) / 2 - told.ns, 0);
	passed->colds = fmax(floor((passed->colds + told.colds) / 2) - told.colds, 0);
	between->passed = *passed;
	return (struct guess){ .hits = hits_in(between, &between->last, passed),
			       .by_time = 1 - weight_of_colds(between) };
}

/* How far the last window would have had this one off. */
static void between_learn(struct between *between, const struct sight *window)
{
	double time = by_time(&between->last, window->ns) - window->hits;
	double colds = by_colds(between, &between->last, window->colds) - window->hits;
	double prior = PRIOR * pow(window->hits / (window->colds + 1), 2);
	double ns2 = window->ns * window->ns;

	if (!(between->last.ns > 0) || !(window->ns > 0))
		return;
	between->by_time2 = KEPT * between->by_time2 + (time * time + prior) / ns2;
	between->by_colds2 = KEPT * between->by_colds2 + (colds * colds + prior) / ns2;
	between->by_both = KEPT * between->by_both + time * colds / ns2;
	between->foretold = KEPT * between->foretold + 1;
}

struct guess between_end(struct between *between, const struct sight *passed,
			 const struct sight *window)
{
	struct sight whole = { .ns = between->passed.ns + passed->ns,
			       .colds = between->passed.colds + passed->colds };
	bool halved = between->foretold > 0;
	struct sight last = between->last;
	struct guess guess = { 0 };

	between_learn(between, window);
	between->latest.hits = KEPT * between->latest.hits + window->hits;
	between->latest.colds = KEPT * between->latest.colds + window->colds;
	between->latest.ns = KEPT * between->latest.ns + window->ns;
	between_see(between, window);
	guess.by_time = 1 - weight_of_colds(between);
	guess.hits = hits_in(between, window, passed);
	if (!halved && last.ns > 0)
		guess.hits = (guess.hits + hits_in(between, &last, passed)) / 2;
	guess.error2 = between->foretold > 0 ? error2(between, &whole) : pow(guess.hits, 2);
	return guess;
}
