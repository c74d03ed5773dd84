/* Native: registers and bytes of the stacks of some threads, from which the frames are found once
 * they are known to be of one moment. */
#include "daemon/native/native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/limits.h"
#include "daemon/native/image.h"
#include "daemon/native/sample.h"
#include "daemon/proc/memory.h"
#include "daemon/proc/procfs.h"

#define PAGE_BYTES 4096

struct copy {
	struct walk_registers at;
	uint8_t *stack; /* in `bytes`; NULL: it could not be read */
	size_t size;
};

struct thread {
	uint64_t switches; /* at the first look */
	struct copy first, later;
	struct native_stack found;
	struct native_frame frame[LIMIT_NATIVE_FRAMES], later_frame[LIMIT_NATIVE_FRAMES];
};

struct native {
	uint32_t pid, living; /* the thread that has its memory */
	const struct look *look;
	struct images images;
	struct task_registers *seen; /* LIMIT_STACK_THREADS */
	uint8_t *bytes;		     /* LIMIT_NATIVE_BYTES */
	size_t used;
	struct thread *thread; /* LIMIT_NATIVE_THREADS */
	struct native_stack stack[LIMIT_NATIVE_THREADS];
	size_t count;
};

int native_new(uint32_t pid, const struct look *look, struct native **ret)
{
	_cleanup_(native_freep) struct native *native = calloc(1, sizeof(*native));

	if (!native)
		return -ENOMEM;
	native->pid = pid;
	native->living = procfs_living_thread(pid);
	native->look = look;
	memory_forget(native->living);
	*ret = TAKE(native);
	return 0;
}

struct native *native_free(struct native *native)
{
	if (!native)
		return NULL;
	native_rest(native);
	images_clear(&native->images);
	free(native);
	return NULL;
}

void native_rest(struct native *native)
{
	images_close(&native->images);
	free(TAKE(native->seen));
	free(TAKE(native->bytes));
	free(TAKE(native->thread));
}

static int get_memory(struct native *native)
{
	if (!native->seen)
		native->seen = calloc(LIMIT_STACK_THREADS, sizeof(*native->seen));
	if (!native->bytes)
		native->bytes = malloc(LIMIT_NATIVE_BYTES);
	if (!native->thread)
		native->thread = calloc(LIMIT_NATIVE_THREADS, sizeof(*native->thread));
	return native->seen && native->bytes && native->thread ? 0 : -ENOMEM;
}

static const struct task_registers *find_seen(const struct native *native, size_t count,
					      uint32_t tid)
{
	for (size_t i = 0; i < count; i++)
		if (native->seen[i].tid == tid)
			return &native->seen[i];
	return NULL;
}

static size_t room_for(const struct native *native, size_t wanted)
{
	size_t left = LIMIT_NATIVE_BYTES - native->used;

	return left < wanted ? left : wanted;
}

/* Up to the end of the mapping, which is the stack's: a read ends where nothing is mapped. */
static void copy_stack(struct native *native, struct copy *copy)
{
	size_t room = room_for(native, LIMIT_NATIVE_STACK);
	uint8_t *stack = native->bytes + native->used;
	ssize_t n = memory_read(native->living, copy->at.sp, stack, room);

	if (n <= 0)
		return;
	copy->stack = stack;
	copy->size = (size_t)n;
	native->used += ((size_t)n + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	if (native->used > LIMIT_NATIVE_BYTES)
		native->used = LIMIT_NATIVE_BYTES;
}

static void take_sample(struct native *native, uint32_t tid, struct copy *copy)
{
	uint8_t *stack = native->bytes + native->used;

	if (room_for(native, SAMPLE_STACK_MAX) < SAMPLE_STACK_MAX ||
	    sample_thread(look_sampler(native->look), tid, stack, &copy->at, &copy->size) < 0)
		return;
	copy->stack = stack;
	native->used += SAMPLE_STACK_MAX;
}

static void read_thread(struct native *native, const struct task_registers *seen, bool sample,
			struct thread *thread)
{
	struct copy *copy = &thread->first;

	*copy = thread->later = (struct copy){ 0 };
	if (!seen)
		return;
	thread->switches = seen->switches_before;
	if (seen->on_cpu || sample)
		take_sample(native, seen->tid, copy);
	thread->found.sampled = copy->stack;
	if (!seen->on_cpu && !copy->stack) {
		copy->at = (struct walk_registers){ seen->pc, seen->sp, seen->bp };
		copy_stack(native, copy);
	}
	thread->found.changed = !copy->stack;
}

int native_begin(struct native *native, const uint32_t *tid, size_t count, bool sample)
{
	size_t seen;
	int r = get_memory(native);

	if (r == 0)
		r = images_read(&native->images, native->pid);
	if (r == 0)
		r = look_at(native->look, native->pid, native->seen, LIMIT_STACK_THREADS, &seen);
	if (r < 0)
		return r;
	native->used = 0;
	native->count = count < LIMIT_NATIVE_THREADS ? count : LIMIT_NATIVE_THREADS;
	for (size_t i = 0; i < native->count; i++) {
		struct thread *thread = &native->thread[i];

		thread->found = (struct native_stack){ .tid = tid[i],
						       .frame = thread->frame,
						       .later = thread->later_frame };
		read_thread(native, find_seen(native, seen, tid[i]), sample, thread);
	}
	return 0;
}

/* What a walk needs to know. */
struct walking {
	struct native *native;
	const struct copy *from;
	struct native_frame *frame;
	size_t count;
};

static int find_rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	const struct walking *walking = data;

	return images_rule(&walking->native->images, pc, returned, ret);
}

static bool find_word(void *data, uint64_t at, uint64_t *ret)
{
	const struct walking *walking = data;
	const struct walk_copy copy = { walking->from->at.sp, walking->from->stack,
					walking->from->size, 0 };

	return walk_copy_word(&copy, at, ret);
}

static void on_frame(void *data, uint64_t sp)
{
	struct walking *walking = data;

	walking->frame[walking->count++].sp = sp;
}

static void walk_stack(struct native *native, const struct copy *from, struct native_frame *frame,
		       struct walk *ret)
{
	struct walking walking = { native, from, frame, 0 };
	const struct walk_source source = {
		.data = &walking, .rule = find_rule, .word = find_word, .frame = on_frame
	};
	uint64_t pc[LIMIT_NATIVE_FRAMES];

	*ret = (struct walk){ 0 };
	if (!from->stack)
		return;
	walk(&source, from->at, false, pc, LIMIT_NATIVE_FRAMES, ret);
	for (uint32_t i = 0; i < ret->count; i++)
		frame[i] = (struct native_frame){ .pc = pc[i], .sp = frame[i].sp };
}

static void walk_thread(struct native *native, struct thread *thread)
{
	struct walk walked;

	walk_stack(native, &thread->later, thread->later_frame, &walked);
	thread->found.later_count = walked.count;
	walk_stack(native, &thread->first, thread->frame, &walked);
	thread->found.count = walked.count;
	thread->found.end = walked.end;
	thread->found.linked = walked.linked;
}

/* Of a return address, the call before it. */
static int place_of(const struct native *native, const struct native_frame *frame, size_t i,
		    struct image_place *ret)
{
	return images_find(&native->images, frame[i].pc - (i > 0), ret);
}

static size_t add_places(const struct native *native, const struct native_frame *frame,
			 size_t count, struct image_place *place)
{
	size_t added = 0;

	for (size_t i = 0; i < count; i++)
		added += place_of(native, frame, i, &place[added]) == 0;
	return added;
}

static int find_names(struct native *native)
{
	_cleanup_(freep) struct image_place *place = NULL;
	const struct native_stack *found;
	size_t count = 1;

	for (size_t i = 0; i < native->count; i++) {
		found = &native->thread[i].found;
		count += found->count + found->later_count;
	}
	place = calloc(count, sizeof(*place));
	if (!place)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < native->count; i++) {
		found = &native->thread[i].found;
		count += add_places(native, found->frame, found->count, place + count);
		count += add_places(native, found->later, found->later_count, place + count);
	}
	return images_name(&native->images, place, count);
}

static void set_names(const struct native *native, struct native_frame *frame, size_t count)
{
	struct image_place place;

	for (size_t i = 0; i < count; i++) {
		if (place_of(native, frame, i, &place) < 0)
			continue;
		frame[i].file = images_path(&native->images, place.image);
		frame[i].offset = place.offset;
		frame[i].function = images_function(&native->images, place);
	}
}

/* A sampled one has no counts to compare. */
static bool has_changed(const struct thread *thread, const struct task_registers *now)
{
	if (thread->found.sampled)
		return false;
	return !now || now->on_cpu || now->switches_after != thread->switches;
}

int native_end(struct native *native, bool again, const struct native_stack **ret)
{
	size_t seen;
	int r = look_at(native->look, native->pid, native->seen, LIMIT_STACK_THREADS, &seen);

	if (r < 0)
		return r;
	for (size_t i = 0; i < native->count; i++) {
		struct thread *thread = &native->thread[i];

		thread->found.changed |=
			has_changed(thread, find_seen(native, seen, thread->found.tid));
		if (again && thread->found.sampled)
			take_sample(native, thread->found.tid, &thread->later);
	}
	for (size_t i = 0; i < native->count; i++)
		walk_thread(native, &native->thread[i]);
	r = find_names(native);
	if (r < 0)
		return r;
	for (size_t i = 0; i < native->count; i++) {
		struct native_stack *found = &native->thread[i].found;

		set_names(native, found->frame, found->count);
		set_names(native, found->later, found->later_count);
		native->stack[i] = *found;
	}
	*ret = native->stack;
	return 0;
}
