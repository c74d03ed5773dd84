/* Tables: one or several statements for each type of record. What a process held is gone with it:
 * its live allocations leave with the row's exit time. */
#include "core/store/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/demangle.h"
#include "core/base/time.h"
#include "core/limits.h"
#include "core/store/sql.h"

#define TEXT_OF(number) #number
#define TEXT(number)	TEXT_OF(number)

/* How many names are dropped at a time, since finding them means reading all of work; if there were
 * none the next search is not before this time. */
#define EVICT_NAMES    4096
#define EVICT_AGAIN_NS (10 * NS_PER_S)

/* Statements use ?1, ?2, … in the order of the lists given to sql_bind below. */
#define STATEMENTS(X)                                                                              \
	X(PROCESS,                                                                                 \
	  "INSERT INTO process(id, boot, pid, ns_pid, ppid, uid, started_ticks,"                   \
	  " cgroup_id, first_ns, exit_ns, exit_code, comm)"                                        \
	  " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,nullif(?10,0),iif(?10,nullif(?11,-1),NULL),?12)"     \
	  " ON CONFLICT(id) DO UPDATE SET pid=?3, ns_pid=?4, ppid=?5, uid=?6,"                     \
	  " started_ticks=?7, cgroup_id=?8, exit_ns=excluded.exit_ns,"                             \
	  " exit_code=excluded.exit_code, comm=?12")                                               \
	X(PROCESS_ALLOCATIONS, "DELETE FROM allocation WHERE process=?1")                          \
	X(PROCESS_MEMORY, "UPDATE memory SET live_bytes=0, live_count=0 WHERE process=?1")         \
	X(PROCESS_POOLS, "UPDATE pool SET bytes=0, used_bytes=0 WHERE process=?1")                 \
	X(PROCESS_COLLECT, "UPDATE collect SET until_ns=(SELECT exit_ns FROM process WHERE id=?1)" \
			   " WHERE process=?1 AND until_ns IS NULL")                               \
	X(DETAIL, "UPDATE process SET command=iif(?6,?2,coalesce(?2,command)),"                    \
		  " user=coalesce(?3,user), cgroup=coalesce(?4,cgroup), "                          \
		  "container=coalesce(?5,container) WHERE id=?1")                                  \
	X(STREAM, "INSERT OR REPLACE INTO stream(id, process, handle, context, device, tid,"       \
		  " non_blocking, created_ns, destroyed_ns, number)"                               \
		  " VALUES(?,?,?,?,?,?,?,nullif(?,0),nullif(?,0),nullif(?,0))")                    \
	X(ALLOCATION, "INSERT OR REPLACE INTO allocation(id, process, address, bytes, start_ns,"   \
		      " end_ns, stack, context, tid, fn, kind, device, handles, physical)"         \
		      " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,nullif(?,0))")                            \
	X(FREED, "DELETE FROM allocation WHERE id=?")                                              \
	X(MEMORY, "INSERT OR REPLACE INTO memory(process, device, kind, live_bytes, live_count,"   \
		  " peak_bytes) VALUES(?,?,?,?,?,?)")                                              \
	X(ROLLUP,                                                                                  \
	  "INSERT INTO rollup(boot, second, process, kind, fn, detail, device, stream,"            \
	  " result, stack, freed, calls, timed, total_ns, min_ns, max_ns, bytes, captured)"        \
	  " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"                 \
	  " min_ns=CASE WHEN timed=0 THEN excluded.min_ns"                                         \
	  " WHEN excluded.timed=0 THEN min_ns ELSE min(min_ns, excluded.min_ns) END,"              \
	  " calls=calls+excluded.calls, timed=timed+excluded.timed,"                               \
	  " total_ns=total_ns+excluded.total_ns, max_ns=max(max_ns, excluded.max_ns),"             \
	  " bytes=bytes+excluded.bytes, captured=captured+excluded.captured")                      \
	X(LOSS, "INSERT INTO loss(boot, second, process, reason, start_ns, end_ns, count)"         \
		" VALUES(?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"                                 \
		" start_ns=min(start_ns, excluded.start_ns), end_ns=max(end_ns, excluded.end_ns)," \
		" count=count+excluded.count")                                                     \
	X(NAME_TOLD, "UPDATE name SET boot=?2, told_ns=?3 WHERE id=?1")                            \
	X(NAME, "INSERT INTO name(id, boot, told_ns, text, symbol) SELECT ?1,?2,?3,?4,?5"          \
		" WHERE (SELECT count(*) FROM name) < " TEXT(LIMIT_STORE_NAMES))                   \
	X(NAME_EVICT, "DELETE FROM name WHERE id IN (SELECT id FROM name WHERE id NOT IN"          \
		      " (SELECT name FROM work) AND id NOT IN (SELECT name FROM device)"           \
		      " ORDER BY boot, told_ns, rowid LIMIT " TEXT(EVICT_NAMES) ")")               \
	X(WORK, "INSERT INTO work(boot, second, process, device, stream, kind, detail, name,"      \
		" graph, stack, bucket, count, total_ns, min_ns, max_ns, bytes, delay_ns)"         \
		" VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"             \
		" count=count+excluded.count, total_ns=total_ns+excluded.total_ns,"                \
		" min_ns=min(min_ns, excluded.min_ns), max_ns=max(max_ns, excluded.max_ns),"       \
		" bytes=bytes+excluded.bytes, delay_ns=delay_ns+excluded.delay_ns")                \
	X(BUSY, "INSERT INTO busy(boot, second, process, device, state, kernels, copies, ns)"      \
		" VALUES(?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET ns=ns+excluded.ns")            \
	X(DEVICE, "INSERT OR REPLACE INTO device(process, ordinal, name, memory_bytes,"            \
		  " multiprocessors, clock_khz, uuid) VALUES(?,?,?,?,?,?,?)")                      \
	/* Even if it was reported late, a recording ended with its process. */                    \
	X(COLLECT, "INSERT OR REPLACE INTO collect(process, boot, state, records, left_out,"       \
		   " cupti_version, budget_ppm, since_ns, changed_ns, busy_ns, own_ns, wall_ns,"   \
		   " taken, busiest_ppm, until_ns)"                                                \
		   " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,"                       \
		   " coalesce(nullif(?15,0), (SELECT exit_ns FROM process WHERE id=?1)))")         \
	/* A restarted daemon knows only the peaks since then. */                                  \
	X(POOL, "INSERT INTO pool(process, address, device, kind, bytes, used_bytes,"              \
		" threshold_bytes, peak_bytes, peak_used_bytes, told_ns)"                          \
		" VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) ON CONFLICT DO UPDATE SET device=?3,"     \
		" kind=?4, bytes=?5, used_bytes=?6, threshold_bytes=?7,"                           \
		" peak_bytes=max(peak_bytes, ?8), peak_used_bytes=max(peak_used_bytes, ?9),"       \
		" told_ns=?10")                                                                    \
	X(POOL_GONE, "DELETE FROM pool WHERE process=? AND address=?")                             \
	X(STACK, "INSERT OR REPLACE INTO stack(id, process, batch) VALUES(?,?,?)")                 \
	X(STACK_FRAMES, "DELETE FROM frame WHERE stack=?")                                         \
	X(FRAME, "INSERT INTO frame(stack, depth, address, offset, file, symbol)"                  \
		 " VALUES(?,?,?,?,?,?)")                                                           \
	X(TIME, "UPDATE boot SET last_ns=?2, next_process=max(next_process,?3),"                   \
		" next_stream=max(next_stream,?4), next_allocation=max(next_allocation,?5),"       \
		" next_batch=?6, oldest_pending_ns=?7 WHERE id=?1")

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

struct tables {
	int64_t boot, batch;
	uint64_t now_ns, pending_ns, evict_ns;
	uint64_t next_process, next_stream, next_allocation;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
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

static int write_process(struct tables *t, const void *data)
{
	const struct core_process *p = data;
	char comm[TS_COMM_SIZE + 1] = "";
	int r;

	memcpy(comm, p->comm, TS_COMM_SIZE);
	raise_next(&t->next_process, p->id);
	sql_bind(t->stmt[STATEMENT_PROCESS], p->id, t->boot, p->pid, p->ns_pid, p->ppid, p->uid,
		 (int64_t)p->started_ticks, (int64_t)p->cgroup, (int64_t)p->first_ns,
		 (int64_t)p->exit_ns, p->exit_code);
	sql_bind_text(t->stmt[STATEMENT_PROCESS], 12, comm);
	r = sql_run(t->stmt[STATEMENT_PROCESS]);
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
	return sql_run(stmt);
}

static int write_stream(struct tables *t, const void *data)
{
	const struct core_stream *s = data;

	raise_next(&t->next_stream, s->id);
	sql_bind(t->stmt[STATEMENT_STREAM], s->id, s->process, (int64_t)s->handle,
		 (int64_t)s->context, s->device, s->tid, s->non_blocking, (int64_t)s->created_ns,
		 (int64_t)s->destroyed_ns, s->number);
	return sql_run(t->stmt[STATEMENT_STREAM]);
}

static int write_allocation(struct tables *t, const void *data)
{
	const struct record_allocation *record = data;
	const struct core_allocation *a = &record->allocation;

	raise_next(&t->next_allocation, a->id);
	if (!record->live)
		return run_for(t, STATEMENT_FREED, a->id);
	sql_bind(t->stmt[STATEMENT_ALLOCATION], (int64_t)a->id, a->process, (int64_t)a->address,
		 (int64_t)a->bytes, (int64_t)a->start_ns, (int64_t)a->end_ns, (int64_t)a->stack_id,
		 (int64_t)a->context, a->tid, a->fn, a->kind, a->device, a->handles,
		 (int64_t)a->physical);
	return sql_run(t->stmt[STATEMENT_ALLOCATION]);
}

static int write_memory(struct tables *t, const void *data)
{
	const struct core_memory *m = data;

	sql_bind(t->stmt[STATEMENT_MEMORY], m->process, m->device, m->kind, (int64_t)m->live_bytes,
		 (int64_t)m->live_count, (int64_t)m->peak_bytes);
	return sql_run(t->stmt[STATEMENT_MEMORY]);
}

static int write_rollup(struct tables *t, const void *data)
{
	const struct core_rollup *u = data;

	sql_bind(t->stmt[STATEMENT_ROLLUP], t->boot, (int64_t)u->second, u->process, u->kind, u->fn,
		 u->detail, u->device, u->stream, u->result, (int64_t)u->stack_id, u->freed,
		 (int64_t)u->calls, (int64_t)u->timed, (int64_t)u->total_ns, (int64_t)u->min_ns,
		 (int64_t)u->max_ns, (int64_t)u->bytes, (int64_t)u->captured);
	return sql_run(t->stmt[STATEMENT_ROLLUP]);
}

static int write_loss(struct tables *t, const void *data)
{
	const struct core_loss *l = data;

	sql_bind(t->stmt[STATEMENT_LOSS], t->boot, (int64_t)(l->start_ns / NS_PER_S), l->process,
		 l->reason, (int64_t)l->start_ns, (int64_t)l->end_ns, (int64_t)l->count);
	return sql_run(t->stmt[STATEMENT_LOSS]);
}

static int lose_names(struct tables *t, int count)
{
	struct core_loss loss = { .start_ns = t->now_ns,
				  .end_ns = t->now_ns,
				  .reason = LOSS_LIMIT,
				  .count = (uint64_t)count };

	return count ? write_loss(t, &loss) : 0;
}

/* Names come from anybody, and some programs give every range a new one. If there are too many, the
 * oldest that no kernel has are dropped, and counted. 0: none can be now. */
static int evict_names(struct tables *t)
{
	int r, evicted;

	if (t->now_ns < t->evict_ns)
		return 0;
	r = sql_run(t->stmt[STATEMENT_NAME_EVICT]);
	if (r < 0)
		return r;
	evicted = sqlite3_changes(sqlite3_db_handle(t->stmt[STATEMENT_NAME_EVICT]));
	if (!evicted)
		t->evict_ns = t->now_ns + EVICT_AGAIN_NS;
	r = lose_names(t, evicted);
	return r < 0 ? r : evicted;
}

/* 1: added, 0: there are too many. */
static int insert_name(struct tables *t, const struct record_name *n, const char *text)
{
	sqlite3_stmt *stmt = t->stmt[STATEMENT_NAME];
	int r;

	sql_bind(stmt, (int64_t)n->id, t->boot, (int64_t)t->now_ns);
	sql_bind_text(stmt, 4, text);
	sql_bind_text(stmt, 5, n->text);
	r = sql_run(stmt);
	return r < 0 ? r : sqlite3_changes(sqlite3_db_handle(stmt));
}

/* A symbol always means the same, and demangling is expensive: once is enough. */
static int write_name(struct tables *t, const void *data)
{
	const struct record_name *n = data;
	_cleanup_(freep) char *text = NULL;
	int r;

	sql_bind(t->stmt[STATEMENT_NAME_TOLD], (int64_t)n->id, t->boot, (int64_t)t->now_ns);
	r = sql_run(t->stmt[STATEMENT_NAME_TOLD]);
	if (r < 0 || sqlite3_changes(sqlite3_db_handle(t->stmt[STATEMENT_NAME_TOLD])))
		return r;
	text = strncmp(n->text, "_Z", 2) == 0 ? demangle_long(n->text) : strdup(n->text);
	if (!text)
		return -ENOMEM;
	r = insert_name(t, n, text);
	if (r)
		return r < 0 ? r : 0;
	r = evict_names(t);
	if (r > 0)
		r = insert_name(t, n, text);
	return r ? (r < 0 ? r : 0) : lose_names(t, 1);
}

static int write_work(struct tables *t, const void *data)
{
	const struct core_work *w = data;

	sql_bind(t->stmt[STATEMENT_WORK], t->boot, (int64_t)w->second, w->process, w->device,
		 w->stream, w->kind, w->detail, (int64_t)w->name, w->graph, (int64_t)w->stack_id,
		 w->bucket, (int64_t)w->count, (int64_t)w->total_ns, (int64_t)w->min_ns,
		 (int64_t)w->max_ns, (int64_t)w->bytes, (int64_t)w->delay_ns);
	return sql_run(t->stmt[STATEMENT_WORK]);
}

static int write_busy(struct tables *t, const void *data)
{
	const struct core_busy *b = data;

	sql_bind(t->stmt[STATEMENT_BUSY], t->boot, (int64_t)b->second, b->process, b->device,
		 b->state, b->kernels, b->copies, (int64_t)b->ns);
	return sql_run(t->stmt[STATEMENT_BUSY]);
}

/* As nvidia-smi writes them. */
static void format_uuid(const uint8_t uuid[16], char *out)
{
	static const uint8_t groups[] = { 4, 2, 2, 2, 6 };

	out += sprintf(out, "GPU");
	for (size_t i = 0; i < sizeof(groups); i++) {
		*out++ = '-';
		for (uint8_t k = 0; k < groups[i]; k++)
			out += sprintf(out, "%02x", *uuid++);
	}
}

static int write_device(struct tables *t, const void *data)
{
	const struct core_device *d = data;
	char uuid[48];

	format_uuid(d->uuid, uuid);
	sql_bind(t->stmt[STATEMENT_DEVICE], d->process, d->ordinal, (int64_t)d->name,
		 (int64_t)d->memory_bytes, d->multiprocessors, d->clock_khz);
	sql_bind_text(t->stmt[STATEMENT_DEVICE], 7, uuid);
	return sql_run(t->stmt[STATEMENT_DEVICE]);
}

static int write_collect(struct tables *t, const void *data)
{
	const struct core_collect *c = data;

	sql_bind(t->stmt[STATEMENT_COLLECT], c->process, t->boot, c->state, c->records, c->left_out,
		 c->cupti_version, c->budget_ppm, (int64_t)c->since_ns, (int64_t)c->changed_ns,
		 (int64_t)c->busy_ns, (int64_t)c->own_ns, (int64_t)c->wall_ns, (int64_t)c->taken,
		 c->busiest_ppm, c->state == TS_COLLECT_STOPPED ? (int64_t)c->changed_ns : 0);
	return sql_run(t->stmt[STATEMENT_COLLECT]);
}

static int write_pool(struct tables *t, const void *data)
{
	const struct record_pool *record = data;
	const struct core_pool *p = &record->pool;

	if (!record->live) {
		sql_bind(t->stmt[STATEMENT_POOL_GONE], p->process, (int64_t)p->address);
		return sql_run(t->stmt[STATEMENT_POOL_GONE]);
	}
	sql_bind(t->stmt[STATEMENT_POOL], p->process, (int64_t)p->address, p->device, p->kind,
		 (int64_t)p->bytes, (int64_t)p->used_bytes, (int64_t)p->threshold_bytes,
		 (int64_t)p->peak_bytes, (int64_t)p->peak_used_bytes, (int64_t)p->told_ns);
	return sql_run(t->stmt[STATEMENT_POOL]);
}

static int write_stack(struct tables *t, const void *data)
{
	const struct record_stack *s = data;
	const char *text = (const char *)&s->frame[s->count];
	sqlite3_stmt *stmt = t->stmt[STATEMENT_FRAME];
	int r = run_for(t, STATEMENT_STACK_FRAMES, s->id);

	sql_bind(t->stmt[STATEMENT_STACK], (int64_t)s->id, s->process, t->batch);
	r = r < 0 ? r : sql_run(t->stmt[STATEMENT_STACK]);
	for (uint32_t i = 0; r == 0 && i < s->count; i++) {
		const struct record_frame *frame = &s->frame[i];

		sql_bind(stmt, (int64_t)s->id, i, (int64_t)frame->address, (int64_t)frame->offset);
		if (!frame->file)
			sqlite3_bind_null(stmt, 4);
		sql_bind_text(stmt, 5, text_at(text, frame->file));
		sql_bind_text(stmt, 6, text_at(text, frame->symbol));
		r = sql_run(stmt);
	}
	return r;
}

static int (*const writers[])(struct tables *t, const void *data) = {
	[RECORD_PROCESS] = write_process, [RECORD_DETAIL] = write_detail,
	[RECORD_STREAM] = write_stream,	  [RECORD_ALLOCATION] = write_allocation,
	[RECORD_MEMORY] = write_memory,	  [RECORD_ROLLUP] = write_rollup,
	[RECORD_LOSS] = write_loss,	  [RECORD_STACK] = write_stack,
	[RECORD_NAME] = write_name,	  [RECORD_WORK] = write_work,
	[RECORD_BUSY] = write_busy,	  [RECORD_DEVICE] = write_device,
	[RECORD_COLLECT] = write_collect, [RECORD_POOL] = write_pool,
};

int tables_new(sqlite3 *db, int64_t boot, struct tables **ret)
{
	struct tables *tables = calloc(1, sizeof(*tables));
	int r;

	if (!tables)
		return -ENOMEM;
	tables->boot = boot;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, tables->stmt);
	if (r < 0) {
		free(tables);
		return r;
	}
	*ret = tables;
	return 0;
}

struct tables *tables_free(struct tables *tables)
{
	if (tables)
		sql_finalize_all(tables->stmt, STATEMENT_COUNT);
	free(tables);
	return NULL;
}

void tables_set_time(struct tables *tables, uint64_t now_ns, uint64_t pending_ns, int64_t batch)
{
	tables->now_ns = now_ns;
	tables->pending_ns = pending_ns;
	tables->batch = batch;
}

int tables_write(struct tables *tables, enum record_type type, const void *data)
{
	return writers[type](tables, data);
}

int tables_write_time(struct tables *tables)
{
	sql_bind(tables->stmt[STATEMENT_TIME], tables->boot, (int64_t)tables->now_ns,
		 (int64_t)tables->next_process, (int64_t)tables->next_stream,
		 (int64_t)tables->next_allocation, tables->batch + 1, (int64_t)tables->pending_ns);
	return sql_run(tables->stmt[STATEMENT_TIME]);
}
