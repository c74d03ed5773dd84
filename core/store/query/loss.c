/* Loss: what is missing from an answer, by reason. A loss counts if it can matter: its reason
 * concerns the subject of the answer, its time the window, and its process the requested ones. A
 * loss of an unknown process may be of any that lived at the time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/model/core.h"
#include "core/model/loss_said.h"
#include "core/store/query/answer.h"
#include "core/store/query/phrase.h"
#include "core/store/sql.h"

/* enum query_about: the answers that a reason affects. Reasons not in it affect all. */
static const uint32_t about_of[LOSS_REASON_MAX + 1] = {
	[LOSS_RING_FULL] = ABOUT_ALL,
	[LOSS_RATE_LIMIT] = ABOUT_CALLS | ABOUT_SAMPLES | ABOUT_BOUNDS | ABOUT_TIMES | ABOUT_STATES,
	[LOSS_CALL_STATE] = ABOUT_ALL,
	[LOSS_STACK] = ABOUT_STACKS | ABOUT_SAMPLES,
	[LOSS_STACK_CUT] = ABOUT_STACKS | ABOUT_SAMPLES,
	[LOSS_STACK_SAMPLED] = ABOUT_SAMPLES,
	[LOSS_PROCESS] = ABOUT_ALL,
	[LOSS_BAD_EVENT] = ABOUT_ALL,
	[LOSS_STRAY] = ABOUT_ALL,
	[LOSS_UNKNOWN_FREE] = ABOUT_MEMORY,
	[LOSS_UNBOUND] = ABOUT_BOUNDS,
	[LOSS_LIMIT] = ABOUT_ALL,
	[LOSS_STORE] = ABOUT_ALL,
	[LOSS_STORE_ROWS] = ABOUT_ALL,
	[LOSS_DISCONNECTED] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_GAP] = ABOUT_ALL,
	[LOSS_NO_DAEMON] = ABOUT_ALL,
	[LOSS_FILTER] = ABOUT_ALL,
	[LOSS_LAST_RECORDS] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_GAP_TORCH] = ABOUT_MEMORY,
	[LOSS_GAP_NCCL] = ABOUT_COLLECTIVES,
	[LOSS_GAP_RANGE] = ABOUT_RANGES,
	[LOSS_NO_RETURN] = ABOUT_CALLS | ABOUT_BOUNDS | ABOUT_STATES,
	[LOSS_NO_EFFECT] =
		ABOUT_CALLS | ABOUT_MEMORY | ABOUT_BOUNDS | ABOUT_STATES | ABOUT_COLLECTIVES,
	[LOSS_UNREAD] = ABOUT_ALL,
	[LOSS_MAPPING] = ABOUT_STACKS | ABOUT_SAMPLES,
	[LOSS_EXACT_RING] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_CUPTI] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_BUFFERS] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_UNTIMED] = ABOUT_TIMES | ABOUT_STATES,
	[LOSS_NO_CALL] = ABOUT_TIMES | ABOUT_STATES,
	[LOSS_NO_NAME] = ABOUT_TIMES,
	[LOSS_NO_RECORD] = ABOUT_TIMES | ABOUT_STATES,
	[LOSS_DUPLICATE] = ABOUT_LOSS,
	[LOSS_LATE] = ABOUT_STATES,
	[LOSS_BEFORE] = ABOUT_TIMES | ABOUT_STATES,
	[LOSS_PAUSED] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_BUDGET] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_RING_STUCK] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_UNKNOWN_RECORD] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_WINDOWS] = ABOUT_CALLS | ABOUT_BOUNDS | ABOUT_STATES,
	[LOSS_EXACT_WINDOWS] = ABOUT_TIMES | ABOUT_STATES | ABOUT_POOLS,
	[LOSS_LEFT_OUT] = ABOUT_ALL,
	[LOSS_LEFT_OUT_HOT] = ABOUT_CALLS | ABOUT_BOUNDS | ABOUT_STATES,
	[LOSS_CUT_OFF] = ABOUT_ALL,
	[LOSS_BEHIND] = ABOUT_ALL,
	[LOSS_TENSORS] = ABOUT_MEMORY,
	[LOSS_TENSOR_MISMATCH] = ABOUT_MEMORY,
	[LOSS_DAMAGED] = ABOUT_ALL,
	[LOSS_SET_ASIDE] = ABOUT_ALL,
};

/* A sum of integers that is too large would be an error, and each answer would be that one: those
 * of a recording may be anything. */
#define SCOPE                                                                                      \
	"scope AS MATERIALIZED ("                                                                  \
	"SELECT id, " STARTED " AS first_ns, CASE WHEN NOT " RUNNING                               \
	" THEN exit_ns END AS last_ns"                                                             \
	" FROM process p"                                                                          \
	" WHERE boot = :boot AND " ASKED                                                           \
	" AND (:pids IS NULL OR pid IN (SELECT value FROM json_each(:pids)))"                      \
	" AND (NOT :running OR " RUNNING ")"                                                       \
	")"
#define OF_SCOPE                                                                                   \
	"l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until"                           \
	" AND (coalesce(:pid, :pids, :user) IS NULL AND NOT :running"                              \
	" OR l.process IN (SELECT id FROM scope)"                                                  \
	" OR l.process = 0 AND EXISTS (SELECT 1 FROM scope WHERE first_ns <= l.end_ns"             \
	" AND (last_ns IS NULL OR last_ns >= l.start_ns)))"
#define TOTALS_SQL                                                                                 \
	"WITH " SCOPE " SELECT r.name, CAST(total(l.count) AS INTEGER), r.text, l.reason,"         \
	" CAST(total(max(min(l.end_ns, :until) - max(l.start_ns, :since, CASE WHEN l.process = 0"  \
	" AND (coalesce(:pid, :pids, :user) IS NOT NULL OR :running)"                              \
	" THEN (SELECT min(first_ns) FROM scope) ELSE 0 END), 0)) AS INTEGER)"                     \
	" FROM loss l JOIN loss_reason r ON r.id = l.reason"                                       \
	" WHERE (l.reason > :known OR :reasons >> l.reason & 1) AND " OF_SCOPE                     \
	" GROUP BY l.reason"

/* Of the processes that were watched in windows: how long they lived in the time that was asked
 * for, for how much of that they were in windows, and how much of that was watched. */
#define WINDOWS_SQL                                                                                \
	"WITH " SCOPE ", part AS MATERIALIZED ("                                                   \
	"SELECT process, max(min(end_ns, :until) - max(start_ns, :since), 0) AS ns"                \
	" FROM loss l WHERE l.reason = :reason AND " OF_SCOPE "), process_of AS MATERIALIZED ("    \
	"SELECT id, first_ns, last_ns FROM scope WHERE id IN (SELECT process FROM part)"           \
	" OR EXISTS (SELECT 1 FROM part WHERE process = 0)"                                        \
	") SELECT (SELECT CAST(total(max(min(coalesce(last_ns, :until), :until)"                   \
	" - max(first_ns, :since), 0)) AS INTEGER) FROM process_of),"                              \
	" (SELECT CAST(total(ns) AS INTEGER) FROM part),"                                          \
	" (SELECT CAST(total(watched_ns) AS INTEGER) FROM watch"                                   \
	" WHERE boot = :boot AND process IN (SELECT id FROM process_of) AND all_ns > 0"            \
	" AND second BETWEEN :since / 1000000000 AND :until / 1000000000"                          \
	" AND (:reason <> :exact OR part = " PART_EXACT "))"

static const char *const damaged_text = "ops, and pages of sums, in damaged parts of the database "
					"or of a recording";

struct reason {
	const char *name;
	const char *noun; /* of what it counts */
	bool timed;	  /* its total time says more than their number */
};

static const char *const left_out_text = "allocations, frees, copies and sets of the window that "
					 "were too many to look at";

#define LOSSES_MAX (LOSS_REASON_MAX + 4) /* an answer may add some of its own */

/* Of a name, which may be of a newer version. */
static const struct reason *find_reason(const char *name)
{
	static const struct reason unknown = { .noun = "thing" };
	static const struct reason reasons[] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text)                             \
	{ name, noun, LOSS_COUNTS_##counts == LOSS_COUNTS_PERIOD },
		LOSS_REASONS(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (strcmp(reasons[i].name, name) == 0)
			return &reasons[i];
	return &unknown;
}

static int say(struct answer *answer, Tracesmith__V1__Loss *loss, const struct loss_time *time)
{
	_cleanup_(freep) char *said = NULL;
	int r = loss_said(time, &said);

	if (!said)
		return r;
	loss->said = arena_text(&answer->arena, said, strlen(said));
	return loss->said ? 0 : -ENOMEM;
}

static int add(struct answer *answer, Tracesmith__V1__Done *done, const char *name, uint64_t count,
	       const char *text, const struct loss_time *time)
{
	struct arena *arena = &answer->arena;
	Tracesmith__V1__Loss *loss = arena_get(arena, sizeof(*loss));
	const struct reason *reason;

	if (!done->loss)
		done->loss = arena_get(arena, LOSSES_MAX * sizeof(*done->loss));
	if (!loss || !done->loss || !name || !text)
		return -ENOMEM;
	reason = find_reason(name);
	tracesmith__v1__loss__init(loss);
	loss->reason = arena_text(arena, name, strlen(name));
	loss->text = arena_text(arena, text, strlen(text));
	loss->noun = (char *)reason->noun;
	loss->count = count;
	loss->time_ns = reason->timed && time ? time->time_ns : 0;
	if (!loss->reason || !loss->text || (time && say(answer, loss, time) < 0))
		return -ENOMEM;
	done->loss[done->n_loss++] = loss;
	return 0;
}

int answer_add_loss(struct answer *answer, Tracesmith__V1__Done *done, const char *reason,
		    uint64_t count, const char *text)
{
	return add(answer, done, reason, count, text, NULL);
}

static int64_t reasons_of(uint32_t about)
{
	int64_t set = 0;

	for (int i = 1; i <= LOSS_REASON_MAX; i++)
		if (!about_of[i] || (about & (about_of[i] | ABOUT_LOSS)))
			set |= INT64_C(1) << i;
	return set;
}

/* Allocations are missing for fewer reasons than others. */
static bool hides(int reason, uint32_t about)
{
	static const struct {
		uint8_t counts, misses;
	} of[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, ...)                                          \
	[number] = { LOSS_COUNTS_##counts, LOSS_MISSES_##misses },
		LOSS_REASONS(X)
#undef X
	};

	const uint32_t memory = ABOUT_MEMORY | ABOUT_STACKS | ABOUT_POOLS;

	if (about & ABOUT_MEMORY && !(about & ~memory) &&
	    (of[reason].misses == LOSS_MISSES_WORK || of[reason].misses == LOSS_MISSES_DEVICE))
		return false;
	return of[reason].misses != LOSS_MISSES_NOTHING || of[reason].counts == LOSS_COUNTS_PERIOD;
}

int64_t answer_hiding(uint32_t about)
{
	int64_t set = reasons_of(about);

	for (int i = 1; i <= LOSS_REASON_MAX; i++)
		if (!hides(i, about))
			set &= ~(INT64_C(1) << i);
	return set;
}

static int prepare(struct answer *answer, const char *sql, sqlite3_stmt **ret)
{
	int r = answer_prepare(answer, sql, ret);

	if (r < 0)
		return r;
	answer_bind(*ret, ":boot", true, answer->boot);
	answer_bind(*ret, ":since", true, answer->window.since_ns);
	answer_bind(*ret, ":until", true, answer->window.until_ns);
	answer_bind(*ret, ":pid", answer->window.pid, answer->window.pid);
	answer_bind_text(*ret, ":pids", answer->window.pids);
	answer_bind_text(*ret, ":user", answer->window.user);
	answer_bind(*ret, ":running", true, answer->window.running);
	answer_bind(*ret, ":known", true, LOSS_REASON_MAX);
	answer_bind(*ret, ":reasons", true, reasons_of(answer->about));
	answer_bind(*ret, ":suspended", true, answer->job->suspended_ns);
	return 0;
}

/* 0, or what add() gives. */
static int find_windows(struct answer *answer, struct loss_time *time)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	uint64_t lived_ns, lost_ns, watched_ns;
	int r = prepare(answer, WINDOWS_SQL, &stmt);

	if (r < 0)
		return r;
	answer_bind(stmt, ":reason", true, time->reason);
	answer_bind(stmt, ":exact", true, LOSS_EXACT_WINDOWS);
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return answer_fail_sqlite(answer);
	lived_ns = (uint64_t)sqlite3_column_int64(stmt, 0);
	lost_ns = (uint64_t)sqlite3_column_int64(stmt, 1);
	watched_ns = (uint64_t)sqlite3_column_int64(stmt, 2);
	time->all_ns = lived_ns > lost_ns ? lived_ns : lost_ns;
	time->seen_ns = time->all_ns - lost_ns + (watched_ns < lost_ns ? watched_ns : lost_ns);
	return 0;
}

static int add_row(struct answer *answer, Tracesmith__V1__Done *done, sqlite3_stmt *row)
{
	struct loss_time time = {
		.reason = (enum loss_reason)sqlite3_column_int64(row, 3),
		.time_ns = (uint64_t)sqlite3_column_int64(row, 4),
	};
	int r = 0;

	if (time.reason == LOSS_WINDOWS || time.reason == LOSS_EXACT_WINDOWS)
		r = find_windows(answer, &time);
	return r < 0 ? r
		     : add(answer, done, (const char *)sqlite3_column_text(row, 0),
			   (uint64_t)sqlite3_column_int64(row, 1),
			   (const char *)sqlite3_column_text(row, 2), &time);
}

/* What this answer itself found. */
static int add_damaged(struct answer *answer, Tracesmith__V1__Done *done)
{
	int64_t ops;
	int r = sql_query_integer(answer->db, "SELECT damaged_ops()", &ops);
	uint64_t count = r < 0 ? 0 : (uint64_t)ops + answer->damaged_pages;

	return count ? add(answer, done, "damaged", count, damaged_text, NULL) : r;
}

/* Read, so that no other answer of the connection tells it again. */
static int add_left_out(struct answer *answer, Tracesmith__V1__Done *done)
{
	int64_t ops;
	int r = sql_query_integer(answer->db, "SELECT waste_left_out()", &ops);

	return r == 0 && ops > 0 ? add(answer, done, "limit", (uint64_t)ops, left_out_text, NULL)
				 : r;
}

int answer_loss(struct answer *answer, Tracesmith__V1__Done *done)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const struct query_job *job = answer->job;
	int step = SQLITE_DONE, r = job->note_losses ? job->note_losses(job->data) : 0;

	if (r == 0)
		r = prepare(answer, TOTALS_SQL, &stmt);
	while (r == 0 && done->n_loss < LOSSES_MAX && (step = sqlite3_step(stmt)) == SQLITE_ROW)
		r = add_row(answer, done, stmt);
	if (r == 0 && step != SQLITE_DONE && step != SQLITE_ROW)
		return answer_fail_sqlite(answer);
	if (r == 0)
		r = add_damaged(answer, done);
	return r < 0 ? r : add_left_out(answer, done);
}
