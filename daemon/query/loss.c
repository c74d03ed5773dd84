/* Loss: what is missing from an answer, by reason.
 * What was lost of an unknown process counts for every process; stacks that sampling left out are
 * missing only where they would be shown. */
#include <errno.h>

#include "core/core.h"
#include "daemon/query/answer.h"
#include "daemon/store/sql.h"

#define TOTALS_SQL                                                                                 \
	"SELECT r.name, sum(l.count), r.text FROM loss l JOIN loss_reason r ON r.id = l.reason"    \
	" WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until"                    \
	" AND (:pid IS NULL OR l.process = 0 OR l.process IN"                                      \
	" (SELECT id FROM process WHERE boot = :boot AND pid = :pid))"                             \
	" AND (:sampled_stacks OR r.name <> 'stack-sampled')"                                      \
	" GROUP BY l.reason"

static Tracesmith__V1__Loss *make(struct arena *arena, sqlite3_stmt *stmt)
{
	Tracesmith__V1__Loss *loss = arena_get(arena, sizeof(*loss));
	const char *reason = (const char *)sqlite3_column_text(stmt, 0);
	const char *text = (const char *)sqlite3_column_text(stmt, 2);

	if (!loss || !reason || !text)
		return NULL;
	tracesmith__v1__loss__init(loss);
	loss->reason = arena_text(arena, reason, sqlite3_column_bytes(stmt, 0));
	loss->text = arena_text(arena, text, sqlite3_column_bytes(stmt, 2));
	loss->count = sqlite3_column_int64(stmt, 1);
	return loss->reason && loss->text ? loss : NULL;
}

int answer_loss(struct answer *answer, Tracesmith__V1__Loss ***ret, size_t *ret_count)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	Tracesmith__V1__Loss **list;
	size_t count = 0;
	int step = SQLITE_DONE, r = answer_prepare(answer, TOTALS_SQL, &stmt);

	if (r < 0)
		return r;
	answer_bind(stmt, ":boot", true, answer->boot);
	answer_bind(stmt, ":since", true, answer->window.since_ns);
	answer_bind(stmt, ":until", true, answer->window.until_ns);
	answer_bind(stmt, ":pid", answer->window.pid, answer->window.pid);
	answer_bind(stmt, ":sampled_stacks", true, answer->sampled_stacks);
	list = arena_get(&answer->arena, LOSS_REASON_MAX * sizeof(*list));
	if (!list)
		return -ENOMEM;
	while (count < LOSS_REASON_MAX && (step = sqlite3_step(stmt)) == SQLITE_ROW) {
		list[count] = make(&answer->arena, stmt);
		if (!list[count++])
			return -ENOMEM;
	}
	if (step != SQLITE_DONE && step != SQLITE_ROW)
		return answer_fail_sqlite(answer);
	*ret = list;
	*ret_count = count;
	return 0;
}
