/* Place: a thread's state belongs to the key of PyGILState, whose number is not known: so its place
 * among what the C library keeps of the thread is found by the value. */
#include "daemon/python/place.h"

#include <errno.h>
#include <stdbool.h>

#include "core/base/array.h"
#include "daemon/limits.h"
#include "daemon/python/code.h"

#define WORD	  8
#define BYTE_BITS 8
/* glibc's struct pthread with the values of the first 32 keys; an interpreter has its key soon
 * after its start. */
#define THREAD_WORDS 192

/* Whether the thread's own structure points to its state. */
static int find_state(const struct layout *layout, struct peek *peek, uint64_t thread,
		      uint32_t *ret)
{
	uint64_t pthread, word[THREAD_WORDS];
	int r = peek_word(peek, thread + layout->thread.thread_id, &pthread);

	if (r == 0)
		r = peek_bytes(peek, pthread, word, sizeof(word));
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < ARRAY_SIZE(word); i++) {
		if (word[i] != thread)
			continue;
		*ret = i * WORD;
		return 0;
	}
	return -ENOENT;
}

/* A thread that has ended may still have a state; one that is in several interpreters has the key
 * of one of them. */
static int find_any_state(const struct find *find, struct peek *peek, uint32_t *ret)
{
	const struct layout *layout = &find->layout;
	uint64_t interpreter, thread;
	uint32_t threads = 0;
	int r = peek_word(peek, find->runtime + layout->runtime.head, &interpreter),
	    found = -ENOENT;

	for (uint32_t i = 0; r == 0 && interpreter && i < LIMIT_PYTHON_INTERPRETERS; i++) {
		r = peek_word(peek, interpreter + layout->interpreter.threads, &thread);
		while (r == 0 && thread && threads++ < LIMIT_PYTHON_THREADS) {
			found = find_state(layout, peek, thread, ret);
			if (found == 0 || found == -ESRCH || found == -EDQUOT)
				return found;
			r = peek_word(peek, thread + layout->thread.next, &thread);
		}
		if (r == 0)
			r = peek_word(peek, interpreter + layout->interpreter.next, &interpreter);
	}
	return r < 0 ? r : -ENOENT;
}

static bool take_word(uint32_t offset, uint8_t *ret, uint8_t *size)
{
	*ret = (uint8_t)(offset / WORD);
	if (*ret >= *size)
		*size = *ret + 1;
	return offset < LAYOUT_FRAME_SIZE;
}

static bool take_frame(const struct layout *layout, struct ts_python *ret)
{
	static const uint8_t marks[] = {
		[LAYOUT_ALL_ENTER] = TS_PYTHON_ALL,
		[LAYOUT_ENTRY_FLAG] = TS_PYTHON_ENTERED,
		[LAYOUT_ENTRY_FRAME] = TS_PYTHON_SHIMS,
	};
	uint32_t mark =
		layout->entries == LAYOUT_ENTRY_FLAG ? layout->frame.entry : layout->frame.owner;

	ret->marks = marks[layout->entries];
	ret->mark_shift = (uint8_t)(mark % WORD * BYTE_BITS);
	ret->index = !layout->code.bytecode;
	return take_word(layout->frame.code, &ret->code, &ret->size) &&
	       take_word(layout->frame.previous, &ret->previous, &ret->size) &&
	       take_word(layout->frame.position, &ret->position, &ret->size) &&
	       take_word(mark, &ret->mark, &ret->size) && layout->frame.code % WORD == 0 &&
	       layout->frame.previous % WORD == 0 && layout->frame.position % WORD == 0;
}

int place_find(const struct find *find, struct peek *peek, struct ts_python *ret)
{
	const struct layout *layout = &find->layout;
	struct ts_python place = {
		.frame = layout->thread.frame,
		.indirect = layout->indirect,
		.check = (uint16_t)code_check_at(layout),
		.tags = (uint8_t)layout->tags,
	};
	int r;

	_Static_assert(TS_PYTHON_DIRECT == LAYOUT_NO_OFFSET, "the same");
	if (!take_frame(layout, &place))
		return -EBADMSG;
	r = find_any_state(find, peek, &place.state);
	if (r == 0)
		*ret = place;
	return r;
}
