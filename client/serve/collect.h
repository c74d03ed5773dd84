/* collect.h: one round of series from the daemon. */
#ifndef TS_CLIENT_COLLECT_H
#define TS_CLIENT_COLLECT_H

#include "client/base/options.h"
#include "client/serve/fragments.h"
#include "client/serve/openmetrics.h"

/* Errors of the daemon are complained of. */
int collect(const struct options *options, struct fragments *fragments, struct series *series,
	    struct part_names *parts, struct openmetrics_daemon *ret_daemon);

#endif
