/* source.h: the daemon, as the source of what is shipped: queries over its control socket.
 *
 * What fails says why in `why`, as one sentence. */
#ifndef TS_CLIENT_SHIP_SOURCE_H
#define TS_CLIENT_SHIP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/library/connection.h"
#include "client/ship/why.h"

struct source {
	struct connection connection;
	bool open;
	char why[WHY_BYTES];
};

/* A negative errno ends it, and is returned. */
typedef int source_row_fn(void *data, const Tracesmith__V1__Row *row);

/* Connects, if it is not connected. */
int source_open(struct source *source, const char *path);
void source_close(struct source *source);
/* What is asked about: a row of the daemon's boots, a minute of it, and of what comes into being
 * once the commit after which it came. */
struct source_about {
	uint32_t boot, minute;
	int64_t after;
	uint64_t since_ns, until_ns; /* of single operations */
};

/* Rows of one of the daemon's queries. 1: there are more than it sends at once. A lost connection
 * is closed; an error of `row` does not say why. */
int source_ask(struct source *source, const char *query, const struct source_about *about,
	       source_row_fn *row, void *data);

/* CLOCK_MONOTONIC of the daemon, which is ours. */
uint64_t source_now_ns(const struct source *source);

int64_t source_integer(const Tracesmith__V1__Value *value);
const char *source_text(const Tracesmith__V1__Value *value);

#endif
