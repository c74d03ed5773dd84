/* fragments.h: how fragmented the pools of processes were a while ago: to see it takes longer than
 * a scrape of metrics may. Whoever looks and whoever puts may be different threads. */
#ifndef TS_CLIENT_FRAGMENTS_H
#define TS_CLIENT_FRAGMENTS_H

#include "client/base/options.h"
#include "client/serve/openmetrics.h"
#include "client/serve/series.h"

struct fragments;

struct fragments *fragments_new(void); /* NULL: no memory */
struct fragments *fragments_free(struct fragments *fragments);

/* Asks the daemon, if metrics were put since, and not too lately. Errors are silent: what
 * cannot be seen is not shown. */
void fragments_look(struct fragments *fragments, const struct options *options, uint64_t now_ns);
/* What was seen last. -ENOMEM. */
int fragments_put(struct fragments *fragments, struct series *series, struct part_names *parts);

CLEANUP_DEFINE(struct fragments, fragments_free)

#endif
