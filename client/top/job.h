/* job.h: another tsctl at work, so that the screen never waits for a slow answer. */
#ifndef TS_TOP_JOB_H
#define TS_TOP_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/cleanup.h"

#define JOB_BYTES     (64 << 10) /* of what it prints; the rest is dropped */
#define JOB_ARGUMENTS 16

struct job {
	pid_t pid; /* 0: there is none */
	int fd;	   /* what it prints, while it runs; else -1 */
	char *text;
	size_t length;
	int status; /* exit status, once it has ended */
};

/* `argument`: the verb and its arguments, ends with NULL. -errno */
int job_start(struct job *job, const char *const *argument);
/* Reads what there is; true: it has ended. */
bool job_read(struct job *job);
/* Ends it. */
void job_stop(struct job *job);

#endif
