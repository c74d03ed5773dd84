/* merge: loops and the groups of frames that they run are joined from the outer end if nothing is
 * missing there, because the innermost loop may have no frame yet, or no longer; else from the
 * inner end. */
#include "daemon/python/merge.h"

#include <string.h>

#define LOOP "_PyEval_EvalFrameDefault"
#define PART "_TAIL_CALL_"

uint8_t merge_mark(const struct layout *layout, uint8_t entry, uint8_t owner)
{
	switch (layout->entries) {
	case LAYOUT_ALL_ENTER:
		return MERGE_ENTRY;
	case LAYOUT_ENTRY_FLAG:
		return entry ? MERGE_ENTRY : 0;
	case LAYOUT_ENTRY_FRAME:
		return owner == LAYOUT_OWNED_BY_C_STACK ? MERGE_ENTRY | MERGE_HIDDEN : 0;
	}
	return 0;
}

uint8_t merge_loop(const char *function)
{
	if (!function)
		return MERGE_NO_LOOP;
	if (strncmp(function, PART, strlen(PART)) == 0)
		return MERGE_LOOP_PART;
	return strncmp(function, LOOP, strlen(LOOP)) == 0 &&
			       (function[strlen(LOOP)] == '\0' || function[strlen(LOOP)] == '.')
		       ? MERGE_LOOP
		       : MERGE_NO_LOOP;
}

/* Of the loop that is the next frame outwards. */
static bool is_part(const struct merge_stack *stack, size_t i)
{
	return stack->loop[i] == MERGE_LOOP_PART && i + 1 < stack->native_count &&
	       stack->loop[i + 1] == MERGE_LOOP;
}

/* What the outermost loop runs may lack its end. */
static size_t count_groups(const struct merge_stack *stack)
{
	size_t groups = 0;

	for (size_t i = 0; i < stack->python_count; i++)
		groups += (stack->mark[i] & MERGE_ENTRY) || i + 1 == stack->python_count;
	return groups;
}

static size_t count_loops(const struct merge_stack *stack)
{
	size_t loops = 0;

	for (size_t i = 0; i < stack->native_count; i++)
		loops += stack->loop[i] == MERGE_LOOP;
	return loops;
}

struct output {
	const struct merge_stack *stack;
	struct merged *at;
	size_t count;
	size_t next; /* frame of Python */
};

static void put(struct output *output, bool python, size_t index)
{
	output->at[output->count++] = (struct merged){ python, index };
}

/* False: it has no frame that is shown. */
static bool put_group(struct output *output)
{
	const struct merge_stack *stack = output->stack;
	size_t before = output->count;
	uint8_t mark = 0;

	while (output->next < stack->python_count && !(mark & MERGE_ENTRY)) {
		mark = stack->mark[output->next++];
		if (!(mark & MERGE_HIDDEN))
			put(output, true, output->next - 1);
	}
	return output->count > before;
}

static void put_groups(struct output *output, size_t *count)
{
	for (; *count; --*count)
		put_group(output);
}

size_t merge(const struct merge_stack *stack, struct merged *ret, bool *ret_uneven)
{
	struct output output = { .stack = stack, .at = ret };
	size_t loops = count_loops(stack), groups = count_groups(stack), empty = 0, surplus = 0;
	bool whole = stack->native_whole && stack->python_whole;

	*ret_uneven = loops != groups && whole;
	if (whole && groups > loops)
		surplus = groups - loops;
	else if (whole)
		empty = loops - groups;
	if (!stack->at_once)
		put_groups(&output, &surplus);
	for (size_t i = 0; i < stack->native_count; i++) {
		bool loop = stack->loop[i] == MERGE_LOOP, taken = false;

		if (loop)
			put_groups(&output, &surplus);
		if (loop && empty)
			empty--;
		else if (loop)
			taken = put_group(&output);
		if (!taken && !is_part(stack, i))
			put(&output, false, i);
	}
	while (output.next < stack->python_count)
		put_group(&output);
	return output.count;
}
