/* inject.h: the processes that carry our library: their connections and rings.
 *
 * Anyone may connect to inject.sock, and can only hand in records about itself: who it is the
 * kernel says. For each process there is one connection and one ring, which we make, and which is a
 * lane of the intake.
 */
#ifndef TS_INJECT_SOURCE_H
#define TS_INJECT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/intake/intake.h"
#include "proto/hello.h"
#include "proto/light.h"

struct inject;

struct inject_config {
	int fd;		  /* already listening, taken over; or -1 */
	const char *path; /* where to listen otherwise; NULL: nowhere */
	/* 0: as in limits.h */
	uint32_t slots; /* of a ring, at most */
	uint32_t max_processes;
	uint64_t max_ring_bytes;
	uint32_t hello_ms; /* for tests */
};

struct inject_callbacks {
	/* A library wants to hand in records: 0 and the settings it gets, or a negative errno and a
	 * sentence of up to TS_HELLO_TEXT bytes. */
	int (*hello)(void *data, uint32_t pid, uint32_t uid, const struct ts_hello *hello,
		     struct ts_settings *ret_settings, char *why);
	/* Each record, when its turn in the intake has come, in memory that only we can write; its
	 * tgid is that of the process. */
	void (*record)(void *data, uint32_t pid, const void *record, size_t size);
	void (*state)(void *data, uint32_t pid, const struct ts_state *state);
	/* The connection has ended, the ring is empty and the other inputs have come to that time;
	 * once for each hello that was answered with 0, and in inject_close() too. */
	void (*gone)(void *data, uint32_t pid);
	/* An adopted connection has ended before its library said hello. */
	void (*unheard)(void *data, uint32_t pid);
	/* Records lost in the ring since the last time: for lack of room, by the library's count,
	 * or in slots that were claimed and not published in time (`stuck`). */
	void (*lost)(void *data, uint32_t pid, uint64_t no_room, uint64_t stuck);
	/* Its library waits for hot functions to be led to it. */
	void (*light)(void *data, uint32_t pid, const struct ts_light *light);
	/* It takes those stacks (enum ts_stacks) from now on, as it was told. */
	void (*stacks)(void *data, uint32_t pid, uint32_t stacks);
	/* It has timed some of its walks. */
	void (*walks)(void *data, uint32_t pid, const struct ts_light_walks *walks);
};

/* -EADDRINUSE: another daemon answers on that path. */
int inject_new(uv_loop_t *loop, struct intake *intake, const struct inject_config *config,
	       const struct inject_callbacks *callbacks, void *data, struct inject **ret);
/* Ends all connections, passes on what is in their rings, and calls `closed` when everything is
 * freed. */
void inject_close(struct inject *inject, void (*closed)(void *data));

/* Takes a socket that is connected to the library in process `pid`, as if it had connected by
 * itself; takes ownership on success. -EPERM: it is another process's; -EUSERS: its user has too
 * many; -ESRCH: the process has ended. */
int inject_adopt(struct inject *inject, int fd, uint32_t pid);
/* -ENOENT: no library of that process is connected; -EAGAIN: it does not listen now. */
int inject_settings(struct inject *inject, uint32_t pid, const struct ts_settings *settings);
/* It has mapped more code. */
int inject_modules(struct inject *inject, uint32_t pid);
/* Its calls are seen from now on. */
int inject_watched(struct inject *inject, uint32_t pid);
int inject_window(struct inject *inject, uint32_t pid, enum ts_window_how how, uint64_t at_ns);
/* `stacks`: enum ts_stacks, and whether it is to answer. */
int inject_stacks(struct inject *inject, uint32_t pid, uint32_t stacks, uint64_t sample_ns);
/* What is known of its stacks: a struct ts_walk. */
int inject_walk(struct inject *inject, uint32_t pid, int fd);
int inject_detach(struct inject *inject, uint32_t pid);
bool inject_has(const struct inject *inject, uint32_t pid);

struct inject_stats {
	uint32_t processes;
	uint64_t records, bytes, dropped, stuck;
	uint64_t refused; /* connections: too many, or not wanted */
};
void inject_stats(const struct inject *inject, struct inject_stats *ret);

#endif
