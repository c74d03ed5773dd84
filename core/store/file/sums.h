/* sums.h: counts the sums that a recording without its end lacks from its operations.
 *
 * The sums of a second are recorded some seconds later, and the live allocations at the end: a
 * truncated recording has the operations, but lacks rows of `rollup`, `work`, `busy`, `memory` and
 * `allocation`. */
#ifndef TS_FILE_SUMS_H
#define TS_FILE_SUMS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether a statement names one of these tables. */
bool file_sums_named(const char *sql);

struct file_sums_job {
	sqlite3 *db; /* writable */
	int64_t boot;
	uint64_t told_ns, now_ns; /* of the recording: when its reports start, and its end */
	bool (*cancelled)(void *data);
	void *data;
};

/* Adds the missing rows. Memory and disk are bounded; -E2BIG: too many chunks overlap. After an
 * error the tables are useless. */
int file_sums_add(const struct file_sums_job *job);

#endif
