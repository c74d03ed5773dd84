/* Packet: writes packets. Each reserves room for itself and is never written in part. Field numbers
 * are those of protos/perfetto/trace/trace_packet.proto and its imports. */
#include "client/export/packet.h"

#include "client/export/pb.h"

#define SEQUENCE 1

enum clock_id { CLOCK_REAL = 1, CLOCK_MONO = 3 };
enum event_type { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum sequence_flag { NAMES_FORGOTTEN = 1, NAMES_NEEDED = 2 };

enum field {
	TRACE_PACKET = 1,
	PACKET_PROCESSES = 2,
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	PACKET_FIRST = 87,

	CLOCKS_CLOCK = 1,
	CLOCKS_PRIMARY = 2,
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	DEFAULTS_TIME_CLOCK = 58,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_ORDER = 11,
	ORDER_RANK = 3,
	TRACK_RANK = 12,
	TRACK_MERGE = 15,
	MERGE_NEVER = 2,
	MERGE_KEY = 3,
	TRACK_MERGE_KEY = 17,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	TREE_PROCESS = 1,
	TREE_PID = 1,
	TREE_COMMAND = 3,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,
	UNIT_BYTES = 3,
	COUNTER_UNIT_NAME = 6,

	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_NUMBER = 10,
	EVENT_TRACK = 11,
	EVENT_VALUE = 30,
	EVENT_REAL = 44,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	EVENT_STACK = 56,
	ANNOTATION_NAME_NUMBER = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_STRING = 6,
	ANNOTATION_POINTER = 7,
	ANNOTATION_NAME = 10,
	ANNOTATION_ARRAY = 12,

	INTERNED_FRAME = 6,
	INTERNED_STACK = 7,
	INTERNED_MAPPING = 19,
	ENTRY_NUMBER = 1, /* of every table */
	ENTRY_TEXT = 2,
	FRAME_FUNCTION = 2,
	FRAME_MAPPING = 3,
	FRAME_OFFSET = 4,
	FRAME_SOURCE = 5,
	FRAME_LINE = 6,
	STACK_FRAME = 2,
	MAPPING_PATH = 7,
};

static uint8_t *packet_open(struct out *out)
{
	uint8_t *packet = pb_open(out, TRACE_PACKET);

	pb_uint(out, PACKET_SEQUENCE, SEQUENCE);
	return packet;
}

static void write_clock(struct out *out, enum clock_id id, uint64_t time_ns)
{
	uint8_t *body = pb_open(out, CLOCKS_CLOCK);

	pb_uint(out, CLOCK_ID, id);
	pb_uint(out, CLOCK_TIME, time_ns);
	pb_close(out, body);
}

static int write_annotation_names(struct out *out)
{
	uint32_t number = 0;
	int r = 0;

	for (size_t i = 0; i < show_field_count && r == 0; i++)
		r = perfetto_name(out, PERFETTO_ANNOTATION, ++number, show_fields[i].name);
	for (size_t i = 0; i < show_work_field_count && r == 0; i++)
		r = perfetto_name(out, PERFETTO_ANNOTATION, ++number, show_work_fields[i].name);
	for (size_t i = 0; i < show_mark_count && r == 0; i++)
		r = perfetto_name(out, PERFETTO_ANNOTATION, ++number, show_marks[i].name);
	return r;
}

int perfetto_head(struct out *out, int64_t wall_offset_ns)
{
	uint8_t *packet, *body;
	int r = out_room(out);

	if (r < 0)
		return r;
	packet = packet_open(out);
	pb_uint(out, PACKET_FIRST, 1);
	pb_uint(out, PACKET_FLAGS, NAMES_FORGOTTEN);
	body = pb_open(out, PACKET_CLOCKS);
	write_clock(out, CLOCK_REAL, wall_offset_ns);
	write_clock(out, CLOCK_MONO, 0);
	pb_uint(out, CLOCKS_PRIMARY, CLOCK_MONO);
	pb_close(out, body);
	body = pb_open(out, PACKET_DEFAULTS);
	pb_uint(out, DEFAULTS_TIME_CLOCK, CLOCK_MONO);
	pb_close(out, body);
	pb_close(out, packet);
	return write_annotation_names(out);
}

/* A packet that holds one entry of a table, up to its number. */
static int entry_open(struct out *out, uint32_t table, uint32_t number, uint8_t *ret_body[3])
{
	int r = out_room(out);

	if (r < 0)
		return r;
	ret_body[0] = packet_open(out);
	ret_body[1] = pb_open(out, PACKET_INTERNED);
	ret_body[2] = pb_open(out, table);
	pb_uint(out, ENTRY_NUMBER, number);
	return 0;
}

static int entry_close(struct out *out, uint8_t *body[3])
{
	pb_close(out, body[2]);
	pb_close(out, body[1]);
	pb_close(out, body[0]);
	return 0;
}

int perfetto_name(struct out *out, enum perfetto_table table, uint32_t number, const char *text)
{
	uint8_t *body[3];
	int r = entry_open(out, table, number, body);

	if (r < 0)
		return r;
	pb_string(out, ENTRY_TEXT, text);
	return entry_close(out, body);
}

int perfetto_mapping(struct out *out, uint32_t path)
{
	uint8_t *body[3];
	int r = entry_open(out, INTERNED_MAPPING, path, body);

	if (r < 0)
		return r;
	pb_uint(out, MAPPING_PATH, path);
	return entry_close(out, body);
}

int perfetto_frame(struct out *out, const struct meta_frame *frame)
{
	uint8_t *body[3];
	int r = entry_open(out, INTERNED_FRAME, frame->number, body);

	if (r < 0)
		return r;
	pb_uint(out, FRAME_FUNCTION, frame->label->number);
	pb_uint(out, FRAME_MAPPING, frame->module->number);
	pb_uint(out, FRAME_OFFSET, frame->offset);
	if (frame->file && frame->line) {
		pb_uint(out, FRAME_SOURCE, frame->file->number);
		pb_uint(out, FRAME_LINE, frame->line);
	}
	return entry_close(out, body);
}

int perfetto_stack(struct out *out, const struct meta_stack *stack)
{
	uint8_t *body[3];
	int r = entry_open(out, INTERNED_STACK, stack->number, body);

	if (r < 0)
		return r;
	for (uint32_t i = stack->count; i > 0; i--) /* outermost first */
		pb_uint(out, STACK_FRAME, stack->frame[i - 1]->number);
	return entry_close(out, body);
}

static void write_process(struct out *out, const struct perfetto_track *track)
{
	uint8_t *body = pb_open(out, TRACK_PROCESS);

	pb_uint(out, PROCESS_PID, track->pid);
	pb_string(out, PROCESS_NAME, track->process_name);
	pb_close(out, body);
}

static void write_thread(struct out *out, const struct perfetto_track *track)
{
	uint8_t *body = pb_open(out, TRACK_THREAD);

	pb_uint(out, THREAD_PID, track->pid);
	pb_uint(out, THREAD_TID, track->tid);
	pb_string(out, THREAD_NAME, track->name);
	pb_close(out, body);
}

/* Readers take the command line from here, not from the track. */
static void write_command(struct out *out, const struct perfetto_track *track)
{
	uint8_t *packet = packet_open(out), *tree, *body;

	pb_uint(out, PACKET_TIME, 0);
	tree = pb_open(out, PACKET_PROCESSES);
	body = pb_open(out, TREE_PROCESS);
	pb_uint(out, TREE_PID, track->pid);
	pb_string(out, TREE_COMMAND, track->command);
	pb_close(out, body);
	pb_close(out, tree);
	pb_close(out, packet);
}

static void write_counter(struct out *out, const struct perfetto_track *track)
{
	uint8_t *counter;

	if (!track->bytes && !track->unit)
		return;
	counter = pb_open(out, TRACK_COUNTER);
	if (track->bytes)
		pb_uint(out, COUNTER_UNIT, UNIT_BYTES);
	else
		pb_string(out, COUNTER_UNIT_NAME, track->unit);
	pb_close(out, counter);
}

int perfetto_track(struct out *out, const struct perfetto_track *track)
{
	uint8_t *packet, *body;
	int r = out_room(out);

	if (r < 0)
		return r;
	if (track->command)
		write_command(out, track);
	packet = packet_open(out);
	body = pb_open(out, PACKET_TRACK);
	pb_uint(out, TRACK_UUID, track->uuid);
	if (track->parent)
		pb_uint(out, TRACK_PARENT, track->parent);
	if (track->tid)
		write_thread(out, track);
	else if (track->pid)
		write_process(out, track);
	else
		pb_string(out, TRACK_NAME, track->name);
	write_counter(out, track);
	if (track->ranked)
		pb_uint(out, TRACK_ORDER, ORDER_RANK);
	if (track->rank)
		pb_uint(out, TRACK_RANK, track->rank);
	pb_uint(out, TRACK_MERGE, track->merge ? MERGE_KEY : MERGE_NEVER);
	if (track->merge)
		pb_uint(out, TRACK_MERGE_KEY, track->merge);
	pb_close(out, body);
	pb_close(out, packet);
	return 0;
}

static void write_value(struct out *out, uint8_t how, uint64_t value)
{
	static const uint8_t fields[] = {
		[SHOW_NUMBER] = ANNOTATION_UINT,
		[SHOW_SIGNED] = ANNOTATION_INT,
		[SHOW_ADDRESS] = ANNOTATION_POINTER,
	};

	pb_uint(out, fields[how], value);
}

static void write_field(struct out *out, uint32_t name, const struct show_field *field,
			const void *from)
{
	uint8_t *body = pb_open(out, EVENT_ANNOTATION);

	pb_uint(out, ANNOTATION_NAME_NUMBER, name);
	if (field->count == 1)
		write_value(out, field->how, show_field_value(field, from, 0));
	for (uint32_t i = 0; field->count > 1 && i < field->count; i++) {
		uint8_t *item = pb_open(out, ANNOTATION_ARRAY);

		write_value(out, field->how, show_field_value(field, from, i));
		pb_close(out, item);
	}
	pb_close(out, body);
}

static void write_mark(struct out *out, uint32_t name)
{
	uint8_t *body = pb_open(out, EVENT_ANNOTATION);

	pb_uint(out, ANNOTATION_NAME_NUMBER, name);
	pb_uint(out, ANNOTATION_BOOL, 1);
	pb_close(out, body);
}

/* Names are numbered as in write_annotation_names(). */
static void write_annotations(struct out *out, const struct op *op, const struct show_work *work)
{
	uint32_t number = 0;

	for (size_t i = 0; i < show_field_count; i++) {
		const struct show_field *field = &show_fields[i];

		number++;
		if ((work || !field->work) && show_field_shown(field, op))
			write_field(out, number, field, op);
	}
	for (size_t i = 0; i < show_work_field_count; i++) {
		number++;
		if (work && show_field_shown(&show_work_fields[i], work))
			write_field(out, number, &show_work_fields[i], work);
	}
	for (size_t i = 0; i < show_mark_count; i++) {
		number++;
		if (show_marked(&show_marks[i], op, work || op->kind == OP_STATE))
			write_mark(out, number);
	}
}

static void write_count(struct out *out, uint64_t count)
{
	uint8_t *body = pb_open(out, EVENT_ANNOTATION);

	pb_string(out, ANNOTATION_NAME, "count");
	pb_uint(out, ANNOTATION_UINT, count);
	pb_close(out, body);
}

static void write_domain(struct out *out, const char *domain)
{
	uint8_t *body = pb_open(out, EVENT_ANNOTATION);

	pb_string(out, ANNOTATION_NAME, "domain");
	pb_string(out, ANNOTATION_STRING, domain);
	pb_close(out, body);
}

static void event_open(struct out *out, uint64_t time_ns, enum event_type type, uint64_t track,
		       uint8_t *ret_body[2])
{
	ret_body[0] = packet_open(out);
	pb_uint(out, PACKET_TIME, time_ns);
	pb_uint(out, PACKET_FLAGS, NAMES_NEEDED);
	ret_body[1] = pb_open(out, PACKET_EVENT);
	pb_uint(out, EVENT_TYPE, type);
	pb_uint(out, EVENT_TRACK, track);
}

static void event_close(struct out *out, uint8_t *body[2])
{
	pb_close(out, body[1]);
	pb_close(out, body[0]);
}

int perfetto_event(struct out *out, const struct perfetto_event *event)
{
	bool instant = event->end_ns <= event->start_ns;
	uint8_t *body[2];
	int r = out_room(out);

	if (r < 0)
		return r;
	event_open(out, event->start_ns, instant ? TYPE_INSTANT : TYPE_BEGIN, event->track, body);
	pb_uint(out, EVENT_CATEGORY, event->category);
	pb_uint(out, EVENT_NAME_NUMBER, event->name);
	if (event->op)
		write_annotations(out, event->op, event->work);
	if (event->count)
		write_count(out, event->count);
	if (event->domain)
		write_domain(out, event->domain);
	if (event->stack)
		pb_uint(out, EVENT_STACK, event->stack);
	if (event->flow)
		pb_fixed(out, event->flow_ends ? EVENT_FLOW_END : EVENT_FLOW, event->flow);
	if (event->tie)
		pb_fixed(out, EVENT_FLOW, event->tie);
	event_close(out, body);
	if (instant)
		return 0;
	event_open(out, event->end_ns, TYPE_END, event->track, body);
	event_close(out, body);
	return 0;
}

int perfetto_counter(struct out *out, uint64_t track, uint64_t time_ns, uint64_t value)
{
	uint8_t *body[2];
	int r = out_room(out);

	if (r < 0)
		return r;
	event_open(out, time_ns, TYPE_COUNTER, track, body);
	pb_uint(out, EVENT_VALUE, value);
	event_close(out, body);
	return 0;
}

int perfetto_real(struct out *out, uint64_t track, uint64_t time_ns, double value)
{
	uint8_t *body[2];
	int r = out_room(out);

	if (r < 0)
		return r;
	event_open(out, time_ns, TYPE_COUNTER, track, body);
	pb_double(out, EVENT_REAL, value);
	event_close(out, body);
	return 0;
}
