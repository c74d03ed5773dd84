/* helper.h: looks into other processes without waiting for them.
 *
 * A process can make whoever looks into it wait for as long as it likes: it holds its own memory's
 * lock, or maps a file of a file system that does not answer. So the looking is done by helpers,
 * children of ours (spawn.h): each does one task at a time, and is killed if that takes too long.
 * One that waits in the kernel where nothing kills it takes a place of the user whose process it
 * looked into, until it is gone; nobody else waits for it. All of this belongs to the loop.
 */
#ifndef TS_HELPER_H
#define TS_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

#define HELPER_MESSAGE (32 << 10) /* bytes, of a request or an answer */

/* A kind of task. A request is one message; the answer is any number of messages and a result. */
struct helper_kind {
	/* In the helper. The descriptors are closed behind it. */
	int (*run)(int socket, const void *request, size_t size, const int *fd, uint32_t fds);
	uint32_t per_user; /* at one time, for the processes of one user */
	bool once;	   /* the helper ends with its task */
	/* The helper keeps something for the next tasks of this kind and user: they go to it if it
	 * has none, and others to other helpers, if there is room. */
	bool keeps;
	/* It is not killed, also not with the daemon, but the end of its socket tells that nobody
	 * wants the answer any more; then it undoes what it did. Only with `once`. */
	bool undoes;
	/* It runs in a helper that may trace processes. Only with `once`. */
	bool traces;
	/* Files that somebody wrote to break it may end the helper, and that is no news. */
	bool may_die;
};

struct helper_task {
	uint32_t kind; /* index of the table */
	uint32_t uid;  /* of the process that is looked into */
	uint32_t deadline_ms;
	/* A message of the answer. It takes what descriptors it wants, by TAKE_FD; may be NULL. */
	void (*message)(struct helper_task *task, const void *data, size_t size, int *fd,
			uint32_t fds);
	/* The last call: what `run` returned; -ETIMEDOUT: the deadline has passed; -EPIPE: the
	 * helper ended; -EBUSY: too many tasks; -ECANCELED: the daemon stops. */
	void (*done)(struct helper_task *task, int result);

	/* of helper.c */
	struct list link;
	struct helper_share *share;
	struct helper *helper; /* NULL: waits */
	uint64_t due_ms;
	void *request;
	size_t size;
	int *fd;
	uint32_t fds;
};

struct helpers;

/* The table of what helpers run, before spawn_start(). */
void helper_kinds(const struct helper_kind *kinds, uint32_t count);
/* What a helper does, which has taken or given up its rights before: what traces, or the rest. */
void helper_run(int socket, bool traces);
/* In a helper: a message of the answer. */
int helper_say(int socket, const void *data, size_t size, const int *fd, uint32_t fds);
/* In a helper: whether somebody still waits for the answer. */
bool helper_is_wanted(int socket);

/* The roles of helpers, for spawn_child(). */
struct helper_roles {
	uint32_t reads, traces;
};

int helpers_new(uv_loop_t *loop, int zygote, struct helper_roles roles, struct helpers **ret);
/* The request is copied, the descriptors are duplicated. Calls done(), but never from here. */
int helpers_ask(struct helpers *helpers, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds);
/* Without done(). Harmless for one that is over. */
void helpers_cancel(struct helpers *helpers, struct helper_task *task);
/* Waits for the tasks that nobody cancels. */
void helpers_close(struct helpers *helpers, void (*closed)(void *data), void *data);

struct helpers_stats {
	uint32_t running; /* processes, with those that wait for a task */
	uint32_t stuck;	  /* killed, and not yet gone */
	uint64_t late;	  /* tasks whose deadline passed */
	uint64_t refused; /* because there were too many */
	uint64_t died;	  /* helpers that somebody else ended, or a defect of theirs */
	uint64_t died_ms; /* when the last one did, as uv_now() */
};
void helpers_stats(const struct helpers *helpers, struct helpers_stats *ret);

#endif
