/* Backward: a stack of both has copies of their frames, so whoever reads stacks need not know.
 * Names and lines are found later than the stack, for either part.
 *
 * Of the part of the backward pass it has all that a node has called; what has called the node, a
 * thread of the engine or whoever waits for it, says nothing of the node. */
#include "core/store/backward.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/model/frame.h"
#include "core/store/op_name.h"
#include "core/store/sql.h"

#define ENGINE "torch::autograd::Engine::evaluate_function("

#define STATEMENTS(X)                                                                              \
	X(FIND, "SELECT id, stack, forward, passed FROM backward"                                  \
		" WHERE id=?1 OR stack=?1 OR forward=?1")                                          \
	X(SYMBOLS, "SELECT symbol FROM frame WHERE stack=?1 ORDER BY depth")                       \
	X(STACK, "INSERT OR REPLACE INTO stack(id, process, batch, ended, linked)"                 \
		 " SELECT ?1, s.process, ?4, f.ended, s.linked OR f.linked"                        \
		 " FROM stack s JOIN stack f ON f.id=?3 WHERE s.id=?2")                            \
	X(FORGET, "DELETE FROM frame WHERE stack=?1")                                              \
	X(COPY, "INSERT INTO frame(stack, depth, address, file, offset, symbol, kind, source,"     \
		" line, inlined) SELECT ?1, depth+?3, address, file, offset, symbol, kind,"        \
		" source, line, inlined FROM frame WHERE stack=?2 AND depth>=?4 AND depth<?5")     \
	X(MARK, "INSERT INTO frame(stack, depth, address, symbol, kind)"                           \
		" VALUES(?1, ?2, 0, ?4, ?3)")

enum statement {
#define X(name, text) STATEMENT_##name,
	STATEMENTS(X)
#undef X
		STATEMENT_COUNT
};

static const char *const statement_text[] = {
#define X(name, text) text,
	STATEMENTS(X)
#undef X
};

struct backward {
	sqlite3_stmt *stmt[STATEMENT_COUNT];
};

struct part {
	int64_t stack;
	int64_t frames; /* 0: it is not stored yet */
	int64_t called; /* of these, those that the node has called */
	struct op_name op;
	bool makes;  /* of the forward pass: an op is in it that makes such nodes */
	bool passed; /* likewise: the node was made before */
};

struct backward *backward_free(struct backward *backward)
{
	if (backward)
		sql_finalize_all(backward->stmt, STATEMENT_COUNT);
	free(backward);
	return NULL;
}

int backward_new(sqlite3 *db, struct backward **ret)
{
	_cleanup_(backward_freep) struct backward *backward = calloc(1, sizeof(*backward));
	int r;

	if (!backward)
		return -ENOMEM;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, backward->stmt);
	if (r == 0)
		*ret = TAKE(backward);
	return r;
}

#define run(backward, name, ...)                                                                   \
	({                                                                                         \
		sqlite3_stmt *run_stmt = (backward)->stmt[STATEMENT_##name];                       \
		sql_bind(run_stmt, __VA_ARGS__);                                                   \
		sql_run(run_stmt);                                                                 \
	})

/* `node`: the class of what is made in the forward pass; NULL: of the backward pass. */
static void read_part(struct backward *backward, struct part *part, const char *node)
{
	sqlite3_stmt *symbols = backward->stmt[STATEMENT_SYMBOLS];

	sql_bind(symbols, part->stack);
	while (sqlite3_step(symbols) == SQLITE_ROW) {
		const char *symbol = (const char *)sqlite3_column_text(symbols, 0);

		part->frames++;
		if (!symbol)
			continue;
		if (node)
			part->makes |= op_name_makes(symbol, node);
		else if (!part->op.node[0])
			op_name_add(&part->op, symbol);
		if (!part->called && strncmp(symbol, ENGINE, strlen(ENGINE)) == 0)
			part->called = part->frames;
	}
	sqlite3_reset(symbols);
	if (!part->called)
		part->called = part->frames;
}

/* The call that made the node may have launched nothing: then the other launch came after it, which
 * the mark says. Frame 0 of the other is the function that was called there. */
static int make(struct backward *backward, int64_t id, struct part *own, struct part *forward,
		int64_t batch)
{
	const char *mark;
	int r;

	read_part(backward, own, NULL);
	read_part(backward, forward, own->op.node);
	if (!own->frames || !forward->frames)
		return 0;
	r = run(backward, FORGET, id);
	if (r == 0)
		r = run(backward, STACK, id, own->stack, forward->stack, batch);
	if (r == 0)
		r = run(backward, COPY, id, own->stack, 0, 0, own->called);
	if (r == 0) {
		mark = forward->passed || !forward->makes ? FRAME_BACKWARD_BEFORE
							  : FRAME_BACKWARD_NAME;
		sql_bind_text(backward->stmt[STATEMENT_MARK], 4, mark);
		r = run(backward, MARK, id, own->called, FRAME_BACKWARD);
	}
	return r < 0 ? r
		     : run(backward, COPY, id, forward->stack, own->called, 1,
			   FRAMES_MAX - own->called);
}

int backward_write(struct backward *backward, uint64_t id, int64_t batch)
{
	sqlite3_stmt *found = backward->stmt[STATEMENT_FIND];
	int r = 0, step = SQLITE_DONE;

	sql_bind(found, (int64_t)id);
	while (r == 0 && (step = sqlite3_step(found)) == SQLITE_ROW) {
		struct part own = { .stack = sqlite3_column_int64(found, 1) };
		struct part forward = { .stack = sqlite3_column_int64(found, 2),
					.passed = sqlite3_column_int(found, 3) };

		r = make(backward, sqlite3_column_int64(found, 0), &own, &forward, batch);
	}
	sqlite3_reset(found);
	if (r == 0 && step != SQLITE_DONE)
		r = sql_error(sqlite3_db_handle(found));
	return r;
}
