/* copy.h: one copy of a library that has probes, or is to have them: a file, known by device and
 * inode.
 *
 * Reading it and putting probes on is done by threads; all else is on the loop.
 */
#ifndef TS_COPY_H
#define TS_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/probe/linker.h"
#include "daemon/probe/links.h"
#include "daemon/probe/owned.h"
#include "daemon/probe/probe.h"

#define COPY_RETRY_NS	((uint64_t)NS_PER_S) /* after it was put off */
#define LIBRARY_WAITERS 64
#define COPY_WHO	64
#define COPY_LOOK_NS	NS_PER_S

struct library_copy;
struct library_row;
struct remover;

/* What all copies need. */
struct copies {
	uv_loop_t *loop;
	struct probe *probe;
	struct linker *linker;
	struct remover *remover;
	bool going; /* by threads, else at once */
	bool closing;
	/* What a process calls is not seen since then (pid 0: of several), and now it is; or it
	 * made no such calls. */
	void (*waits)(const struct library_copy *library, uint32_t pid, uint64_t since_ns);
	void (*waited)(const struct library_copy *library, uint32_t pid, bool missed);
	/* One is being attached, or was put off until its `retry_ns`: look after it. */
	void (*stirred)(struct copies *copies);
};

struct library_copy {
	uint64_t device, inode;
	char *path;
	int fd;
	uint32_t user;
	const struct library_row *row; /* NULL: its name says nothing */
	bool standing;
	bool mapped;
	bool needs_driver;
	bool dormant;	 /* so it has no probes: no process that maps it is known to map a driver */
	uint32_t number; /* that its probes carry */
	struct links links[PROBE_GROUPS];
	struct probe_library *probes; /* NULL: could not be attached, or is being attached to */
	int error;		      /* why not, negative errno; see copy_is_put_off() */
	uint64_t attached_ns;	      /* since then it has probes */
	uint32_t in_way;	      /* who was, if it is known */
	bool told;		      /* of that */
	uint64_t retry_ns;
	/* Who keeps the kernel from being done with its probes is looked for by another thread. */
	struct held_file *file, *next_file; /* NULL: it was not read yet */
	uv_work_t look;
	bool looking, kept;
	struct owned_link *undone[PROBE_GROUPS]; /* a failed attempt's, while removed */
	uint32_t keeper, keeper_told;		 /* 0: not known */
	/* Attaching reads the file, maybe from a slow disk, so a thread of the uv pool does that;
	 * then the linker makes the links. They have `fd`, `path`, `fresh` and `error` to
	 * themselves meanwhile. */
	bool busy;
	bool dropped; /* to be freed when it is not busy any more */
	struct copies *copies;
	struct probe_library *fresh;
	uv_work_t work;
	struct linking linking;
	/* Who maps it and waits for the probes, and is said to: it is a library that has some. */
	bool waiting;
	uint32_t waiters;
	struct library_waiter {
		uint32_t pid;
		bool ended; /* before it was known what it maps */
		uint64_t since_ns;
	} waiter[LIBRARY_WAITERS];
};

/* Not while it is busy. Takes NULL, too. */
struct library_copy *copy_free(struct library_copy *library);
/* Threads are at work on it, or on its links. */
bool copy_is_busy(const struct library_copy *library);
/* It is freed at once, or by the second when they are done. */
void copy_drop(struct library_copy *library);
void copy_free_dropped(struct library_copy *library);

/* While links of a failed attempt are being removed, this only schedules a retry. */
void copy_attach(struct library_copy *library);
/* A process that maps it holds the lock on its own memory (held.h), or has an inline hook where no
 * link can go round it (hooked.h): it is tried again. */
bool copy_is_put_off(const struct library_copy *library);
/* As the start of a sentence, who was in the way, and how. */
void copy_in_way(const struct library_copy *library, char ret[COPY_WHO]);
/* When the kernel has not been done with its probes for a second, looks for who keeps it from that,
 * and says so once. */
void copy_look(struct library_copy *library, uint64_t now_ns);
/* How long until there may be a reason; UINT64_MAX: there is nothing under way. */
uint64_t copy_look_wait_ns(const struct library_copy *library);
/* It only has the name of a library. */
bool copy_is_other(const struct library_copy *library);
/* No probes are on it, though they should be. */
bool copy_is_blind(const struct library_copy *library);
/* Whoever maps it now has a name for it (broker.h), which it had lost. */
void copy_try_again(struct library_copy *library, int fd);

/* A process maps it, and waits for its probes. */
void copy_wait(struct library_copy *library, uint32_t pid, uint64_t now_ns);
/* Lowers `since_ns` to when the first one, but not before `from_ns`, waits who is not said to. */
void copy_unsaid(const struct library_copy *library, uint64_t from_ns, uint64_t *since_ns);
void copy_wait_no_longer(struct library_copy *library, uint32_t pid);
/* Those have them now, or cannot have them. */
void copy_tell_gaps(struct library_copy *library);

CLEANUP_DEFINE(struct library_copy, copy_free)

#endif
