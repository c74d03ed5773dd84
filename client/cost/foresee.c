/* Foresee: what other settings would make of a cost. Only what follows from what was measured or
 * counted is predicted. */
#include <stdio.h>

#include "client/cost/cost.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "core/price/hit.h"
#include "core/price/share.h"
#include "proto/event.h"

#define WATCHED_MIN 0.01  /* below it windows come about as seldom as they may */
#define SAMPLED	    20	  /* stacks a second and thread, by default */
#define ALL	    0.9	  /* of the calls: more than a sample of them */
#define OFFERED	    30000 /* a budget of the exact tier, where there is none */

/* What CUPTI takes for a call, as far as was measured (docs/measurements.md, "What each part of
 * CUPTI costs"): the most in a launch-bound PyTorch step, the least in a loop of empty kernels. */
static const struct {
	uint32_t record;
	const char *setting;
	int64_t low_ns, high_ns;
} kinds[] = {
	{ TS_RECORD_KERNELS, "tsctl attach --records -kernels", 800, 1800 },
	{ TS_RECORD_SYNCS, "tsctl attach --records -syncs", 0, 3000 },
};

static double without_cold(const struct cost_part *part, int64_t price)
{
	return (double)(price - part->cold) / COST_PPM;
}

static bool has_windows(const struct cost_part *part)
{
	return part->watched > 0 && part->watched < (int64_t)COST_PPM;
}

/* What the exact tier pays for the start and the end of a window, as a part of its length: what is
 * left of the price of its windows. Probes come and go almost for nothing. */
static double price_of_switches(const struct cost_part *part)
{
	double watched = (double)part->watched / COST_PPM, left;

	if (!cost_part_is(part, "exact") || !has_windows(part))
		return 0;
	left = share_of_price(without_cold(part, part->cost.middle)) / watched -
	       share_of_price(without_cold(part, part->whole.middle));
	return left > 0 ? left : 0;
}

static int64_t price_within(const struct cost_part *part, int64_t whole, double watched)
{
	double switches = watched < 1 ? price_of_switches(part) : 0;
	double price = share_price(without_cold(part, whole), switches, watched);

	return (int64_t)(price * COST_PPM) + part->cold;
}

static bool fits_whole(const struct cost_part *part, int64_t budget)
{
	const struct cost_share *whole = &part->whole;

	return !budget || (whole->measured ? whole->high : whole->middle) <= budget;
}

/* As the daemon keeps a budget: on the safe side of the middle, and after what calls that are
 * always watched cost. False: it is out of reach, so that windows come as seldom as they may. */
static bool foresee_budget(const struct cost_part *part, int64_t budget, struct foreseen *ret)
{
	const struct cost_share *whole = &part->whole;
	double middle = (double)(whole->middle > part->cold ? whole->middle - part->cold : 0);
	double high = (double)(whole->high - part->cold), watched = 1;
	double judged = whole->measured ? (middle + high) / 2 : middle;
	bool reached;

	if (!fits_whole(part, budget))
		watched = share_within((double)(budget - part->cold) / COST_PPM, judged / COST_PPM,
				       price_of_switches(part));
	reached = watched >= WATCHED_MIN;
	watched = reached ? watched : WATCHED_MIN;
	*ret = (struct foreseen){
		.kind = FORESEEN_BUDGET,
		.budget = budget,
		.then = { .middle = price_within(part, whole->middle, watched),
			  .low = price_within(part, whole->low, watched),
			  .high = price_within(part, whole->high, watched),
			  .measured = whole->measured },
		.watched = (int64_t)(watched * COST_PPM),
	};
	if (budget)
		snprintf(ret->setting, sizeof(ret->setting), "%.4g%%",
			 (double)budget / COST_PERCENT_PPM);
	else
		snprintf(ret->setting, sizeof(ret->setting), "none");
	return reached;
}

static size_t foresee_budgets(const struct cost *cost, const struct cost_part *part,
			      struct foreseen *ret)
{
	static const int64_t budgets[] = { 0, 50000, 20000, 10000, 5000 };
	bool exact = cost_part_is(part, "exact");
	bool other = !exact && cost->setting_known && cost->setting != cost->budget;
	size_t count = 0;

	if (other) {
		foresee_budget(part, cost->setting, &ret[count]);
		snprintf(ret[count++].setting, sizeof(ret->setting), "default");
	}
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++) {
		/* Of an exact tier without windows nobody knows what they would cost it. */
		if (budgets[i] == cost->budget || (budgets[i] && exact && !has_windows(part)) ||
		    (budgets[i] == 0 && part->watched >= (int64_t)COST_PPM))
			continue;
		/* Nothing would change, or it is in the list by its name. */
		if ((budgets[i] && fits_whole(part, budgets[i])) ||
		    (other && budgets[i] == cost->setting))
			continue;
		count += foresee_budget(part, budgets[i], &ret[count]);
	}
	return count;
}

/* A setting that saves this part of the price, at most all of it but that of cold calls. False: it
 * saves nothing. */
static bool foresee_saving(const struct cost_part *part, double saved, struct foreseen *foreseen)
{
	double most = (double)(part->cost.middle - part->cold);

	saved = saved < most ? saved : most;
	foreseen->then.middle = part->cost.middle - (int64_t)saved;
	foreseen->watched = part->watched;
	return (int64_t)saved > 0;
}

/* What stacks of calls that submit work or wait cost: walks in the kernel, and by our library. */
static double price_of_stacks(const struct cost *cost)
{
	const struct cost_part *stacks = cost_find(cost, "stacks");
	const struct cost_part *inside = cost_find(cost, "stacks-inside");
	double price = 0;

	if (stacks)
		price += (double)(stacks->cost.middle - stacks->cold);
	if (inside)
		price += (double)inside->cost.middle;
	return price;
}

/* Our library walks a stack for each call, or the kernel's programs do for nearly all. */
static bool takes_all(const struct cost *cost, const struct cost_part *part)
{
	const struct cost_part *stacks = cost_find(cost, "stacks");
	double calls_per_s = (double)part->calls_per_s * (double)part->watched / COST_PPM;

	if (cost_find(cost, "stacks-inside"))
		return true;
	return cost_part_is(part, "exact") && (double)stacks->calls_per_s > ALL * calls_per_s;
}

static size_t foresee_stacks(const struct cost *cost, const struct cost_part *part,
			     struct foreseen *ret)
{
	const struct cost_part *stacks = cost_find(cost, "stacks");
	const struct cost_part *inside = cost_find(cost, "stacks-inside");
	const struct cost_part *most = inside ? inside : stacks;
	bool exact = cost_part_is(part, "exact");
	const char *attach = exact ? "tsctl attach" : "tsctl attach --light";
	double saved = price_of_stacks(cost), rest;
	size_t count = 0;

	if (!most)
		return 0;
	rest = SAMPLED * (double)(stacks ? stacks : inside)->hit_ns * COST_PPM / NS_PER_S;
	ret[0] = (struct foreseen){
		.kind = FORESEEN_STACKS,
		.rate = most->calls_per_s,
		.each_low_ns = most->hit_ns,
		.each_high_ns = most->hit_ns,
	};
	ret[1] = ret[0];
	if (exact || inside)
		snprintf(ret[0].setting, sizeof(ret->setting), "%s --stacks none", attach);
	else
		snprintf(ret[0].setting, sizeof(ret->setting), "launch_stacks = 0");
	count += foresee_saving(part, saved, &ret[0]);
	snprintf(ret[count].setting, sizeof(ret->setting), "%s --stacks sampled", attach);
	if (takes_all(cost, part))
		count += foresee_saving(part, saved - rest, &ret[count]);
	return count;
}

/* The library then reports all hot calls itself. */
static size_t foresee_light(const struct cost_part *part, struct foreseen *ret)
{
	double light = (double)part->calls_per_s * HIT_INSIDE_NS * COST_PPM / NS_PER_S;
	struct foreseen foreseen = {
		.kind = FORESEEN_LIGHT,
		.setting = "tsctl attach --light",
		.rate = part->calls_per_s,
		.each_low_ns = HIT_INSIDE_NS,
		.each_high_ns = HIT_INSIDE_NS,
	};

	if (cost_part_is(part, "exact") || part->inside || !part->calls_per_s ||
	    !foresee_saving(part, (double)(part->cost.middle - part->cold) - light, &foreseen))
		return 0;
	foreseen.watched = (int64_t)COST_PPM;
	*ret = foreseen;
	return 1;
}

/* What stacks take for a call that our library reports, by the estimate. */
static int64_t stacks_ns(const struct cost *cost, const struct cost_part *part)
{
	static const char *const names[] = { "stacks", "stacks-inside" };
	int64_t ns = 0;

	for (size_t i = 0; part->inside && part->calls_per_s && i < ARRAY_SIZE(names); i++) {
		const struct cost_part *stacks = cost_find(cost, names[i]);

		ns += stacks ? stacks->calls_per_s * stacks->hit_ns / part->calls_per_s : 0;
	}
	return ns;
}

/* What the records of graphs' parts take for a call, by the estimate: with those of kernels they
 * go, too. */
static int64_t parts_ns(const struct cost *cost, const struct cost_part *part)
{
	int64_t rest_ns = part->hit_ns - HIT_EXACT_NS - stacks_ns(cost, part);

	return cost_part_is(part, "exact") && rest_ns > 0 ? rest_ns : 0;
}

static size_t foresee_records(const struct cost *cost, const struct cost_part *part,
			      struct foreseen *ret)
{
	double rate = (double)part->calls_per_s * (double)part->watched / COST_PPM;
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int64_t more_ns = kinds[i].record == TS_RECORD_KERNELS ? parts_ns(cost, part) : 0;
		int64_t low_ns = kinds[i].low_ns + more_ns, high_ns = kinds[i].high_ns + more_ns;
		double each_ns = (double)(low_ns + high_ns) / 2;

		if (!(part->records & kinds[i].record))
			continue;
		ret[count] = (struct foreseen){
			.kind = FORESEEN_RECORDS,
			.rate = (int64_t)rate,
			.each_low_ns = low_ns,
			.each_high_ns = high_ns,
		};
		snprintf(ret[count].setting, sizeof(ret->setting), "%s", kinds[i].setting);
		count += foresee_saving(part, rate * each_ns * COST_PPM / NS_PER_S, &ret[count]);
	}
	if (!cost_part_is(part, "exact") || cost->budget || part->cost.middle <= OFFERED)
		return count;
	ret[count] = (struct foreseen){
		.kind = FORESEEN_RECORDS,
		.setting = "tsctl attach --budget 3%",
		.then = { .middle = OFFERED },
	};
	return count + 1;
}

size_t cost_foresee(const struct cost *cost, struct foreseen ret[FORESEEN_MAX])
{
	const struct cost_part *part = cost_budgeted(cost);
	size_t count;

	if (!part)
		return 0;
	count = foresee_budgets(cost, part, ret);
	count += foresee_stacks(cost, part, &ret[count]);
	count += foresee_light(part, &ret[count]);
	return count + foresee_records(cost, part, &ret[count]);
}
