/* recording.h: what the daemon tells, from answer to answer, on its way into the file.
 *
 * Functions return 0 or a negative errno, and say on stderr what is wrong. After
 * -ECONNRESET, where the daemon has gone away, a live one can go on over another connection: each
 * op comes once, even so.
 */
#ifndef TS_CLIENT_RECORDING_H
#define TS_CLIENT_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/link/link.h"
#include "client/record/file.h"
#include "core/sbt/sbt.h"

struct recording {
	struct record_file *file;
	struct link *link;
	const struct link_hello *hello;
	int64_t clock_offset_ns;     /* from our CLOCK_MONOTONIC to the daemon's */
	uint64_t since_ns, until_ns; /* of the window; until_ns 0: open */
	const char *command;	     /* of a program that was started, or NULL */
	bool all;
	uint32_t *pid; /* that are recorded */
	size_t pid_count;
	bool started;	   /* something is in the file */
	bool live;	   /* the cursor is one */
	uint64_t asked_ns; /* last, by our clock */
	Tracesmith__V1__RecordCursor cursor;
	uint64_t told_ns;	    /* when the first answer was given */
	uint64_t ops, chunks;	    /* so far; chunks of the last answer */
	uint64_t lost;		    /* what the daemon says, of the window */
	uint64_t behind;	    /* what it could not tell any more */
	int64_t boot;		    /* row of it */
	Tracesmith__V1__Reply *end; /* the last one */
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
};

int recording_open(const struct options *options, struct recording *ret);
/* Over a new connection, after the other was lost. -ECONNREFUSED: nobody listens yet, nothing is
 * said of it. */
int recording_open_again(const struct options *options, struct recording *recording);
void recording_done(struct recording *recording);

uint64_t recording_now(const struct recording *recording); /* of the daemon's clock */
/* A live one begins: writes what there is of the window. */
int recording_begin(struct recording *recording, const struct options *options);
/* Writes what came since the last answer; `last`: and what is told once. Of one that is not live:
 * all of it. */
int recording_ask(struct recording *recording, bool last);
/* Adds a process; in a live recording what came of it before the last answer is written, too. */
int recording_add_pid(struct recording *recording, uint32_t pid);
/* The end of the file. */
int recording_end(struct recording *recording, bool complete);

#endif
