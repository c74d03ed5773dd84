/* Named: the way of a stack from addresses to names. Frames of Python get theirs first, while the
 * process still has their code; then native ones, by which the two are put together. It is stored
 * then, and once more if lines of native code are found later. */
#include <errno.h>
#include <string.h>

#include "core/model/frame.h"
#include "daemon/daemon_internal.h"
#include "daemon/python/merge.h"
#include "daemon/symbol/places.h"

#define UNKNOWN "<unknown>" /* as Python writes names that are none */

void daemon_python_found(void *data, struct pythons_found *found)
{
	struct daemon *daemon = data;

	if (!daemon->probe)
		return;
	if (daemon->freed && found->file >= 0)
		found->place.freed = freed_add(daemon->freed, found->pid, found->user,
					       TAKE_FD(found->file), found->freeing);
	probe_place_python(daemon->probe, found->pid, &found->place);
	exact_python_placed(daemon->exact, found->pid);
}

static void on_codes_freed(void *data, uint32_t pid, uint32_t objects)
{
	const struct daemon *daemon = data;

	if (objects && daemon->price)
		price_other_hits(daemon->price, pid, objects);
}

int daemon_start_freed(struct daemon *daemon)
{
	return freed_new(daemon->probe, libraries_linker(daemon->libraries),
			 libraries_remover(daemon->libraries), on_codes_freed, daemon,
			 &daemon->freed);
}

void daemon_forget_python(struct daemon *daemon, uint32_t pid)
{
	pythons_forget(daemon->pythons, pid);
	freed_forget(daemon->freed, pid);
}

void daemon_look_for_python(struct daemon *daemon, uint32_t pid)
{
	if (daemon->probe_config.python_depth)
		pythons_look(daemon->pythons, pid, uv_hrtime());
}

static void add_job(struct daemon *daemon, struct symbol_job *job)
{
	if (symbolizer_add(daemon->symbolizer, job) < 0)
		daemon->stacks_unnamed++;
}

static uint8_t mark_of(const struct ts_python_frame *frame, const struct pythons_name *name)
{
	return (uint8_t)((frame->position & TS_PYTHON_ENTRY ? MERGE_ENTRY : 0) |
			 (name->hidden || !frame->code ? MERGE_HIDDEN : 0));
}

void daemon_python_named(void *data, void *stack, const struct ts_python_frame *frame,
			 struct pythons_name *name, uint32_t count)
{
	struct symbol_job *job = stack;

	for (uint32_t i = 0; i < count; i++)
		job->frame[job->count++] = (struct symbol_frame){
			.kind = FRAME_PYTHON,
			.mark = mark_of(&frame[i], &name[i]),
			.name = name[i].function ? TAKE(name[i].function) : strdup(UNKNOWN),
			.source = TAKE(name[i].file),
			.line = name[i].line,
		};
	job->python_whole = count && !(frame[count - 1].position & TS_PYTHON_CUT);
	add_job(data, job);
}

/* Addresses become file and offset, while the mappings are those of the stack. */
static int resolve(struct daemon *daemon, const struct core_process *process,
		   const struct ts_stack *stack, struct symbol_job *job)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < stack->frame_count; i++) {
		struct symbol_frame *frame = &job->frame[i];
		struct maps_file *file;
		int r;

		frame->address = stack->frame[i];
		if (daemon_is_replaced(daemon, process->pid, stack->time_ns, frame->address))
			continue;
		r = maps_resolve(daemon->maps, process->pid, stack->time_ns, frame->address, &file,
				 &frame->offset);
		if (r == -EAGAIN)
			return r;
		if (r == 0) {
			frame->file = maps_file_ref(file);
			known = i + 1;
		}
	}
	/* Outermost addresses that are in no file are where frame pointers went wrong. */
	job->count = known && stack->end == TS_END_LINKS ? known : stack->frame_count;
	return 0;
}

int daemon_resolve(struct daemon *daemon, const struct core_process *process,
		   const struct ts_stack *stack)
{
	struct symbol_job *job = symbol_job_new(stack->frame_count + stack->python_count);

	if (!job) {
		daemon->stacks_unnamed++;
		return -ENOMEM;
	}
	job->stack_id = stack->id;
	job->process = process->id;
	job->pid = process->pid;
	job->user = process->user;
	job->end = stack->end;
	job->linked = stack->linked;
	if (resolve(daemon, process, stack, job) == -EAGAIN) {
		symbol_job_free(job);
		return -EAGAIN;
	}
	daemon_look_for_python(daemon, process->pid);
	if (!stack->python_count) {
		add_job(daemon, job);
		return 0;
	}
	if (pythons_ask(daemon->pythons, process->pid, process->user,
			&stack->frame[TS_STACK_FRAMES_MAX], stack->python_count, job) == 0)
		return 0;
	daemon->stacks_unnamed++;
	add_job(daemon, job);
	return 0;
}

void daemon_name_stack(struct daemon *daemon, const struct core_process *process,
		       const struct ts_stack *stack)
{
	maps_catch_up(daemon->maps);
	if (daemon_resolve(daemon, process, stack) == -EAGAIN &&
	    !daemon_resolve_later(daemon, process, stack))
		daemon->stacks_unnamed++;
}

struct stack {
	struct frame frame[FRAMES_MAX];
	uint32_t count;
};

static void add(struct stack *stack, const struct frame *frame)
{
	if (stack->count < FRAMES_MAX)
		stack->frame[stack->count++] = *frame;
}

static const char *known(const char *text)
{
	return text && *text ? text : NULL;
}

/* With the functions that are compiled into its own. The name of that is the symbol's, as in files
 * without debug information. */
static void add_frame(struct stack *stack, const struct symbol_frame *named)
{
	uint32_t count = named->places ? named->places->count : 0;
	struct frame frame = {
		.address = named->address,
		.offset = named->offset,
		.module = named->file ? named->file->path : NULL,
		.function = named->name,
		.file = named->source,
		.line = named->line,
		.kind = named->kind,
	};

	for (uint32_t i = 0; i < count; i++) {
		const struct place *place = &named->places->place[i];

		frame.inlined = i + 1 < count;
		frame.function =
			frame.inlined || !named->name ? known(place->function) : named->name;
		frame.file = place->line ? known(place->file) : NULL;
		frame.line = frame.file ? place->line : 0;
		add(stack, &frame);
	}
	if (!count)
		add(stack, &frame);
}

static void store_stack(struct daemon *daemon, const struct symbol_job *job)
{
	uint8_t loop[TS_STACK_FRAMES_MAX] = { 0 }, mark[TS_STACK_PYTHON_MAX];
	bool uneven;
	struct merged merged[TS_STACK_FRAMES_MAX + TS_STACK_PYTHON_MAX];
	struct merge_stack parts = { .loop = loop,
				     .mark = mark,
				     .at_once = true,
				     .native_whole = job->end == TS_END_COMPLETE,
				     .python_whole = job->python_whole };
	struct stack stack;
	size_t count;

	for (uint32_t i = 0; i < job->count; i++) {
		const struct symbol_frame *named = &job->frame[i];

		if (named->kind == FRAME_PYTHON)
			mark[parts.python_count++] = named->mark;
		else
			loop[parts.native_count++] = merge_loop(named->name);
	}
	count = merge(&parts, merged, &uneven);
	stack.count = 0;
	for (size_t i = 0; i < count; i++)
		add_frame(
			&stack,
			&job->frame[merged[i].index + (merged[i].python ? parts.native_count : 0)]);
	store_add_stack(daemon->store, &(struct store_stack){ .id = job->stack_id,
							      .process = job->process,
							      .frame = stack.frame,
							      .count = stack.count,
							      .end = job->end,
							      .linked = job->linked });
}

void daemon_stack_named(void *data, struct symbol_job *job)
{
	struct daemon *daemon = data;
	bool whole = !daemon->lines || lines_fill(daemon->lines, job);

	store_stack(daemon, job);
	if (whole)
		symbol_job_free(job);
	else
		lines_add(daemon->lines, job);
}

void daemon_stack_lined(void *data, const struct symbol_job *job)
{
	store_stack(data, job);
}
