/* Place: the frames of a stack are read once for each connection; what is asked of them is kept as
 * texts, each once. */
#include "core/store/query/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/glob.h"
#include "core/base/map.h"
#include "core/limits.h"
#include "core/model/frame.h"
#include "core/store/op_name.h"
#include "core/store/query/table.h"
#include "core/store/sql.h"

#define PATTERNS_MAX 256
#define NO_PLACE     "[no user frame]"
#define NO_OP	     "[no op]"
#define TEXT_MAX     (2 * LIMIT_SYMBOL_NAME)
#define MARK_MAX     32 /* of FRAME_BACKWARD_NAME and the other one */

struct place {
	sqlite3 *db;
	sqlite3_stmt *frames;
	char *patterns; /* each ends with a NUL; NULL: not read yet */
	const char *pattern[PATTERNS_MAX];
	size_t pattern_count;
	struct map by_stack[QUERY_BY_COUNT]; /* texts */
	struct arena arena;
};

struct place *place_free(struct place *place)
{
	if (!place)
		return NULL;
	sqlite3_finalize(place->frames);
	for (size_t i = 0; i < ARRAY_SIZE(place->by_stack); i++)
		map_clear(&place->by_stack[i]);
	arena_clear(&place->arena);
	free(place->patterns);
	free(place);
	return NULL;
}

static int split_patterns(struct place *place, const char *text)
{
	char *rest, *word;

	place->patterns = strdup(text);
	if (!place->patterns)
		return -ENOMEM;
	for (word = strtok_r(place->patterns, " \t\n", &rest);
	     word && place->pattern_count < PATTERNS_MAX; word = strtok_r(NULL, " \t\n", &rest))
		place->pattern[place->pattern_count++] = word;
	return 0;
}

/* A recording has the setting of the daemon that made it, an old one none. */
static int read_patterns(struct place *place)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const char *text;
	int r = sql_prepare(place->db, "SELECT value FROM setting WHERE name = '" FRAME_SETTING "'",
			    &stmt);

	if (r < 0)
		return r;
	text = sqlite3_step(stmt) == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	return split_patterns(place, text ? text : FRAME_LIBRARY_CODE);
}

/* The file that a frame's code is from. NULL: unknown. */
static const char *file_of(const struct frame *frame)
{
	return frame->kind == FRAME_PYTHON ? frame->file : frame->module;
}

static bool is_users(const struct place *place, const struct frame *frame)
{
	const char *file = file_of(frame);

	if (!file)
		return false;
	for (size_t i = place->pattern_count; i > 0; i--) {
		const char *pattern = place->pattern[i - 1];
		bool exception = *pattern == '!';

		if (glob_find(pattern + exception, file))
			return exception;
	}
	return true;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void name_function(const struct frame *frame, char text[TEXT_MAX])
{
	if (frame->function)
		snprintf(text, TEXT_MAX, "%s", frame->function);
	else
		snprintf(text, TEXT_MAX, "%s+0x%" PRIx64, base_name(frame->module), frame->offset);
}

/* Of the user's frame; NULL stands for a stack without one. */
static void name_place(const struct frame *frame, enum query_by by, char text[TEXT_MAX])
{
	if (!frame)
		snprintf(text, TEXT_MAX, "%s", NO_PLACE);
	else if (by == QUERY_BY_IS_MODULE)
		snprintf(text, TEXT_MAX, "%s", file_of(frame));
	else if (by == QUERY_BY_IS_FUNCTION || !frame->file || !frame->line)
		name_function(frame, text);
	else if (by == QUERY_BY_IS_LINE)
		snprintf(text, TEXT_MAX, "%s:%" PRIu32, frame->file, frame->line);
	else
		snprintf(text, TEXT_MAX, "%.*s (%s:%" PRIu32 ")", LIMIT_SYMBOL_NAME,
			 frame->function ? frame->function : base_name(frame->module),
			 base_name(frame->file), frame->line);
}

/* The texts belong to the statement's row. */
static struct frame frame_of(sqlite3_stmt *row)
{
	return (struct frame){
		.function = (const char *)sqlite3_column_text(row, 0),
		.module = (const char *)sqlite3_column_text(row, 1),
		.offset = (uint64_t)sqlite3_column_int64(row, 2),
		.kind = (uint8_t)sqlite3_column_int(row, 3),
		.file = (const char *)sqlite3_column_text(row, 4),
		.line = (uint32_t)sqlite3_column_int64(row, 5),
	};
}

/* Compiled from a text: often by a library, but also the whole of `python -c`. */
static bool is_from_text(const struct frame *frame)
{
	return frame->kind == FRAME_PYTHON && frame->file && strcmp(frame->file, "<string>") == 0;
}

/* The frame is of the forward pass. */
static void add_backward(const char *mark, char text[TEXT_MAX])
{
	size_t length = strlen(text);

	if (mark[0])
		snprintf(text + length, TEXT_MAX - length, " %s", mark);
}

/* Code that torch.compile() has written, but not what launches a kernel. */
static bool is_compiled(const struct frame *frame)
{
	return frame->kind == FRAME_PYTHON && frame->file &&
	       glob_find("/torchinductor_*.py", frame->file) &&
	       !glob_find("/torchinductor_*/triton/", frame->file);
}

/* Of what torch.compile() has written it is the line. */
static void find_op(struct place *place, char text[TEXT_MAX])
{
	struct op_name op = { .name = "" };
	bool found = false;

	while (!found && sqlite3_step(place->frames) == SQLITE_ROW) {
		struct frame frame = frame_of(place->frames);

		if (!op.name[0] && is_compiled(&frame)) {
			name_place(&frame, QUERY_BY_IS_STACK, text);
			snprintf(op.name, sizeof(op.name), "%s", text);
		}
		found = frame.kind == FRAME_BACKWARD ||
			(frame.function && op_name_add(&op, frame.function));
	}
	op_name_text(&op, NO_OP, text, TEXT_MAX);
}

/* The user's frame, or without one the first that may be his. */
static void find_users(struct place *place, enum query_by by, char text[TEXT_MAX])
{
	bool found = false, maybe = false;
	char mark[MARK_MAX] = "";

	name_place(NULL, by, text);
	while (!found && sqlite3_step(place->frames) == SQLITE_ROW) {
		struct frame frame = frame_of(place->frames);

		if (frame.kind == FRAME_BACKWARD) {
			snprintf(mark, sizeof(mark), "%s", frame.function);
		} else if ((found = is_users(place, &frame)) || (!maybe && is_from_text(&frame))) {
			name_place(&frame, by, text);
			add_backward(mark, text);
			maybe = true;
		}
	}
}

static void find(struct place *place, int64_t stack, enum query_by by, char text[TEXT_MAX])
{
	sql_bind(place->frames, stack);
	if (by == QUERY_BY_IS_OP)
		find_op(place, text);
	else
		find_users(place, by, text);
	sqlite3_reset(place->frames);
}

/* _start is linked into each program. */
int place_is_users(struct place *place, const struct frame *frame, bool *ret)
{
	int r = place->patterns ? 0 : read_patterns(place);

	if (r == 0)
		*ret = (is_users(place, frame) || is_from_text(frame)) &&
		       !(frame->function && strcmp(frame->function, "_start") == 0);
	return r;
}

static int prepare(struct place *place)
{
	int r = place->patterns ? 0 : read_patterns(place);

	if (r < 0 || place->frames)
		return r;
	return sql_prepare(place->db,
			   "SELECT symbol, file, offset, kind, source, line FROM frame"
			   " WHERE stack = ? AND depth > 0 ORDER BY depth",
			   &place->frames);
}

/* NULL: no memory. */
static const char *text_of(struct place *place, int64_t stack, enum query_by by)
{
	struct map_key key = { (uint64_t)stack, 0 };
	char text[TEXT_MAX], *known = map_get(&place->by_stack[by], key);
	struct map_key same;

	if (known)
		return known;
	if (prepare(place) < 0)
		return NULL;
	find(place, stack, by, text);
	same = map_key_of(text, strlen(text), by + 1u);
	known = map_get(&place->by_stack[QUERY_BY_NOTHING], same);
	if (!known) {
		known = arena_text(&place->arena, text, strlen(text));
		if (!known || map_put(&place->by_stack[QUERY_BY_NOTHING], same, known) < 0)
			return NULL;
	}
	return map_put(&place->by_stack[by], key, known) < 0 ? NULL : known;
}

static void result(sqlite3_context *context, int64_t stack, enum query_by by)
{
	const char *text = text_of(sqlite3_user_data(context), stack, by);

	if (text)
		sqlite3_result_text(context, text, -1, SQLITE_STATIC);
	else
		sqlite3_result_error_nomem(context);
}

static enum query_by by_of(sqlite3_value *value)
{
	int by = sqlite3_value_int(value);

	return by > 0 && by < QUERY_BY_COUNT ? (enum query_by)by : QUERY_BY_NOTHING;
}

static bool is_place(enum query_by by)
{
	return by >= QUERY_BY_IS_LINE;
}

static void stack_key(sqlite3_context *context, int count, sqlite3_value **value)
{
	enum query_by by = by_of(value[1]);
	int64_t stack = sqlite3_value_int64(value[0]);

	if (stack && is_place(by))
		result(context, stack, by);
	else
		sqlite3_result_value(context, value[0]);
}

/* A text is a key. */
static void stack_where(sqlite3_context *context, int count, sqlite3_value **value)
{
	int64_t stack = sqlite3_value_int64(value[0]);

	if (sqlite3_value_type(value[0]) == SQLITE_TEXT)
		sqlite3_result_value(context, value[0]);
	else if (stack)
		result(context, stack, QUERY_BY_IS_STACK);
}

int place_new(sqlite3 *db, struct place **ret)
{
	static const struct {
		const char *name;
		void (*run)(sqlite3_context *, int, sqlite3_value **);
		int arguments;
	} functions[] = { { "stack_key", stack_key, 2 }, { "stack_where", stack_where, 1 } };
	_cleanup_(freep) struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return -ENOMEM;
	place->db = db;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (sqlite3_create_function(db, functions[i].name, functions[i].arguments,
					    SQLITE_UTF8 | SQLITE_DETERMINISTIC, place,
					    functions[i].run, NULL, NULL) != SQLITE_OK)
			return -ENOMEM;
	*ret = TAKE(place);
	return 0;
}
