/* sums.h: the tables of sums of a recording without its end, counted from its operations.
 *
 * A recording tells the sums of a second some seconds later, and what is allocated at its end: one
 * that was cut off has the operations, but lacks rows of `rollup`, `work`, `busy`, `memory` and
 * `allocation`.
 */
#ifndef TS_CLIENT_FILE_SUMS_H
#define TS_CLIENT_FILE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

/* Whether a statement names one of the tables. */
bool file_sums_named(const char *sql);

struct file_sums_job {
	struct sqlite3 *db; /* may be written to */
	int64_t boot;
	uint64_t told_ns, now_ns; /* of the recording: when it began to be told, its end */
	bool (*cancelled)(void *data);
	void *data;
};

/* Adds the rows that are missing. What memory and disk that takes is bounded: -E2BIG: too many
 * chunks overlap. After an error the tables are of no use. */
int file_sums_add(const struct file_sums_job *job);

#endif
