/* Lane: packs operations into the columns of a picture. */
#include "client/serve/lane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/output/json.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"

/* Together they keep an answer below WEB_BYTES_MAX. */
#define LANES_MAX  160
#define SPANS_MAX  5500
#define NAMES_MAX  256
#define NAME_BYTES 80
#define DEPTH_MAX  6
#define LIKE	   60 /* thousandths by which shares differ that are shown as one */
#define WHOLE	   1000

/* Cut between characters. */
static char *shorten(const char *text)
{
	size_t size = strlen(text), at = 0, length;
	uint32_t code;
	char *out;

	while (at < size) {
		length = utf8_read(text + at, size - at, &code);
		if (at + length > NAME_BYTES)
			break;
		at += length;
	}
	out = malloc(3 * at + 4);
	if (!out)
		return NULL;
	length = utf8_visible(out, text, at);
	if (at < size)
		memcpy(out + length, "\xe2\x80\xa6", 4);
	return out;
}

static int add_name(struct lanes *lanes, struct map_key key, const char *kind, const char *text)
{
	struct lane_name name;

	if (VECTOR_ROOM(lanes->name, lanes->names_room, lanes->names + 1) < 0)
		return -ENOMEM;
	name.kind = strdup(kind);
	name.text = shorten(text);
	if (!name.kind || !name.text ||
	    map_put(&lanes->named, key, (void *)(uintptr_t)(lanes->names + 1)) < 0) {
		free(name.kind);
		free(name.text);
		return -ENOMEM;
	}
	lanes->name[lanes->names++] = name;
	return 0;
}

/* Beyond NAMES_MAX, of each kind only one: the kind itself. */
static int find_name(struct lanes *lanes, const char *kind, const char *text, uint32_t *ret)
{
	const char *shown = text ? text : kind;
	struct map_key of_kind = map_key_of(kind, strlen(kind), (uintptr_t)lanes);
	struct map_key key = map_key_of(shown, strlen(shown), of_kind.a);
	uintptr_t at = (uintptr_t)map_get(&lanes->named, key);
	int r;

	if (!at && lanes->names >= NAMES_MAX / (1 + lanes->beside) && shown != kind)
		return find_name(lanes, kind, NULL, ret);
	if (!at) {
		r = add_name(lanes, key, kind, shown);
		if (r < 0)
			return r;
		at = lanes->names;
	}
	*ret = (uint32_t)(at - 1);
	return 0;
}

static bool belongs(const struct lane *lane, const struct lane_group *group)
{
	return lane->what == group->what && lane->process == group->process &&
	       lane->id == group->id && lane->device == group->device;
}

static int new_lane(struct lanes *lanes, const struct lane_group *group, uint32_t depth,
		    struct lane **ret)
{
	if (VECTOR_ROOM(lanes->lane, lanes->room, lanes->count + 1) < 0)
		return -ENOMEM;
	*ret = &lanes->lane[lanes->count++];
	**ret = (struct lane){
		.what = group->what,
		.process = group->process,
		.depth = depth,
		.id = group->id,
		.device = group->device,
	};
	return 0;
}

static uint32_t end_of(const struct lane *lane)
{
	const struct lane_span *last = lane->count ? &lane->span[lane->count - 1] : NULL;

	return last ? last->start + last->length : 0;
}

/* The lane of a group: the last one, or a new one; of ranges, the first that is free there. */
static int find_lane(struct lanes *lanes, const struct lane_group *group, uint32_t start,
		     struct lane **ret)
{
	uint32_t first = lanes->count, depth;

	while (first > 0 && belongs(&lanes->lane[first - 1], group))
		first--;
	for (uint32_t i = first; i < lanes->count; i++) {
		*ret = &lanes->lane[i];
		if (group->what != LANE_RANGES || end_of(*ret) <= start)
			return 0;
	}
	depth = lanes->count - first;
	return depth < DEPTH_MAX ? new_lane(lanes, group, depth, ret) : 0;
}

static uint32_t units(const struct lanes *lanes, uint64_t ns)
{
	uint64_t offset = ns > lanes->since_ns ? ns - lanes->since_ns : 0;
	uint64_t all = (uint64_t)lanes->columns * LANE_UNITS;
	uint64_t at = offset / lanes->step_ns * LANE_UNITS +
		      offset % lanes->step_ns * LANE_UNITS / lanes->step_ns;

	return (uint32_t)(at < all ? at : all);
}

/* One operation, or one that hides the few others of its column, has its own place; several small
 * ones cover a part of their column, and sums without a longest one a part of their time. */
static struct lane_span span_of(const struct lanes *lanes, const struct lane_group *group)
{
	struct lane_span span = {
		.count = group->count < UINT32_MAX ? (uint32_t)group->count : UINT32_MAX,
		.bounds = group->bounds,
		.value = WHOLE,
	};
	uint32_t end;

	if (group->what != LANE_MEMORY &&
	    (group->count == 1 || group->longest_ns >= lanes->step_ns)) {
		span.start = units(lanes, group->start_ns);
		end = units(lanes, group->end_ns);
		span.length = end > span.start ? end - span.start : 1;
		return span;
	}
	if (group->end_ns > group->start_ns && group->longest_ns == 0) {
		span.start = units(lanes, group->start_ns);
		end = units(lanes, group->end_ns);
		span.length = end > span.start ? end - span.start : 1;
		span.value = group->busy_ns * WHOLE / (group->end_ns - group->start_ns);
		span.value = span.value < WHOLE ? span.value : WHOLE;
		return span;
	}
	span.start = (uint32_t)group->column * LANE_UNITS;
	span.length = LANE_UNITS;
	span.value = group->what == LANE_MEMORY ? group->busy_ns
						: group->busy_ns * WHOLE / lanes->step_ns;
	if (group->what != LANE_MEMORY && span.value > WHOLE)
		span.value = WHOLE;
	return span;
}

static bool is_like(const struct lane *lane, const struct lane_span *a, const struct lane_span *b)
{
	uint64_t differ = a->value > b->value ? a->value - b->value : b->value - a->value;

	return a->start + a->length >= b->start && a->name == b->name && a->bounds == b->bounds &&
	       (a->count > 1 && b->count > 1) && differ <= (lane->what == LANE_MEMORY ? 0 : LIKE);
}

int lanes_add(struct lanes *lanes, const struct lane_group *group)
{
	struct lane_span span = span_of(lanes, group), *last;
	struct lane *lane = NULL;
	int r = find_name(lanes, group->kind, group->name, &span.name);

	if (r == 0)
		r = find_lane(lanes, group, span.start, &lane);
	if (r < 0)
		return r;
	lane->ops += span.count;
	last = lane->count ? &lane->span[lane->count - 1] : NULL;
	if (last && is_like(lane, last, &span)) {
		last->length = span.start + span.length - last->start;
		last->count += span.count;
		return 0;
	}
	if (VECTOR_ROOM(lane->span, lane->room, lane->count + 1) < 0)
		return -ENOMEM;
	lane->span[lane->count++] = span;
	return 0;
}

static int by_ops(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;

	return (x->ops < y->ops) - (x->ops > y->ops);
}

static void leave_out(struct lanes *lanes)
{
	uint32_t most = LANES_MAX / (1 + lanes->beside);

	if (lanes->count <= most)
		return;
	qsort(lanes->lane, lanes->count, sizeof(*lanes->lane), by_ops);
	while (lanes->count > most) {
		free(lanes->lane[--lanes->count].span);
		lanes->left_out++;
	}
}

/* Spans that lie in one field of this width become one, with the name of the longer one. */
static void coarsen(struct lane *lane, uint32_t width)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < lane->count; i++) {
		struct lane_span *last = kept ? &lane->span[kept - 1] : NULL, span = lane->span[i];
		uint32_t end = span.start + span.length;

		if (!last || last->length > width || span.length > width ||
		    last->start / width != span.start / width) {
			lane->span[kept++] = span;
			continue;
		}
		if (span.length * span.value > last->length * last->value)
			last->name = span.name;
		if (end > last->start + last->length && lane->what != LANE_MEMORY)
			last->value = (last->value * last->length + span.value * span.length) /
				      (end - last->start);
		else if (span.value > last->value)
			last->value = span.value;
		if (lane->what != LANE_MEMORY && last->value > WHOLE)
			last->value = WHOLE;
		if (end > last->start + last->length)
			last->length = end - last->start;
		last->count += span.count;
	}
	lane->count = kept;
}

void lanes_fit(struct lanes *lanes)
{
	uint64_t spans;

	leave_out(lanes);
	for (uint32_t width = LANE_UNITS; width <= lanes->columns * LANE_UNITS; width *= 2) {
		spans = 0;
		for (uint32_t i = 0; i < lanes->count; i++)
			spans += lanes->lane[i].count;
		if (spans <= SPANS_MAX / (1 + lanes->beside))
			return;
		for (uint32_t i = 0; i < lanes->count; i++)
			coarsen(&lanes->lane[i], width);
	}
}

static void write_lane(FILE *out, const struct lane *lane)
{
	static const char *const whats[] = {
		[LANE_STATES] = "states", [LANE_WORK] = "work",	    [LANE_RANGES] = "ranges",
		[LANE_CALLS] = "calls",	  [LANE_MEMORY] = "memory",
	};

	fprintf(out,
		"{\"what\":\"%s\",\"process\":%" PRIu32 ",\"id\":%" PRId64 ",\"device\":%" PRId64
		",\"depth\":%" PRIu32 ",\"ops\":%" PRIu64 ",\"spans\":[",
		whats[lane->what], lane->process, lane->id, lane->device, lane->depth, lane->ops);
	for (uint32_t i = 0; i < lane->count; i++) {
		const struct lane_span *span = &lane->span[i];

		fprintf(out, "%s%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%s%" PRIu64,
			i ? "," : "", span->start, span->length, span->name, span->count,
			span->bounds ? "-" : "", span->value);
	}
	fputs("]}", out);
}

void lanes_write(FILE *out, const struct lanes *lanes)
{
	fputs("\"lanes\":[", out);
	for (uint32_t i = 0; i < lanes->count; i++) {
		fputs(i ? ",\n" : "\n", out);
		write_lane(out, &lanes->lane[i]);
	}
	fputs("],\n\"names\":[", out);
	for (uint32_t i = 0; i < lanes->names; i++) {
		fputs(i ? ",[" : "[", out);
		json_string(out, lanes->name[i].kind);
		fputc(',', out);
		json_string(out, lanes->name[i].text);
		fputc(']', out);
	}
	fprintf(out, "],\"left_out\":%" PRIu32, lanes->left_out);
}

void lanes_done(struct lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->count; i++)
		free(lanes->lane[i].span);
	for (uint32_t i = 0; i < lanes->names; i++) {
		free(lanes->name[i].kind);
		free(lanes->name[i].text);
	}
	free(lanes->lane);
	free(lanes->name);
	map_clear(&lanes->named);
}
