/* Loss: what is missing from an answer, by reason.
 * What was lost of an unknown process counts for every process; stacks that sampling left out are
 * missing only where they would be shown. */
#include <errno.h>
#include <string.h>

#include "core/core.h"
#include "daemon/query/answer.h"
#include "daemon/store/sql.h"

#define TOTALS_SQL                                                                                 \
	"SELECT r.name, sum(l.count), r.text FROM loss l JOIN loss_reason r ON r.id = l.reason"    \
	" WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until"                    \
	" AND (l.process = 0 OR coalesce(:pid, :pids) IS NULL OR l.process IN"                     \
	" (SELECT id FROM process WHERE boot = :boot AND (pid = :pid OR pid IN"                    \
	" (SELECT value FROM json_each(:pids)))))"                                                 \
	" AND (:sampled_stacks OR r.name <> 'stack-sampled')"                                      \
	" GROUP BY l.reason"

#define LOSSES_MAX (LOSS_REASON_MAX + 4) /* an answer may add some of its own */

int answer_add_loss(struct answer *answer, Tracesmith__V1__Done *done, const char *reason,
		    uint64_t count, const char *text)
{
	struct arena *arena = &answer->arena;
	Tracesmith__V1__Loss *loss = arena_get(arena, sizeof(*loss));

	if (!done->loss)
		done->loss = arena_get(arena, LOSSES_MAX * sizeof(*done->loss));
	if (!loss || !done->loss || !reason || !text)
		return -ENOMEM;
	tracesmith__v1__loss__init(loss);
	loss->reason = arena_text(arena, reason, strlen(reason));
	loss->text = arena_text(arena, text, strlen(text));
	loss->count = count;
	if (!loss->reason || !loss->text)
		return -ENOMEM;
	done->loss[done->n_loss++] = loss;
	return 0;
}

static int prepare(struct answer *answer, sqlite3_stmt **ret)
{
	int r = answer_prepare(answer, TOTALS_SQL, ret);

	if (r < 0)
		return r;
	answer_bind(*ret, ":boot", true, answer->boot);
	answer_bind(*ret, ":since", true, answer->window.since_ns);
	answer_bind(*ret, ":until", true, answer->window.until_ns);
	answer_bind(*ret, ":pid", answer->window.pid, answer->window.pid);
	answer_bind_text(*ret, ":pids", answer->window.pids);
	answer_bind(*ret, ":sampled_stacks", true, answer->sampled_stacks);
	return 0;
}

int answer_loss(struct answer *answer, Tracesmith__V1__Done *done)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const struct query_job *job = answer->job;
	int step = SQLITE_DONE, r = job->note_losses ? job->note_losses(job->data) : 0;

	if (r == 0)
		r = prepare(answer, &stmt);
	while (r == 0 && done->n_loss < LOSSES_MAX && (step = sqlite3_step(stmt)) == SQLITE_ROW)
		r = answer_add_loss(answer, done, (const char *)sqlite3_column_text(stmt, 0),
				    sqlite3_column_int64(stmt, 1),
				    (const char *)sqlite3_column_text(stmt, 2));
	if (r == 0 && step != SQLITE_DONE && step != SQLITE_ROW)
		return answer_fail_sqlite(answer);
	return r;
}
