/* Plan, events: a record leaves a mark on its stream, a wait leaves one on another, with an edge to
 * it. A handle means its latest record. While a stream is captured its records and waits belong to
 * the captured graph, not to what runs. */
#include <errno.h>

#include "core/plan/build.h"

static const struct op *event_op(const struct plan_builder *builder, uint32_t call)
{
	return &builder->plan->op[builder->plan->call[call].op];
}

static struct map_key event_key(const struct op *op)
{
	return (struct map_key){ op->handle, op->process };
}

static struct build_event *event_find(struct plan_builder *builder, const struct op *op)
{
	uint32_t event = (uint32_t)(uintptr_t)map_get(&builder->event_by_handle, event_key(op)) - 1;

	return event == PLAN_NONE ? NULL : &builder->event[event];
}

static struct build_event *event_get(struct plan_builder *builder, const struct op *op)
{
	struct build_event *event = event_find(builder, op);
	uint32_t count = builder->event_count;

	if (event)
		return event;
	if (!build_room(builder, &builder->event, count, &builder->event_room,
			sizeof(*builder->event)))
		return NULL;
	if (map_put(&builder->event_by_handle, event_key(op), (void *)((uintptr_t)count + 1)) < 0) {
		builder->error = -ENOMEM;
		return NULL;
	}
	builder->event_count++;
	return &builder->event[count];
}

static uint32_t event_mark(struct plan_builder *builder, uint32_t call, uint32_t source)
{
	uint32_t mark = build_work(builder, builder->plan->call[call].op, call, PLAN_MARK);

	if (mark == PLAN_NONE)
		return mark;
	build_work_edge(builder, mark, source, PLAN_EDGE_EVENT);
	build_default_edges(builder, mark);
	build_chain(builder, mark);
	return mark;
}

void build_event_record(struct plan_builder *builder, uint32_t call)
{
	const struct op *op = event_op(builder, call);
	uint32_t stream = build_stream(builder, op);
	struct build_event *event = event_get(builder, op);

	if (stream == PLAN_NONE || !event)
		return;
	event->capture = builder->stream[stream].capture;
	event->mark = event->capture ? PLAN_NONE : event_mark(builder, call, PLAN_NONE);
}

void build_event_destroy(struct plan_builder *builder, uint32_t call)
{
	map_remove(&builder->event_by_handle, event_key(event_op(builder, call)));
}

void build_event_wait(struct plan_builder *builder, uint32_t call)
{
	const struct op *op = event_op(builder, call);
	const struct build_event *event = event_find(builder, op);
	uint32_t stream = build_stream(builder, op);

	if (!event || stream == PLAN_NONE)
		return;
	if (event->capture)
		builder->stream[stream].capture = event->capture;
	else if (event->mark != PLAN_NONE && builder->plan->work[event->mark].stream != stream)
		event_mark(builder, call, event->mark);
}

void build_event_sync(struct plan_builder *builder, uint32_t call)
{
	const struct build_event *event = event_find(builder, event_op(builder, call));

	if (event && !event->capture)
		build_call_edge(builder, call, event->mark, PLAN_EDGE_HOST);
}

void build_capture_begin(struct plan_builder *builder, uint32_t call)
{
	uint32_t stream = build_stream(builder, event_op(builder, call));

	if (stream != PLAN_NONE)
		builder->stream[stream].capture = ++builder->next_capture;
}

/* All streams that took part leave together with the one that started it. */
void build_capture_end(struct plan_builder *builder, uint32_t call)
{
	uint32_t stream = build_stream(builder, event_op(builder, call));
	uint32_t capture = stream == PLAN_NONE ? 0 : builder->stream[stream].capture;

	for (uint32_t i = 0; capture && i < builder->plan->stream_count; i++)
		if (builder->stream[i].capture == capture)
			builder->stream[i].capture = 0;
}

void build_captured(struct plan_builder *builder, const struct op *op, bool captured)
{
	uint32_t stream = build_stream(builder, op);

	if (stream == PLAN_NONE || !builder->stream[stream].capture == !captured)
		return;
	builder->stream[stream].capture = captured ? ++builder->next_capture : 0;
}
