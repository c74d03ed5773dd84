/* series.h: which processes have series of their own in the metrics, and what those show.
 *
 * A host can run any number of processes, and a monitoring system keeps each series for weeks. So a
 * bounded number of processes own series, and all others, which ended ones become after a while,
 * are "other". What always holds: no count is in two series, and none ever falls, whoever starts,
 * ends, or gets series later than he started: a series goes on from what it showed.
 *
 * Needs no daemon and no clock. */
#ifndef TS_CLIENT_SERIES_H
#define TS_CLIENT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"

#define SERIES_OWNERS  100
#define SERIES_OTHER   0 /* owners count from 1 */
#define SERIES_DEVICES 16
#define SERIES_NONE    (-1) /* device: unknown, or of all */
#define SERIES_REST    SERIES_DEVICES
#define SERIES_TEXT    128

/* How long the series of an ended process stay, for its last counts to be read. */
#define SERIES_ENDED_NS (300 * UINT64_C(1000000000))

struct series_process {
	uint32_t id; /* grows from process to process, 0: none */
	uint32_t pid;
	bool running;
	char comm[SERIES_TEXT], container[SERIES_TEXT], user[SERIES_TEXT], tier[SERIES_TEXT];
};

/* A number of an owner. `part`: what its family is split by, 0: nothing. */
struct series_cell {
	uint32_t family;
	uint32_t owner;
	int32_t device, part;
	uint64_t value;
};

struct series;

struct series *series_new(void); /* NULL: no memory */
struct series *series_free(struct series *series);

/* A round: all processes, the running ones first, then all numbers, and its end. */
void series_begin(struct series *series);
void series_add_process(struct series *series, const struct series_process *process);
/* A count since the process started, or with `gauge` what is now. Equal keys add up. */
int series_add(struct series *series, uint32_t process, const struct series_cell *cell, bool gauge);
int series_end(struct series *series, uint64_t now_ns);

/* The cells, in order of family, owner, device and part. */
const struct series_cell *series_cells(const struct series *series, uint32_t *ret_count);
/* NULL: nobody has this number now. */
const struct series_process *series_owner(const struct series *series, uint32_t owner);

CLEANUP_DEFINE(struct series, series_free)

#endif
