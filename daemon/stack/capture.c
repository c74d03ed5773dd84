/* Capture: reads the threads that are left until each has stood still for as long as that took, or
 * has had its chances. Every second time they are sampled: one that is on a CPU for moments would
 * else be met when it is not, and have changed by the second look. */
#include "daemon/stack/capture.h"

#include <errno.h>
#include <string.h>

#include "core/base/vector.h"
#include "daemon/limits.h"
#include "daemon/python/merge.h"

/* The parts of a thread's stack; a frame that Python does not show is NULL. */
struct parts {
	struct captured_frame *python, *frame;
	size_t python_room, frame_room;
	uint8_t *mark;
	size_t mark_room, count;
	uint8_t *loop; /* enum merge_loop */
	size_t loop_room;
	struct merged *merged;
	size_t merged_room;
};

static void parts_clear(struct parts *parts)
{
	free(parts->python);
	free(parts->frame);
	free(parts->mark);
	free(parts->loop);
	free(parts->merged);
}

static int add_python(struct parts *parts, const struct python_snapshot *snapshot,
		      const struct python_stack *stack)
{
	const struct python_frame *next = snapshot->frame + stack->first;
	size_t count = parts->count + stack->mark_count;

	if (VECTOR_ROOM(parts->python, parts->python_room, count) < 0 ||
	    VECTOR_ROOM(parts->mark, parts->mark_room, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < stack->mark_count; i++) {
		uint8_t mark = snapshot->mark[stack->first_mark + i];
		bool hidden = mark & MERGE_HIDDEN;

		parts->mark[parts->count] = mark;
		parts->python[parts->count++] =
			(struct captured_frame){ hidden ? NULL : next, NULL, stack->interpreter };
		next += !hidden;
	}
	return 0;
}

/* A thread has a state for each interpreter that it is in: the newest is the innermost. */
static int gather_python(struct parts *parts, const struct python_snapshot *snapshot,
			 struct captured *captured)
{
	int r = 0;

	parts->count = 0;
	for (size_t i = 0; r == 0 && i < snapshot->stack_count; i++) {
		const struct python_stack *stack = &snapshot->stack[i];

		if (stack->tid != captured->task->ns_tid)
			continue;
		captured->has_python = true;
		captured->moving |= stack->moving;
		captured->cut |= stack->cut;
		captured->broken |= stack->broken;
		r = add_python(parts, snapshot, stack);
	}
	return r;
}

/* Where the next loop outwards is, from `end` on. */
static size_t next_loop(const struct native_frame *frame, size_t end)
{
	while (end > 0 && merge_loop(frame[end - 1].function) != MERGE_LOOP)
		end--;
	return end;
}

/* Python's frames were read between two samples of a running thread. They are those of the first if
 * it runs in the same loops as then; in the innermost one it may have got on. */
static bool loops_stay(const struct native_stack *native)
{
	size_t a = next_loop(native->frame, native->count);
	size_t b = next_loop(native->later, native->later_count);

	while (a && b) {
		const struct native_frame *x = &native->frame[--a], *y = &native->later[--b];

		a = next_loop(native->frame, a);
		b = next_loop(native->later, b);
		if (x->sp != y->sp || ((a || b) && x->pc != y->pc))
			return false;
	}
	return a == b;
}

static int join(struct parts *parts, struct captured *captured)
{
	const struct native_stack *native = captured->native;
	struct merge_stack stack = { .python_count = parts->count };
	bool uneven;

	stack.native_count = native ? native->count : 0;
	stack.native_whole = native && native->count && native->end == TS_END_COMPLETE;
	stack.python_whole = captured->has_python && !captured->cut && !captured->broken;
	if (VECTOR_ROOM(parts->loop, parts->loop_room, stack.native_count + 1) < 0 ||
	    VECTOR_ROOM(parts->merged, parts->merged_room, stack.native_count + parts->count + 1) <
		    0 ||
	    VECTOR_ROOM(parts->frame, parts->frame_room, stack.native_count + parts->count + 1) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < stack.native_count; i++)
		parts->loop[i] = merge_loop(native->frame[i].function);
	stack.loop = parts->loop;
	stack.mark = parts->mark;
	captured->count = merge(&stack, parts->merged, &uneven);
	captured->moving |= uneven || (captured->has_python && native && native->sampled &&
				       !loops_stay(native));
	captured->frame = parts->frame;
	for (size_t i = 0; i < captured->count; i++) {
		size_t from = parts->merged[i].index;

		if (parts->merged[i].python)
			parts->frame[i] = parts->python[from];
		else
			parts->frame[i] = (struct captured_frame){ .native = &native->frame[from] };
	}
	return 0;
}

/* The threads that are left of those that are read at one time. */
struct batch {
	const struct task **task;
	uint32_t *tid, *ns_tid;
	size_t count;
	unsigned int round; /* from 1 */
	struct parts parts;
	bool cut;
};

static void batch_clear(struct batch *batch)
{
	free(batch->task);
	free(batch->tid);
	free(batch->ns_tid);
	parts_clear(&batch->parts);
}

static int read_batch(const struct capture *capture, struct batch *batch,
		      struct python_snapshot *snapshot, const struct native_stack **ret)
{
	int r = 0;

	*ret = NULL;
	for (size_t i = 0; i < batch->count; i++) {
		batch->tid[i] = batch->task[i]->tid;
		batch->ns_tid[i] = batch->task[i]->ns_tid;
	}
	if (capture->native)
		r = native_begin(capture->native, batch->tid, batch->count, batch->round % 2 == 0);
	if (r == 0 && capture->python)
		r = python_take(capture->python, batch->ns_tid, batch->count, snapshot);
	if (r == 0 && capture->native)
		r = native_end(capture->native, capture->python, ret);
	batch->cut |= snapshot->cut;
	return r;
}

/* Those that changed are left for another time, if there is one. */
static int read_once(const struct capture *capture, struct batch *batch)
{
	bool again = capture->native && batch->round < LIMIT_NATIVE_ROUNDS;
	_cleanup_(python_snapshot_clear) struct python_snapshot snapshot = { 0 };
	const struct native_stack *native;
	size_t left = 0;
	int r = read_batch(capture, batch, &snapshot, &native);

	for (size_t i = 0; r == 0 && i < batch->count; i++) {
		struct captured captured = { .task = batch->task[i],
					     .native = native ? &native[i] : NULL };

		captured.moving = native && native[i].changed;
		r = gather_python(&batch->parts, &snapshot, &captured);
		if (r == 0)
			r = join(&batch->parts, &captured);
		if (r < 0)
			return r;
		if (captured.moving && again)
			batch->task[left++] = captured.task;
		else
			r = capture->each(capture->data, &captured);
	}
	batch->count = left;
	return r;
}

static int fill_batch(const struct capture *capture, const struct tasks *tasks, size_t *next,
		      size_t most, struct batch *batch)
{
	int r = 0;

	for (batch->count = 0; r == 0 && batch->count < most && *next < tasks->count; ++*next) {
		const struct captured nothing = { .task = &tasks->task[*next] };

		if (nothing.task->ended)
			r = capture->each(capture->data, &nothing);
		else
			batch->task[batch->count++] = nothing.task;
	}
	return r;
}

int capture_threads(const struct capture *capture, const struct tasks *tasks, bool *ret_cut)
{
	_cleanup_(batch_clear) struct batch batch = { 0 };
	size_t most = capture->native ? LIMIT_NATIVE_THREADS : LIMIT_STACK_THREADS;
	int r = 0;

	batch.task = calloc(most, sizeof(*batch.task));
	batch.tid = calloc(most, sizeof(*batch.tid));
	batch.ns_tid = calloc(most, sizeof(*batch.ns_tid));
	if (!batch.task || !batch.tid || !batch.ns_tid)
		return -ENOMEM;
	for (size_t next = 0; r == 0 && next < tasks->count;) {
		r = fill_batch(capture, tasks, &next, most, &batch);
		for (batch.round = 1; r == 0 && batch.count; batch.round++)
			r = read_once(capture, &batch);
	}
	*ret_cut = batch.cut;
	return r;
}
