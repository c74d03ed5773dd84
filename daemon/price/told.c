/* Told: what each process pays, as it is reported: at most once a second, and when it has changed.
 */
#include <math.h>

#include "core/base/time.h"
#include "daemon/price/internal.h"

#define REPORT_NS NS_PER_S
#define ALIKE	  0.0005

static bool told_is_like(const struct price_told *told, const struct price_told *other)
{
	const struct watch_price *a = &told->price, *b = &other->price;

	return told->budget == other->budget && told->until_ns == other->until_ns &&
	       told->hit_ns == other->hit_ns && a->basis == b->basis && a->pairs == b->pairs &&
	       a->over == b->over && fabs(a->now - b->now) < ALIKE &&
	       fabs(a->share - b->share) < ALIKE;
}

static struct price_told priced_tell(const struct priced *priced)
{
	const struct given_budget *given = priced_given(priced);

	/* A recording's goes on as long as somebody renews it. */
	if (given == &priced->given[PRICE_BY_RECORDING])
		given = NULL;
	return (struct price_told){
		.part = priced_told_part(priced),
		.price = watch_price(&priced->watch),
		.budget = priced->recorded ? priced->kept : priced->watch.config.budget,
		.until_ns = given ? given->until_ns : 0,
		.hit_ns = priced->watch.config.hit_ns,
	};
}

static void price_report_walks(struct price *price, struct priced *priced, uint64_t now_ns)
{
	bool first = !priced->reported_walks.part;
	struct price_told told = { .part = PRICE_STACKS };
	struct walks_price walks;

	walks_tick(&priced->walks, now_ns);
	walks = walks_price(&priced->walks);
	told.hit_ns = walks.each_ns;
	told.price = (struct watch_price){
		.whole = walks.cost / priced->watch.had,
		.now = walks.cost / priced->watch.had,
		.cold = walks.always / priced->watch.had,
		.share = 1,
		.rate = walks.rate,
	};
	if (first ? !walks.each_ns
		  : fabs(told.price.now - priced->reported_walks.price.now) < ALIKE)
		return;
	priced->reported_walks = told;
	price->callbacks.price(price->data, priced->pid, &told);
}

void price_report(struct price *price, struct priced *priced, uint64_t now_ns)
{
	bool first = !priced->reported_ns;
	struct price_told told;

	if (now_ns < priced->reported_ns + (uint64_t)REPORT_NS)
		return;
	priced->reported_ns = now_ns;
	price_report_walks(price, priced, now_ns);
	told = priced_tell(priced);
	/* What goes to the store wakes a disk. */
	if (!first && told_is_like(&told, &priced->reported))
		return;
	priced->reported = told;
	price->callbacks.price(price->data, priced->pid, &told);
}

void price_each(struct price *price,
		void (*each)(void *data, uint32_t pid, const struct price_told *told), void *data)
{
	struct priced *priced;
	struct price_told told;

	list_for_each(priced, &price->processes, link) {
		told = priced_tell(priced);
		each(data, priced->pid, &told);
	}
}
