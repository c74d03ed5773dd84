/* Stack: turns stack ids into the names of their frames.
 * Frame 0 is the probed function itself, which the answer has in a column of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"
#include "proto/event.h"

#define FRAMES_SQL                                                                                 \
	"SELECT symbol, file, offset, address FROM frame WHERE stack = ? AND depth > 0"            \
	" ORDER BY depth"
#define NUMBER_MAX 24

/* The symbol, or the file and the offset in it, or the address. */
static char *frame_text(struct arena *arena, sqlite3_stmt *stmt)
{
	const char *symbol = (const char *)sqlite3_column_text(stmt, 0);
	const char *file = (const char *)sqlite3_column_text(stmt, 1);
	const char *name = symbol ? symbol : file ? file : "";
	size_t size = strlen(name);
	char *out = arena_get(arena, 3 * size + NUMBER_MAX);

	if (!out)
		return NULL;
	size = utf8_clean(out, name, size);
	if (symbol)
		return out;
	if (file)
		snprintf(out + size, NUMBER_MAX, "+0x%" PRIx64,
			 (uint64_t)sqlite3_column_int64(stmt, 2));
	else
		snprintf(out, NUMBER_MAX, "0x%" PRIx64, (uint64_t)sqlite3_column_int64(stmt, 3));
	return out;
}

static int read_frames(struct answer *answer, Tracesmith__V1__Stack *stack)
{
	int step = SQLITE_DONE;

	while (stack->n_frame < TS_STACK_FRAMES_MAX &&
	       (step = sqlite3_step(answer->frames)) == SQLITE_ROW) {
		char *text = frame_text(&answer->arena, answer->frames);

		if (!text)
			return -ENOMEM;
		stack->frame[stack->n_frame++] = text;
	}
	return step == SQLITE_DONE || step == SQLITE_ROW ? 0 : answer_fail_sqlite(answer);
}

int answer_stack(struct answer *answer, int64_t id, Tracesmith__V1__Stack **ret)
{
	Tracesmith__V1__Stack *stack;
	int r;

	*ret = NULL;
	if (!id)
		return 0;
	if (!answer->frames) {
		r = answer_prepare(answer, FRAMES_SQL, &answer->frames);
		if (r < 0)
			return r;
	}
	stack = arena_get(&answer->arena, sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	tracesmith__v1__stack__init(stack);
	stack->frame = arena_get(&answer->arena, TS_STACK_FRAMES_MAX * sizeof(char *));
	if (!stack->frame)
		return -ENOMEM;
	sql_bind(answer->frames, id);
	r = read_frames(answer, stack);
	sqlite3_reset(answer->frames);
	if (r == 0 && stack->n_frame)
		*ret = stack;
	return r;
}
