/* Python: walks interpreters, their thread states, and the frames of each. A walk is repeated until
 * several are alike: then the stack was one at that moment, as far as can be told without stopping
 * the process. */
#include "daemon/python/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/vector.h"
#include "daemon/python/merge.h"
#include "daemon/python/value.h"

#define TRIES	   32
#define ALIKE	   3 /* so many walks in a row like the one before */
#define PAUSE_NS   10000
#define FIELD_SIZE 8

/* Of a code object: CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR. */
#define IS_GENERATOR (0x20 | 0x80 | 0x200)

/* Knuth's, of MMIX. */
#define SEED_FACTOR 6364136223846793005u
#define SEED_STEP   1442695040888963407u
#define SEED_SHIFT  33

struct raw_frame {
	uint64_t address, code, position;
	uint8_t mark;
};

struct walk {
	size_t count;
	bool cut, broken, moved;
	struct raw_frame frame[LIMIT_PYTHON_FRAMES];
};

struct python {
	struct peek peek;
	struct find find;
	struct codes codes;
	struct walk walk[2];
	uint64_t seed;
};

int python_new(const struct find *find, const struct peek *peek, struct python **ret)
{
	struct python *python = calloc(1, sizeof(*python));

	if (!python)
		return -ENOMEM;
	python->find = *find;
	python->peek = *peek;
	*ret = python;
	return 0;
}

int python_open(uint32_t pid, struct python **ret, uint32_t *ret_version)
{
	struct peek peek;
	struct find find;
	int r;

	peek_open(&peek, pid);
	r = find_python(pid, &peek, &find);
	*ret_version = find.version;
	return r < 0 ? r : python_new(&find, &peek, ret);
}

struct python *python_free(struct python *python)
{
	if (!python)
		return NULL;
	codes_clear(&python->codes);
	free(python);
	return NULL;
}

uint32_t python_version(const struct python *python)
{
	return python->find.version;
}

const struct find *python_found(const struct python *python)
{
	return &python->find;
}

static size_t frame_size(const struct layout *layout)
{
	uint32_t end = layout->frame.position;

	if (layout->frame.owner > end)
		end = layout->frame.owner;
	if (layout->frame.entry > end)
		end = layout->frame.entry;
	if (layout->frame.previous > end)
		end = layout->frame.previous;
	if (layout->frame.code > end)
		end = layout->frame.code;
	return end + FIELD_SIZE;
}

static uint64_t word_at(const uint8_t *object, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, object + offset, sizeof(word));
	return word;
}

static int read_frame(struct python *python, uint64_t address, struct raw_frame *ret,
		      uint64_t *ret_previous)
{
	const struct layout *layout = &python->find.layout;
	uint8_t object[LAYOUT_FRAME_SIZE + FIELD_SIZE];
	int r = peek_bytes(&python->peek, address, object, frame_size(layout));

	if (r < 0)
		return r;
	*ret = (struct raw_frame){
		.address = address,
		.code = word_at(object, layout->frame.code) & ~layout->tags,
		.position = word_at(object, layout->frame.position),
		.mark = merge_mark(layout, object[layout->frame.entry],
				   object[layout->frame.owner]),
	};
	/* An int; what lies behind it is not part of it. */
	if (!layout->code.bytecode)
		ret->position = (uint32_t)ret->position;
	*ret_previous = word_at(object, layout->frame.previous);
	return 0;
}

static int innermost(struct python *python, uint64_t thread, uint64_t *ret)
{
	const struct layout *layout = &python->find.layout;
	int r = peek_word(&python->peek, thread + layout->thread.frame, ret);

	if (r == 0 && *ret && layout->indirect != LAYOUT_NO_OFFSET)
		r = peek_word(&python->peek, *ret + layout->indirect, ret);
	return r;
}

/* A generator that yields is unlinked from its caller while it still looks like the innermost
 * frame: so the thread must be in the same frame after the walk as before. */
static int walk(struct python *python, uint64_t thread, struct walk *ret)
{
	uint64_t at, before, after;
	int r = innermost(python, thread, &at);

	before = r == 0 ? at : 0;
	ret->count = 0;
	ret->cut = ret->broken = ret->moved = false;
	while (r == 0 && at) {
		ret->cut = ret->count == LIMIT_PYTHON_FRAMES;
		if (ret->cut)
			return 0;
		r = read_frame(python, at, &ret->frame[ret->count], &at);
		ret->count += r == 0;
	}
	ret->broken = r == -EFAULT;
	if (r == 0)
		r = innermost(python, thread, &after);
	ret->moved = r == 0 && after != before;
	return r == -EFAULT ? 0 : r;
}

/* The innermost frame goes on without being another. */
static bool is_alike(const struct walk *a, const struct walk *b)
{
	if (a->count != b->count || a->broken || b->broken || a->moved || b->moved)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->frame[i].address != b->frame[i].address ||
		    a->frame[i].code != b->frame[i].code ||
		    (i > 0 && a->frame[i].position != b->frame[i].position))
			return false;
	return true;
}

/* A program that goes round in a loop can be met in step with it, and two walks are then wrong in
 * the same way: so they are irregular. */
static void pause_between(struct python *python)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC);

	python->seed = python->seed * SEED_FACTOR + SEED_STEP;
	end_ns += (python->seed >> SEED_SHIFT) % PAUSE_NS;
	while (clock_ns(CLOCK_MONOTONIC) < end_ns)
		;
}

static int walk_until_alike(struct python *python, uint64_t thread, const struct walk **ret,
			    bool *ret_moving)
{
	unsigned int alike = 0;
	int r = walk(python, thread, &python->walk[0]);

	*ret = &python->walk[0];
	for (unsigned int i = 1; r == 0 && i < TRIES && alike < ALIKE; i++) {
		pause_between(python);
		r = walk(python, thread, &python->walk[i % 2]);
		*ret = &python->walk[i % 2];
		alike = is_alike(&python->walk[0], &python->walk[1]) ? alike + 1 : 0;
	}
	*ret_moving = alike < ALIKE;
	return r;
}

/* 1: Python does not show it. */
static int name_frame(struct python *python, const struct raw_frame *raw, struct python_frame *ret)
{
	const struct layout *layout = &python->find.layout;
	const struct text_source source = { &python->peek, layout, python->find.text_type };
	int r;

	if (raw->mark & MERGE_HIDDEN)
		return 1;
	r = codes_get(&python->codes, &source, python->find.code_type, raw->code, &ret->code);
	if (r < 0)
		return r;
	if (!code_has_begun(ret->code, layout, raw->position))
		return 1;
	/* The table is gone through from its start. */
	r = peek_charge(&python->peek, ret->code->lines_size);
	if (r < 0)
		return r;
	ret->address = raw->address;
	ret->position = raw->position;
	ret->line = code_line(ret->code, layout, raw->position);
	return 0;
}

/* A generator that runs has a caller; one that has just yielded has none any more. */
static bool ends_in_generator(const struct python_snapshot *snapshot,
			      const struct python_stack *stack)
{
	const struct python_frame *last = &snapshot->frame[stack->first + stack->count - 1];

	return !stack->cut && !stack->broken && (last->code->identity.flags & IS_GENERATOR);
}

static int name_frames(struct python *python, const struct walk *walk,
		       struct python_snapshot *snapshot, struct python_stack *stack)
{
	stack->first = snapshot->frame_count;
	stack->first_mark = snapshot->mark_count;
	for (size_t i = 0; i < walk->count; i++) {
		int r = VECTOR_ROOM(snapshot->frame, snapshot->frame_room,
				    snapshot->frame_count + 1);

		if (r == 0)
			r = VECTOR_ROOM(snapshot->mark, snapshot->mark_room,
					snapshot->mark_count + 1);
		if (r == 0)
			r = name_frame(python, &walk->frame[i],
				       &snapshot->frame[snapshot->frame_count]);
		if (r < 0 && r != -EFAULT && r != -EBADMSG)
			return r;
		stack->broken |= r < 0;
		if (r < 0)
			break;
		snapshot->frame_count += r == 0;
		snapshot->mark[snapshot->mark_count++] =
			walk->frame[i].mark | (r == 0 ? 0 : MERGE_HIDDEN);
	}
	stack->count = snapshot->frame_count - stack->first;
	stack->mark_count = snapshot->mark_count - stack->first_mark;
	stack->moving |= stack->count && ends_in_generator(snapshot, stack);
	return 0;
}

static bool is_one_of(const uint32_t *tid, size_t count, uint64_t number)
{
	for (size_t i = 0; i < count; i++)
		if (tid[i] == number)
			return true;
	return false;
}

/* Since 3.11 the thread state has its number, which up to 3.12 stays that of the parent in a child
 * without exec. Otherwise it has the pthread_t: the address of the C library's structure, in which
 * the number is. 0: it is none of these threads. */
static uint32_t number_of(struct python *python, uint64_t thread, const uint32_t *tid, size_t count)
{
	static const uint32_t places[] = { 720 /* glibc */, 48 /* musl */ };
	const struct layout *layout = &python->find.layout;
	uint64_t number, pthread;
	uint32_t inner;

	if (layout->thread.native &&
	    peek_word(&python->peek, thread + layout->thread.native, &number) == 0 &&
	    is_one_of(tid, count, number))
		return (uint32_t)number;
	if (peek_word(&python->peek, thread + layout->thread.thread_id, &pthread) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (peek_bytes(&python->peek, pthread + places[i], &inner, sizeof(inner)) == 0 &&
		    is_one_of(tid, count, inner))
			return inner;
	return 0;
}

static int take_thread(struct python *python, uint64_t thread, uint32_t tid, int64_t interpreter,
		       struct python_snapshot *snapshot)
{
	struct python_stack *stack;
	const struct walk *found;
	int r = VECTOR_ROOM(snapshot->stack, snapshot->stack_room, snapshot->stack_count + 1);

	if (r < 0)
		return r;
	stack = &snapshot->stack[snapshot->stack_count];
	*stack = (struct python_stack){ .tid = tid, .interpreter = interpreter };
	r = walk_until_alike(python, thread, &found, &stack->moving);
	if (r < 0)
		return r;
	stack->cut = found->cut;
	stack->broken = found->broken;
	r = name_frames(python, found, snapshot, stack);
	snapshot->stack_count += r == 0;
	return r;
}

static int take_interpreter(struct python *python, uint64_t interpreter, const uint32_t *tid,
			    size_t count, struct python_snapshot *snapshot)
{
	const struct layout *layout = &python->find.layout;
	uint64_t thread, id;
	int r = peek_word(&python->peek, interpreter + layout->interpreter.id, &id);

	if (r == 0)
		r = peek_word(&python->peek, interpreter + layout->interpreter.threads, &thread);
	while (r == 0 && thread) {
		uint32_t number = number_of(python, thread, tid, count);

		if (snapshot->stack_count == LIMIT_PYTHON_THREADS)
			return -EDQUOT;
		if (number)
			r = take_thread(python, thread, number, (int64_t)id, snapshot);
		if (r == 0)
			r = peek_word(&python->peek, thread + layout->thread.next, &thread);
	}
	return r;
}

static int take_all(struct python *python, const uint32_t *tid, size_t count,
		    struct python_snapshot *snapshot)
{
	const struct layout *layout = &python->find.layout;
	uint64_t at;
	int r = peek_word(&python->peek, python->find.runtime + layout->runtime.head, &at);

	for (unsigned int i = 0; r == 0 && at; i++) {
		if (i == LIMIT_PYTHON_INTERPRETERS)
			return -EDQUOT;
		r = take_interpreter(python, at, tid, count, snapshot);
		if (r == 0)
			r = peek_word(&python->peek, at + layout->interpreter.next, &at);
	}
	return r;
}

int python_take(struct python *python, const uint32_t *tid, size_t count,
		struct python_snapshot *ret)
{
	struct python_snapshot snapshot = { 0 };
	int r;

	python_renew(python);
	r = take_all(python, tid, count, &snapshot);
	/* What was read so far holds: a thread state that ends takes its pointers along. */
	snapshot.cut = r == -EDQUOT || r == -EFAULT;
	if (r < 0 && !snapshot.cut) {
		python_snapshot_clear(&snapshot);
		return r;
	}
	*ret = snapshot;
	return 0;
}

static int read_local(struct python *python, const struct text_source *source,
		      const struct python_frame *frame, uint32_t i,
		      int (*each)(void *data, const char *name, const char *value), void *data)
{
	const struct layout *layout = source->layout;
	uint64_t name_at, object = 0, offset = i * sizeof(uint64_t);
	char name[TEXT_SIZE], value[VALUE_SIZE];
	int r;

	r = peek_word(source->peek, frame->address + layout->frame.locals + offset, &object);
	object &= ~layout->tags;
	if (r < 0 || !object)
		return r;
	r = peek_word(source->peek, frame->code->identity.names + layout->tuple_items + offset,
		      &name_at);
	if (r == 0)
		r = text_read(source, name_at, name);
	if (r < 0)
		return r;
	r = value_text(source, object, value);
	if (r == -ENOENT)
		return 0;
	if (r == -EFAULT || r == -EBADMSG) {
		snprintf(value, sizeof(value), "?");
		r = 0;
	}
	return r < 0 ? r : each(data, name, value);
}

int python_locals(struct python *python, const struct python_frame *frame,
		  int (*each)(void *data, const char *name, const char *value), void *data)
{
	const struct text_source source = { &python->peek, &python->find.layout,
					    python->find.text_type };
	uint32_t count = frame->code->local_count;
	struct raw_frame after;
	uint64_t previous;
	int r = 0;

	if (count > LIMIT_PYTHON_LOCALS)
		count = LIMIT_PYTHON_LOCALS;
	for (uint32_t i = 0; r == 0 && i < count; i++)
		r = read_local(python, &source, frame, i, each, data);
	if (r < 0)
		return r;
	r = read_frame(python, frame->address, &after, &previous);
	if (r < 0)
		return r;
	if (after.code != frame->code->address || after.position != frame->position)
		return -EAGAIN;
	return 0;
}

int python_name(struct python *python, const struct ts_python_frame *frame,
		struct python_frame *ret)
{
	const struct layout *layout = &python->find.layout;
	const struct text_source source = { &python->peek, layout, python->find.text_type };
	uint64_t position = frame->position & ~TS_PYTHON_FLAGS;
	int r;

	if (!frame->code)
		return 1;
	r = codes_get_checked(&python->codes, &source, python->find.code_type, frame, &ret->code);
	if (r < 0)
		return r;
	if (!code_has_begun(ret->code, layout, position))
		return 1;
	ret->address = 0;
	ret->position = position;
	ret->line = code_line(ret->code, layout, position);
	return 0;
}

void python_renew(struct python *python)
{
	peek_renew(&python->peek);
	if (python->codes.arena.total > LIMIT_PYTHON_CODES)
		codes_clear(&python->codes);
}

void python_snapshot_clear(struct python_snapshot *snapshot)
{
	free(snapshot->stack);
	free(snapshot->frame);
	free(snapshot->mark);
	*snapshot = (struct python_snapshot){ 0 };
}
