/* Measure: a price that somebody wants to know now. */
#include <errno.h>

#include "core/base/time.h"
#include "daemon/price/internal.h"
#include "daemon/proc/procfs.h"

#define LATELY_NS (2 * NS_PER_S)

/* Why a measurement of it would come to nothing, a negative errno. */
static int price_check(struct price *price, struct priced *priced)
{
	uint64_t now_ns = uv_hrtime();
	struct price_tier tier;

	if (!price->config.windows)
		return -EOPNOTSUPP;
	if (!priced)
		return -ESRCH;
	if (halt_look(&priced->halt, procfs_state(priced->pid), now_ns))
		return -EAGAIN;
	/* In the hands of a tracer it makes none. */
	if (!priced->halt.since_ns && !(priced->watch.rate > 0) &&
	    priced->hot_ns + LATELY_NS < now_ns)
		return -ESRCH;
	price->callbacks.tier(price->data, priced->pid, &tier);
	if (tier.exact && !tier.windows)
		return -EBUSY;
	return libraries_has(price->libraries, priced->pid) ? 0 : -ENXIO;
}

static bool priced_is_measured(const struct priced *priced)
{
	return watch_price(&priced->watch).basis == WATCH_MEASURED;
}

/* By a change of its budget. */
static bool priced_is_interrupted(const struct priced *priced)
{
	return !watch_is_measuring(&priced->watch) && !priced_is_measured(priced) &&
	       !watch_is_paceless(&priced->watch);
}

int price_measure(struct price *price, uint32_t pid, bool start, struct price_measuring *ret)
{
	struct priced *priced = price_find(price, pid);
	int r = price_check(price, priced);

	if (r < 0)
		return r;
	if (start || priced_is_interrupted(priced)) {
		if (priced->watch.phase == WATCH_WHOLE)
			price_take_whole(price, priced, priced->exact, priced->watch.ticked_ns);
		watch_measure(&priced->watch);
		price_take_cycle(price, priced);
		price_run(price, 0);
	}
	ret->busy = watch_is_measuring(&priced->watch);
	ret->turns = priced->watch.pairs;
	ret->wanted = priced->watch.wanted;
	if (!ret->busy && !priced_is_measured(priced))
		return -ENODATA;
	/* The row says so before the answer does. */
	if (!ret->busy) {
		priced->reported_ns = 0;
		price_report(price, priced, uv_hrtime());
	}
	return 0;
}
