/* view.h: how a replay is shown: as lines (text or JSON), or as lanes on a terminal. */
#ifndef TS_CLIENT_REPLAY_VIEW_H
#define TS_CLIENT_REPLAY_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "client/replay/name.h"
#include "core/replay/replay.h"
#include "proto/control.pb-c.h"

struct replay_shown {
	const struct replay_change *change;
	uint32_t pid;
	const struct replay_name *name; /* of an op, else NULL */
};

struct replay_view {
	/* Of lines only: who reads them may have to wait for more. */
	int (*flush)(void *view);
	/* Of lanes only: shows what is at a time; `done`: of the recording. */
	int (*draw)(void *view, uint64_t time_ns, double speed);
	int (*change)(void *view, const struct replay_shown *shown);
	/* `done` is NULL where it was stopped. */
	int (*end)(void *view, const Tracesmith__V1__Done *done, uint64_t changes);
	void (*free)(void *view);
	void *view;
};

/* Times are shown since `begin_ns`. -ENOMEM; -EINVAL: the terminal is too narrow, and stderr says
 * so. */
int replay_lines_new(bool json, uint64_t begin_ns, struct replay_view *ret);
int replay_lanes_new(uint64_t begin_ns, struct replay_view *ret);

#endif
