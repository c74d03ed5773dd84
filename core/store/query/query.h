/* query.h: answers one request of those that read the database: query, sql, export, list.
 *
 * Runs to its end on the calling thread, over a read-only connection, and sends its replies as they
 * come, so that memory stays flat however long the answer. What can go wrong is part of the answer:
 * the last reply is `done` or `error`.
 */
#ifndef TS_QUERY_H
#define TS_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

struct query_job {
	const Tracesmith__V1__Request *request;
	const char *database;	/* of the daemon: opened for this request, which has limits */
	bool held;		/* ask also what its store holds in memory (store.h) */
	struct sqlite3 *reader; /* else of a recording, for one request at a time (reader.h) */
	const char *boot_id;	/* the current one; queries see nothing of others */
	/* The moment it is asked at; of a recording its end, and when it was told its first sums.
	 */
	uint64_t now_ns, told_ns;
	/* How long the host slept since its boot, which /proc counts and our clock does not. Of a
	 * recording it is not known: 0. */
	int64_t suspended_ns;
	const char *watched; /* the only processes that the daemon watches; NULL: all */
	/* Sends a reply; waits while the reader is slow. -ECANCELED: nobody wants it any more. */
	int (*send)(void *data, const Tracesmith__V1__Reply *reply);
	bool (*cancelled)(void *data);
	/* Puts into `loss` what was found to be missing meanwhile; NULL: nothing can be. */
	int (*note_losses)(void *data);
	void *data;
};

void query_run(const struct query_job *job);

#endif
