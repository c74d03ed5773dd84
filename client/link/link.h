/* link.h: a connection to the daemon, used synchronously: one request, then its replies. To a
 * recording it is the same; it answers what needs no daemon.
 *
 * What goes wrong is said on stderr, once, in a sentence that says what to do; the caller gets a
 * negative errno and only has to leave.
 */
#ifndef TS_CLIENT_LINK_H
#define TS_CLIENT_LINK_H

#include <stdint.h>

#include "client/base/options.h"
#include "core/base/cleanup.h"
#include "proto/control.pb-c.h"

struct link;

/* What the daemon said of itself when the link was opened. */
struct link_hello {
	char version[64];
	char boot_id[64];
	uint64_t now_ns;	/* CLOCK_MONOTONIC of the daemon; the end of a recording */
	int64_t wall_offset_ns; /* add to a time to get CLOCK_REALTIME */
};

/* What answers for a recording in the daemon's place. */
struct link_files {
	/* Gives the client's end of a socket; what goes wrong is said on stderr. */
	int (*open)(const char *path, void **ret_server, int *ret_fd);
	/* Ends what is under way. */
	void (*close)(void *server);
};

/* Connects to options->socket, or by way of options->files to options->file where that is given,
 * and greets. */
int link_open(const struct options *options, struct link **ret);
struct link *link_free(struct link *link);
const struct link_hello *link_hello(const struct link *link);

/* Sends a request; its id is filled in. */
int link_send(struct link *link, Tracesmith__V1__Request *request);

/* The next reply to it, to be freed with reply_free.
 * 1: a reply; 0: the last one, whose body is `done` (or the single answer of hello or status);
 * negative: the daemon refused (the sentence was printed; -EINVAL: it makes no sense, -ENOENT:
 * there is no such thing) or is gone. */
int link_next(struct link *link, Tracesmith__V1__Reply **ret);
/* The same, but a reply whose body is `error` is the caller's to tell. */
int link_next_or_error(struct link *link, Tracesmith__V1__Reply **ret);

/* A negative errno ends it, and is returned. */
typedef int link_reply_fn(void *data, const Tracesmith__V1__Reply *reply);

/* Sends a request and gives each reply to `take`, the last one too, which is `ret_end` then.
 * Either may be NULL. */
int link_converse(struct link *link, Tracesmith__V1__Request *request, link_reply_fn *take,
		  void *data, Tracesmith__V1__Reply **ret_end);

void reply_free(Tracesmith__V1__Reply *reply);

/* A moment on the daemon's CLOCK_MONOTONIC, never 0; before its boot is 1. */
uint64_t link_time(const struct link *link, const struct moment *moment);

CLEANUP_DEFINE(struct link, link_free)
CLEANUP_DEFINE(Tracesmith__V1__Reply, reply_free)

#endif
