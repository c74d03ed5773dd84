/* link.h: a synchronous connection to the daemon: one request, then its replies. A recording is
 * asked in the same way; it answers what needs no daemon.
 *
 * Errors are printed once, with what to do about them; the caller gets a negative errno and only
 * has to return. */
#ifndef TS_CLIENT_LINK_H
#define TS_CLIENT_LINK_H

#include <stdint.h>

#include "client/base/options.h"
#include "client/library/answer.h"

struct link;

/* Answers for a recording in the daemon's place. */
struct link_files {
	/* Returns the client's end of a socket. Prints errors. */
	int (*open)(const char *path, void **ret_server, int *ret_fd);
	/* Stops the request in progress. */
	void (*close)(void *server);
};

/* Connects to options->socket, or to options->file through options->files if it is given, and says
 * hello. Of a daemon that does not answer it says so after 2 s, and gives up after 10. */
int link_open(const struct options *options, struct link **ret);
struct link *link_free(struct link *link);
const struct connection_hello *link_hello(const struct link *link);

/* Sends a request with this body. */
int link_send(struct link *link, const ProtobufCMessage *body);

/* The next reply, to be freed with reply_free(). 1: a reply; 0: the last one, whose body is `done`
 * (or the single answer to hello or status); negative: the connection is lost, or the daemon
 * refused (the error was printed; -EINVAL: invalid request, -ENOENT: not found). */
int link_next(struct link *link, Tracesmith__V1__Reply **ret);
/* One request, and its only reply, which has a body of that kind. */
int link_single(struct link *link, const ProtobufCMessage *body,
		Tracesmith__V1__Reply__BodyCase wanted, Tracesmith__V1__Reply **ret);
/* link_next(), but it leaves it to the caller to print a reply whose body is `error`. */
int link_next_or_error(struct link *link, Tracesmith__V1__Reply **ret);

/* For poll(): when it is readable, link_poll() may have something. 1: a reply; 0: none is complete
 * yet; negative as above. */
int link_fd(const struct link *link);
int link_poll(struct link *link, Tracesmith__V1__Reply **ret);

/* A negative errno ends it, and is returned. */
typedef int link_reply_fn(void *data, const Tracesmith__V1__Reply *reply);

/* Sends a request and passes each reply to `take`, including the last, which is also `ret_end`.
 * Either may be NULL. */
int link_converse(struct link *link, const ProtobufCMessage *body, link_reply_fn *take, void *data,
		  Tracesmith__V1__Reply **ret_end);

/* The whole answer to a query, with tsctl's words. Of what does not fit in memory, use
 * link_converse(). */
int link_answer(struct link *link, const ProtobufCMessage *body, struct tracesmith_answer **ret);

/* A moment on the daemon's CLOCK_MONOTONIC, never 0; times before its boot are 1. */
uint64_t link_time(const struct link *link, const struct moment *moment);

CLEANUP_DEFINE(struct link, link_free)

#endif
