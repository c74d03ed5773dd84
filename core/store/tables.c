/* Tables: a record's row is written as row.c describes its table; some need more statements.
 * What a process held is gone with it: its live allocations leave with the row's exit time. */
#include "core/store/tables.h"
#include "core/store/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/demangle.h"
#include "core/base/time.h"
#include "core/limits.h"
#include "core/store/backward.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"
#include "core/store/total.h"

#define TEXT_OF(number) #number
#define TEXT(number)	TEXT_OF(number)

/* How many names are dropped at a time, since finding them means reading all of work. A user who
 * had none to drop is not searched again for this long. */
#define EVICT_NAMES    4096
#define EVICT_AGAIN_NS (10 * NS_PER_S)

/* Statements use ?1, ?2, … in the order of the lists given to sql_bind below. */
#define STATEMENTS(X)                                                                              \
	X(PROCESS_ALLOCATIONS, "DELETE FROM allocation WHERE process=?1")                          \
	X(PROCESS_MEMORY, "UPDATE memory SET live_bytes=0, live_count=0 WHERE process=?1")         \
	X(PROCESS_POOLS, "UPDATE pool SET bytes=0, used_bytes=0 WHERE process=?1")                 \
	X(PROCESS_COLLECT, "UPDATE collect SET until_ns=(SELECT exit_ns FROM process WHERE id=?1)" \
			   " WHERE process=?1 AND until_ns IS NULL")                               \
	X(DETAIL, "UPDATE process SET command=iif(?6,?2,coalesce(?2,command)),"                    \
		  " user=coalesce(?3,user), cgroup=coalesce(?4,cgroup), "                          \
		  "container=coalesce(?5,container),"                                              \
		  " variables=iif(?6,?7,coalesce(?7,variables))"                                   \
		  " WHERE id=?1")                                                                  \
	X(NAME_TOLD, "UPDATE name SET boot=?2, told_ns=?3 WHERE id=?1")                            \
	X(NAME, "INSERT INTO name(id, boot, told_ns, text, symbol) VALUES(?1,?2,?3,?4,?5)")        \
	X(TELLER_AGAIN, "UPDATE teller SET process=?3, boot=?4, told_ns=?5"                        \
			" WHERE user=?1 AND name=?2")                                              \
	X(TELLER, "INSERT INTO teller(user, name, process, boot, told_ns) SELECT ?1,?2,?3,?4,?5"   \
		  " WHERE (SELECT count(*) FROM teller) < " TEXT(LIMIT_STORE_NAMES))               \
	X(TELLER_MOST, "SELECT user, max(process), count(*) FROM teller GROUP BY user"             \
		       " ORDER BY count(*) DESC, user=?1 DESC LIMIT 1")                            \
	X(TELLER_EVICT, "DELETE FROM teller WHERE user=?1 AND name IN (SELECT name FROM teller"    \
			" WHERE user=?1 AND (?2 OR name NOT IN (SELECT name FROM work"             \
			" UNION ALL SELECT name FROM device)) ORDER BY boot, told_ns LIMIT ?3)")   \
	X(NAME_EVICT, "DELETE FROM name WHERE id NOT IN (SELECT name FROM teller)")                \
	X(STACK_FRAMES, "DELETE FROM frame WHERE stack=?")                                         \
	X(OOM_EVICT,                                                                               \
	  "DELETE FROM oom WHERE (SELECT count(*) FROM oom) > " TEXT(                              \
		  LIMIT_STORE_OOMS) " AND id=(SELECT o.id FROM oom o JOIN process p ON "           \
				    "p.id=o.process"                                               \
				    " WHERE o.id<>?1 AND coalesce(p.owner, p.uid)=(SELECT"         \
				    " coalesce(q.owner, q.uid) FROM oom JOIN process q ON "        \
				    "q.id=oom.process"                                             \
				    " GROUP BY 1 ORDER BY count(*) DESC LIMIT 1)"                  \
				    " ORDER BY o.recovered_ns IS NULL OR o.reports, o.id LIMIT "   \
				    "1)")                                                          \
	X(OOM_MEMORY, "DELETE FROM oom_memory WHERE oom<?1 AND oom NOT IN (SELECT id FROM oom)")   \
	X(OOM_STACKS, "DELETE FROM oom_stack WHERE oom<?1 AND oom NOT IN (SELECT id FROM oom)")    \
	X(TIME, "UPDATE boot SET last_ns=?2, next_process=max(next_process,?3),"                   \
		" next_stream=max(next_stream,?4), next_allocation=max(next_allocation,?5),"       \
		" next_batch=?6, oldest_pending_ns=?7, next_oom=max(next_oom,?8),"                 \
		" told_ns=?9 WHERE id=?1")

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

/* The statements that are made from the description of a table. */
struct table {
	const struct row_table *row; /* NULL: there is none for this type */
	sqlite3_stmt *write, *delete;
};

struct tables {
	struct row_given given;
	uint64_t now_ns, evict_ns;
	struct pending pending;
	uint32_t evict_user;
	uint64_t next_process, next_stream, next_allocation, next_oom;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	struct table of[CORE_ROW_COUNT], frame;
	struct totals *totals;
	struct backward *backward;
};

static void raise_next(uint64_t *next, uint64_t id)
{
	if (id >= *next)
		*next = id + 1;
}

static int run_for(struct tables *t, enum statement number, uint64_t id)
{
	sql_bind(t->stmt[number], (int64_t)id);
	return sql_run(t->stmt[number]);
}

static bool is_gone(const struct row_table *row, const void *data)
{
	return row->gone && *((const bool *)data + row->gone);
}

static int write_row(struct tables *t, const struct table *table, const void *data)
{
	bool gone = is_gone(table->row, data);
	sqlite3_stmt *stmt = gone ? table->delete : table->write;

	if (gone)
		row_bind_key(table->row, data, &t->given, stmt);
	else
		row_bind(table->row, data, &t->given, stmt);
	return sql_run(stmt);
}

static int write_of(struct tables *t, enum core_row type, const void *data)
{
	int r = write_row(t, &t->of[type], data);

	return r < 0 ? r : totals_add(t->totals, type, data);
}

static int write_process(struct tables *t, const void *data)
{
	const struct core_process *p = data;
	int r = write_of(t, CORE_ROW_PROCESS, p);

	raise_next(&t->next_process, p->id);
	if (r < 0 || !p->exit_ns)
		return r;
	r = run_for(t, STATEMENT_PROCESS_COLLECT, p->id);
	r = r < 0 ? r : run_for(t, STATEMENT_PROCESS_ALLOCATIONS, p->id);
	r = r < 0 ? r : run_for(t, STATEMENT_PROCESS_POOLS, p->id);
	return r < 0 ? r : run_for(t, STATEMENT_PROCESS_MEMORY, p->id);
}

static const char *text_at(const char *text, uint32_t offset)
{
	return offset ? text + offset - 1 : NULL;
}

static int write_detail(struct tables *t, const void *data)
{
	const struct record_detail *d = data;
	sqlite3_stmt *stmt = t->stmt[STATEMENT_DETAIL];

	sql_bind(stmt, d->process);
	sql_bind_text(stmt, 2, text_at(d->text, d->command));
	sql_bind_text(stmt, 3, text_at(d->text, d->user));
	sql_bind_text(stmt, 4, text_at(d->text, d->cgroup));
	sql_bind_text(stmt, 5, text_at(d->text, d->container));
	sqlite3_bind_int(stmt, 6, d->executed);
	sql_bind_text(stmt, 7, text_at(d->text, d->variables));
	return sql_run(stmt);
}

static int write_stream(struct tables *t, const void *data)
{
	const struct core_stream *s = data;

	raise_next(&t->next_stream, s->id);
	return write_of(t, CORE_ROW_STREAM, s);
}

static int write_allocation(struct tables *t, const void *data)
{
	const struct core_allocation *a = data;

	raise_next(&t->next_allocation, a->id);
	return write_of(t, CORE_ROW_ALLOCATION, a);
}

static int changes(struct tables *t, enum statement number)
{
	return sqlite3_changes(sqlite3_db_handle(t->stmt[number]));
}

/* If there are too many autopsies, the user with the most loses one: the oldest of those whose
 * program got its memory in the end, or else the oldest. */
static int write_oom(struct tables *t, const void *data)
{
	const struct core_oom *o = data;
	int r = write_of(t, CORE_ROW_OOM, o);

	raise_next(&t->next_oom, o->id);
	r = r < 0 ? r : run_for(t, STATEMENT_OOM_EVICT, o->id);
	if (r < 0 || !changes(t, STATEMENT_OOM_EVICT))
		return r;
	r = run_for(t, STATEMENT_OOM_MEMORY, o->id);
	return r < 0 ? r : run_for(t, STATEMENT_OOM_STACKS, o->id);
}

static int lose_names(struct tables *t, uint32_t process, int count)
{
	struct core_loss loss = { .start_ns = t->now_ns,
				  .end_ns = t->now_ns,
				  .process = process,
				  .reason = LOSS_LIMIT,
				  .count = (uint64_t)count };

	return count ? write_of(t, CORE_ROW_LOSS, &loss) : 0;
}

/* The user with the most names, the last process that reported one, and how many there are. */
static int find_most(struct tables *t, uint32_t teller, int64_t ret[static 3])
{
	sqlite3_stmt *stmt = t->stmt[STATEMENT_TELLER_MOST];
	int code;

	sql_bind(stmt, teller);
	code = sqlite3_step(stmt);
	for (int i = 0; code == SQLITE_ROW && i < 3; i++)
		ret[i] = sqlite3_column_int64(stmt, i);
	sqlite3_reset(stmt);
	return code == SQLITE_ROW ? 0 : sql_error(sqlite3_db_handle(stmt));
}

/* Names come from anybody, and some programs give every range a new one. If there are too many, the
 * user with the most loses the oldest, which is counted: names that no kernel has; if there are
 * none and another user needs the room, those of kernels, too. 0: none can be dropped now. */
static int evict_names(struct tables *t, uint32_t teller)
{
	int64_t most[3], user, process, count;
	bool kernels = false;
	int r, evicted;

	if (t->now_ns < t->evict_ns && teller == t->evict_user)
		return 0;
	r = find_most(t, teller, most);
	if (r < 0)
		return r;
	user = most[0], process = most[1], count = most[2] / 2 + 1;
	do {
		sql_bind(t->stmt[STATEMENT_TELLER_EVICT], user, kernels,
			 count < EVICT_NAMES ? count : EVICT_NAMES);
		r = sql_run(t->stmt[STATEMENT_TELLER_EVICT]);
		if (r < 0)
			return r;
		evicted = changes(t, STATEMENT_TELLER_EVICT);
		kernels = !kernels;
	} while (!evicted && kernels && user != teller);
	if (!evicted) {
		t->evict_ns = t->now_ns + EVICT_AGAIN_NS;
		t->evict_user = teller;
		return 0;
	}
	r = sql_run(t->stmt[STATEMENT_NAME_EVICT]);
	if (r == 0)
		r = lose_names(t, (uint32_t)process, changes(t, STATEMENT_NAME_EVICT));
	return r < 0 ? r : evicted;
}

static int run_for_teller(struct tables *t, enum statement number, const struct record_name *n)
{
	sql_bind(t->stmt[number], n->user, (int64_t)n->id, n->process, t->given.boot,
		 (int64_t)t->now_ns);
	return sql_run(t->stmt[number]) < 0 ? sql_error(sqlite3_db_handle(t->stmt[number]))
					    : changes(t, number);
}

/* 1: his user has it, 0: there are too many. */
static int write_teller(struct tables *t, const struct record_name *n)
{
	int r = run_for_teller(t, STATEMENT_TELLER_AGAIN, n);

	if (r == 0)
		r = run_for_teller(t, STATEMENT_TELLER, n);
	if (r)
		return r;
	r = evict_names(t, n->user);
	return r > 0 ? run_for_teller(t, STATEMENT_TELLER, n) : r;
}

/* A symbol always means the same, and demangling is expensive: once is enough. */
static int write_name(struct tables *t, const void *data)
{
	const struct record_name *n = data;
	_cleanup_(freep) char *text = NULL;
	sqlite3_stmt *stmt = t->stmt[STATEMENT_NAME];
	int r = write_teller(t, n);

	if (r <= 0)
		return r < 0 ? r : lose_names(t, n->process, 1);
	sql_bind(t->stmt[STATEMENT_NAME_TOLD], (int64_t)n->id, t->given.boot, (int64_t)t->now_ns);
	r = sql_run(t->stmt[STATEMENT_NAME_TOLD]);
	if (r < 0 || changes(t, STATEMENT_NAME_TOLD))
		return r;
	text = strncmp(n->text, "_Z", 2) == 0 ? demangle_long(n->text) : strdup(n->text);
	if (!text)
		return -ENOMEM;
	sql_bind(stmt, (int64_t)n->id, t->given.boot, (int64_t)t->now_ns);
	sql_bind_text(stmt, 4, text);
	sql_bind_text(stmt, 5, n->text);
	return sql_run(stmt);
}

/* Even if it was reported late, a recording ended with its process. */
static int write_collect(struct tables *t, const void *data)
{
	const struct core_collect *c = data;
	int r = write_of(t, CORE_ROW_COLLECT, c);

	return r < 0 || c->until_ns ? r : run_for(t, STATEMENT_PROCESS_COLLECT, c->process);
}

static int write_stack(struct tables *t, const void *data)
{
	const struct record_stack *s = data;
	const char *text = (const char *)&s->frame[s->count];
	int r = run_for(t, STATEMENT_STACK_FRAMES, s->id);

	r = r < 0 ? r : write_of(t, CORE_ROW_STACK, s);
	for (uint32_t i = 0; r == 0 && i < s->count; i++) {
		const struct record_frame *frame = &s->frame[i];
		struct row_frame row = {
			.stack = s->id,
			.depth = i,
			.address = frame->address,
			.offset = frame->module ? (int64_t)frame->offset : ROW_FRAME_NO_OFFSET,
			.file = text_at(text, frame->module),
			.symbol = text_at(text, frame->function),
			.kind = frame->kind,
			.source = text_at(text, frame->file),
			.line = frame->line,
			.inlined = frame->inlined,
		};

		r = write_row(t, &t->frame, &row);
	}
	return r < 0 ? r : backward_write(t->backward, s->id, t->given.batch);
}

static int write_backward(struct tables *t, const void *data)
{
	const struct core_backward *b = data;
	int r = write_of(t, CORE_ROW_BACKWARD, b);

	return r < 0 ? r : backward_write(t->backward, b->id, t->given.batch);
}

/* Of those that take more than their row. */
static int (*const writers[RECORD_TYPE_COUNT])(struct tables *t, const void *data) = {
	[CORE_ROW_PROCESS] = write_process, [RECORD_DETAIL] = write_detail,
	[CORE_ROW_STREAM] = write_stream,   [CORE_ROW_ALLOCATION] = write_allocation,
	[CORE_ROW_STACK] = write_stack,	    [CORE_ROW_NAME] = write_name,
	[CORE_ROW_COLLECT] = write_collect, [CORE_ROW_BACKWARD] = write_backward,
	[CORE_ROW_OOM] = write_oom,
};

static int prepare(sqlite3 *db, const struct row_table *row, struct table *ret)
{
	int r = sql_prepare_made(db, row_sql_write(row), &ret->write);

	ret->row = row;
	return r < 0 || !row->gone ? r : sql_prepare_made(db, row_sql_delete(row), &ret->delete);
}

static int prepare_all(struct tables *tables, sqlite3 *db)
{
	int r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, tables->stmt);

	for (int i = 0; r == 0 && i < CORE_ROW_COUNT; i++)
		if (row_table_of((enum core_row)i))
			r = prepare(db, row_table_of((enum core_row)i), &tables->of[i]);
	return r < 0 ? r : prepare(db, row_table_find("frame"), &tables->frame);
}

static void finalize(struct table *table)
{
	sqlite3_finalize(table->write);
	sqlite3_finalize(table->delete);
}

int tables_new(sqlite3 *db, int64_t boot, struct tables **ret)
{
	_cleanup_(tables_freep) struct tables *tables = calloc(1, sizeof(*tables));
	int r;

	if (!tables)
		return -ENOMEM;
	tables->given.boot = boot;
	r = prepare_all(tables, db);
	if (r == 0)
		r = totals_new(db, &tables->totals);
	if (r == 0)
		r = backward_new(db, &tables->backward);
	if (r < 0)
		return r;
	*ret = TAKE(tables);
	return 0;
}

struct tables *tables_free(struct tables *tables)
{
	if (!tables)
		return NULL;
	sql_finalize_all(tables->stmt, STATEMENT_COUNT);
	for (int i = 0; i < CORE_ROW_COUNT; i++)
		finalize(&tables->of[i]);
	finalize(&tables->frame);
	totals_free(tables->totals);
	backward_free(tables->backward);
	free(tables);
	return NULL;
}

void tables_set_time(struct tables *tables, uint64_t now_ns, const struct pending *pending,
		     int64_t batch)
{
	totals_begin(tables->totals);
	tables->now_ns = now_ns;
	tables->pending = *pending;
	tables->given.batch = batch;
}

int tables_write(struct tables *tables, uint32_t type, const void *data)
{
	return writers[type] ? writers[type](tables, data) : write_of(tables, type, data);
}

int tables_settle(struct tables *tables, uint64_t now_ns)
{
	return totals_settle(tables->totals, tables->given.boot, now_ns);
}

int tables_write_totals(struct tables *tables)
{
	return totals_write(tables->totals);
}

int tables_write_time(struct tables *tables)
{
	sql_bind(tables->stmt[STATEMENT_TIME], tables->given.boot, (int64_t)tables->now_ns,
		 (int64_t)tables->next_process, (int64_t)tables->next_stream,
		 (int64_t)tables->next_allocation, tables->given.batch + 1,
		 (int64_t)tables->pending.oldest_ns, (int64_t)tables->next_oom,
		 (int64_t)tables->pending.told_ns);
	return sql_run(tables->stmt[STATEMENT_TIME]);
}
