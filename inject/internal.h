/* internal.h: how the parts of the library work together.
 *
 * The driver or the injector calls entry.c, which only starts our one thread. On that thread link.c
 * talks to the daemon, holds the ring and calls the functions of cupti.c below. CUPTI calls back on
 * its own threads and the program's; those only ever call link_put(), link_begin() and its kin,
 * link_lost() and link_wake(), which never wait, allocate or report errors loudly.
 */
#ifndef TS_INJECT_INTERNAL_H
#define TS_INJECT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/event.h"
#include "proto/hello.h"

/* Name of each of our threads, for the unloading daemon to see them gone, and for the probes. */
#define THREAD_NAME TS_THREAD_NAME

/* link.c */
/* Starts the thread. `socket` is -1 to connect. Negative errno: nothing happened. */
int link_start(enum ts_hello_how how, int socket, const struct ts_settings *wanted);
/* Hands a record over, like ts_ring_put; -ENOTCONN: there is no daemon now. */
int link_put(const void *record, size_t size);
/* The same for `count` records of one slot each, in order: 0, or as link_put. After link_begin()
 * fill each one in order, then end. */
struct link_batch {
	void *to;
	uint64_t at;
};
int link_begin(struct link_batch *batch, uint32_t count);
void link_fill(const struct link_batch *batch, uint32_t nth, const void *record, size_t size);
void link_end(const struct link_batch *batch);
/* For a batch of one record instead: where to write it; then it is handed over, without a system
 * call. If the daemon sleeps, our thread wakes it in its next tick. */
void *link_slot(const struct link_batch *batch, uint32_t nth);
void link_done(const struct link_batch *batch);
void link_wake_if_due(void);
/* Little room is left, which is for those who cannot wait: the program's threads. */
bool link_is_crowded(void);
/* Counts records that could not be handed over; reported when there is room. */
void link_lost(enum ts_lost_reason reason, uint64_t count);
/* After a batch of puts. */
void link_wake(void);
/* From our thread: reports a state to the daemon. `text` is cut to TS_HELLO_TEXT. */
void link_tell(enum ts_library_state state, bool unloadable, const char *text);
/* Writes to stderr if TRACESMITH_DEBUG is set. */
void debug_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* cupti.c; all but cupti_forked are called on our thread only */
/* There is a daemon: starts recording, now or (before the driver is ready) in a later tick, and
 * reports the outcome with link_tell(). */
void cupti_start(const struct ts_settings *settings);
void cupti_settings(const struct ts_settings *settings);
/* The daemon keeps the budget by windows: between them CUPTI is taken out. */
void cupti_window(const struct ts_window *window);
/* Every CUPTI_TICK_MS: hands over what is finished, watches for other users of CUPTI, keeps the
 * budget. */
#define CUPTI_TICK_MS 100
void cupti_tick(void);
/* A module was loaded: another user of CUPTI that it has finds room. */
void cupti_modules(void);
/* The daemon is gone: records nothing until cupti_start() is called again. */
void cupti_suspend(void);
/* Detach: gives everything back. True: nothing refers to us any more; otherwise `why` says what
 * does. */
bool cupti_stop(char *why, size_t size);
/* The process exits: hands over what is finished. CUPTI may not return any more. */
void cupti_at_exit(void);
/* In the child of a fork: forgets everything without calling CUPTI. */
void cupti_forked(void);

#endif
