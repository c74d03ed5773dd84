/* What if: other streams, other devices.
 *
 * If a stream is split, its works are in parts, and each part is a stream of its own. A dependency
 * on "everything on the stream up to here" must then cover each part: a work knows the last one
 * before it that went to another part, and from there on to the others (`elsewhere`). Marks of
 * events are in no part: they wait for what they marked, and what came after a wait for an event
 * gets the edges of the wait itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vector.h"
#include "core/plan/whatif.h"

struct part {
	uint32_t stream; /* index */
	uint32_t last;	 /* work, or PLAN_NONE */
	uint32_t passed; /* edges of the origin's works that its works have or had to wait for */
};

/* A stream of the original plan. */
struct origin {
	uint32_t first_part, parts;
	uint32_t part; /* where works go now */
	uint32_t last; /* work of any part */
	uint32_t edge; /* number of its works so far: in `passed` of the change */
	uint32_t edge_count;
	bool copies_in, filled; /* it has copies to the device; other work came since the last */
	bool joined;		/* with others */
};

struct change {
	struct plan *plan;
	struct origin *origin;
	struct part *part;
	uint32_t part_count;
	uint32_t *elsewhere; /* for each work in a part: the last one before it in another part */
	uint32_t *part_of;   /* of each work: number, or PLAN_NONE */
	uint8_t *chained;    /* for each work: it is in its stream's chain */
	struct plan_edge *edge;
	size_t edge_count, edge_room;
	struct plan_edge *passed; /* edges of works, of each origin in order */
	int64_t changed;
};

static void change_release(struct change *change)
{
	free(change->origin);
	free(change->part);
	free(change->elsewhere);
	free(change->part_of);
	free(change->chained);
	free(change->edge);
	free(change->passed);
}

static int add_edge(struct change *change, uint32_t work, uint32_t kind)
{
	if (VECTOR_ROOM(change->edge, change->edge_room, change->edge_count + 1) < 0)
		return -ENOMEM;
	change->edge[change->edge_count++] = (struct plan_edge){ work, kind };
	return 0;
}

/* Everything on its stream up to this work. */
static int add_up_to(struct change *change, uint32_t work, uint32_t kind)
{
	uint32_t parts;
	int r = add_edge(change, work, kind);

	if (change->part_of[work] == PLAN_NONE)
		return r;
	parts = change->origin[change->plan->work[work].stream].parts;
	for (uint32_t i = 1; r == 0 && i < parts; i++) {
		work = change->elsewhere[work];
		if (work == PLAN_NONE)
			break;
		r = add_edge(change, work, kind);
	}
	return r;
}

/* --- who goes where --- */

static bool is_mark(const struct plan_work *work)
{
	return (work->flags & (PLAN_MARK | PLAN_GRAPH)) == PLAN_MARK;
}

/* Works of graph launches move with them: only works in a stream's chain have a part. */
static void find_chains(struct change *change)
{
	const struct plan *plan = change->plan;

	for (uint32_t i = 0; i < plan->stream_count; i++) {
		struct origin *origin = &change->origin[i];

		for (uint32_t k = plan->stream[i].last; k != PLAN_NONE && !change->chained[k];
		     k = plan->work[k].before) {
			change->chained[k] = 1;
			origin->copies_in |= plan->work[k].engine == PLAN_ENGINE_HTOD;
			origin->edge_count += plan->work[k].edge_count;
		}
	}
}

static int prepare(struct change *change)
{
	const struct plan *plan = change->plan;
	size_t works = plan->work_count + 1ul;
	uint32_t edges = 0;

	change->origin = calloc(plan->stream_count + 1ul, sizeof(*change->origin));
	change->elsewhere = malloc(works * sizeof(uint32_t));
	change->part_of = malloc(works * sizeof(uint32_t));
	change->chained = calloc(works, 1);
	change->passed = malloc((plan->edge_count + 1ul) * sizeof(*change->passed));
	if (!change->origin || !change->elsewhere || !change->part_of || !change->chained ||
	    !change->passed)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++)
		change->part_of[i] = change->elsewhere[i] = PLAN_NONE;
	find_chains(change);
	for (uint32_t i = 0; i < plan->stream_count; i++) {
		change->origin[i].edge = edges;
		edges += change->origin[i].edge_count;
		change->origin[i].edge_count = 0;
		change->origin[i].last = PLAN_NONE;
	}
	return 0;
}

static bool is_used(const struct change *change, uint32_t stream)
{
	return change->plan->stream[stream].last != PLAN_NONE;
}

static uint32_t streams_of(const struct change *change, uint32_t device)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < change->plan->stream_count; i++)
		count += is_used(change, i) && change->plan->stream[i].device == device;
	return count;
}

/* The parts of the streams of a device; `next` counts new streams. */
static void deal_out(struct change *change, uint32_t device, uint32_t count, uint32_t *next)
{
	struct plan *plan = change->plan;
	uint32_t used = streams_of(change, device), number = 0, base = change->part_count;

	for (uint32_t i = 0; i < plan->stream_count; i++) {
		struct origin *origin = &change->origin[i];

		if (!is_used(change, i) || plan->stream[i].device != device)
			continue;
		origin->joined = used > count;
		origin->parts = used > count ? 1 : count / used + (number < count % used);
		origin->first_part = used > count ? base + number % count : change->part_count;
		for (uint32_t k = 0; k < origin->parts; k++)
			if (origin->first_part + k >= change->part_count)
				change->part[change->part_count++] =
					(struct part){ k ? (*next)++ : i, PLAN_NONE, 0 };
		number++;
	}
}

static int grow_streams(struct plan *plan, uint32_t count)
{
	struct plan_stream *stream = realloc(plan->stream, (count + 1ul) * sizeof(*stream));
	uint32_t row = 0;

	if (!stream)
		return -ENOMEM;
	plan->stream = stream;
	for (uint32_t i = 0; i < plan->stream_count; i++)
		if (stream[i].stream > row)
			row = stream[i].stream;
	if (count - plan->stream_count > UINT32_MAX - row)
		return -E2BIG;
	for (uint32_t i = plan->stream_count; i < count; i++)
		stream[i] = (struct plan_stream){ .stream = ++row };
	return 0;
}

static int make_parts(struct change *change, uint32_t count)
{
	struct plan *plan = change->plan;
	uint64_t most = plan->stream_count + (uint64_t)plan->device_count * count;
	uint32_t next = plan->stream_count;
	int r;

	if (most > UINT32_MAX)
		return -E2BIG;
	change->part = calloc(most + 1, sizeof(*change->part));
	if (!change->part)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->device_count; i++)
		deal_out(change, i, count, &next);
	r = grow_streams(plan, next);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < plan->stream_count; i++)
		for (uint32_t k = 1; k < change->origin[i].parts; k++) {
			struct plan_stream *stream =
				&plan->stream[change->part[change->origin[i].first_part + k]
						      .stream];

			stream->process = plan->stream[i].process;
			stream->device = plan->stream[i].device;
			stream->made_of = plan->stream[i].made_of ?: plan->stream[i].stream;
		}
	return 0;
}

/* A work starts what goes to the next part. */
static bool begins_group(const struct change *change, struct origin *origin,
			 const struct plan_work *work)
{
	bool copy_in = work->engine == PLAN_ENGINE_HTOD, was_filled = origin->filled;

	origin->filled = !copy_in;
	if (origin->joined || origin->last == PLAN_NONE)
		return false;
	/* Start and end of a graph. */
	if (work->call != PLAN_NONE && change->plan->work[origin->last].call == work->call)
		return false;
	return !origin->copies_in || (copy_in && was_filled);
}

/* --- the new order --- */

/* Those that the origin's works had and this part's have not. */
static int add_passed(struct change *change, struct origin *origin, struct part *part)
{
	int r = 0;

	for (; r == 0 && part->passed < origin->edge_count; part->passed++) {
		const struct plan_edge *edge = &change->passed[origin->edge + part->passed];

		r = add_up_to(change, edge->work, edge->kind);
	}
	return r;
}

/* A merged stream waits for what was submitted before, and for nothing later. */
static int keep_edges(struct change *change, const struct origin *origin, uint32_t index)
{
	const struct plan_work *work = &change->plan->work[index];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < work->edge_count; i++) {
		const struct plan_edge *edge = &change->plan->edge[work->edge + i];

		if (!origin->joined || edge->work < index)
			r = add_up_to(change, edge->work, edge->kind);
	}
	return r;
}

static void pass_edges(struct change *change, struct origin *origin, const struct plan_work *work)
{
	if (!work->edge_count)
		return;
	memcpy(&change->passed[origin->edge + origin->edge_count], &change->plan->edge[work->edge],
	       work->edge_count * sizeof(struct plan_edge));
	origin->edge_count += work->edge_count;
}

/* A mark of an event on a split stream. */
static int move_mark(struct change *change, struct origin *origin, struct plan_work *work)
{
	const struct plan_edge *edge = &change->plan->edge[work->edge];
	uint32_t first = (uint32_t)change->edge_count, passed = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < work->edge_count; i++)
		r = add_up_to(change, edge[i].work, edge[i].kind);
	/* And what was waited for since the last work. */
	if (origin->last != PLAN_NONE) {
		passed = change->part[change->part_of[origin->last]].passed;
		if (r == 0)
			r = add_up_to(change, origin->last, PLAN_EDGE_EVENT);
	}
	for (; r == 0 && passed < origin->edge_count; passed++)
		r = add_edge(change, change->passed[origin->edge + passed].work, PLAN_EDGE_EVENT);
	pass_edges(change, origin, work);
	work->before = PLAN_NONE;
	work->edge = first;
	work->edge_count = (uint32_t)change->edge_count - first;
	return r;
}

static int move_work(struct change *change, uint32_t index)
{
	struct plan *plan = change->plan;
	struct plan_work *work = &plan->work[index];
	struct origin *origin = &change->origin[work->stream];
	uint32_t first = (uint32_t)change->edge_count, number;
	struct part *part;
	int r;

	pass_edges(change, origin, work);
	if (begins_group(change, origin, work))
		origin->part = (origin->part + 1) % origin->parts;
	number = origin->first_part + origin->part;
	part = &change->part[number];
	/* The last one in another part is the previous work or, if that is in the same part, its
	 * own entry. */
	if (origin->last != PLAN_NONE)
		change->elsewhere[index] = change->part_of[origin->last] != number
						   ? origin->last
						   : change->elsewhere[origin->last];
	change->part_of[index] = number;
	r = origin->parts > 1 ? add_passed(change, origin, part)
			      : keep_edges(change, origin, index);
	if (part->last != work->before)
		work->early_ns = 0;
	if (part->stream != work->stream)
		change->changed++;
	work->before = part->last;
	work->edge = first;
	work->edge_count = (uint32_t)change->edge_count - first;
	part->last = origin->last = index;
	return r;
}

/* For a work in no chain, or a call. */
static int move_edges(struct change *change, uint32_t *edge, uint32_t count, uint32_t except)
{
	uint32_t first = (uint32_t)change->edge_count;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < count; i++) {
		const struct plan_edge *old = &change->plan->edge[*edge + i];

		/* What a call submits is waited for individually. */
		if (except != PLAN_NONE && change->plan->work[old->work].call == except)
			r = add_edge(change, old->work, old->kind);
		else
			r = add_up_to(change, old->work, old->kind);
	}
	*edge = first;
	return r;
}

static int move_all(struct change *change)
{
	struct plan *plan = change->plan;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];
		struct origin *origin = &change->origin[work->stream];
		uint32_t first = (uint32_t)change->edge_count;

		if (change->chained[i] && is_mark(work) && origin->parts > 1) {
			r = move_mark(change, origin, work);
		} else if (change->chained[i]) {
			r = move_work(change, i);
		} else {
			r = move_edges(change, &work->edge, work->edge_count, PLAN_NONE);
			work->edge_count = (uint32_t)change->edge_count - first;
		}
	}
	for (uint32_t i = 0; r == 0 && i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		uint32_t first = (uint32_t)change->edge_count;

		r = move_edges(change, &call->edge, call->edge_count, i);
		call->edge_count = (uint32_t)change->edge_count - first;
	}
	return r;
}

static void settle_streams(struct change *change)
{
	struct plan *plan = change->plan;

	for (uint32_t i = 0; i < plan->stream_count; i++)
		plan->stream[i].first = plan->stream[i].last = PLAN_NONE;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];
		struct plan_stream *stream;

		if (change->part_of[i] == PLAN_NONE)
			continue;
		work->stream = change->part[change->part_of[i]].stream;
		stream = &plan->stream[work->stream];
		if (stream->first == PLAN_NONE)
			stream->first = i;
		stream->last = i;
	}
}

int64_t whatif_streams(struct plan *plan, uint32_t count)
{
	_cleanup_(change_release) struct change change = { .plan = plan };
	int r;

	if (count == 0 || count > WHATIF_STREAMS_MAX)
		return -EINVAL;
	r = prepare(&change);
	if (r == 0)
		r = make_parts(&change, count);
	if (r == 0)
		r = move_all(&change);
	if (r < 0)
		return r;
	free(plan->edge);
	plan->edge = TAKE(change.edge);
	plan->edge_count = (uint32_t)change.edge_count;
	for (uint32_t i = 0; i < change.part_count; i++)
		if (change.part[i].stream >= plan->stream_count)
			plan->stream_count = change.part[i].stream + 1;
	settle_streams(&change);
	plan->changed = true;
	return change.changed;
}

/* --- devices --- */

/* The devices of a process, by number; new ones copy its first. */
static int devices_of(struct plan *plan, uint32_t process, uint32_t count, uint32_t *device)
{
	uint32_t found = 0;
	int16_t ordinal = -1;

	for (uint32_t i = 0; i < plan->device_count; i++) {
		if (plan->device[i].process != process)
			continue;
		if (plan->device[i].ordinal > ordinal)
			ordinal = plan->device[i].ordinal;
		if (found < count)
			device[found++] = i;
	}
	if (!found)
		return 0;
	if (ordinal > INT16_MAX - WHATIF_DEVICES_MAX)
		return -E2BIG;
	for (; found < count; found++) {
		struct plan_device *more =
			realloc(plan->device, (plan->device_count + 1ul) * sizeof(*plan->device));

		if (!more)
			return -ENOMEM;
		plan->device = more;
		more[plan->device_count] = more[device[0]];
		more[plan->device_count].ordinal = ++ordinal;
		device[found] = plan->device_count++;
	}
	return (int)found;
}

int64_t whatif_devices(struct plan *plan, uint32_t count)
{
	_cleanup_(freep) uint8_t *done = calloc(plan->stream_count + 1ul, 1);
	_cleanup_(freep) uint32_t *from = calloc(plan->stream_count + 1ul, sizeof(*from));
	uint32_t device[WHATIF_DEVICES_MAX];
	int64_t changed = 0;

	if (count == 0 || count > WHATIF_DEVICES_MAX)
		return -EINVAL;
	if (!done || !from)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->stream_count; i++) {
		uint32_t number = 0;
		int r;

		from[i] = done[i] ? from[i] : plan->stream[i].device;
		if (done[i])
			continue;
		r = devices_of(plan, plan->stream[i].process, count, device);
		if (r < 0)
			return r;
		for (uint32_t k = i; r > 0 && k < plan->stream_count; k++) {
			if (plan->stream[k].process != plan->stream[i].process)
				continue;
			done[k] = 1;
			from[k] = plan->stream[k].device;
			if (plan->stream[k].last != PLAN_NONE)
				plan->stream[k].device = device[number++ % count];
		}
	}
	for (uint32_t i = 0; i < plan->work_count; i++)
		changed += from[plan->work[i].stream] != plan->stream[plan->work[i].stream].device;
	plan->changed = true;
	return changed;
}
