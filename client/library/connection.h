/* connection.h: requests and replies on one socket of the daemon, or of what stands in for it. What
 * fails says why in `message`, as a sentence in no program's words. */
#ifndef TS_CLIENT_CONNECTION_H
#define TS_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/cleanup.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"

#define CONNECTION_MESSAGE_BYTES 512

/* The daemon's hello, from when the connection was made. */
struct connection_hello {
	char version[64];
	char boot_id[64];
	uint64_t now_ns;	/* CLOCK_MONOTONIC of the daemon; the end of a recording */
	int64_t wall_offset_ns; /* add to a time to get CLOCK_REALTIME */
};

/* Asked again and again while the other side says nothing, for how long it has: whether to wait on.
 */
typedef bool connection_silent_fn(void *data, unsigned silent_ms);

struct connection {
	int fd; /* -1: none */
	uint64_t last_id;
	uint64_t until_ns;	      /* see connection_until() */
	connection_silent_fn *silent; /* see connection_watch() */
	void *silent_data;
	unsigned silent_ms;
	struct ts_frame_reader reader;
	struct connection_hello hello;
	char message[CONNECTION_MESSAGE_BYTES];
};

/* A socket of the type that is connected to the path, or a negative errno. -EAGAIN: nobody has
 * accepted it for as long as the patience; 0: for ever. */
int connection_dial(const char *path, int type, uint64_t patience_ns);

/* Takes a connected socket. */
void connection_init(struct connection *connection, int fd);
/* How long a daemon may say nothing; 0: for ever. */
void connection_patience(struct connection *connection, uint64_t patience_ns);
/* Instead: as long as `silent` says so, of a daemon that does not even answer a hello: one that
 * works on an answer does, and is waited for. */
void connection_watch(struct connection *connection, connection_silent_fn *silent, void *data);
/* Instead: until which time, of CLOCK_MONOTONIC, it may say something, however often it does; 0:
 * for ever. */
void connection_until(struct connection *connection, uint64_t until_ns);
/* Says hello. 1: refused, for which *ret has a body of `error`. */
int connection_greet(struct connection *connection, Tracesmith__V1__Reply **ret);
/* Of one that was opened, or of none. The message stays. */
void connection_close(struct connection *connection);

/* The process that listens; 0: unknown from here. */
pid_t connection_peer(const struct connection *connection);

/* Sends a request with this body: its type is what is asked for. 0 also if the other side has
 * closed the connection: then the next reply has its reason. */
int connection_send(struct connection *connection, const ProtobufCMessage *body);

/* The next reply to the last request. 1: there are more; 0: it is the last one (done, error, or the
 * single one); negative: nothing more can be read from this connection. -EAGAIN: the other side was
 * silent for too long. */
int connection_next(struct connection *connection, Tracesmith__V1__Reply **ret);
/* The same without waiting. 1: a reply; 0: none is complete yet. */
int connection_poll(struct connection *connection, Tracesmith__V1__Reply **ret);

void reply_free(Tracesmith__V1__Reply *reply);
CLEANUP_DEFINE(Tracesmith__V1__Reply, reply_free)

#endif
