/* source.h: what is shown: the daemon, or a recording, which is opened once for all. */
#ifndef TS_CLIENT_SOURCE_H
#define TS_CLIENT_SOURCE_H

#include <pthread.h>

#include "client/base/options.h"
#include "client/link/link.h"

struct source {
	struct options options;
	/* Of a recording: who has the link has the lock. */
	pthread_mutex_t lock;
	struct link *file;
};

void source_init(struct source *source, const struct options *options);
void source_done(struct source *source);

/* A link for one request, to be given back with its result. Complains. */
int source_take(struct source *source, struct link **ret);
void source_give(struct source *source, struct link *link, int result);

#endif
