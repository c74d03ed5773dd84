/* recording.h: copies the daemon's answers, one after another, to the file.
 *
 * Functions return 0 or a negative errno, and print errors. After -ECONNRESET (the daemon is gone)
 * a live recording can continue over another connection, and still gets each op once. */
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
	const struct connection_hello *hello;
	int64_t clock_offset_ns;     /* from our CLOCK_MONOTONIC to the daemon's */
	uint64_t since_ns, until_ns; /* of the window; until_ns 0: open */
	const char *command;	     /* of a started program, or NULL */
	bool all;
	uint32_t *pid; /* that are recorded */
	size_t pid_count, pid_room;
	bool started;	   /* the file is not empty */
	bool live;	   /* the cursor is valid */
	uint64_t asked_ns; /* last, by our clock */
	Tracesmith__V1__RecordCursor cursor;
	uint64_t told_ns;	    /* time of the first answer */
	uint64_t ops, chunks;	    /* so far; chunks in the last answer */
	uint64_t lost;		    /* the daemon's count, for the window */
	uint64_t behind;	    /* ops that it no longer had */
	int64_t boot;		    /* row of the boot */
	Tracesmith__V1__Reply *end; /* the last one */
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
};

int recording_open(const struct options *options, struct recording *ret);
/* Reconnects after the connection was lost. -ECONNREFUSED: nobody listens yet; prints nothing. */
int recording_open_again(const struct options *options, struct recording *recording);
void recording_done(struct recording *recording);

uint64_t recording_now(const struct recording *recording); /* on the daemon's clock */
/* Starts a live recording: writes what exists of the window. */
int recording_begin(struct recording *recording, const struct options *options);
/* Writes what is new since the last answer; `last`: also what comes once at the end. Not live:
 * writes everything. */
int recording_ask(struct recording *recording, bool last);
/* Adds a process; a live recording also writes its ops from before the last answer. */
int recording_add_pid(struct recording *recording, uint32_t pid);
/* Writes the end of the file. */
int recording_end(struct recording *recording, bool complete);

#endif
