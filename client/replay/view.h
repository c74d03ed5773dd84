/* view.h: the two views of a replay: lines (text or JSON), and lanes on a terminal. */
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
	const struct replay_name *name; /* of an op, or NULL */
};

struct replay_view {
	/* Lines only: flushes, since the reader may have to wait for more. */
	int (*flush)(void *view);
	/* Lanes only: draws the state at a time; `done`: how far the recording is. */
	int (*draw)(void *view, uint64_t time_ns, double speed);
	int (*change)(void *view, const struct replay_shown *shown);
	/* `done` is NULL if the replay was stopped. */
	int (*end)(void *view, const Tracesmith__V1__Done *done, uint64_t changes);
	void (*free)(void *view);
	void *view;
};

/* Times are relative to `begin_ns`. -ENOMEM; -EINVAL: the terminal is too narrow; the error was
 * printed. */
int replay_lines_new(bool json, uint64_t begin_ns, struct replay_view *ret);
int replay_lanes_new(uint64_t begin_ns, struct replay_view *ret);

#endif
