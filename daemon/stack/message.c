/* Message: threads with their frames. Texts are sent once; everything lies in
 * an arena. */
#include "daemon/stack/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"
#include "daemon/stack/capture.h"

#define DRIVER "libcuda.so"

typedef Tracesmith__V1__StackReply__Thread Thread;
typedef Tracesmith__V1__StackReply__Frame Frame;
typedef Tracesmith__V1__StackReply__Local Local;

static void *get(struct stack_message *message, size_t size)
{
	void *memory = arena_get(&message->arena, size ? size : 1);

	return memory ? memset(memory, 0, size) : NULL;
}

/* Names are any bytes. */
static char *visible(struct stack_message *message, const char *text)
{
	size_t size = strlen(text);
	char *out = arena_get(&message->arena, 3 * size + 1);

	if (out)
		utf8_visible(out, text, size);
	return out;
}

static int add_text(struct stack_message *message, const char *text, uint32_t *ret)
{
	struct map_key key = map_key_of(text, strlen(text), (uintptr_t)message);
	uintptr_t place = (uintptr_t)map_get(&message->texts, key);
	Tracesmith__V1__StackReply *reply = &message->reply;
	int r;

	if (!place) {
		r = VECTOR_ROOM(reply->text, message->text_room, reply->n_text + 1);
		if (r < 0)
			return r;
		reply->text[reply->n_text] = arena_text(&message->arena, text, strlen(text));
		if (!reply->text[reply->n_text])
			return -ENOMEM;
		place = ++reply->n_text;
		r = map_put(&message->texts, key, (void *)place);
		if (r < 0)
			return r;
	}
	*ret = (uint32_t)(place - 1);
	return 0;
}

/* What is being filled in, from what. */
struct filling {
	struct stack_message *message;
	const struct message_source *source;
	const struct tasks *tasks;
};

/* A frame's, as they come. */
struct locals {
	struct stack_message *message;
	Frame *frame;
};

static int add_local(void *data, const char *name, const char *value)
{
	struct locals *locals = data;
	struct stack_message *message = locals->message;
	Local *local = get(message, sizeof(*local));
	Frame *frame = locals->frame;

	if (!local)
		return -ENOMEM;
	if (message->arena.total > LIMIT_STACK_BYTES)
		return -EDQUOT;
	tracesmith__v1__stack_reply__local__init(local);
	local->name = arena_text(&message->arena, name, strlen(name));
	local->value = arena_text(&message->arena, value, strlen(value));
	if (!local->name || !local->value)
		return -ENOMEM;
	frame->local[frame->n_local++] = local;
	return 0;
}

/* What was read stays, with the mark. */
static int fill_locals(struct stack_message *message, struct python *python,
		       const struct python_frame *from, Frame *frame)
{
	struct locals locals = { message, frame };
	int r;

	frame->local = get(message, LIMIT_PYTHON_LOCALS * sizeof(*frame->local));
	if (!frame->local)
		return -ENOMEM;
	r = python_locals(python, from, add_local, &locals);
	frame->moved = r < 0;
	return r == -ENOMEM ? r : 0;
}

static int fill_python(struct filling *filling, const struct captured_frame *from, Frame *frame)
{
	struct stack_message *message = filling->message;
	const struct code *code = from->python->code;
	int r;

	frame->line = (uint32_t)from->python->line;
	frame->interpreter = from->interpreter;
	r = add_text(message, code->function, &frame->function);
	if (r == 0)
		r = add_text(message, code->file, &frame->file);
	if (r == 0 && message->locals)
		r = fill_locals(message, filling->source->python, from->python, frame);
	return r;
}

static int fill_native(struct filling *filling, const struct native_frame *from, Frame *frame)
{
	char *file = visible(filling->message, from->file ? from->file : "");
	int r;

	if (!file)
		return -ENOMEM;
	frame->native = true;
	frame->address = from->pc;
	frame->offset = from->offset;
	r = add_text(filling->message, from->function ? from->function : "", &frame->function);
	return r < 0 ? r : add_text(filling->message, file, &frame->file);
}

static int fill_frames(struct filling *filling, const struct captured *captured, Thread *thread)
{
	struct stack_message *message = filling->message;
	Frame *frame = get(message, captured->count * sizeof(*frame));
	int r = 0;

	thread->frame = get(message, captured->count * sizeof(*thread->frame));
	if (!thread->frame || !frame)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < captured->count; i++, frame++) {
		const struct captured_frame *from = &captured->frame[i];

		if (message->arena.total > LIMIT_STACK_BYTES) {
			thread->cut = true;
			break;
		}
		tracesmith__v1__stack_reply__frame__init(frame);
		r = from->native ? fill_native(filling, from->native, frame)
				 : fill_python(filling, from, frame);
		thread->frame[thread->n_frame++] = frame;
	}
	return r;
}

static const char *end_text(const struct native_stack *native)
{
	static const char *const sentences[TS_END_COUNT] = {
		[TS_END_DEPTH] = "Further native frames are left out",
		[TS_END_NO_MAPPING] = "The native frames end at code that was made at run time",
		[TS_END_NO_RULE] = "The native frames end at a function without unwind information",
		[TS_END_BAD] = "The native frames end at a function that cannot be unwound",
		[TS_END_UNREADABLE] = "The native frames end where no more of the stack was read",
	};

	if (!native)
		return "";
	if (!native->count)
		return "Its native frames could not be read: it was never met at rest or running";
	return sentences[native->end] ? sentences[native->end] : "";
}

/* Where its entry was not seen, the stack tells: the outermost frame of the driver's is the call.
 */
static const char *call_of(const struct native_stack *native)
{
	const char *name, *found = "";

	for (size_t i = 0; native && i < native->count; i++) {
		const struct native_frame *frame = &native->frame[i];

		name = frame->file ? strrchr(frame->file, '/') : NULL;
		if (name && strncmp(name + 1, DRIVER, strlen(DRIVER)) == 0 && frame->function &&
		    strncmp(frame->function, "cu", 2) == 0)
			found = frame->function;
	}
	return found;
}

static int on_captured(void *data, const struct captured *captured)
{
	struct filling *filling = data;
	struct stack_message *message = filling->message;
	const struct task *task = captured->task;
	Thread *thread = message->reply.thread[task - filling->tasks->task];

	thread->tid = task->tid;
	thread->name = visible(message, task->name);
	thread->state = (char *)task->state;
	thread->call = (char *)task->call;
	thread->waits = visible(message, task->waits);
	thread->driver_call = (char *)task->driver_call;
	if (!*task->driver_call) {
		const char *call = call_of(captured->native);

		thread->driver_call = arena_text(&message->arena, call, strlen(call));
	}
	thread->driver_ns = task->driver_ns;
	thread->python = captured->has_python;
	thread->moving = captured->moving;
	thread->cut = captured->cut;
	thread->broken = captured->broken;
	thread->native_end = (char *)end_text(captured->native);
	if (!thread->name || !thread->waits || !thread->driver_call)
		return -ENOMEM;
	return fill_frames(filling, captured, thread);
}

static int add_threads(struct stack_message *message, size_t count)
{
	Tracesmith__V1__StackReply *reply = &message->reply;
	Thread *thread = get(message, count * sizeof(*thread));

	reply->thread = get(message, count * sizeof(*reply->thread));
	if (!thread || !reply->thread)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		tracesmith__v1__stack_reply__thread__init(&thread[i]);
		reply->thread[i] = &thread[i];
	}
	reply->n_thread = count;
	return 0;
}

/* 3.9 and 3.10 do not say their micro version. */
static char *version_text(struct stack_message *message, const struct python *python)
{
	uint32_t version = python_version(python);
	char text[32];

	if (version & 0xffff)
		snprintf(text, sizeof(text), "%u.%u.%u", version >> 24, version >> 16 & 255,
			 version >> 8 & 255);
	else
		snprintf(text, sizeof(text), "%u.%u", version >> 24, version >> 16 & 255);
	return arena_text(&message->arena, text, strlen(text));
}

int message_fill(struct stack_message *message, const struct tasks *tasks,
		 const struct message_source *source)
{
	struct filling filling = { message, source, tasks };
	const struct capture capture = { source->python, source->native, on_captured, &filling };
	Tracesmith__V1__StackReply *reply = &message->reply;
	bool cut;
	int r;

	tracesmith__v1__stack_reply__init(reply);
	reply->comm = visible(message, tasks->task[0].name);
	reply->python = source->python ? version_text(message, source->python) : (char *)"";
	reply->no_python = (char *)source->no_python;
	reply->no_native = (char *)source->no_native;
	if (!reply->comm || !reply->python || add_threads(message, tasks->count) < 0)
		return -ENOMEM;
	r = capture_threads(&capture, tasks, &cut);
	reply->cut = tasks->cut || cut;
	return r;
}

static int by_device(const void *a, const void *b)
{
	const Tracesmith__V1__StackReply__Work *const *x = a, *const *y = b;

	return ((*x)->device > (*y)->device) - ((*x)->device < (*y)->device);
}

int message_add_work(struct stack_message *message, const struct stack_work *work, size_t count,
		     uint64_t now_ns)
{
	Tracesmith__V1__StackReply *reply = &message->reply;
	Tracesmith__V1__StackReply__Work *to = get(message, count * sizeof(*to));

	reply->work = get(message, count * sizeof(*reply->work));
	if (!to || !reply->work)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++, work++, to++) {
		tracesmith__v1__stack_reply__work__init(to);
		to->device = work->device;
		to->stream = work->stream;
		to->call = (char *)(work->call ? work->call : "");
		to->ns = now_ns > work->start_ns ? now_ns - work->start_ns : 0;
		to->count = work->count;
		to->waits = work->waits;
		reply->work[reply->n_work++] = to;
	}
	qsort(reply->work, count, sizeof(*reply->work), by_device);
	return 0;
}

void message_clear(struct stack_message *message)
{
	free(message->reply.text);
	map_clear(&message->texts);
	arena_clear(&message->arena);
}
