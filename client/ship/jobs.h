/* jobs.h: which processes of a boot are sent: those whose job fits one of the settings' patterns.
 *
 * Which job that is, identity.h finds; that of a process without one is "-". */
#ifndef TS_CLIENT_SHIP_JOBS_H
#define TS_CLIENT_SHIP_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ship/source.h"

struct jobs {
	bool all;
	struct jobs_process {
		int64_t id;
		bool sent;
	} * process; /* by id */
	size_t count, room;
};

enum jobs_result {
	JOBS_SENT,
	JOBS_LEFT_OUT,
	JOBS_UNKNOWN, /* yet: the process has just started */
};

/* `patterns` have spaces between; each is of a whole name, with the signs of glob.h. */
bool jobs_fit(const char *patterns, const char *job);
/* Asks about all processes of a boot. Free it in any case. */
int jobs_ask(struct source *source, const char *patterns, uint32_t boot, struct jobs *ret);
/* 0 is the host itself, which is always sent. */
enum jobs_result jobs_find(const struct jobs *jobs, int64_t process);
void jobs_done(struct jobs *jobs);
/* Tells other patterns from these. */
uint64_t jobs_mark(const char *patterns);

#endif
