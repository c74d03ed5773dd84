/* Answer: sends columns, batches of rows and the end of one request.
 * A batch lives in the arena until it is sent, so that memory is flat; the time spent waiting for a
 * slow reader does not count against the query's own. */
#include "core/store/query/answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/utf8.h"
#include "core/limits.h"
#include "core/store/page_sum.h"
#include "core/store/reader.h"
#include "core/store/sql.h"
#include "core/store/store.h"

#define PROGRESS_STEPS 20000 /* of SQLite's virtual machine, about a millisecond */
#define PASSING_TRIES  1000
#define PASSING_US     1000

static int on_progress(void *data)
{
	struct answer *answer = data;

	return answer->job->cancelled(answer->job->data) ||
	       (answer->deadline_ns && clock_ns(CLOCK_MONOTONIC) > answer->deadline_ns);
}

/* For long work without a step of SQLite's. */
static void is_over(sqlite3_context *context, int count, sqlite3_value **value)
{
	sqlite3_result_int(context, on_progress(sqlite3_user_data(context)));
}

static int watch(struct answer *answer)
{
	sqlite3_progress_handler(answer->db, PROGRESS_STEPS, on_progress, answer);
	return sqlite3_create_function(answer->db, "query_is_over", 0, SQLITE_UTF8, answer, is_over,
				       NULL, NULL) == SQLITE_OK
		       ? 0
		       : -ENOMEM;
}

static int find_boot(struct answer *answer)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(answer->db, "SELECT id FROM boot NOT INDEXED WHERE boot_id = ?", &stmt);

	if (r < 0)
		return r;
	sql_bind_text(stmt, 1, answer->job->boot_id);
	return sql_integer(stmt, &answer->boot);
}

/* The connection is not this answer's alone. */
static bool is_shared(const struct answer *answer)
{
	return answer->job->reader || answer->job->held;
}

/* A reader that cannot write to the index of the log cannot tell a commit that is just being
 * entered there from one that was never completed. It is, a moment later. */
static bool is_passing(int r, int *tries)
{
	return r == -EAGAIN && --*tries && (usleep(PASSING_US) == 0 || errno == EINTR);
}

/* A query on a recording has no time limit. */
static int open_database(struct answer *answer)
{
	const struct query_job *job = answer->job;
	int tries = PASSING_TRIES, r;

	if (job->reader) {
		answer->db = job->reader;
		return 0;
	}
	answer->deadline_ns = answer->begin_ns + LIMIT_QUERY_MS * NS_PER_MS;
	do {
		r = job->held ? store_reader_open_held(job->database, job->now_ns, &answer->db)
			      : store_reader_open(job->database, job->now_ns, &answer->db);
	} while (is_passing(r, &tries));
	return r < 0 || !job->own ? r : reader_show_own(answer->db, job->owner);
}

/* What is read is one snapshot, that of the first look: where nothing can be opened later, and so
 * that a second try says the same. */
static int begin(struct answer *answer)
{
	int tries = PASSING_TRIES, r = 0;

	if (!is_shared(answer))
		r = sql_exec(answer->db, "BEGIN");
	if (r == 0)
		do {
			r = find_boot(answer);
		} while (is_passing(r, &tries));
	if (r == 0 && answer->job->opened)
		r = answer->job->opened(answer->job->data);
	return r;
}

int answer_open(struct answer *answer, const struct query_job *job)
{
	int r;

	*answer = (struct answer){
		.job = job,
		.begin_ns = clock_ns(CLOCK_MONOTONIC),
		.too_slow = REASON(TOO_SLOW),
		.about = ABOUT_ALL & ~ABOUT_SAMPLES,
	};
	answer->now_ns = job->now_ns;
	answer->told_ns = job->told_ns > answer->now_ns ? job->told_ns : answer->now_ns;
	answer->window.until_ns = answer->now_ns;
	answer->batch = calloc(ANSWER_BATCH_ROWS, sizeof(*answer->batch));
	if (!answer->batch)
		return -ENOMEM;
	r = open_database(answer);
	if (r < 0)
		return answer_fail(answer, REASON(UNREADABLE), strerror(-r), NULL);
	r = watch(answer);
	if (r == 0)
		r = function_register(answer->db);
	if (r == 0)
		r = place_new(answer->db, &answer->place);
	return r < 0 ? r : begin(answer);
}

static void forget(struct answer *answer)
{
	sqlite3_finalize(answer->frames);
	sqlite3_finalize(answer->end);
	answer->frames = answer->end = NULL;
	place_free(answer->place);
	answer->place = NULL;
	arena_clear(&answer->arena);
	remarks_clear(&answer->remarks);
}

void answer_close(struct answer *answer)
{
	forget(answer);
	if (answer->job->reader)
		reader_reset(answer->job->reader);
	else
		sqlite3_close(answer->db);
	free(answer->batch);
	*answer = (struct answer){ 0 };
}

int answer_send(struct answer *answer, Tracesmith__V1__Reply *reply)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
	int r;

	if (answer->replies++ < answer->sent)
		return 0;
	answer->sent++;
	reply->id = answer->job->request->id;
	r = answer->job->send(answer->job->data, reply);
	if (answer->deadline_ns)
		answer->deadline_ns += clock_ns(CLOCK_MONOTONIC) - begin_ns;
	return r;
}

/* Whether damaged pages were met that could be left out. */
static bool met_damage(struct answer *answer)
{
	uint32_t pages = is_shared(answer) ? 0 : page_sum_skip(answer->db);

	answer->damaged_pages += pages;
	return pages > 0;
}

bool answer_again(struct answer *answer, int error)
{
	if (error != -ESTALE && (error != -EBADMSG || !met_damage(answer)))
		return false;
	forget(answer);
	reader_reset(answer->db);
	sqlite3_db_release_memory(answer->db);
	answer->replies = answer->batch_rows = answer->rows = 0;
	return watch(answer) == 0 && place_new(answer->db, &answer->place) == 0;
}

/* The reason of the error comes first, what was remarked before follows. */
static int send_error(struct answer *answer, struct remarks *remarks)
{
	Tracesmith__V1__Error error = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	int r;

	error.code = remark_code(remarks->item[0]->reason);
	for (size_t i = 0; i < answer->remarks.count && remarks->count < REMARKS_MAX; i++)
		remarks->item[remarks->count++] = answer->remarks.item[i];
	error.message = remarks_text(remarks);
	if (!error.message)
		return -ENOMEM;
	error.remark = remarks->item;
	error.n_remark = remarks->count;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ERROR;
	reply.error = &error;
	answer->replies = answer->sent; /* it ends here, even if it did not get as far again */
	r = answer_send(answer, &reply);
	return r < 0 ? r : -ECANCELED;
}

int answer_fail(struct answer *answer, Tracesmith__V1__Remark__Reason reason, ...)
{
	_cleanup_(remarks_clear) struct remarks remarks = { 0 };
	va_list arguments;
	int r;

	va_start(arguments, reason);
	r = remarks_add_list(&remarks, reason, arguments);
	va_end(arguments);
	return r < 0 ? r : send_error(answer, &remarks);
}

/* Other answers need other pages. */
static const char *const damaged = "a page that this answer needs is damaged; other windows and "
				   "queries may not need it";

int answer_fail_sqlite(struct answer *answer)
{
	if (met_damage(answer))
		return -ESTALE;
	switch (sqlite3_errcode(answer->db) & 0xff) {
	case SQLITE_INTERRUPT:
		if (answer->job->cancelled(answer->job->data))
			return -ECANCELED;
		return answer_fail(answer, answer->too_slow, NULL);
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_TOOBIG:
		return answer_fail(answer, REASON(LONG_VALUE), NULL);
	case SQLITE_AUTH:
		return answer_fail(answer, REASON(READ_ONLY), sqlite3_errmsg(answer->db), NULL);
	case SQLITE_FULL: /* functions of ours report this too, with a sentence */
		if (answer->job->scratch_mib &&
		    strcmp(sqlite3_errmsg(answer->db), sqlite3_errstr(SQLITE_FULL)) == 0)
			return answer_fail(answer, REASON(QUERY_SCRATCH),
					   REMARK_NUMBER(answer->job->scratch_mib), NULL);
		return answer_fail(answer, REASON(BOUND), sqlite3_errmsg(answer->db), NULL);
	case SQLITE_ERROR:
		/* Not the user's own sum, of which SQLite's words are as good. */
		if (answer->job->request->body_case != TRACESMITH__V1__REQUEST__BODY_SQL &&
		    strcmp(sqlite3_errmsg(answer->db), "integer overflow") == 0)
			return answer_fail(answer, REASON(LARGE_SUM), NULL);
		return answer_fail(answer, REASON(BAD_SQL), sqlite3_errmsg(answer->db), NULL);
	default:
		return answer_fail(answer, REASON(UNREADABLE),
				   sql_error(answer->db) == -EBADMSG ? damaged
								     : sqlite3_errmsg(answer->db),
				   NULL);
	}
}

int answer_fail_memory(struct answer *answer)
{
	uint32_t mib = answer->job->memory_mib;

	if (!mib)
		return answer_fail(answer, REASON(NO_MEMORY), NULL);
	return answer_fail(answer, REASON(QUERY_MEMORY), REMARK_NUMBER(mib), NULL);
}

int answer_prepare(struct answer *answer, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v2(answer->db, sql, -1, ret, NULL) != SQLITE_OK)
		return answer_fail_sqlite(answer);
	return 0;
}

void answer_bind(sqlite3_stmt *stmt, const char *name, bool given, int64_t value)
{
	int number = sqlite3_bind_parameter_index(stmt, name);

	if (number && given)
		sqlite3_bind_int64(stmt, number, value);
}

void answer_bind_text(sqlite3_stmt *stmt, const char *name, const char *text)
{
	int number = sqlite3_bind_parameter_index(stmt, name);

	if (number && text)
		sqlite3_bind_text(stmt, number, text, -1, SQLITE_STATIC);
}

int answer_check_pid(struct answer *answer, uint32_t pid)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t found;
	int r;

	if (!pid)
		return 0;
	r = sql_prepare(answer->db, "SELECT count(*) FROM process WHERE boot = ? AND pid = ?",
			&stmt);
	if (r < 0)
		return r;
	sql_bind(stmt, answer->boot, pid);
	r = sql_integer(stmt, &found);
	if (r < 0 || found)
		return r;
	r = answer_remark_unseen(answer);
	if (r == 0)
		r = answer_remark_hidden(answer);
	return r < 0 ? r : answer_fail(answer, REASON(UNKNOWN_PROCESS), REMARK_NUMBER(pid), NULL);
}

int answer_check_user(struct answer *answer, const char *user)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t found;
	int r;

	if (!answer_given(user))
		return 0;
	r = sql_prepare(answer->db,
			"SELECT count(*) FROM process WHERE boot = ?1"
			" AND ?2 IN (user, CAST(uid AS TEXT))",
			&stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, answer->boot);
	sql_bind_text(stmt, 2, user);
	r = sql_integer(stmt, &found);
	if (r < 0 || found)
		return r;
	r = answer_remark_unseen(answer);
	if (r == 0)
		r = answer_remark_hidden(answer);
	return r < 0 ? r : answer_fail(answer, REASON(UNKNOWN_USER), user, NULL);
}

int answer_columns(struct answer *answer, const struct query_column *column, size_t count)
{
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Columns__Column *item;

	columns.column = arena_get(&answer->arena, count * sizeof(*columns.column));
	item = arena_get(&answer->arena, count * sizeof(*item));
	if (!columns.column || !item)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		tracesmith__v1__columns__column__init(&item[i]);
		item[i].name = (char *)column[i].name;
		item[i].type = column[i].type;
		columns.column[i] = &item[i];
	}
	columns.n_column = count;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_COLUMNS;
	reply.columns = &columns;
	return answer_send(answer, &reply);
}

static int send_batch(struct answer *answer)
{
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	int r;

	if (!answer->batch_rows)
		return 0;
	rows.n_row = answer->batch_rows;
	rows.row = answer->batch;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	reply.rows = &rows;
	r = answer_send(answer, &reply);
	if (r == -EMSGSIZE)
		return answer_fail(answer, REASON(LONG_ROW), NULL);
	answer->batch_rows = 0;
	arena_clear(&answer->arena);
	return r;
}

static char *clean_text(struct arena *arena, const char *text, size_t size)
{
	char *out;

	if (utf8_valid(text, size))
		return arena_text(arena, text, size);
	out = arena_get(arena, 3 * size + 1);
	if (out)
		utf8_clean(out, text, size);
	return out;
}

static int take_blob(struct answer *answer, sqlite3_stmt *stmt, int i, ProtobufCBinaryData *ret)
{
	size_t size = sqlite3_column_bytes(stmt, i);
	const void *blob = sqlite3_column_blob(stmt, i);
	uint8_t *data = arena_get(&answer->arena, size);

	if (!data)
		return -ENOMEM;
	if (size)
		memcpy(data, blob, size);
	*ret = (ProtobufCBinaryData){ .len = size, .data = data };
	return 0;
}

static int take_text(struct answer *answer, sqlite3_stmt *stmt, int i, char **ret)
{
	const char *text = (const char *)sqlite3_column_text(stmt, i);

	*ret = text ? clean_text(&answer->arena, text, sqlite3_column_bytes(stmt, i)) : NULL;
	return *ret ? 0 : -ENOMEM;
}

static int take_stack(struct answer *answer, sqlite3_stmt *stmt, int i,
		      Tracesmith__V1__Value *value)
{
	int r = answer_stack(answer, sqlite3_column_int64(stmt, i), &value->stack);

	if (r == 0 && value->stack)
		value->value_case = TRACESMITH__V1__VALUE__VALUE_STACK;
	return r;
}

static int take_value(struct answer *answer, sqlite3_stmt *stmt, int i,
		      Tracesmith__V1__Columns__Type type, Tracesmith__V1__Value *value)
{
	if (type == TRACESMITH__V1__COLUMNS__TYPE__STACK)
		return take_stack(answer, stmt, i, value);
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_INTEGER:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
		value->integer = sqlite3_column_int64(stmt, i);
		return 0;
	case SQLITE_FLOAT:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_REAL;
		value->real = sqlite3_column_double(stmt, i);
		return 0;
	case SQLITE_TEXT:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
		return take_text(answer, stmt, i, &value->text);
	case SQLITE_BLOB:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_BLOB;
		return take_blob(answer, stmt, i, &value->blob);
	default:
		return 0;
	}
}

/* A row of `count` values, none of them set yet. */
static Tracesmith__V1__Row *make_row(struct arena *arena, size_t count)
{
	Tracesmith__V1__Row *row = arena_get(arena, sizeof(*row));
	Tracesmith__V1__Value *value = arena_get(arena, count * sizeof(*value));
	Tracesmith__V1__Value **list = arena_get(arena, count * sizeof(*list));

	if (!row || !value || !list)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		tracesmith__v1__value__init(&value[i]);
		list[i] = &value[i];
	}
	tracesmith__v1__row__init(row);
	row->n_value = count;
	row->value = list;
	return row;
}

static int add_row(struct answer *answer, Tracesmith__V1__Row *row)
{
	answer->batch[answer->batch_rows++] = row;
	answer->rows++;
	if (answer->batch_rows < ANSWER_BATCH_ROWS && answer->arena.total < ANSWER_BATCH_BYTES)
		return 0;
	return send_batch(answer);
}

static int take_row(struct answer *answer, sqlite3_stmt *stmt, const struct query_column *column)
{
	size_t count = sqlite3_column_count(stmt);
	Tracesmith__V1__Row *row = make_row(&answer->arena, count);
	int r = row ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = take_value(answer, stmt, (int)i, column[i].type, row->value[i]);
	return r < 0 ? r : add_row(answer, row);
}

int answer_texts(struct answer *answer, const char *const *text, size_t count)
{
	Tracesmith__V1__Row *row = make_row(&answer->arena, count);

	if (!row)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		row->value[i]->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
		row->value[i]->text = arena_text(&answer->arena, text[i], strlen(text[i]));
		if (!row->value[i]->text)
			return -ENOMEM;
	}
	return add_row(answer, row);
}

int answer_rows(struct answer *answer, sqlite3_stmt *stmt, int step,
		const struct query_column *column, uint64_t limit, bool *ret_truncated)
{
	int r;

	for (; step == SQLITE_ROW; step = sqlite3_step(stmt)) {
		if (!choose_takes(answer, stmt))
			continue;
		if (answer->rows == limit) {
			*ret_truncated = true;
			return 0;
		}
		r = take_row(answer, stmt, column);
		if (r < 0)
			return r;
	}
	return step == SQLITE_DONE ? 0 : answer_fail_sqlite(answer);
}

static int send_done(struct answer *answer, Tracesmith__V1__Done *done)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	done->rows = answer->rows;
	done->note = remarks_text(&answer->remarks);
	if (!done->note)
		return -ENOMEM;
	done->remark = answer->remarks.item;
	done->n_remark = answer->remarks.count;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	reply.done = done;
	return answer_send(answer, &reply);
}

int answer_done_with(struct answer *answer, Tracesmith__V1__Done *done)
{
	int r = answer_loss(answer, done);

	return r < 0 ? r : send_done(answer, done);
}

int answer_done(struct answer *answer, bool truncated)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	int r = send_batch(answer);

	done.truncated = truncated;
	return r < 0 ? r : answer_done_with(answer, &done);
}

int answer_done_whole(struct answer *answer)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	int r = send_batch(answer);

	return r < 0 ? r : send_done(answer, &done);
}
