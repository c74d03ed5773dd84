/* Walk, Python: the frames of the interpreter that the main thread runs. They are read like any
 * memory: the thread is in the middle of them, and only it could end the interpreter. Of another
 * thread the frames may go, when the main thread ends it, in the middle of the call. */
#include <stddef.h>

#include "inject/walk.h"

#define WORD 8

struct frames {
	const struct walk_place *place;
	struct ts_python layout;
	uint64_t at; /* the next one, 0: there is none */
	uint64_t hash;
	uint32_t count;
	bool entered; /* the last one has entered the interpreter */
};

/* Behind a frame that is of no function. */
static void frames_add_entry(struct frames *frames)
{
	static const struct ts_python_frame entry = { .position = TS_PYTHON_ENTRY };

	if (!frames->count || frames->entered) {
		frames->hash = stack_hash_python(frames->hash, &entry);
		frames->count++;
	}
	frames->entered = true;
}

static bool frames_add(struct frames *frames, uint64_t code, uint64_t position)
{
	const struct walk_place *place = frames->place;
	struct ts_python_frame frame = {
		.code = code,
		.position = frames->layout.index ? (uint32_t)position : position & ~TS_PYTHON_FLAGS,
	};

	/* Nothing is known of anything else that may be there. */
	if (!code || code % WORD || walk_load(code + place->type_at) != place->code_type)
		return false;
	frame.check = stack_hash_code((const __u64 *)(code + frames->layout.check));
	frames->hash = stack_hash_python(frames->hash, &frame);
	frames->count++;
	return true;
}

static bool frames_step(struct frames *frames)
{
	const struct ts_python *layout = &frames->layout;
	const uint64_t *word = (const uint64_t *)frames->at;
	uint64_t code, position;
	uint8_t mark;

	if (frames->at % WORD)
		return false;
	code = word[layout->code] & ~(uint64_t)layout->tags;
	position = word[layout->position];
	mark = (uint8_t)(word[layout->mark] >> (layout->mark_shift & 63));
	frames->at = word[layout->previous];
	if (layout->marks == TS_PYTHON_SHIMS && mark == TS_PYTHON_SHIM) {
		frames_add_entry(frames);
		return true;
	}
	if (!frames_add(frames, code, position))
		return false;
	frames->entered =
		layout->marks == TS_PYTHON_ALL || (layout->marks == TS_PYTHON_ENTERED && mark);
	return true;
}

static uint64_t frames_innermost(const struct ts_python *layout, uint64_t state)
{
	uint64_t at = walk_load(state + layout->frame);

	if (at && layout->indirect != TS_PYTHON_DIRECT)
		at = walk_load(at + layout->indirect);
	return at;
}

bool walk_python(const struct walker *walker, uint32_t tid, bool interpreter, uint64_t *id)
{
	const struct ts_walk *shared = walk_shared(walker);
	const struct walk_place *place = &walker->place;
	struct frames frames = { .place = place, .hash = TS_PYTHON_SEED };
	int (*initialized)(void) = place->initialized;
	uint32_t depth;
	uint64_t state;
	uint8_t size;

	if (!shared)
		return false;
	size = __atomic_load_n(&shared->python.size, __ATOMIC_ACQUIRE);
	depth = shared->python_depth;

	/* Where it is not known yet, the kernel's walk may know more. */
	if (!size || !depth)
		return !interpreter || !depth;
	frames.layout = shared->python;
	state = walk_load(walk_thread_pointer() + frames.layout.state);
	if (!state)
		return true;
	if (!place->is_main || tid != place->main_tid)
		return !interpreter;
	if (!initialized || !initialized())
		return false;
	frames.at = frames_innermost(&frames.layout, state);
	/* Steps count, as in the kernel's walk, whether they add a frame or not. */
	for (uint32_t i = 0; frames.at && i < TS_STACK_PYTHON_MAX && i < depth; i++)
		if (!frames_step(&frames))
			return false;
	if (frames.count)
		*id = stack_hash_frame(*id, frames.hash);
	*id = *id ? *id : 1;
	return true;
}
