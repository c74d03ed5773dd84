/* Message: threads with the frames of their thread states. Texts are sent once; everything lies in
 * an arena. */
#include "daemon/stack/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"
#include "daemon/python/python.h"

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

static int fill_frame(struct stack_message *message, const struct python_frame *from,
		      int64_t interpreter, Frame *frame)
{
	int r;

	tracesmith__v1__stack_reply__frame__init(frame);
	frame->line = (uint32_t)from->line;
	frame->interpreter = interpreter;
	r = add_text(message, from->code->function, &frame->function);
	return r < 0 ? r : add_text(message, from->code->file, &frame->file);
}

/* A thread has a state for each interpreter that it is in: the newest is the innermost. */
static int fill_frames(struct stack_message *message, struct python *python,
		       const struct python_snapshot *snapshot, uint32_t ns_tid, Thread *thread)
{
	const struct python_stack *stack;
	size_t count = 0;
	Frame *frame;
	int r = 0;

	for (size_t i = 0; i < snapshot->stack_count; i++)
		count += snapshot->stack[i].tid == ns_tid ? snapshot->stack[i].count : 0;
	thread->frame = get(message, count * sizeof(*thread->frame));
	frame = get(message, count * sizeof(*frame));
	if (!thread->frame || !frame)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->stack_count; i++) {
		stack = &snapshot->stack[i];
		if (stack->tid != ns_tid)
			continue;
		thread->python = true;
		thread->moving |= stack->moving;
		thread->cut |= stack->cut;
		thread->broken |= stack->broken;
		for (size_t k = 0; r == 0 && k < stack->count; k++) {
			if (message->arena.total > LIMIT_STACK_BYTES) {
				thread->cut = true;
				break;
			}
			r = fill_frame(message, &snapshot->frame[stack->first + k],
				       stack->interpreter, frame);
			if (r == 0 && message->locals)
				r = fill_locals(message, python, &snapshot->frame[stack->first + k],
						frame);
			thread->frame[thread->n_frame++] = frame++;
		}
	}
	return r;
}

static int fill_thread(struct stack_message *message, struct python *python,
		       const struct task *task, const struct python_snapshot *snapshot,
		       Thread *thread)
{
	tracesmith__v1__stack_reply__thread__init(thread);
	thread->tid = task->tid;
	thread->name = visible(message, task->name);
	thread->state = (char *)task->state;
	thread->call = (char *)task->call;
	thread->waits = visible(message, task->waits);
	thread->driver_call = (char *)task->driver_call;
	thread->driver_ns = task->driver_ns;
	if (!thread->name || !thread->waits)
		return -ENOMEM;
	return fill_frames(message, python, snapshot, task->ns_tid, thread);
}

static int fill_threads(struct stack_message *message, struct python *python,
			const struct tasks *tasks, const struct python_snapshot *snapshot)
{
	Tracesmith__V1__StackReply *reply = &message->reply;
	Thread *thread = get(message, tasks->count * sizeof(*thread));
	int r = 0;

	reply->thread = get(message, tasks->count * sizeof(*reply->thread));
	if (!thread || !reply->thread)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < tasks->count; i++) {
		r = fill_thread(message, python, &tasks->task[i], snapshot, &thread[i]);
		reply->thread[reply->n_thread++] = &thread[i];
	}
	return r;
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

static int take(struct python *python, const struct tasks *tasks, struct python_snapshot *ret)
{
	_cleanup_(freep) uint32_t *tid = calloc(tasks->count, sizeof(*tid));

	if (!tid)
		return -ENOMEM;
	for (size_t i = 0; i < tasks->count; i++)
		tid[i] = tasks->task[i].ns_tid;
	return python_take(python, tid, tasks->count, ret);
}

int message_fill(struct stack_message *message, const struct tasks *tasks, struct python *python,
		 const char *why)
{
	_cleanup_(python_snapshot_clear) struct python_snapshot snapshot = { 0 };
	Tracesmith__V1__StackReply *reply = &message->reply;
	int r = python ? take(python, tasks, &snapshot) : 0;

	if (r < 0)
		return r;
	tracesmith__v1__stack_reply__init(reply);
	reply->comm = visible(message, tasks->task[0].name);
	reply->python = python ? version_text(message, python) : (char *)"";
	reply->no_python = (char *)why;
	reply->cut = tasks->cut || snapshot.cut;
	if (!reply->comm || !reply->python)
		return -ENOMEM;
	return fill_threads(message, python, tasks, &snapshot);
}

void message_clear(struct stack_message *message)
{
	free(message->reply.text);
	map_clear(&message->texts);
	arena_clear(&message->arena);
}
