/* Export: the chunks of a window as stored, in order of their first time. All of them come from one
 * snapshot, because the store merges chunks concurrently, and they come in the order of an index,
 * so nothing is sorted or held. No time limit: the reader sets the pace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/chunk_data.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define CHUNKS_SQL                                                                                 \
	"SELECT first_ns, " CHUNK_DATA(                                                            \
		"id") " FROM chunk"                                                                \
		      " WHERE boot = :boot AND first_ns <= :until AND last_ns >= :since"           \
		      " AND (:pid IS NULL OR process IN"                                           \
		      " (SELECT id FROM process WHERE boot = :boot AND pid = :pid))"               \
		      " ORDER BY first_ns, last_ns"

static int send_chunk(struct answer *answer, sqlite3_stmt *stmt)
{
	Tracesmith__V1__Chunk chunk = TRACESMITH__V1__CHUNK__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	chunk.done_ns = sqlite3_column_int64(stmt, 0);
	chunk.data.data = (uint8_t *)sqlite3_column_blob(stmt, 1);
	chunk.data.len = sqlite3_column_bytes(stmt, 1);
	reply.body_case = TRACESMITH__V1__REPLY__BODY_CHUNK;
	reply.chunk = &chunk;
	if (!chunk.data.data)
		return 0; /* damaged, and counted */
	answer->rows++;
	return answer_send(answer, &reply);
}

int run_export(struct answer *answer, const Tracesmith__V1__ExportRequest *request)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	struct answer_window *window = &answer->window;
	int step, r = answer_check_pid(answer, request->pid);

	if (r == 0)
		r = answer_prepare(answer, CHUNKS_SQL, &stmt);
	if (r < 0)
		return r;
	answer->deadline_ns = 0;
	window->pid = request->pid;
	window->since_ns = request->since_ns;
	if (request->until_ns && request->until_ns < answer->now_ns)
		window->until_ns = request->until_ns;
	answer_bind(stmt, ":boot", true, answer->boot);
	answer_bind(stmt, ":since", true, window->since_ns);
	answer_bind(stmt, ":until", true, window->until_ns);
	answer_bind(stmt, ":pid", window->pid, window->pid);
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = send_chunk(answer, stmt);
		if (r < 0)
			return r;
	}
	return step == SQLITE_DONE ? answer_done(answer, false) : answer_fail_sqlite(answer);
}
