/* Walks: averages over about a minute, of which the windows of a process are a fair part. */
#include "core/price/walks.h"

#include <math.h>

#include "core/base/time.h"

#define LATELY_NS (60 * NS_PER_S)
#define NONE	  0.5 /* less than a walk is left of what there was */

void walks_add(struct walks *walks, enum walk_kind kind, uint64_t count, uint64_t ns)
{
	walks->count[kind] += (double)count;
	walks->ns[kind] += (double)ns;
}

void walks_tick(struct walks *walks, uint64_t now_ns)
{
	double passed_ns = walks->ticked_ns ? (double)(now_ns - walks->ticked_ns) : 0;
	double kept = exp(-passed_ns / LATELY_NS);

	walks->ticked_ns = now_ns;
	walks->all_ns += passed_ns;
	for (int kind = 0; kind < WALK_KINDS; kind++) {
		walks->count[kind] *= kept;
		walks->ns[kind] *= kept;
	}
	walks->all_ns *= kept;
}

struct walks_price walks_price(const struct walks *walks)
{
	double count = walks->count[WALK_SAMPLED] + walks->count[WALK_ALWAYS];
	double ns = walks->ns[WALK_SAMPLED] + walks->ns[WALK_ALWAYS];

	if (!(walks->all_ns > 0) || count < NONE)
		return (struct walks_price){ 0 };
	return (struct walks_price){
		.cost = ns / walks->all_ns,
		.always = walks->ns[WALK_ALWAYS] / walks->all_ns,
		.rate = count * NS_PER_S / walks->all_ns,
		.each_ns = (uint64_t)(ns / count),
	};
}
