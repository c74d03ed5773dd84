/* query.h: answers one request that reads the database: query, sql, export, list.
 *
 * Runs to its end on the calling thread, over a read-only connection, and sends its replies as they
 * come, so that memory stays flat however long the answer. Errors are part of the answer: the last
 * reply is `done` or `error`.
 */
#ifndef TS_QUERY_H
#define TS_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

struct query_job {
	const Tracesmith__V1__Request *request;
	const char *database;	/* for the daemon: opened for this request, which has limits */
	bool held;		/* include what its store holds in memory (store.h) */
	struct sqlite3 *reader; /* otherwise of a recording, for one request at a time (reader.h) */
	const char *boot_id;	/* the current one; queries see nothing of others */
	/* The time of the request; for a recording its end, and when its first sums were
	 * written.
	 */
	uint64_t now_ns, told_ns;
	/* How long the host slept since its boot, which /proc counts and our clock does not.
	 * Unknown for a recording: 0. */
	int64_t suspended_ns;
	/* How much older than the request the data is; 0: it has all. */
	uint64_t older_ns;
	bool own; /* nothing but what is of processes of `owner` */
	uint32_t owner;
	const char *watched; /* the only processes that the daemon traces; NULL: all */
	/* Processes that ran before the daemon, and at which it has not looked yet. */
	uint32_t unlooked;
	/* Sends a reply; waits while the reader is slow. -ECANCELED: nobody wants it any more. */
	int (*send)(void *data, const Tracesmith__V1__Reply *reply);
	bool (*cancelled)(void *data);
	/* What it may use of memory and of temporary files, where somebody sees to that; 0: as much
	 * as there is. */
	uint32_t memory_mib, scratch_mib;
	/* The connection has every file open that it needs from then on. NULL: it may open more. */
	int (*opened)(void *data);
	/* Puts into `loss` what else is missing; NULL: nothing can be. */
	int (*note_losses)(void *data);
	void *data;
};

void query_run(const struct query_job *job);

/* Answered in milliseconds, in little memory, from what is about now: what a user looks at first
 * when a host is busy. */
bool query_is_quick(const Tracesmith__V1__Request *request);
/* Of these, what a user looks at, which is better a second old than late. A program's next steps
 * may need all that came before it asked. */
bool query_is_prompt(const Tracesmith__V1__Request *request);

#endif
