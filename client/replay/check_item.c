/* Replay check, items: describes an operation or a call in words that hold for both sides: no ids,
 * handles, addresses or times of day. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/replay/check_show.h"
#include "client/trace/show.h"
#include "core/base/units.h"
#include "core/replay/check_lanes.h"

struct line {
	char *text;
	size_t size, at;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line->text + line->at, line->size - line->at, format, ap);
	va_end(ap);
	if (n > 0)
		line->at +=
			(size_t)n < line->size - line->at ? (size_t)n : line->size - line->at - 1;
}

static const struct op *op_of(const struct replay_check_shown *shown, int side,
			      const struct check_lane *lane, uint32_t at)
{
	const struct plan *plan = shown->side[side].plan;
	uint32_t item;

	if (at >= lane->count[side])
		return NULL;
	item = lane->item[side][at];
	return &plan->op[lane->thread ? plan->call[item].op : plan->work[item].op];
}

static void put_shape(struct line *line, const struct op *op)
{
	put(line, " grid %ux%ux%u block %ux%ux%u", op->grid[0], op->grid[1], op->grid[2],
	    op->block[0], op->block[1], op->block[2]);
	if (op->shared_bytes > 0)
		put(line, " shared %u", op->shared_bytes);
}

static void put_duration(struct line *line, const struct plan *plan, uint32_t item)
{
	const struct plan_work *work = &plan->work[item];
	char text[UNITS_TEXT_SIZE];

	if (work->flags & (PLAN_UNTIMED | PLAN_MARK) || work->end_ns < work->start_ns)
		return;
	put(line, ", %s", units_nanoseconds(text, (int64_t)(work->end_ns - work->start_ns)));
}

void replay_check_item(const struct replay_check_shown *shown, int side,
		       const struct check_lane *lane, uint32_t at, char text[REPLAY_CHECK_TEXT])
{
	const struct meta *meta = shown->meta[side];
	const struct op *op = op_of(shown, side, lane, at);
	struct line line = { text, REPLAY_CHECK_TEXT, 0 };
	const char *detail;
	bool work;

	text[0] = '\0';
	if (!op)
		return;
	work = !lane->thread &&
	       !(shown->side[side].plan->work[lane->item[side][at]].flags & PLAN_MARK);
	put(&line, "%s", work ? show_work_name(meta, op)->text : show_call_name(meta, op)->text);
	detail = show_detail_name(op->kind, op->detail);
	if (lane->thread && detail)
		put(&line, " %s", detail);
	if (lane->thread && op->name && op->kind != OP_RANGE)
		put(&line, " %s", show_work_name(meta, op)->text);
	if (op->bytes > 0)
		put(&line, " %" PRIu64 " bytes", op->bytes);
	if (op->grid[0] > 0)
		put_shape(&line, op);
	if (op->result != 0)
		put(&line, " result %d", op->result);
	if (work)
		put_duration(&line, shown->side[side].plan, lane->item[side][at]);
}

void replay_check_waits(const struct replay_check_shown *shown, int side,
			const struct check_lane *lane, uint32_t at, char text[REPLAY_CHECK_TEXT])
{
	const struct plan *plan = shown->side[side].plan;
	const struct check_lanes *lanes = shown->check->lanes[side];
	struct line line = { text, REPLAY_CHECK_TEXT, 0 };
	uint32_t item, first, count;

	text[0] = '\0';
	if (at >= lane->count[side])
		return;
	item = lane->item[side][at];
	first = lane->thread ? plan->call[item].edge : plan->work[item].edge;
	count = lane->thread ? plan->call[item].edge_count : plan->work[item].edge_count;
	for (uint32_t i = 0; i < count; i++) {
		const struct plan_edge *edge = &plan->edge[first + i];
		struct check_place place = lanes->place[edge->work];

		if (!check_lanes_counts(lanes, plan, item, lane->thread ? PLAN_NONE : item, edge))
			continue;
		/* Streams are numbered as in A. */
		if (side == 1 && lanes->half[place.lane].mate != PLAN_NONE)
			put(&line, "%soperation %u of stream %u", line.at ? ", " : "", place.at + 1,
			    shown->check->lanes[0]->half[lanes->half[place.lane].mate].number);
		else
			put(&line, "%soperation %u of %sstream %u", line.at ? ", " : "",
			    place.at + 1, side == 1 ? "its own " : "",
			    lanes->half[place.lane].number);
	}
	if (line.at == 0)
		put(&line, "nothing");
}

static void put_value(const struct replay_check_shown *shown, int side,
		      const struct check_lane *lane, struct line *line)
{
	const struct op *op = op_of(shown, side, lane, lane->at);

	if (lane->field == CHECK_FIELD_NAME)
		put(line, "%.100s", show_work_name(shown->meta[side], op)->text);
	else if (lane->field == CHECK_FIELD_FUNCTION)
		put(line, "%.100s", show_call_name(shown->meta[side], op)->text);
	else if (lane->field == CHECK_FIELD_KIND)
		put(line, "%s", show_kind_name(op->kind));
	else
		put(line, "%" PRId64,
		    (int64_t)check_field_value(&shown->side[side], op, lane->field));
}

void replay_check_why(const struct replay_check_shown *shown, const struct check_lane *lane,
		      char text[3 * REPLAY_CHECK_TEXT])
{
	struct line line = { text, 3 * REPLAY_CHECK_TEXT, 0 };
	char waits[2][REPLAY_CHECK_TEXT];
	int only = lane->index[0] == PLAN_NONE;

	text[0] = '\0';
	switch (lane->what) {
	case CHECK_MISSING:
		put(&line, "it is only in %c, with %u operations", "AB"[only], lane -> count[only]);
		break;
	case CHECK_FIELD:
		put(&line, "operation %u has another %s: ", lane->at + 1,
		    check_field_name(lane->field));
		put_value(shown, 0, lane, &line);
		put(&line, " in A, ");
		put_value(shown, 1, lane, &line);
		put(&line, " in B");
		break;
	case CHECK_DEPENDENCY:
		replay_check_waits(shown, 0, lane, lane->at, waits[0]);
		replay_check_waits(shown, 1, lane, lane->at, waits[1]);
		put(&line, "operation %u waits for %s in A, for %s in B", lane->at + 1, waits[0],
		    waits[1]);
		break;
	case CHECK_END:
		put(&line, "%c ends after %u operations, %c has %u",
		    "AB"[lane->count[1] < lane->count[0]], lane -> at,
		    "BA"[lane->count[1] < lane->count[0]],
		    lane -> count[lane->count[1] < lane->count[0] ? 0 : 1]);
		break;
	case CHECK_DURATION:
		put(&line,
		    "%" PRIu64 " durations differ by more than the tolerance, first that of"
		    " operation %u",
		    lane->durations, lane->at + 1);
		break;
	case CHECK_SAME:
		break;
	}
}

const struct meta_stack *replay_check_stack(const struct replay_check_shown *shown, int side,
					    const struct check_lane *lane, uint32_t at)
{
	const struct op *op = op_of(shown, side, lane, at);

	return op && op->stack_id ? meta_stack(shown->meta[side], op->stack_id) : NULL;
}
