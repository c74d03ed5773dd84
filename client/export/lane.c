/* Export lane: slices of a lane come in order of their starts, so that a reader in that order meets
 * every end before what follows it. */
#include "client/export/lane.h"

#include <stdlib.h>

#include "core/base/vector.h"

/* Number of the lane's open slices at the start of a new one; LANE_DEPTH: it does not fit. */
static uint32_t depth_at(const struct lane *lane, uint64_t start_ns, uint64_t end_ns, bool nest)
{
	uint32_t depth = lane->depth;

	if (start_ns < lane->start_ns)
		return LANE_DEPTH;
	while (depth > 0 && lane->end_ns[depth - 1] <= start_ns)
		depth--;
	if (depth > 0 && (!nest || lane->end_ns[depth - 1] < end_ns))
		return LANE_DEPTH;
	return depth;
}

static struct lane *put(struct lane *lane, uint32_t depth, uint64_t start_ns, uint64_t end_ns)
{
	lane->start_ns = start_ns;
	lane->end_ns[depth] = end_ns;
	lane->depth = depth + 1;
	return lane;
}

struct lane *lanes_take(struct lanes *lanes, uint64_t start_ns, uint64_t end_ns, bool nest)
{
	for (uint32_t i = 0; i < lanes->count; i++) {
		uint32_t depth = depth_at(&lanes->lane[i], start_ns, end_ns, nest);

		if (depth < LANE_DEPTH)
			return put(&lanes->lane[i], depth, start_ns, end_ns);
	}
	if (VECTOR_ROOM(lanes->lane, lanes->size, lanes->count + 1) < 0)
		return NULL;
	lanes->lane[lanes->count] = (struct lane){ 0 };
	return put(&lanes->lane[lanes->count++], 0, start_ns, end_ns);
}

struct lanes *rows_get(struct rows *rows, uint64_t what, uint64_t id)
{
	struct map_key key = { what, id };
	struct lanes *lanes = map_get(&rows->map, key);

	if (lanes)
		return lanes;
	lanes = calloc(1, sizeof(*lanes));
	if (!lanes || map_put(&rows->map, key, lanes) < 0) {
		free(lanes);
		return NULL;
	}
	lanes->next = rows->first;
	rows->first = lanes;
	return lanes;
}

void rows_clear(struct rows *rows)
{
	while (rows->first) {
		struct lanes *next = rows->first->next;

		free(rows->first->lane);
		free(rows->first);
		rows->first = next;
	}
	map_clear(&rows->map);
}
