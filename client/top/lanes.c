/* Lanes: each reply moves all columns by one. Of what became known late, the part that the time of
 * the reply has no room for was before it. A lane goes when it is empty. */
#include "client/top/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/vector.h"

typedef Tracesmith__V1__LiveReply Live;
typedef Tracesmith__V1__LiveReply__Stream Stream;

static struct map_key key_of(uint32_t stream)
{
	return (struct map_key){ stream, 0 };
}

static bool is_empty(const struct top_lane *lane)
{
	static const struct lane_column none[LANES_HISTORY];

	return memcmp(lane->column, none, sizeof(none)) == 0;
}

/* Those that stay; ids of streams are never used again. */
static void move_all(struct top_lanes *lanes)
{
	size_t kept = 0;

	for (size_t i = 0; i < lanes->count; i++) {
		struct top_lane *lane = lanes->lane[i];

		memmove(lane->column, lane->column + 1,
			sizeof(lane->column) - sizeof(*lane->column));
		lane->column[LANES_HISTORY - 1] = (struct lane_column){ 0 };
		if (is_empty(lane)) {
			map_remove(&lanes->by_stream, key_of(lane->stream));
			free(lane);
		} else {
			lanes->lane[kept++] = lane;
		}
	}
	lanes->count = kept;
}

static int lane_get(struct top_lanes *lanes, uint32_t process, uint32_t stream,
		    struct top_lane **ret)
{
	_cleanup_(freep) struct top_lane *lane = NULL;

	*ret = map_get(&lanes->by_stream, key_of(stream));
	if (*ret || lanes->count == LANES_MAX)
		return 0;
	lane = calloc(1, sizeof(*lane));
	if (!lane || VECTOR_ROOM(lanes->lane, lanes->room, lanes->count + 1) < 0 ||
	    map_put(&lanes->by_stream, key_of(stream), lane) < 0)
		return -ENOMEM;
	lane->process = process;
	lane->stream = stream;
	*ret = lane;
	lanes->lane[lanes->count++] = TAKE(lane);
	return 0;
}

/* From the latest column back. */
static void fill(struct top_lane *lane, size_t kind, uint64_t ns, uint64_t span_ns)
{
	double left = (double)ns / (double)span_ns * LANES_WHOLE + 0.5;

	for (size_t i = LANES_HISTORY; left >= 1 && i-- > 0;) {
		struct lane_column *column = &lane->column[i];
		const int room = LANES_WHOLE - column->running - column->pending - column->waiting;
		const uint8_t taken = (uint8_t)(left < room ? left : room);

		*(kind == 0   ? &column->running
		  : kind == 1 ? &column->pending
			      : &column->waiting) += taken;
		left -= taken;
	}
}

int lanes_apply(struct top_lanes *lanes, const Live *live)
{
	if (live->span_ns == 0)
		return 0;
	move_all(lanes);
	for (size_t i = 0; i < live->n_process; i++) {
		for (size_t k = 0; k < live->process[i]->n_stream; k++) {
			const Stream *said = live->process[i]->stream[k];
			struct top_lane *lane;
			int r = lane_get(lanes, live->process[i]->id, said->id, &lane);

			if (r < 0)
				return r;
			if (!lane)
				continue;
			lane->device = said->device;
			lane->bounds = said->bounds;
			fill(lane, 0, said->running_ns, live->span_ns);
			fill(lane, 1, said->pending_ns, live->span_ns);
			fill(lane, 2, said->waiting_ns, live->span_ns);
		}
	}
	return 0;
}

static bool is_before(const struct top_lane *a, const struct top_lane *b)
{
	return a->device != b->device ? a->device < b->device : a->stream < b->stream;
}

size_t lanes_of(const struct top_lanes *lanes, uint32_t process, const struct top_lane **ret,
		size_t max)
{
	size_t count = 0;

	for (size_t i = 0; i < lanes->count; i++) {
		const struct top_lane *lane = lanes->lane[i];
		size_t at = count < max ? count : max;

		if (lane->process != process)
			continue;
		for (; at > 0 && is_before(lane, ret[at - 1]); at--)
			if (at < max)
				ret[at] = ret[at - 1];
		if (at < max)
			ret[at] = lane;
		count++;
	}
	return count;
}

void lanes_clear(struct top_lanes *lanes)
{
	for (size_t i = 0; i < lanes->count; i++)
		free(lanes->lane[i]);
	free(lanes->lane);
	map_clear(&lanes->by_stream);
	*lanes = (struct top_lanes){ 0 };
}
