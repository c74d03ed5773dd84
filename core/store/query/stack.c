/* Stack: turns stack ids into their frames, with a text of each.
 * Frame 0 is the probed function itself, which the answer has in a column of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/model/frame.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define FRAMES_SQL                                                                                 \
	"SELECT symbol, file, offset, address, kind, source, line, inlined FROM frame"             \
	" WHERE stack = ? AND depth > 0 ORDER BY depth"
#define END_SQL                                                                                    \
	"SELECT e.name, s.linked FROM stack s JOIN stack_end e ON e.id = s.ended WHERE s.id = ?"
#define NUMBER_MAX 24

typedef Tracesmith__V1__Frame Frame;

/* A column's text, valid UTF-8; "" if it is NULL. */
static char *clean(struct arena *arena, sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);
	size_t size = text ? strlen(text) : 0;
	char *out = arena_get(arena, 3 * size + 1);

	if (out)
		utf8_clean(out, text ? text : "", size);
	return out;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The function, of Python with its line; or the module and the offset in it, or the address. */
static char *frame_text(struct arena *arena, const Frame *frame)
{
	const char *name = *frame->function ? frame->function : frame->module;
	const char *file = base_name(frame->file);
	size_t size = strlen(name) + strlen(file) + 2 * NUMBER_MAX;
	char *out;

	if (*frame->function &&
	    (!frame->line || frame->kind == TRACESMITH__V1__FRAME__KIND__NATIVE))
		return frame->function;
	out = arena_get(arena, size);
	if (!out)
		return NULL;
	if (*frame->function)
		snprintf(out, size, "%s (%s:%" PRIu32 ")", name, file, frame->line);
	else if (*name)
		snprintf(out, size, "%s+0x%" PRIx64, name, frame->offset);
	else
		snprintf(out, size, "0x%" PRIx64, frame->address);
	return out;
}

static Frame *read_frame(struct arena *arena, sqlite3_stmt *stmt)
{
	Frame *frame = arena_get(arena, sizeof(*frame));

	if (!frame)
		return NULL;
	tracesmith__v1__frame__init(frame);
	frame->function = clean(arena, stmt, 0);
	frame->module = clean(arena, stmt, 1);
	frame->offset = (uint64_t)sqlite3_column_int64(stmt, 2);
	frame->address = (uint64_t)sqlite3_column_int64(stmt, 3);
	frame->kind = (Tracesmith__V1__Frame__Kind)sqlite3_column_int(stmt, 4);
	frame->file = clean(arena, stmt, 5);
	frame->line = (uint32_t)sqlite3_column_int64(stmt, 6);
	frame->inlined = sqlite3_column_int(stmt, 7) != 0;
	return frame->function && frame->module && frame->file ? frame : NULL;
}

static int read_frames(struct answer *answer, Tracesmith__V1__Stack *stack)
{
	int step = SQLITE_DONE;

	while (stack->n_frame < FRAMES_MAX && (step = sqlite3_step(answer->frames)) == SQLITE_ROW) {
		Frame *frame = read_frame(&answer->arena, answer->frames);
		char *text = frame ? frame_text(&answer->arena, frame) : NULL;

		if (!text)
			return -ENOMEM;
		stack->frame[stack->n_frame++] = text;
		stack->detail[stack->n_detail++] = frame;
	}
	return step == SQLITE_DONE || step == SQLITE_ROW ? 0 : answer_fail_sqlite(answer);
}

static const char *known(const char *text)
{
	return *text ? text : NULL;
}

static int find_users(struct answer *answer, Tracesmith__V1__Stack *stack)
{
	bool users = false;
	size_t n = stack->n_detail;
	int r = 0;

	for (; r == 0 && n > 0; n--) {
		const Frame *from = stack->detail[n - 1];
		const struct frame frame = {
			.kind = (uint8_t)from->kind,
			.function = known(from->function),
			.module = known(from->module),
			.file = known(from->file),
		};

		r = place_is_users(answer->place, &frame, &users);
		if (users)
			break;
	}
	stack->users = (uint32_t)n;
	return r;
}

/* Of a file that an older version recorded nothing is known. */
static int read_end(struct answer *answer, Tracesmith__V1__Stack *stack)
{
	int step = sqlite3_step(answer->end);
	const char *name;

	if (step != SQLITE_ROW)
		return step == SQLITE_DONE ? 0 : answer_fail_sqlite(answer);
	name = (const char *)sqlite3_column_text(answer->end, 0);
	stack->end = name ? arena_text(&answer->arena, name, strlen(name)) : NULL;
	stack->linked = sqlite3_column_int(answer->end, 1);
	return stack->end ? 0 : -ENOMEM;
}

static int prepare(struct answer *answer)
{
	int r;

	if (answer->end)
		return 0;
	r = answer->frames ? 0 : answer_prepare(answer, FRAMES_SQL, &answer->frames);
	return r < 0 ? r : answer_prepare(answer, END_SQL, &answer->end);
}

int answer_stack(struct answer *answer, int64_t id, Tracesmith__V1__Stack **ret)
{
	Tracesmith__V1__Stack *stack;
	int r;

	*ret = NULL;
	if (!id)
		return 0;
	r = prepare(answer);
	if (r < 0)
		return r;
	stack = arena_get(&answer->arena, sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	tracesmith__v1__stack__init(stack);
	stack->frame = arena_get(&answer->arena, FRAMES_MAX * sizeof(char *));
	stack->detail = arena_get(&answer->arena, FRAMES_MAX * sizeof(Frame *));
	if (!stack->frame || !stack->detail)
		return -ENOMEM;
	sql_bind(answer->frames, id);
	r = read_frames(answer, stack);
	sqlite3_reset(answer->frames);
	if (r < 0 || !stack->n_frame)
		return r;
	sql_bind(answer->end, id);
	r = read_end(answer, stack);
	sqlite3_reset(answer->end);
	if (r == 0)
		r = find_users(answer, stack);
	if (r == 0)
		*ret = stack;
	return r;
}
