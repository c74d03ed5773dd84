/* Bound: the debt of a process, and for how long it is left out. */
#include "core/price/bound.h"

#include <math.h>
#include <stddef.h>

bool bound_is_out(const struct bound *bound)
{
	for (size_t i = 0; i < BOUND_GROUPS; i++)
		if (bound->out[i])
			return true;
	return false;
}

static void bound_let_in(struct bound *bound, uint64_t now_ns)
{
	for (size_t i = 0; i < BOUND_GROUPS; i++)
		bound->out[i] = false;
	bound->back_ns = now_ns;
	bound->debt_ns = 0;
}

/* Who behaves for as long as it was out starts anew. */
static void bound_begin(struct bound *bound, const struct bound_config *config, uint64_t now_ns)
{
	bool again = bound->length_ns && now_ns - bound->back_ns < bound->length_ns;

	bound->length_ns = again ? 2 * bound->length_ns : config->min_ns;
	if (bound->length_ns > config->max_ns)
		bound->length_ns = config->max_ns;
	bound->until_ns = now_ns + bound->length_ns;
}

static void bound_leave_out(struct bound *bound, const struct bound_config *config, size_t group,
			    uint64_t now_ns)
{
	if (!bound_is_out(bound))
		bound_begin(bound, config, now_ns);
	bound->out[group] = true;
}

/* The group in which most was spent, BOUND_GROUPS: nothing in any that it is not out of. */
static size_t bound_worst(const struct bound *bound, const double spent_ns[BOUND_GROUPS])
{
	size_t worst = BOUND_GROUPS;

	for (size_t i = 0; i < BOUND_GROUPS; i++)
		if (!bound->out[i] && spent_ns[i] > 0 &&
		    (worst == BOUND_GROUPS || spent_ns[i] > spent_ns[worst]))
			worst = i;
	return worst;
}

static double sum(const double spent_ns[BOUND_GROUPS])
{
	double all = 0;

	for (size_t i = 0; i < BOUND_GROUPS; i++)
		all += spent_ns[i];
	return all;
}

/* Out of the worst group, and of others that would be too much by themselves. */
static void bound_enforce(struct bound *bound, const struct bound_config *config, uint64_t now_ns)
{
	double elapsed_ns = (double)(now_ns - bound->since_ns);
	size_t worst = bound_worst(bound, bound->spent_ns);

	bound->share = sum(bound->spent_ns) / elapsed_ns;
	for (size_t i = 0; i < BOUND_GROUPS; i++)
		if (i == worst || bound->spent_ns[i] > config->limit * elapsed_ns)
			bound_leave_out(bound, config, i, now_ns);
	bound->debt_ns = 0;
}

static double debt_after(const struct bound *bound, const struct bound_config *config,
			 double elapsed_ns, const double spent_ns[BOUND_GROUPS])
{
	return fmax(bound->debt_ns + sum(spent_ns) - config->limit * elapsed_ns, 0);
}

static bool is_too_much(const struct bound_config *config, double debt_ns)
{
	return debt_ns > config->limit * (double)config->burst_ns;
}

bool bound_is_due(const struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		  const double spent_ns[BOUND_GROUPS])
{
	double elapsed_ns = bound->ticked_ns ? (double)(now_ns - bound->ticked_ns) : 0;

	return config->limit > 0 && elapsed_ns > 0 &&
	       is_too_much(config, debt_after(bound, config, elapsed_ns, spent_ns));
}

void bound_forgive(struct bound *bound)
{
	bound->debt_ns = 0;
}

bool bound_tick(struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		const double spent_ns[BOUND_GROUPS])
{
	double elapsed_ns = bound->ticked_ns ? (double)(now_ns - bound->ticked_ns) : 0;
	uint64_t before_ns = bound->ticked_ns;

	bound->ticked_ns = now_ns;
	if (bound_is_out(bound) && (now_ns >= bound->until_ns || !(config->limit > 0))) {
		bound_let_in(bound, now_ns);
		return true;
	}
	if (!(config->limit > 0) || !(elapsed_ns > 0))
		return false;
	if (!(bound->debt_ns > 0)) {
		bound->since_ns = before_ns;
		for (size_t i = 0; i < BOUND_GROUPS; i++)
			bound->spent_ns[i] = 0;
	}
	for (size_t i = 0; i < BOUND_GROUPS; i++)
		bound->spent_ns[i] += spent_ns[i];
	bound->debt_ns = debt_after(bound, config, elapsed_ns, spent_ns);
	if (!is_too_much(config, bound->debt_ns))
		return false;
	bound_enforce(bound, config, now_ns);
	return true;
}

bool bound_put_out(struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		   const double spent_ns[BOUND_GROUPS], uint64_t lately_ns)
{
	size_t worst = bound_worst(bound, spent_ns);

	if (worst == BOUND_GROUPS)
		return false;
	bound_leave_out(bound, config, worst, now_ns);
	bound->share = sum(spent_ns) / (double)lately_ns;
	bound->debt_ns = 0;
	return true;
}
