/* hot.h: whose hot calls are watched, of one copy of a driver library.
 *
 * One link watches all processes until a process is to be left out for a time. Then each process
 * that maps the library has a link of its own, which can be closed and opened: a process without a
 * link pays nothing at its calls. When all have been watched whole for a while, one link takes over
 * again. In either exchange the new links are there before the old ones go, so no call is missed.
 * Links are made by the pool and closed by the remover; all else is on the loop.
 */
#ifndef TS_HOT_H
#define TS_HOT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

struct probe_library;
struct remover;

enum hot_want {
	HOT_WHOLE,  /* watched all the time */
	HOT_OPEN,   /* watched now */
	HOT_CLOSED, /* not watched now */
};

enum hot_state {
	HOT_IS_OPEN,
	HOT_IS_CLOSED,
	HOT_IS_CHANGING,
};

struct hot;
struct hot_callbacks {
	void (*idle)(struct hot *hot); /* the pool is done with it */
	/* The hot calls of a process that came since then were not seen until now. */
	void (*late)(struct hot *hot, uint32_t pid, uint64_t since_ns);
};

struct hot {
	uv_loop_t *loop;
	struct remover *remover;
	struct probe_library *library; /* NULL: not attached yet */
	int fd;			       /* the library's file, borrowed */
	struct list members;
	bool single;	   /* a link for each process */
	bool busy;	   /* the pool makes links */
	uint64_t whole_ns; /* since then all are watched whole, 0: not all */
	const struct hot_callbacks *callbacks;
};

void hot_init(struct hot *hot, uv_loop_t *loop, struct remover *remover, int fd,
	      const struct hot_callbacks *callbacks);
/* The library has its probes now. */
void hot_start(struct hot *hot, struct probe_library *library);
/* Not while it is busy. Links close in their own time. */
void hot_release(struct hot *hot);

/* A process maps the library; -ENOMEM. */
int hot_add(struct hot *hot, uint32_t pid);
void hot_remove(struct hot *hot, uint32_t pid);

/* Without effect on a process that does not map it. */
void hot_watch(struct hot *hot, uint32_t pid, enum hot_want want);
enum hot_state hot_state(const struct hot *hot, uint32_t pid);
bool hot_has(const struct hot *hot, uint32_t pid);
/* Every few seconds. */
void hot_tick(struct hot *hot, uint64_t now_ns);

#endif
