/* calibrate.h: what a hit of our probe costs on this host, measured at start in a child of ours.
 *
 * Hot is a call in a loop: what any hit takes at least. Cold is a call when the caches have nothing
 * of the kernel's way to our program: what it takes at most. Programs are between the two, and so
 * is `hit_ns`, their geometric mean: at worst it is wrong by the same factor either way.
 */
#ifndef TS_DAEMON_CALIBRATE_H
#define TS_DAEMON_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/probe/probe.h"
#include "proto/event.h"

/* Before there is a result, and where there is none: as on an H200's host. */
#define CALIBRATE_HIT_NS 3000
#define CALIBRATE_HOT_NS 700

struct calibrate;

struct calibration {
	bool busy;
	const char *why; /* why there is no result, or NULL */
	uint64_t hot_ns, cold_ns, hit_ns;
};

/* Offset in our own program of the function that gets the probe, for the broker. */
uint64_t calibrate_place(void);

/* Runs on a thread of the pool, and its child for a third of a second of CPU time. `done` is called
 * on the loop. -ENOMEM. */
int calibrate_start(uv_loop_t *loop, struct probe *probe, struct remover *remover,
		    void (*done)(void *data), void *data, struct calibrate **ret);
/* Ends the child if it still runs. Takes NULL, too, like the next. */
void calibrate_stop(struct calibrate *calibrate);
/* When the loop has ended. */
struct calibrate *calibrate_free(struct calibrate *calibrate);

void calibrate_result(const struct calibrate *calibrate, struct calibration *ret);
/* Whether the event is the child's: it is nobody's call. */
bool calibrate_owns(const struct calibrate *calibrate, const struct ts_event *event);

#endif
