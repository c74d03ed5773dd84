/* light.h: light mode, as link.c sees it. All on our thread but light_forked(). */
#ifndef TS_INJECT_LIGHT_H
#define TS_INJECT_LIGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "inject/light_sampler.h"
#include "inject/walk.h"
#include "inject/walk_timer.h"
#include "proto/event.h"
#include "proto/hello.h"
#include "proto/light.h"

/* There is a daemon, and the ring is open: calls are reported from now on, if they are wanted, once
 * the daemon has led them to us. Fills in what it needs for that, or to lead away what an earlier
 * one has. False: there is nothing to say. */
bool light_start(bool wanted, struct ts_light *ret);
/* Which calls go through the stub from now on. */
void light_stacks(const struct ts_light_stacks *stacks);
/* Takes what is known of stacks, by which calls that are all to have one are told without the stub.
 * The descriptor stays the caller's. */
void light_walk(int fd);
/* In a tick: says what the daemon is to know of the stacks. Whoever was in a call at the last one
 * has left it, so that all calls now go as told. */
void light_tick(bool (*say)(const void *message, size_t size));
/* Nothing is reported until light_start() is called again. */
void light_suspend(void);
/* False: functions of the driver still lead to us, so we must stay. */
bool light_stop(void);
void light_forked(void);

/* light_hook.c */
#define LIGHT_SAMPLERS 64
/* Only memory that a child of any kind of fork finds empty tells the hook that it may report. */
struct light_gate {
	int open;
	uint32_t stacks; /* enum ts_stacks */
	uint64_t sample_ns;
	/* By thread. */
	struct light_sampler sampler[LIGHT_SAMPLERS];
	struct walk_timer timer[LIGHT_SAMPLERS];
	uint64_t timed; /* sum of the timers, as it was told */
	struct walker walker;
};
extern struct light_gate *light_gate;
/* Does nothing, where a probe of the kernel can see it. */
void light_stub(const struct ts_registers *entry, uint32_t fn_and_flags);
/* Copies what may not be there; false: it is not. */
bool light_copy(uint64_t from, uint64_t *to, size_t words);
/* On our thread. False: the C library does not keep a thread's number where the hook reads it. */
bool light_hook_prepare(void);

#endif
