/* report.h: the emulator's results for a recording, as text or as JSON. */
#ifndef TS_CLIENT_REPLAY_REPORT_H
#define TS_CLIENT_REPLAY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/replay/whatif_options.h"
#include "client/trace/meta.h"
#include "core/base/interval.h"
#include "core/plan/emulate.h"

#define REPLAY_TOP 10 /* names shown of the critical path */

/* A part of a critical path. */
struct replay_part {
	const char *kind; /* "kernel", "copy", "set", "call", "host", "latency" */
	const char *name; /* NULL: of all of the kind */
	uint64_t ns[2];	  /* as recorded, as predicted */
};

/* The recording and the prediction; the same without what-ifs. */
struct replay_report {
	const struct plan *plan;
	const struct meta *meta;
	const struct whatif_options *changes;
	struct emulate_error error; /* of the emulation of the unchanged recording */
	uint64_t makespan_ns[2];
	struct interval speedup; /* confidence 0: no interval */
	struct emulate_busy busy[2];
	uint32_t devices;
	struct replay_part *part; /* the longest first; kinds, then names */
	size_t kinds, parts, room;
	uint64_t untimed, no_call, contradicted, unknown_devices;
	const char *output; /* where the result was written, or NULL */
};

/* `times`: as emulated without and with the changes, each with its plan. */
int replay_report_path(struct replay_report *report, const struct plan *plan,
		       const struct plan_times *times, int side);
void replay_report_show(struct replay_report *report, const struct options *options);
void replay_report_done(struct replay_report *report);

#endif
