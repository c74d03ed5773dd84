/* Check: walks along each pair of streams, and of threads, to the first difference. */
#include "core/replay/check.h"

#include <errno.h>
#include <stdlib.h>

#include "core/replay/check_lanes.h"

const char *check_field_name(enum check_field field)
{
	static const char *const names[CHECK_FIELD_COUNT] = {
#define X(id, name, value) [CHECK_FIELD_##id] = name,
		CHECK_FIELDS(X)
#undef X
	};

	return names[field];
}

struct check *check_free(struct check *check)
{
	if (!check)
		return NULL;
	check_lanes_free(check->lanes[0]);
	check_lanes_free(check->lanes[1]);
	free(check->lane);
	free(check);
	return NULL;
}

/* What a check is made with. */
struct work {
	const struct check_side *side;
	struct check *check;
	uint32_t tolerance_ppm;
	uint64_t *place[2]; /* where the dependencies of one item are */
	uint32_t *apart;    /* of each duration, in parts per million */
	size_t apart_count;
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int by_ppm(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The positions of an item's dependencies, in the numbers of A, sorted. */
static uint32_t places_of(const struct work *work, int of, bool thread, uint32_t item)
{
	const struct plan *plan = work->side[of].plan;
	const struct check_lanes *lanes = work->check->lanes[of];
	uint32_t first = thread ? plan->call[item].edge : plan->work[item].edge;
	uint32_t edges = thread ? plan->call[item].edge_count : plan->work[item].edge_count;
	uint32_t count = 0;

	for (uint32_t i = 0; i < edges; i++) {
		const struct plan_edge *edge = &plan->edge[first + i];
		struct check_place place = lanes->place[edge->work];

		if (!check_lanes_counts(lanes, plan, item, thread ? PLAN_NONE : item, edge))
			continue;
		/* Without a mate it is unknown in A. */
		if (of == 1)
			place.lane = lanes->half[place.lane].mate;
		work->place[of][count++] = (uint64_t)place.lane << 32 | place.at;
	}
	qsort(work->place[of], count, sizeof(uint64_t), by_value);
	return count;
}

/* When the item stopped waiting: for a work its start, but a mark has no time of its own, so the
 * next timed one on its stream. */
static uint64_t waited_until(const struct work *work, int of, bool thread, uint32_t item)
{
	const struct plan *plan = work->side[of].plan;
	const struct check_lanes *lanes = work->check->lanes[of];
	const struct check_half *half;
	uint32_t at;

	if (thread)
		return plan->call[item].end_ns;
	half = &lanes->half[lanes->place[item].lane];
	at = lanes->place[item].at;
	while (plan->work[item].flags & (PLAN_MARK | PLAN_UNTIMED) && ++at < half->count)
		item = lanes->item[half->first + at];
	return plan->work[item].start_ns;
}

/* A plan leaves out a dependency that its times contradict. If that is caused by clocks it says
 * nothing about the program. */
static bool contradicts(const struct work *work, int of, bool thread, uint32_t item, uint64_t place)
{
	const struct plan *plan = work->side[of].plan;
	const struct check_lanes *lanes = work->check->lanes[of];
	uint32_t lane = (uint32_t)(place >> 32), at = (uint32_t)place;
	uint64_t by_ns = waited_until(work, of, thread, item), end_ns;

	if (lane < work->check->lanes[0]->count && of == 1)
		lane = work->check->lanes[0]->half[lane].mate;
	if (lane >= lanes->count || at >= lanes->half[lane].count)
		return false;
	end_ns = plan->work[lanes->item[lanes->half[lane].first + at]].end_ns;
	return end_ns > by_ns && end_ns - by_ns <= CHECK_CLOCK_NS;
}

static bool same_places(const struct work *work, bool thread, const uint32_t item[2])
{
	uint32_t count[2] = { places_of(work, 0, thread, item[0]),
			      places_of(work, 1, thread, item[1]) };
	uint32_t i[2] = { 0, 0 };

	while (i[0] < count[0] || i[1] < count[1]) {
		uint64_t a = i[0] < count[0] ? work->place[0][i[0]] : UINT64_MAX;
		uint64_t b = i[1] < count[1] ? work->place[1][i[1]] : UINT64_MAX;

		i[0] += a <= b;
		i[1] += b <= a;
		if (a < b && !contradicts(work, 1, thread, item[1], a))
			return false;
		if (b < a && !contradicts(work, 0, thread, item[0], b))
			return false;
	}
	return true;
}

/* Of works that both have times. */
static bool same_duration(struct work *work, const uint32_t item[2])
{
	uint64_t ns[2], apart, ppm;

	for (int of = 0; of < 2; of++) {
		const struct plan_work *is = &work->side[of].plan->work[item[of]];

		if (is->flags & (PLAN_UNTIMED | PLAN_MARK))
			return true;
		ns[of] = is->end_ns - is->start_ns;
	}
	apart = ns[0] > ns[1] ? ns[0] - ns[1] : ns[1] - ns[0];
	ppm = (uint64_t)((double)apart * 1e6 / (double)(ns[0] ? ns[0] : 1));
	work->apart[work->apart_count++] = ppm < UINT32_MAX ? (uint32_t)ppm : UINT32_MAX;
	if (work->tolerance_ppm == 0)
		return apart == 0;
	return work->tolerance_ppm == CHECK_ANY_DURATION || apart <= CHECK_CLOCK_NS ||
	       ppm <= work->tolerance_ppm;
}

static enum check_field differing(const struct work *work, bool thread, const uint32_t item[2])
{
	const struct op *op[2];

	for (int of = 0; of < 2; of++) {
		const struct plan *plan = work->side[of].plan;

		op[of] = &plan->op[thread ? plan->call[item[of]].op : plan->work[item[of]].op];
	}
	for (int field = 0; field < CHECK_FIELD_COUNT; field++)
		if (check_field_value(&work->side[0], op[0], field) !=
		    check_field_value(&work->side[1], op[1], field))
			return field;
	return CHECK_FIELD_KIND;
}

/* A different duration is the smallest difference: the rest is compared all the same. */
static void differ(struct check_lane *lane, enum check_what what, uint32_t at)
{
	if (what == CHECK_DURATION && lane->durations++ > 0)
		return;
	lane->what = what;
	lane->at = at;
}

static void compare(struct work *work, struct check_lane *lane, const uint64_t *const key[2])
{
	uint32_t count = lane->count[0] < lane->count[1] ? lane->count[0] : lane->count[1], i;

	for (i = 0; i < count; i++) {
		const uint32_t item[2] = { lane->item[0][i], lane->item[1][i] };

		if (key[0][i] != key[1][i]) {
			differ(lane, CHECK_FIELD, i);
			lane->field = differing(work, lane->thread, item);
			break;
		}
		if (!same_places(work, lane->thread, item)) {
			differ(lane, CHECK_DEPENDENCY, i);
			break;
		}
		if (!lane->thread && !same_duration(work, item))
			differ(lane, CHECK_DURATION, i);
	}
	work->check->compared += i;
	if (i == count && lane->count[0] != lane->count[1])
		differ(lane, CHECK_END, i);
}

/* A lane for one side's half, with its mate if it has one. */
static void add_lane(struct work *work, int of, uint32_t half)
{
	struct check *check = work->check;
	struct check_lane *lane = &check->lane[check->lane_count++];
	const struct check_half *first = &check->lanes[of]->half[half];
	const uint64_t *key[2];

	*lane = (struct check_lane){
		.thread = first->thread,
		.process = first->process,
		.number = first->number,
		.index = { PLAN_NONE, PLAN_NONE },
	};
	for (int i = 0; i < 2; i++) {
		const struct check_lanes *lanes = check->lanes[i];
		uint32_t is = i == of ? half : first->mate;

		if (is == PLAN_NONE)
			continue;
		lane->index[i] = lanes->half[is].index;
		lane->item[i] = lanes->item + lanes->half[is].first;
		lane->count[i] = lanes->half[is].count;
		key[i] = lanes->key + lanes->half[is].first;
	}
	if (first->mate == PLAN_NONE)
		lane->what = CHECK_MISSING;
	else
		compare(work, lane, key);
	check->different += lane->what != CHECK_SAME;
}

static int prepare(struct work *work)
{
	struct check *check = work->check;
	size_t edges[2];

	for (int of = 0; of < 2; of++) {
		int r = check_lanes_new(&work->side[of], &check->lanes[of]);

		if (r < 0)
			return r;
		check->process_count[of] = check->lanes[of]->process_count;
		edges[of] = (size_t)work->side[of].plan->edge_count + 1;
		work->place[of] = calloc(edges[of], sizeof(uint64_t));
	}
	work->apart = calloc((size_t)work->side[0].plan->work_count + 1, sizeof(*work->apart));
	check->lane = calloc((size_t)check->lanes[0]->count + check->lanes[1]->count + 1,
			     sizeof(*check->lane));
	if (!work->place[0] || !work->place[1] || !work->apart || !check->lane)
		return -ENOMEM;
	return check_lanes_match(work->side, check->lanes);
}

static void compare_all(struct work *work)
{
	struct check *check = work->check;
	size_t count;

	for (uint32_t i = 0; i < check->lanes[0]->count; i++)
		add_lane(work, 0, i);
	for (uint32_t i = 0; i < check->lanes[1]->count; i++)
		if (check->lanes[1]->half[i].mate == PLAN_NONE)
			add_lane(work, 1, i);
	count = work->apart_count;
	check->durations = count;
	if (count == 0)
		return;
	qsort(work->apart, count, sizeof(*work->apart), by_ppm);
	check->p50_ppm = work->apart[(count - 1) / 2];
	check->p99_ppm = work->apart[(count - 1) * 99 / 100];
}

int check_run(const struct check_side side[2], uint32_t tolerance_ppm, struct check **ret)
{
	_cleanup_(check_freep) struct check *check = calloc(1, sizeof(*check));
	struct work work = { .side = side, .check = check, .tolerance_ppm = tolerance_ppm };
	int r;

	if (!check)
		return -ENOMEM;
	r = prepare(&work);
	if (r == 0)
		compare_all(&work);
	free(work.place[0]);
	free(work.place[1]);
	free(work.apart);
	if (r == 0)
		*ret = TAKE(check);
	return r;
}
