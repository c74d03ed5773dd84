/* Record: the contents of an .sbt file, from one snapshot: first rows of tables, then chunks of ops
 * as stored. An ongoing recording asks again with the cursor of the last answer.
 *
 * Each chunk is sent once: those of later commits than the cursor's. If such a chunk was merged
 * with others, which happens when nobody has asked for ten seconds, its ops are counted as lost.
 * Sums of a second are sent once it has SETTLED, and not again; at the end those that may have
 * changed since are sent once more. They have not been condensed by then (condense.h): a second and
 * the minute that it went into would count twice. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/limits.h"
#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "core/store/chunk_data.h"
#include "core/store/condense.h"
#include "core/store/query/answer.h"
#include "core/store/query/phrase.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define SETTLED_S 10 /* usually calls of a second have returned and their work is known */
#define AGAIN_S	  90 /* below CONDENSE_AFTER_S */

/* Rows that belong to the recording are those of its processes; :told is 0 at first. */
#define MINE                                                                                       \
	"(SELECT id FROM process WHERE boot = :boot AND (:pids IS NULL OR pid IN"                  \
	" (SELECT value FROM json_each(:pids))) AND first_ns <= :until"                            \
	" AND (exit_ns IS NULL OR exit_ns >= :since))"
#define NEW(column)                                                                                \
	"(SELECT " column " FROM chunk INDEXED BY chunk_batch WHERE boot = :boot AND"              \
	" batch > :batch)"

/* Which rows of a table: where they come from behind its columns. Of what changes seldom all that
 * came into use lately is told again. `%s` is the table. */
static const char *const where[] = {
	[ROW_RECORDED_FIRST] = "FROM %s WHERE :told = 0",
	[ROW_RECORDED_USED] = "FROM %s WHERE process IN " MINE
			      " AND (:told = 0 OR :last OR process IN " NEW("process") ")",
	[ROW_RECORDED_SECOND] = "FROM %s WHERE boot = :boot AND second >= :second_from"
				" AND second < :second_to AND process IN " MINE,
	[ROW_RECORDED_LAST] = "FROM %s WHERE process IN " MINE,
};

/* Of those with a condition of their own (ROW_RECORDED_OWN). */
static const struct {
	const char *table, *where;
} own[] = {
	{ "boot", "FROM %s WHERE id = :boot" },
	{ "process", "FROM %s WHERE id IN " MINE " AND (:told = 0 OR :last OR first_ns >= :settled"
		     " OR exit_ns >= :settled OR id IN " NEW("process") ")" },
	{ "stream",
	  "FROM %s WHERE process IN " MINE " AND (:told = 0 OR :last OR created_ns >= :settled"
	  " OR destroyed_ns >= :settled OR id IN " NEW("stream") ")" },
	/* What a process uses was told since it was seen (core/model/name.h). */
	{ "name", "FROM %s WHERE boot = :boot AND " NAME_SHOWN " AND told_ns >"
		  " CASE WHEN :owner IS NOT NULL THEN -1 WHEN :told > 0 THEN :told"
		  " ELSE coalesce((SELECT min(first_ns) - 1"
		  " FROM process WHERE id IN " MINE "), 0x7fffffffffffffff) END" },
	{ "stack", "FROM %s WHERE process IN " MINE " AND batch > :batch" },
	{ "frame", "FROM stack s CROSS JOIN %s f ON f.stack = s.id WHERE s.process IN " MINE
		   " AND s.batch > :batch" },
	{ "loss", "FROM %s WHERE boot = :boot AND end_ns >= iif(:last, :since,"
		  " max(:since, :settled)) AND start_ns <= :until"
		  " AND (process = 0 OR process IN " MINE ")" },
};

/* The first answer orders them by time, the others so that they can be interrupted. */
#define CHUNKS                                                                                     \
	"SELECT id, first_ns, batch, first_batch, ops, " CHUNK_DATA("id") " FROM chunk INDEXED "   \
									  "BY "
#define CHUNKS_WHERE                                                                               \
	" WHERE boot = :boot AND first_ns <= :until AND last_ns >= :since"                         \
	" AND (:pids IS NULL OR process IN " MINE ")"
#define FIRST_CHUNKS CHUNKS "chunk_time" CHUNKS_WHERE " ORDER BY first_ns, last_ns"
#define LATER_CHUNKS                                                                               \
	CHUNKS "chunk_batch" CHUNKS_WHERE                                                          \
	       " AND batch >= :batch AND (batch > :batch OR id > :chunk) ORDER BY batch, id"

static const char *const behind_name = "behind";
static const char *const behind_text = "ops and seconds of sums deleted before they were recorded";

struct record {
	struct answer *answer;
	const Tracesmith__V1__RecordRequest *request;
	struct sbt_rows *rows;
	char *pids;		  /* a list in JSON, NULL: all */
	uint64_t batch, chunk;	  /* known to the client, with what was stored before */
	uint64_t told_ns;	  /* of its last answer; 0: this is the first */
	uint64_t newest, last_ns; /* of the snapshot */
	uint64_t before_batch;
	uint64_t second_from, second_to;
	uint64_t merged;    /* ops that cannot be told apart from those already sent */
	uint64_t condensed; /* seconds whose sums were not requested in time */
};

static void record_done(struct record *record)
{
	sbt_rows_free(record->rows);
	free(record->pids);
}

static int make_pids(struct record *record)
{
	const Tracesmith__V1__RecordRequest *request = record->request;
	size_t size = 0;
	FILE *stream;

	if (request->n_pid == 0)
		return 0;
	stream = text_open(&record->pids, &size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_pid; i++)
		fprintf(stream, "%c%" PRIu32, i ? ',' : '[', request->pid[i]);
	fputc(']', stream);
	return text_close(stream);
}

static int check(struct record *record)
{
	const Tracesmith__V1__RecordRequest *request = record->request;
	int r = 0;

	if (request->n_pid > LIMIT_RECORD_PIDS)
		return answer_fail(record->answer, REASON(TOO_MANY_PIDS), NULL);
	if (request->since_ns && request->until_ns && request->since_ns > request->until_ns)
		return answer_fail(record->answer, REASON(BAD_WINDOW), NULL);
	for (size_t i = 0; r == 0 && !request->cursor && i < request->n_pid; i++)
		r = answer_check_pid(record->answer, request->pid[i]);
	return r;
}

/* The snapshot is the same for everything that follows. */
static int look(struct record *record)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	struct answer *answer = record->answer;
	int r = sqlite3_get_autocommit(answer->db) ? sql_exec(answer->db, "BEGIN") : 0;

	if (r == 0)
		r = answer_prepare(answer, "SELECT next_batch - 1, last_ns FROM boot WHERE id = ?",
				   &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, answer->boot);
	if (sqlite3_step(stmt) == SQLITE_ROW) {
		record->newest = sqlite3_column_int64(stmt, 0);
		record->last_ns = sqlite3_column_int64(stmt, 1);
	}
	return 0;
}

static uint64_t settled_ns(uint64_t ns)
{
	return ns > SETTLED_S * NS_PER_S ? ns - SETTLED_S * NS_PER_S : 0;
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The seconds whose sums are sent now. */
static void choose_seconds(struct record *record)
{
	const struct answer_window *window = &record->answer->window;
	uint64_t now_s = record->answer->now_ns / NS_PER_S;
	uint64_t since_s = window->since_ns / NS_PER_S, oldest;

	record->second_to = window->until_ns / NS_PER_S + 1;
	if (!record->request->last)
		record->second_to = min(record->second_to, settled_ns(record->last_ns) / NS_PER_S);
	record->second_from = since_s;
	if (!record->told_ns) {
		if (since_s + CONDENSE_AFTER_S <= now_s)
			record->second_from -= since_s % CONDENSE_TO_S;
		return;
	}
	record->second_from = max(since_s, settled_ns(record->told_ns) / NS_PER_S);
	oldest = now_s > AGAIN_S ? now_s - AGAIN_S : 0;
	if (record->second_from < oldest) {
		record->condensed = min(oldest, record->second_to) - record->second_from;
		record->second_from = oldest;
	} else if (record->request->last) {
		record->second_from = max(since_s, oldest);
	}
}

static void set_window(struct record *record)
{
	const Tracesmith__V1__RecordRequest *request = record->request;
	struct answer_window *window = &record->answer->window;

	window->since_ns = request->since_ns;
	if (request->until_ns && request->until_ns < record->answer->now_ns)
		window->until_ns = request->until_ns;
	window->pids = record->pids;
	if (request->cursor) {
		record->batch = request->cursor->batch;
		record->chunk = request->cursor->chunk;
		record->told_ns = request->cursor->told_ns;
	}
	record->before_batch = record->newest + 1;
	if (request->before_batch)
		record->before_batch = min(record->before_batch, request->before_batch);
	choose_seconds(record);
}

/* A view has no index to name. */
static int prepare_own(struct answer *answer, const char *sql, sqlite3_stmt **ret)
{
	static const char indexed[] = " INDEXED BY ";
	_cleanup_(freep) char *text = strdup(sql);
	char *at = text;

	if (!text)
		return -ENOMEM;
	while ((at = strstr(at, indexed))) {
		size_t size = strlen(indexed);

		size += strcspn(at + size, " ");
		memset(at, ' ', size);
	}
	return answer_prepare(answer, text, ret);
}

static int prepare(const struct record *record, const char *sql, sqlite3_stmt **ret)
{
	const struct answer_window *window = &record->answer->window;
	int r = record->answer->job->own ? prepare_own(record->answer, sql, ret)
					 : answer_prepare(record->answer, sql, ret);

	if (r < 0)
		return r;
	answer_bind(*ret, ":boot", true, record->answer->boot);
	answer_bind(*ret, ":since", true, window->since_ns);
	/* Not until now: the snapshot is younger than the question, and what it has is behind the
	 * cursor afterwards. */
	answer_bind(*ret, ":until", true,
		    record->request->until_ns ? (int64_t)record->request->until_ns : INT64_MAX);
	answer_bind(*ret, ":told", true, record->told_ns);
	answer_bind(*ret, ":settled", true, settled_ns(record->told_ns));
	answer_bind(*ret, ":batch", true, record->request->cursor ? (int64_t)record->batch : -1);
	answer_bind(*ret, ":chunk", true, record->chunk);
	answer_bind(*ret, ":last", true, record->request->last);
	answer_bind(*ret, ":second_from", true, record->second_from);
	answer_bind(*ret, ":second_to", true, record->second_to);
	answer_bind_text(*ret, ":pids", record->pids);
	answer_bind(*ret, ":owner", record->answer->job->own, record->answer->job->owner);
	return 0;
}

static int send_block(struct record *record, Tracesmith__V1__Chunk *chunk, const void *data,
		      size_t size)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	chunk->data = (ProtobufCBinaryData){ .len = size, .data = (uint8_t *)data };
	reply.body_case = TRACESMITH__V1__REPLY__BODY_CHUNK;
	reply.chunk = chunk;
	return answer_send(record->answer, &reply);
}

static int send_rows(struct record *record)
{
	Tracesmith__V1__Chunk chunk = TRACESMITH__V1__CHUNK__INIT;
	const void *data;
	size_t size;
	int r;

	if (sbt_rows_count(record->rows) == 0)
		return 0;
	r = sbt_rows_end(record->rows, &data, &size);
	chunk.type = SBT_BLOCK_ROWS;
	return r < 0 ? r : send_block(record, &chunk, data, size);
}

static int take_text(struct record *record, sqlite3_stmt *stmt, int i, struct sbt_value *ret)
{
	const char *text = (const char *)sqlite3_column_text(stmt, i);
	char *clean;

	if (!text)
		return -ENOMEM;
	ret->type = SBT_TEXT;
	ret->text = text;
	ret->size = strnlen(text, min(sqlite3_column_bytes(stmt, i), SBT_ROW_TEXT_MAX / 4));
	if (utf8_valid(text, ret->size))
		return 0;
	clean = arena_get(&record->answer->arena, 3 * ret->size + 1);
	if (!clean)
		return -ENOMEM;
	ret->size = utf8_clean(clean, text, ret->size);
	ret->text = clean;
	return 0;
}

static int begin_rows(struct record *record, const struct row_table *table, sqlite3_stmt *stmt)
{
	const char *column[SBT_ROW_COLUMNS_MAX];
	int count = sqlite3_column_count(stmt);

	for (int i = 0; i < count; i++)
		column[i] = sqlite3_column_name(stmt, i);
	return sbt_rows_begin(record->rows, table->name, column, count);
}

static int add_row(struct record *record, const struct row_table *table, sqlite3_stmt *stmt)
{
	struct sbt_value value[SBT_ROW_COLUMNS_MAX] = { 0 };
	int count = sqlite3_column_count(stmt), r = 0;

	for (int i = 0; r == 0 && i < count; i++) {
		switch (sqlite3_column_type(stmt, i)) {
		case SQLITE_NULL:
			break;
		case SQLITE_TEXT:
			r = take_text(record, stmt, i, &value[i]);
			break;
		default:
			value[i].type = SBT_INTEGER;
			value[i].integer = sqlite3_column_int64(stmt, i);
		}
	}
	if (r == 0)
		r = sbt_rows_add(record->rows, value);
	if (r == -ENOSPC) {
		r = send_rows(record);
		if (r == 0)
			r = begin_rows(record, table, stmt);
		if (r == 0)
			r = sbt_rows_add(record->rows, value);
	}
	arena_clear(&record->answer->arena);
	return r;
}

static const char *where_of(const struct row_table *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (!strcmp(own[i].table, table->name))
			return own[i].where;
	return where[table->recorded];
}

static int prepare_table(const struct record *record, const struct row_table *table,
			 sqlite3_stmt **ret)
{
	char *from = sqlite3_mprintf(where_of(table), table->name);
	char *sql = from ? row_sql_select(table, from) : NULL;
	int r = sql ? prepare(record, sql, ret) : -ENOMEM;

	sqlite3_free(from);
	sqlite3_free(sql);
	return r;
}

static int send_table(struct record *record, const struct row_table *table)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int step, r = prepare_table(record, table, &stmt);

	if (r == 0)
		r = begin_rows(record, table, stmt);
	if (r < 0)
		return r;
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = add_row(record, table, stmt);
		if (r < 0)
			return r;
	}
	return step == SQLITE_DONE ? send_rows(record) : answer_fail_sqlite(record->answer);
}

static int send_tables(struct record *record)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < row_table_count; i++) {
		enum row_recorded recorded = row_tables[i].recorded;

		if (recorded == ROW_RECORDED_LAST ? record->request->last
						  : recorded != ROW_RECORDED_NEVER)
			r = send_table(record, &row_tables[i]);
	}
	return r;
}

static int send_chunk(struct record *record, sqlite3_stmt *stmt)
{
	Tracesmith__V1__Chunk chunk = TRACESMITH__V1__CHUNK__INIT;
	uint64_t first_batch = sqlite3_column_int64(stmt, 3);
	const void *data;

	chunk.type = SBT_BLOCK_OPS;
	chunk.id = sqlite3_column_int64(stmt, 0);
	chunk.done_ns = sqlite3_column_int64(stmt, 1);
	chunk.batch = sqlite3_column_int64(stmt, 2);
	if (first_batch >= record->before_batch)
		return 0;
	if (chunk.batch >= record->before_batch ||
	    (record->request->cursor && first_batch != chunk.batch &&
	     first_batch <= record->batch)) {
		record->merged += sqlite3_column_int64(stmt, 4);
		return 0;
	}
	data = sqlite3_column_blob(stmt, 5);
	if (!data)
		return 0; /* damaged, and counted */
	record->answer->rows++;
	return send_block(record, &chunk, data, sqlite3_column_bytes(stmt, 5));
}

static int send_chunks(struct record *record)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int step, r;

	r = prepare(record, record->request->cursor ? LATER_CHUNKS : FIRST_CHUNKS, &stmt);
	if (r < 0)
		return r;
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = send_chunk(record, stmt);
		if (r < 0)
			return r;
	}
	return step == SQLITE_DONE ? 0 : answer_fail_sqlite(record->answer);
}

static int send_done(struct record *record)
{
	Tracesmith__V1__RecordCursor cursor = TRACESMITH__V1__RECORD_CURSOR__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	uint64_t behind = record->merged + record->condensed;
	int r = 0;

	cursor.batch = record->before_batch - 1;
	cursor.chunk = INT64_MAX;
	cursor.told_ns = record->last_ns;
	done.cursor = &cursor;
	if (behind)
		r = answer_add_loss(record->answer, &done, behind_name, behind, behind_text);
	return r < 0 ? r : answer_done_with(record->answer, &done);
}

static int run(struct record *record)
{
	int r = check(record);

	if (r == 0)
		r = make_pids(record);
	if (r == 0)
		r = sbt_rows_new(&record->rows);
	if (r == 0)
		r = look(record);
	if (r < 0)
		return r;
	record->answer->deadline_ns = 0; /* the reader sets the pace */
	set_window(record);
	r = send_tables(record);
	if (r == 0)
		r = send_chunks(record);
	return r < 0 ? r : send_done(record);
}

int run_record(struct answer *answer, const Tracesmith__V1__RecordRequest *request)
{
	_cleanup_(record_done) struct record record = { .answer = answer, .request = request };

	return run(&record);
}
