/* answer.h: builds the replies of one request.
 *
 * Functions that return an int: 0; -ECANCELED: nobody wants the answer any more, or its error was
 * already sent; -ESTALE: it must begin again; another negative errno: failed, no error was sent
 * yet.
 */
#ifndef TS_QUERY_ANSWER_H
#define TS_QUERY_ANSWER_H

#include <sqlite3.h>

#include "core/base/arena.h"
#include "core/store/query/place.h"
#include "core/store/query/query.h"
#include "core/store/query/remark.h"
#include "core/store/query/table.h"

#define ANSWER_BATCH_ROWS  256
#define ANSWER_BATCH_BYTES (64 << 10)

struct answer_window {
	uint64_t since_ns, until_ns;
	uint32_t pid;	  /* 0: all */
	const char *pids; /* several: a list in JSON; NULL: all */
	const char *user; /* a name or a uid; NULL: all */
	bool running;	  /* only running processes */
};

struct answer {
	const struct query_job *job;
	sqlite3 *db;
	int64_t boot; /* id of the current boot's row, 0: not stored yet */
	uint64_t now_ns;
	uint64_t told_ns;     /* reference time for the age of sums: now, or later */
	uint64_t begin_ns;    /* of the clock */
	uint64_t deadline_ns; /* 0: none; moves with the time spent waiting for the reader */
	Tracesmith__V1__Remark__Reason too_slow; /* what is said where it takes too long */
	struct answer_window window;
	uint32_t about;	      /* enum query_about */
	sqlite3_stmt *frames; /* of a stack, prepared when first needed */
	sqlite3_stmt *end;    /* of a stack, likewise */
	struct place *place;
	struct remarks remarks; /* on what it says or does not */
	struct arena arena;	/* of the batch */
	Tracesmith__V1__Row **batch;
	size_t batch_rows;
	uint64_t rows;
	uint64_t replies, sent; /* made since the answer began, sent since it first began */
	uint32_t damaged_pages; /* left out */
	const char *match;	/* what the column `match_column` must have in it; NULL: nothing */
	int match_column;
	uint64_t passed_over; /* rows without it */
};

/* A text of a request. */
static inline bool answer_given(const char *text)
{
	return text && *text;
}

/* Opens the connection and learns the boot. */
int answer_open(struct answer *answer, const struct query_job *job);
void answer_close(struct answer *answer);

/* Whether a request that failed with `error` is to be run again: without damaged pages that it has
 * met. It gives the same replies up to there, as it sees the same snapshot: those that were sent
 * are not sent again. */
bool answer_again(struct answer *answer, int error);

/* Sends an error, with what was remarked so far, and returns -ECANCELED. The arguments are texts,
 * with a NULL behind them. */
int answer_fail(struct answer *answer, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
/* The same for SQLite's last error. */
int answer_fail_sqlite(struct answer *answer);
/* The same where there was no memory. */
int answer_fail_memory(struct answer *answer);

int answer_send(struct answer *answer, Tracesmith__V1__Reply *reply);
int answer_columns(struct answer *answer, const struct query_column *column, size_t count);
/* Adds a row of texts. */
int answer_texts(struct answer *answer, const char *const *text, size_t count);
/* Sends the rows of a statement that has been stepped once, with result `step`, up to `limit`. */
int answer_rows(struct answer *answer, sqlite3_stmt *stmt, int step,
		const struct query_column *column, uint64_t limit, bool *ret_truncated);
/* The end, with what was lost in the window. */
int answer_done(struct answer *answer, bool truncated);
/* The same, with the caller's additions. */
int answer_done_with(struct answer *answer, Tracesmith__V1__Done *done);
/* The end of an answer from which nothing can be missing. */
int answer_done_whole(struct answer *answer);

/* Binds a parameter if the statement has it. */
void answer_bind(sqlite3_stmt *stmt, const char *name, bool given, int64_t value);
void answer_bind_text(sqlite3_stmt *stmt, const char *name, const char *text); /* not copied */
/* Fails with NOT_FOUND if no process of this boot had this pid. */
int answer_check_pid(struct answer *answer, uint32_t pid);
/* The same for its user, a name or a uid. */
int answer_check_user(struct answer *answer, const char *user);
/* Prepares, or fails with SQLite's message. */
int answer_prepare(struct answer *answer, const char *sql, sqlite3_stmt **ret);

/* stack.c: the frames of a stack, innermost first, without the probed function itself. The answer's
 * arena owns them. An unknown stack is NULL. */
int answer_stack(struct answer *answer, int64_t id, Tracesmith__V1__Stack **ret);

/* loss.c: adds what was lost in the window, or while computing the answer, in its arena. */
int answer_loss(struct answer *answer, Tracesmith__V1__Done *done);
int answer_add_loss(struct answer *answer, Tracesmith__V1__Done *done, const char *reason,
		    uint64_t count, const char *text);

/* A bit for each reason for which there may be fewer rows about that than there were things. */
int64_t answer_hiding(uint32_t about);

/* why.c: remarks why there is no row. */
int answer_explain(struct answer *answer, const struct query *query,
		   const Tracesmith__V1__QueryRequest *request);
/* Remarks that there are processes that the daemon does not watch, where that is so. */
/* What an answer may lack that has no rows, or knows no such process. */
int answer_remark_unseen(struct answer *answer);
int answer_remark_hidden(struct answer *answer);

/* choose.c: prepares a query, in the order of the request, for up to `limit` rows, and says of a
 * row whether the request's name matches. */
int choose_prepare(struct answer *answer, const struct query *query,
		   const Tracesmith__V1__QueryRequest *request, uint64_t limit, sqlite3_stmt **ret);
bool choose_takes(struct answer *answer, sqlite3_stmt *stmt);

/* function.c: result_name() and share() for SQL. */
int function_register(sqlite3 *db);

/* The kinds of requests. */
int run_query(struct answer *answer, const Tracesmith__V1__QueryRequest *request);
int run_sql(struct answer *answer, const Tracesmith__V1__SqlRequest *request);
int run_record(struct answer *answer, const Tracesmith__V1__RecordRequest *request);
int run_replay(struct answer *answer, const Tracesmith__V1__ReplayRequest *request);
int run_export(struct answer *answer, const Tracesmith__V1__ExportRequest *request);

#endif
