/* Told: what each process pays, as it is reported: at most once a second, and when it has changed.
 */
#include <math.h>

#include "core/base/time.h"
#include "daemon/price/internal.h"

#define REPORT_NS  NS_PER_S
#define ALIKE	   0.0005
#define RATE_ALIKE 2

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
		.inside_ns = priced->inside_ns,
	};
}

void price_report_nothing(struct price *price, const struct priced *priced, enum price_part part)
{
	const struct price_told nothing = { .part = part, .price = { .basis = WATCH_MEASURED } };

	price->callbacks.price(price->data, priced->pid, &nothing);
}

/* Those of the kernel are averages, which fade while a process is idle: that is not told. */
static bool stacks_are_like(const struct price_told *reported, double cost, double rate)
{
	const struct watch_price *before = &reported->price;

	if (fabs(cost - before->now) >= ALIKE)
		return false;
	return reported->part == PRICE_STACKS ||
	       (rate <= RATE_ALIKE * before->rate && before->rate <= RATE_ALIKE * rate);
}

static void price_report_stacks(struct price *price, const struct priced *priced,
				enum price_part part, const struct walks_price *walks,
				struct price_told *reported)
{
	double cost = walks->cost / priced->watch.had, always = walks->always / priced->watch.had;

	if (reported->part ? stacks_are_like(reported, cost, walks->rate) : !(walks->rate > 0))
		return;
	*reported = (struct price_told){
		.part = part,
		.hit_ns = walks->each_ns,
		.price = { .whole = cost,
			   .now = cost,
			   .cold = always,
			   .share = 1,
			   .rate = walks->rate },
	};
	price->callbacks.price(price->data, priced->pid, reported);
}

static void price_report_walks(struct price *price, struct priced *priced, uint64_t now_ns)
{
	struct walks *walks = &priced->walks;
	struct walks_price inside, kernel;

	walks_tick(walks, now_ns);
	kernel = walks_price(walks);
	price_report_stacks(price, priced, PRICE_STACKS, &kernel, &priced->reported_walks);
	inside = walks_price_inside(walks, priced->watch.rate, priced->walk_ns);
	if (priced->walk_ns) {
		price_report_stacks(price, priced, PRICE_STACKS_INSIDE, &inside,
				    &priced->reported_inside);
	} else if (priced->reported_inside.part) {
		price_report_nothing(price, priced, PRICE_STACKS_INSIDE);
		priced->reported_inside.part = 0;
	}
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

static enum price_part priced_part(const struct priced *priced)
{
	return priced->exact ? PRICE_EXACT : PRICE_PROBES;
}

void price_tell_parts(struct price *price, struct priced *priced, uint64_t since_ns,
		      uint64_t now_ns)
{
	const struct price_callbacks *callbacks = &price->callbacks;

	if (since_ns == priced->parted_ns)
		return;
	if (priced->parted_ns)
		callbacks->whole_again(price->data, priced->pid, priced->parted, now_ns);
	priced->parted_ns = since_ns;
	priced->parted = priced_part(priced);
	if (since_ns)
		callbacks->parted(price->data, priced->pid, priced->parted, since_ns);
}

void price_take_cycle(struct price *price, struct priced *priced)
{
	struct watch_cycle cycle;

	while (watch_take_cycle(&priced->watch, &cycle)) {
		tally_cycle(&priced->tally, &cycle);
		price->callbacks.cycle(price->data, priced->pid, priced_part(priced), &cycle);
	}
}

void price_take_whole(struct price *price, struct priced *priced, bool recorded, uint64_t now_ns)
{
	uint64_t hits = tally_take(&priced->tally, now_ns);

	if (recorded && hits)
		price->callbacks.whole(price->data, priced->pid, now_ns, hits);
}

void price_tell(struct price *price, uint64_t now_ns)
{
	struct priced *priced;

	list_for_each(priced, &price->processes, link) {
		watch_tell(&priced->watch, now_ns);
		price_take_cycle(price, priced);
	}
}
