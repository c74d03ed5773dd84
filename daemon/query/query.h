/* query.h: answers one request of those that read the database: query, sql, export, list.
 *
 * Runs to its end on the calling thread, over a read-only connection of its own, and sends its
 * replies as they come, so that memory stays flat however long the answer. What can go wrong is
 * part of the answer: the last reply is `done` or `error`.
 */
#ifndef TS_QUERY_H
#define TS_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

struct query_job {
	const Tracesmith__V1__Request *request;
	const char *database;
	const char *boot_id; /* the current one; queries see nothing of others */
	/* Sends a reply; waits while the reader is slow. -ECANCELED: nobody wants it any more. */
	int (*send)(void *data, const Tracesmith__V1__Reply *reply);
	bool (*cancelled)(void *data);
	void *data;
};

void query_run(const struct query_job *job);

#endif
