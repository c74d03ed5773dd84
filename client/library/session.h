/* session.h: what a struct tracesmith is, for the files that implement its functions. */
#ifndef TS_CLIENT_SESSION_H
#define TS_CLIENT_SESSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/library/answer.h"

struct live;

struct tracesmith {
	struct connection connection;
	uint64_t timeout_ns;
	uint64_t met_ns;   /* CLOCK_MONOTONIC of this process, when it was made */
	pid_t owner;	   /* the process that made it */
	pid_t reader;	   /* tsctl, which answers for a recording; 0: none */
	int said;	   /* what tsctl prints; -1: no tsctl */
	struct live *live; /* NULL: not subscribed */
	char message[3 * CONNECTION_MESSAGE_BYTES + 1]; /* as utf8_visible() needs it */
};

/* Fills in the message, and returns the error. */
int session_fail(struct tracesmith *ts, enum tracesmith_error error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int session_no_memory(struct tracesmith *ts);
/* What an errno of a connection means, whose message it takes over. The connection is closed. */
int session_lost(struct tracesmith *ts, int error);
/* The error of a reply. */
int session_refused(struct tracesmith *ts, const Tracesmith__V1__Error *error);

/* Closes the connection or the recording, and clears the message. */
void session_close(struct tracesmith *ts);
/* Takes the socket, also if it fails. `until_ns` is session_until() of when the call started. */
int session_open(struct tracesmith *ts, int fd, uint64_t until_ns);

/* When a call that starts now gives up, of CLOCK_MONOTONIC; 0: never. */
uint64_t session_until(const struct tracesmith *ts);

/* True in the child of a fork: the connection is its parent's, and the message says so. */
bool session_foreign(struct tracesmith *ts);
/* Sends a request; what the last one failed for is forgotten. The call starts here. */
int session_send(struct tracesmith *ts, const ProtobufCMessage *body);
/* The next reply, which is no error. */
int session_next(struct tracesmith *ts, Tracesmith__V1__Reply **ret);
/* One request with one reply, of that kind. */
int session_single(struct tracesmith *ts, const ProtobufCMessage *body,
		   Tracesmith__V1__Reply__BodyCase wanted, Tracesmith__V1__Reply **ret);

/* Waits for the end of tsctl, and passes on what it has printed last. `now`: ends it. */
void reader_end(struct tracesmith *ts, bool now);

struct live *live_free(struct live *live);

#endif
