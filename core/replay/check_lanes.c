/* Check lanes: sorts works by stream and calls by thread, hashes them, and finds for each stream
 * and thread of one side its mate on the other. */
#include "core/replay/check_lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/map.h"

#define BEGIN 4 /* items needed to tell streams apart that continue differently */

/* To find the mate among several that are alike: */
#define HALVES_TRIED 64
#define EDGES_LOOKED 256

/* Kinds of calls that do something; others set up or ask. */
#define CALLS                                                                                      \
	(1u << OP_LAUNCH | 1u << OP_ALLOC | 1u << OP_FREE | 1u << OP_COPY | 1u << OP_SET |         \
	 1u << OP_SYNC | 1u << OP_EVENT | 1u << OP_STREAM | 1u << OP_GRAPH | 1u << OP_MEMORY)

struct check_lanes *check_lanes_free(struct check_lanes *lanes)
{
	if (!lanes)
		return NULL;
	free(lanes->half);
	free(lanes->item);
	free(lanes->key);
	free(lanes->place);
	free(lanes);
	return NULL;
}

static const struct op *op_of(const struct plan *plan, bool thread, uint32_t item)
{
	return &plan->op[thread ? plan->call[item].op : plan->work[item].op];
}

uint64_t check_field_value(const struct check_side *side, const struct op *op,
			   enum check_field field)
{
	if (side->ignored & 1u << field)
		return 0;
	switch (field) {
#define X(id, name, value)                                                                         \
	case CHECK_FIELD_##id:                                                                     \
		return value;
		CHECK_FIELDS(X)
#undef X
	case CHECK_FIELD_COUNT:
		break;
	}
	return 0;
}

static uint64_t key_of(const struct check_side *side, const struct op *op)
{
	uint64_t value[CHECK_FIELD_COUNT];

	for (int i = 0; i < CHECK_FIELD_COUNT; i++)
		value[i] = check_field_value(side, op, i);
	return XXH3_64bits(value, sizeof(value));
}

/* What lanes are made with. */
struct maker {
	const struct check_side *side;
	struct check_lanes *lanes;
	struct map process; /* numbers from 1 */
	uint32_t *number;   /* of the last half of a process */
	uint32_t *half;	    /* of a stream or thread, or PLAN_NONE */
};

/* In order of their start. */
static int number_processes(struct maker *maker)
{
	const struct plan *plan = maker->side->plan;
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->op_count; i++) {
		struct map_key key = { plan->op[i].process, 0 };

		if (!map_get(&maker->process, key))
			r = map_put(&maker->process, key, (void *)(maker->process.count + 1));
	}
	maker->lanes->process_count = (uint32_t)maker->process.count;
	maker->number = calloc(maker->process.count + 1, sizeof(*maker->number));
	return r == 0 && !maker->number ? -ENOMEM : r;
}

/* Nodes of a graph belong to the stream where it was launched: the driver chooses which one a node
 * runs on. */
static uint32_t stream_of(const struct plan *plan, uint32_t work)
{
	uint32_t call = plan->work[work].call;

	if (call != PLAN_NONE && plan->op[plan->work[work].op].flags & OP_NODE)
		work = plan->call[call].work;
	return plan->work[work].stream;
}

/* The stream of a work, or the thread of a call; PLAN_NONE: it is not compared. */
static uint32_t group_of(const struct check_side *side, bool thread, uint32_t item)
{
	const struct op *op;

	if (!thread)
		return stream_of(side->plan, item);
	op = op_of(side->plan, true, item);
	if (op->kind > OP_KIND_MAX || !(CALLS & 1u << op->kind) ||
	    side->function(side->data, op->fn) == 0)
		return PLAN_NONE;
	return side->plan->call[item].thread;
}

/* Creates halves for the streams, or threads, that did something, in order of their first item. */
static void add_halves(struct maker *maker, bool thread, uint32_t items)
{
	struct check_lanes *lanes = maker->lanes;

	for (uint32_t i = 0; i < items; i++) {
		struct map_key key = { op_of(maker->side->plan, thread, i)->process, 0 };
		uint32_t process = (uint32_t)(uintptr_t)map_get(&maker->process, key);
		uint32_t group = group_of(maker->side, thread, i);

		if (group == PLAN_NONE)
			continue;
		if (maker->half[group] == PLAN_NONE) {
			maker->half[group] = lanes->count;
			lanes->half[lanes->count++] = (struct check_half){
				.thread = thread,
				.index = group,
				.process = process,
				.number = ++maker->number[process],
				.mate = PLAN_NONE,
			};
		}
		lanes->half[maker->half[group]].count++;
	}
}

/* Halves and their items, appended to the existing ones. */
static void add_items(struct maker *maker, bool thread)
{
	const struct plan *plan = maker->side->plan;
	struct check_lanes *lanes = maker->lanes;
	uint32_t items = thread ? plan->call_count : plan->work_count;
	uint32_t groups = thread ? plan->thread_count : plan->stream_count;
	uint32_t begin = lanes->count, offset = thread ? plan->work_count : 0;

	memset(maker->half, 0xff, groups * sizeof(*maker->half));
	memset(maker->number, 0, (maker->process.count + 1) * sizeof(*maker->number));
	add_halves(maker, thread, items);
	for (uint32_t h = begin; h < lanes->count; h++) {
		lanes->half[h].first = offset;
		offset += lanes->half[h].count;
		lanes->half[h].count = 0;
	}
	for (uint32_t i = 0; i < items; i++) {
		uint32_t group = group_of(maker->side, thread, i);
		struct check_half *half;

		if (group == PLAN_NONE)
			continue;
		half = &lanes->half[maker->half[group]];
		lanes->item[half->first + half->count++] = i;
	}
}

/* Works are in submission order; if threads raced for a stream, in the order in which they ran. */
static int sort_stream(const struct plan *plan, uint32_t stream, uint32_t *item, uint32_t count)
{
	uint32_t *ran = malloc((count + 1) * sizeof(*ran)), left = count, at = count;
	struct map chained = { 0 };
	int r = ran ? 0 : -ENOMEM;

	for (uint32_t work = plan->stream[stream].last; r == 0 && left > 0 && work != PLAN_NONE;
	     work = plan->work[work].before) {
		ran[--left] = work;
		r = map_put(&chained, (struct map_key){ work, 0 }, ran);
	}
	/* From the end: nodes of graphs, which are in no chain, stay where they are. */
	for (uint32_t i = count; r == 0 && i > 0; i--)
		if (map_get(&chained, (struct map_key){ item[i - 1], 0 }) && at > left)
			item[i - 1] = ran[--at];
	map_clear(&chained);
	free(ran);
	return r;
}

struct node {
	uint64_t node;
	uint32_t work;
};

static int by_node(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->work > y->work) - (x->work < y->work);
}

/* Branches of a graph run in any order: its nodes are compared by number. */
static int sort_nodes(const struct plan *plan, uint32_t *item, uint32_t count)
{
	struct node *node = malloc((count + 1) * sizeof(*node));
	uint32_t n;

	if (!node)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i += n ? n : 1) {
		uint32_t call = plan->work[item[i]].call;

		for (n = 0; i + n < count; n++) {
			const struct plan_work *work = &plan->work[item[i + n]];

			if (work->call != call || !(plan->op[work->op].flags & OP_NODE))
				break;
			node[n] = (struct node){ plan->op[work->op].node, item[i + n] };
		}
		qsort(node, n, sizeof(*node), by_node);
		for (uint32_t j = 0; j < n; j++)
			item[i + j] = node[j].work;
	}
	free(node);
	return 0;
}

static uint32_t thread_of(const struct plan *plan, uint32_t work)
{
	uint32_t call = plan->work[work].call;

	return call == PLAN_NONE ? PLAN_NONE : plan->call[call].thread;
}

static void describe(const struct check_side *side, struct check_lanes *lanes)
{
	for (uint32_t h = 0; h < lanes->count; h++) {
		struct check_half *half = &lanes->half[h];

		for (uint32_t i = 0; i < half->count; i++) {
			uint32_t at = half->first + i, item = lanes->item[at];

			lanes->key[at] = key_of(side, op_of(side->plan, half->thread, item));
			if (half->thread)
				continue;
			lanes->place[item] = (struct check_place){ h, i };
			half->shared |= thread_of(side->plan, item) !=
					thread_of(side->plan, lanes->item[half->first]);
		}
		half->print =
			XXH3_64bits(lanes->key + half->first, half->count * sizeof(*lanes->key));
		half->begin = XXH3_64bits(lanes->key + half->first,
					  (half->count < BEGIN ? half->count : BEGIN) *
						  sizeof(*lanes->key));
	}
}

static int fill(struct maker *maker)
{
	const struct plan *plan = maker->side->plan;
	struct check_lanes *lanes = maker->lanes;
	int r = number_processes(maker);

	if (r < 0)
		return r;
	add_items(maker, false);
	for (uint32_t h = 0; r == 0 && h < lanes->count; h++) {
		const struct check_half *half = &lanes->half[h];

		r = sort_stream(plan, half->index, lanes->item + half->first, half->count);
		if (r == 0)
			r = sort_nodes(plan, lanes->item + half->first, half->count);
	}
	add_items(maker, true);
	describe(maker->side, lanes);
	return r;
}

int check_lanes_new(const struct check_side *side, struct check_lanes **ret)
{
	_cleanup_(check_lanes_freep) struct check_lanes *lanes = calloc(1, sizeof(*lanes));
	const struct plan *plan = side->plan;
	size_t groups = (size_t)plan->stream_count + plan->thread_count + 1;
	size_t items = (size_t)plan->work_count + plan->call_count + 1;
	struct maker maker = { .side = side, .lanes = lanes };
	int r = -ENOMEM;

	if (!lanes)
		return -ENOMEM;
	lanes->half = calloc(groups, sizeof(*lanes->half));
	lanes->item = calloc(items, sizeof(*lanes->item));
	lanes->key = calloc(items, sizeof(*lanes->key));
	lanes->place = calloc((size_t)plan->work_count + 1, sizeof(*lanes->place));
	maker.half = calloc(groups, sizeof(*maker.half));
	if (lanes->half && lanes->item && lanes->key && lanes->place && maker.half)
		r = fill(&maker);
	map_clear(&maker.process);
	free(maker.number);
	free(maker.half);
	if (r == 0)
		*ret = TAKE(lanes);
	return r;
}

bool check_lanes_counts(const struct check_lanes *lanes, const struct plan *plan, uint32_t call,
			uint32_t work, const struct plan_edge *edge)
{
	uint32_t thread;

	if (edge->kind == PLAN_EDGE_EVENT)
		return true;
	/* The last item on a stream that threads share depends on timing too. And whether a call
	 * other than a wait had to wait is guessed from its duration. */
	if (edge->kind == PLAN_EDGE_HOST && (lanes->half[lanes->place[edge->work].lane].shared ||
					     plan->op[plan->call[call].op].kind != OP_SYNC))
		return false;
	thread = work == PLAN_NONE ? plan->call[call].thread : thread_of(plan, work);
	return (edge->kind == PLAN_EDGE_DEFAULT || edge->kind == PLAN_EDGE_HOST) &&
	       thread != PLAN_NONE && thread == thread_of(plan, edge->work);
}

struct matcher {
	const struct check_side *side;
	struct check_lanes *const *lanes;
	struct map first; /* of the halves of B that have something in common, plus 1 */
	uint32_t *next;	  /* of each half of B: the next of them, or PLAN_NONE */
	uint32_t *queue;  /* halves of A that were matched and not followed yet */
	uint32_t waiting; /* in it */
};

/* What halves must have in common to be mates, besides their process and sort. */
enum alike { ALIKE_ALL, ALIKE_BEGIN, ALIKE_NOTHING, ALIKE_COUNT };

static struct map_key likeness(const struct check_half *half, enum alike alike)
{
	return (struct map_key){ alike == ALIKE_ALL	? half->print
				 : alike == ALIKE_BEGIN ? half->begin
							: 0,
				 (uint64_t)half->process << 1 | half->thread };
}

static void match(struct matcher *matcher, uint32_t a, uint32_t b)
{
	matcher->lanes[0]->half[a].mate = b;
	matcher->lanes[1]->half[b].mate = a;
	matcher->queue[matcher->waiting++] = a;
}

/* What a work of A waits for, and the matching one of B: their streams are mates too. */
static void follow_work(struct matcher *matcher, uint32_t a, uint32_t b)
{
	const struct plan *plan[2] = { matcher->side[0].plan, matcher->side[1].plan };
	const struct plan_work *work[2] = { &plan[0]->work[a], &plan[1]->work[b] };

	for (uint32_t i = 0; i < work[0]->edge_count && i < work[1]->edge_count; i++) {
		uint32_t x = plan[0]->edge[work[0]->edge + i].work;
		uint32_t y = plan[1]->edge[work[1]->edge + i].work;
		uint32_t left = matcher->lanes[0]->place[x].lane;
		uint32_t right = matcher->lanes[1]->place[y].lane;
		const struct check_half *half[2] = { &matcher->lanes[0]->half[left],
						     &matcher->lanes[1]->half[right] };

		if (half[0]->mate == PLAN_NONE && half[1]->mate == PLAN_NONE &&
		    half[0]->print == half[1]->print && half[0]->process == half[1]->process)
			match(matcher, left, right);
	}
}

static void follow(struct matcher *matcher)
{
	while (matcher->waiting > 0) {
		uint32_t a = matcher->queue[--matcher->waiting];
		const struct check_half *left = &matcher->lanes[0]->half[a];
		const struct check_half *right = &matcher->lanes[1]->half[left->mate];

		if (left->thread || left->print != right->print || left->count != right->count)
			continue;
		for (uint32_t i = 0; i < left->count; i++)
			follow_work(matcher, matcher->lanes[0]->item[left->first + i],
				    matcher->lanes[1]->item[right->first + i]);
	}
}

static const struct plan_edge *edges_of(const struct matcher *matcher, int side, uint32_t half,
					uint32_t at, uint32_t *ret_count)
{
	const struct plan *plan = matcher->side[side].plan;
	const struct check_half *of = &matcher->lanes[side]->half[half];
	uint32_t item = matcher->lanes[side]->item[of->first + at];

	*ret_count = of->thread ? plan->call[item].edge_count : plan->work[item].edge_count;
	return &plan->edge[of->thread ? plan->call[item].edge : plan->work[item].edge];
}

/* Whether none of the two, which are alike, depends on streams that belong to others. */
static bool agree(const struct matcher *matcher, uint32_t a, uint32_t b)
{
	uint32_t count[2], looked = 0;

	for (uint32_t i = 0; i < matcher->lanes[0]->half[a].count; i++) {
		const struct plan_edge *left = edges_of(matcher, 0, a, i, &count[0]);
		const struct plan_edge *right = edges_of(matcher, 1, b, i, &count[1]);

		for (uint32_t k = 0; count[0] == count[1] && k < count[0]; k++) {
			uint32_t x = matcher->lanes[0]->place[left[k].work].lane;
			uint32_t y = matcher->lanes[1]->place[right[k].work].lane;

			if (matcher->lanes[0]->half[x].mate != PLAN_NONE &&
			    matcher->lanes[0]->half[x].mate != y)
				return false;
			if (++looked == EDGES_LOOKED)
				return true;
		}
	}
	return true;
}

/* Among the remaining ones of B, from `b` on, the first that agrees, otherwise the first. */
static uint32_t choose(const struct matcher *matcher, uint32_t a, uint32_t b, enum alike alike)
{
	uint32_t first = PLAN_NONE, tried = 0;

	for (; b != PLAN_NONE && tried < HALVES_TRIED; b = matcher->next[b]) {
		if (matcher->lanes[1]->half[b].mate != PLAN_NONE)
			continue;
		if (alike != ALIKE_ALL || agree(matcher, a, b))
			return b;
		if (first == PLAN_NONE)
			first = b;
		tried++;
	}
	return first;
}

/* Chains the halves of B that have this in common, the first first. */
static int chain(struct matcher *matcher, enum alike alike)
{
	const struct check_lanes *lanes = matcher->lanes[1];
	int r = 0;

	map_clear(&matcher->first);
	for (uint32_t h = lanes->count; r == 0 && h > 0; h--) {
		struct map_key key = likeness(&lanes->half[h - 1], alike);

		matcher->next[h - 1] = (uint32_t)(uintptr_t)map_get(&matcher->first, key) - 1;
		r = map_put(&matcher->first, key, (void *)(uintptr_t)h);
	}
	return r;
}

/* The first remaining one of A with the first remaining one of B. */
static int match_all(struct matcher *matcher, enum alike alike)
{
	const struct check_lanes *lanes = matcher->lanes[0];
	int r = chain(matcher, alike);

	for (uint32_t a = 0; r == 0 && a < lanes->count; a++) {
		struct map_key key = likeness(&lanes->half[a], alike);
		uint32_t b = (uint32_t)(uintptr_t)map_get(&matcher->first, key) - 1;

		if (lanes->half[a].mate != PLAN_NONE)
			continue;
		while (b != PLAN_NONE && matcher->lanes[1]->half[b].mate != PLAN_NONE)
			b = matcher->next[b];
		if (b == PLAN_NONE)
			continue;
		match(matcher, a, choose(matcher, a, b, alike));
		follow(matcher);
		r = map_put(&matcher->first, key,
			    (void *)(uintptr_t)(b + 1)); /* those before are taken */
	}
	return r;
}

int check_lanes_match(const struct check_side side[2], struct check_lanes *const lanes[2])
{
	struct matcher matcher = { .side = side, .lanes = lanes };
	bool room;
	int r = 0;

	matcher.next = calloc((size_t)lanes[1]->count + 1, sizeof(*matcher.next));
	matcher.queue = calloc((size_t)lanes[0]->count + 1, sizeof(*matcher.queue));
	room = matcher.next && matcher.queue;
	for (int alike = 0; room && r == 0 && alike < ALIKE_COUNT; alike++)
		r = match_all(&matcher, alike);
	map_clear(&matcher.first);
	free(matcher.next);
	free(matcher.queue);
	return room ? r : -ENOMEM;
}
