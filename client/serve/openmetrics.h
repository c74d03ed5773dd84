/* openmetrics.h: series as text, as OpenMetrics 1.0 or in the format that Prometheus had before it
 * (text 0.0.4): whoever asks says which he reads. */
#ifndef TS_CLIENT_OPENMETRICS_H
#define TS_CLIENT_OPENMETRICS_H

#include <stdio.h>

#include "client/serve/series.h"

#define OPENMETRICS_PARTS 1024
#define OPENMETRICS_PART  64

/* Texts of parts by number, from 1 on. */
struct part_names {
	uint32_t count;
	char name[OPENMETRICS_PARTS][OPENMETRICS_PART];
};

/* The number of a text; the last one is "other", for all that have no room. */
int32_t part_number(struct part_names *names, const char *text);

/* Of the daemon, as it says itself. */
struct openmetrics_daemon {
	char version[64];
	uint64_t cpu_ns, memory_bytes, store_bytes;
	uint32_t processes; /* that run */
};

struct openmetrics {
	const struct series *series;
	const struct part_names *parts;
	const struct openmetrics_daemon *daemon;
	const struct status *ship; /* of tracesmith-ship, NULL: there is none */
	uint64_t now_s;		   /* of CLOCK_REALTIME */
	bool classic;
};

#define OPENMETRICS_TYPE    "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define OPENMETRICS_CLASSIC "text/plain; version=0.0.4; charset=utf-8"

void openmetrics_write(FILE *out, const struct openmetrics *metrics);

#endif
