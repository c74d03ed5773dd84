/* parked: a backlog and a lane for each process that waits. There is none at most times, and rarely
 * more than one. */
#include "daemon/probe/parked.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"

void parking_init(struct parking *parking, uint64_t max, uint64_t wait_ns)
{
	*parking = (struct parking){ .wait_ns = wait_ns, .bytes = { .total = max } };
	list_init(&parking->parked);
}

static void parked_free(struct parking *parking, struct parked *parked)
{
	quota_give(&parking->bytes, parked->uid, parked->backlog.bytes);
	backlog_clear(&parked->backlog);
	intake_lane_close(&parked->lane);
	list_remove(&parked->link);
	parking->count--;
	free(parked);
}

void parking_clear(struct parking *parking)
{
	struct parked *parked;

	list_for_each(parked, &parking->parked, link)
		parked_free(parking, parked);
	quota_release(&parking->bytes);
}

struct parked *parking_find(const struct parking *parking, uint32_t tgid)
{
	struct parked *parked;

	list_for_each(parked, &parking->parked, link)
		if (parked->tgid == tgid)
			return parked;
	return NULL;
}

struct parked *parking_begin(struct parking *parking, uint32_t tgid, uint32_t uid,
			     struct intake *intake, uint32_t input, uint64_t time_ns,
			     uint64_t now_ns)
{
	struct parked *parked;

	if (parking->count >= LIMIT_PROBE_PARKED)
		return NULL;
	parked = calloc(1, sizeof(*parked));
	if (!parked)
		return NULL;
	parked->tgid = tgid;
	parked->uid = uid;
	parked->since_ns = now_ns;
	backlog_init(&parked->backlog, SIZE_MAX);
	intake_lane_open(&parked->lane, intake, input, time_ns);
	intake_lane_stall(&parked->lane, true);
	list_append(&parking->parked, &parked->link);
	parking->count++;
	return parked;
}

static void parked_go_on(struct parked *parked, bool in_vain)
{
	parked->goes_on = true;
	parked->in_vain |= in_vain;
}

int parking_put(struct parking *parking, struct parked *parked, const void *record, size_t size)
{
	int r;

	if (!quota_take(&parking->bytes, parked->uid, size)) {
		parked_go_on(parked, true);
		r = quota_charge(&parking->bytes, parked->uid, size);
		if (r < 0)
			return r;
	}
	r = backlog_put(&parked->backlog, record, size);
	if (r < 0)
		quota_give(&parking->bytes, parked->uid, size);
	return r;
}

bool parking_is_full(const struct parking *parking)
{
	return parking->bytes.used >= parking->bytes.total;
}

void parking_go_on(struct parking *parking, uint32_t tgid, bool in_vain)
{
	struct parked *parked = parking->count ? parking_find(parking, tgid) : NULL;

	if (parked)
		parked_go_on(parked, in_vain);
}

void parking_all_go_on(struct parking *parking)
{
	struct parked *parked;

	list_for_each(parked, &parking->parked, link)
		parked_go_on(parked, true);
}

void parking_look(struct parking *parking, uint64_t now_ns)
{
	struct parked *parked;

	list_for_each(parked, &parking->parked, link)
		if (!parked->in_vain && now_ns - parked->since_ns >= parking->wait_ns)
			parked_go_on(parked, true);
}

const void *parked_first(const struct parked *parked, size_t *ret_size)
{
	if (!parked->goes_on || intake_lane_holds(&parked->lane))
		return NULL;
	return backlog_first(&parked->backlog, ret_size);
}

void parked_drop_first(struct parking *parking, struct parked *parked)
{
	size_t before = parked->backlog.bytes;

	backlog_drop_first(&parked->backlog);
	quota_give(&parking->bytes, parked->uid, before - parked->backlog.bytes);
}

void parked_end_if_done(struct parking *parking, struct parked *parked)
{
	if (parked->goes_on && backlog_is_empty(&parked->backlog) &&
	    !intake_lane_holds(&parked->lane))
		parked_free(parking, parked);
}
