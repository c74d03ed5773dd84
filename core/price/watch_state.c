/* Watch state: what follows from it. Nothing here changes it. */
#include "core/price/watch_state.h"

#include <math.h>

#include "core/price/share.h"

#define PAIRS_SOME   3 /* to doubt an estimate that says less */
#define PACELESS_MAX 3
/* An estimate may be short by its half. */
#define NEAR	 0.5
#define WORTH	 0.1 /* of a budget, to save by windows */
#define HIT_MOST 2   /* times what one takes on this host */
/* A window comes at least this often. */
#define CYCLE_MAX_NS	(120 * NS_PER_S)
#define CYCLE_MAX_TURNS 120

bool watch_is_paceless(const struct watch *watch)
{
	return watch->paceless >= PACELESS_MAX;
}

bool watch_is_measuring(const struct watch *watch)
{
	return watch->phase != WATCH_WHOLE && watch->pairs < watch->wanted &&
	       !watch_is_paceless(watch);
}

double watch_estimate(const struct watch *watch)
{
	return watch->rate * (double)watch->config.hit_ns / NS_PER_S / watch->had;
}

double watch_switch_ns(const struct watch *watch)
{
	if (!watch->config.switch_ns || !(watch->lost_cycles > 0))
		return 0;
	return fmax(watch->lost_ns, 0) / watch->lost_cycles;
}

double watch_switch_part(const struct watch *watch)
{
	return watch->window_ns ? watch_switch_ns(watch) / (double)watch->window_ns : 0;
}

static bool watch_is_measured(const struct watch *watch)
{
	return watch->pairs >= WATCH_PAIRS_MIN;
}

double watch_judged(const struct watch *watch)
{
	const struct interval *middle = &watch->middle;

	if (watch_is_measured(watch))
		return fmax((fmax(middle->ratio, 0) + middle->high) / 2, 0);
	if (watch->pairs >= PAIRS_SOME)
		return fmax(watch_estimate(watch), middle->ratio);
	return watch_estimate(watch);
}

/* If all that were true by this ratio. */
static double hit_price_ns(const struct watch *watch, double ratio)
{
	if (!(ratio > 0) || !(watch->windows_hits > 0))
		return 0;
	return ratio / (1 + ratio) * watch->windows_ns / watch->windows_hits;
}

/* What a hit of a probe takes is known on this host: an interval of few pairs, or of a program that
 * changes, says things that none does, so the one that is used has the host's in it. Threads that
 * run into probes at the same time share what that takes of the process. What CUPTI takes of a
 * program is only seen in it. */
static struct interval hit_interval(const struct watch *watch)
{
	const struct interval *middle = &watch->middle;
	double estimate = (double)watch->config.hit_ns / watch->had / watch->threads;
	double most = HIT_MOST * (double)watch->config.hit_ns / watch->had;
	struct interval hit = { .ratio = hit_price_ns(watch, middle->ratio),
				.low = hit_price_ns(watch, middle->low),
				.high = hit_price_ns(watch, middle->high) };

	if (watch->config.switch_ns) {
		/* In noise, or behind the GPU, none shows. */
		hit.high = hit.high > 0 ? hit.high : estimate;
		return hit;
	}
	if (!watch_is_measured(watch))
		return (struct interval){ .ratio = estimate, .high = most };
	return (struct interval){ .ratio = fmin(hit.ratio, most),
				  .low = fmin(hit.low, estimate),
				  .high = fmin(fmax(hit.high, estimate), most) };
}

double watch_hit_price_ns(const struct watch *watch)
{
	return hit_interval(watch).ratio;
}

double watch_unsure(const struct watch *watch)
{
	struct interval hit = hit_interval(watch);
	const struct sight *last = &watch->between.last;
	double rate = last->ns > 0 ? last->hits / last->ns : 0;

	if (watch->windows_ns > 0)
		rate = watch->windows_hits / watch->windows_ns;
	return (hit.high - hit.low) / 2 * rate;
}

/* What is always paid. A few hot calls tell little of what a cold one costs: the estimate holds
 * where it is within that. */
static struct interval watch_cold(const struct watch *watch)
{
	const struct interval *middle = &watch->middle;
	uint64_t hit_ns =
		watch->config.cold_hit_ns ? watch->config.cold_hit_ns : watch->config.hit_ns;
	double share = watch->cold_rate / NS_PER_S;
	double estimate = (double)hit_ns / watch->had, low = estimate, high = estimate;

	if (!watch->config.cold_hit_ns && watch_is_measured(watch)) {
		low = hit_price_ns(watch, middle->low);
		high = hit_price_ns(watch, middle->high);
	}
	return (struct interval){ .ratio = share * fmin(fmax(estimate, low), high) +
					   watch->config.rest,
				  .low = share * low + watch->config.rest,
				  .high = share * high + watch->config.rest };
}

double watch_cold_part(const struct watch *watch)
{
	const struct interval *middle = &watch->middle;
	double estimate = (double)watch->config.hit_ns / watch->had;

	if (!watch_is_measured(watch) || !(estimate > 0))
		return 1;
	return fmin(hit_price_ns(watch, middle->high) / estimate, 1);
}

double watch_cold_share(const struct watch *watch)
{
	return watch_cold(watch).ratio;
}

double watch_budget(const struct watch *watch)
{
	return fmax(watch->config.budget - watch_cold_share(watch), 0);
}

/* On a noisy host that takes more turns. */
bool watch_is_cheap(const struct watch *watch)
{
	if (!(watch->config.budget > 0))
		return true;
	if (watch->pairs >= WATCH_PAIRS_MIN)
		return watch->middle.high <= watch_budget(watch);
	return watch_estimate(watch) <= watch_budget(watch);
}

bool watch_is_dear(const struct watch *watch, double rate)
{
	double hits = rate * (double)watch->config.hit_ns / NS_PER_S / watch->had;
	double budget = watch->config.budget;

	return budget > 0 && hits > WORTH * budget &&
	       hits + watch_cold_share(watch) > NEAR * budget;
}

uint64_t watch_too_many(const struct watch *watch)
{
	double hit = (double)watch->config.hit_ns / NS_PER_S / watch->had;
	double most = fmax(NEAR * watch->config.budget - watch_cold_share(watch),
			   WORTH * watch->config.budget);

	return watch->config.budget > 0 && hit > 0 ? (uint64_t)(most / hit) + 1 : 0;
}

/* While a price is needed that nobody waits for, short ones: the budget has more of them. */
uint64_t watch_turn_ns(const struct watch *watch)
{
	bool first = watch_is_measuring(watch) && !watch->asked;

	return watch->config.turn_ns && !first ? watch->config.turn_ns
					       : (uint64_t)WATCH_TURN_MIN_NS;
}

/* Longer windows are as much rarer. */
double watch_share_min(const struct watch *watch)
{
	double most_ns = fmax(CYCLE_MAX_NS, CYCLE_MAX_TURNS * (double)watch->config.turn_ns);

	return (double)(watch->window_ns ? watch->window_ns : watch_turn_ns(watch)) / most_ns;
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
	struct interval cold = watch_cold(watch);
	double switches;

	/* That it is to be watched whole does not mean that its links are there. */
	if ((watch->phase != WATCH_WHOLE || !watch->opened) && watch->all_ns > 0)
		price.share = watch->on_ns / watch->all_ns;
	if (watch_is_measured(watch)) {
		price.basis = WATCH_MEASURED;
		price.whole = watch->middle.ratio;
		price.whole_low = watch->middle.low;
		price.whole_high = watch->middle.high;
	} else {
		price.whole = price.whole_low = price.whole_high = watch_estimate(watch);
	}
	price.cold = cold.ratio;
	switches = watch->phase == WATCH_WHOLE ? 0 : watch_switch_part(watch);
	price.now = share_price(price.whole, switches, price.share) + price.cold;
	price.now_low = share_price(price.whole_low, switches, price.share) + cold.low;
	price.now_high = share_price(price.whole_high, switches, price.share) + cold.high;
	price.over = watch->config.budget > 0 &&
		     share_price(price.whole, switches, watch_share_min(watch)) + price.cold >
			     watch->config.budget;
	price.whole += price.cold;
	price.whole_low += cold.low;
	price.whole_high += cold.high;
	return price;
}
