/* libraries.h: the copies of the driver library that have probes.
 *
 * A copy is a file (device and inode). It gets its probes when a process maps it and loses them
 * when none does any more, except standing copies: those are known by path and keep their probes,
 * so that not even the first call of a new process is missed. A copy of what only uses the driver
 * (by_choice in library.h) gets them when a process maps both.
 */
#ifndef TS_LIBRARIES_H
#define TS_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/loss_row.h"
#include "daemon/limits.h"
#include "daemon/probe/copy.h"

struct libraries;

/* Of the hot functions. */
enum hot_want {
	HOT_WHOLE,  /* watched all the time */
	HOT_OPEN,   /* watched now */
	HOT_CLOSED, /* not watched now */
};

enum hot_state {
	HOT_IS_OPEN = LINKS_OPEN,
	HOT_IS_CLOSED = LINKS_CLOSED,
	HOT_IS_CHANGING = LINKS_CHANGING,
};

struct libraries_callbacks {
	/* What a process (0: several) calls of a library is not seen since then (0: since it maps
	 * it), which is a `gap` of it; and then it is. `missed` false: it turns out that it made no
	 * such calls. */
	void (*waits)(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns);
	void (*waited)(void *data, uint32_t pid, enum loss_reason gap, bool missed);
	/* What it calls of it is seen, and was not then. */
	void (*late)(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns,
		     uint64_t until_ns);
	/* The same of one group of functions, for single processes (0: all) of those who map it. */
	void (*missing)(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group,
			uint64_t since_ns);
	void (*seen)(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group);
	/* Whether a process that now maps a copy is left out of a group. */
	bool (*is_out)(void *data, uint32_t pid, enum probe_group group);
	void *data;
};

int libraries_new(uv_loop_t *loop, struct probe *probe, const struct libraries_callbacks *callbacks,
		  struct libraries **ret);
/* From now on probes are attached by threads; before, at once. */
void libraries_go(struct libraries *libraries);
/* All lose their probes; threads may be at it until the loop has ended. */
void libraries_close(struct libraries *libraries);
/* After that. -ETIMEDOUT: probes are still being taken off, as remover_free() says. Takes NULL,
 * too. */
int libraries_free(struct libraries *libraries, uint64_t wait_ns);

struct libraries_file {
	uint64_t device, inode;
	const char *path;
	int fd;
	uint32_t user; /* whose it is */
};

struct libraries_found {
	uint32_t count;
	struct libraries_file file[LIMIT_LIBRARIES];
};

/* The files that the patterns (separated by spaces) match now. Reads folders: not for the loop. */
void libraries_find_standing(const char *patterns, struct libraries_found *ret);
void libraries_found_clear(struct libraries_found *found);
/* Attaches to them, for good. */
void libraries_add_standing(struct libraries *libraries, const struct libraries_found *found);
/* Process `pid` maps the file, which is borrowed, since `mapped_ns`, 0: not known; `forked`:
 * because its parent did. */
int libraries_mapped(struct libraries *libraries, uint32_t pid, uint64_t mapped_ns, bool forked,
		     const struct libraries_file *file);
/* No process maps it any more. */
void libraries_unmapped(struct libraries *libraries, uint64_t device, uint64_t inode);

/* Whether all calls by way of the file are seen since then, whoever makes them. */
bool libraries_sees(const struct libraries *libraries, uint64_t device, uint64_t inode,
		    uint64_t since_ns);

/* Since when, but not before that, a process maps a library of which is not known yet if it will
 * have probes; UINT64_MAX: none does. */
uint64_t libraries_unsaid_ns(const struct libraries *libraries, uint64_t from_ns);

void libraries_process_gone(struct libraries *libraries, uint32_t pid);
/* The same, while the model still has the process: what was missed of it is reported first. */
void libraries_process_exits(struct libraries *libraries, uint32_t pid, uint64_t start_ns);
/* It runs another program now, which maps no library yet. */
void libraries_process_executed(struct libraries *libraries, uint32_t pid);

/* Of all copies that the process maps: whether its hot calls are watched. */
void libraries_watch(struct libraries *libraries, uint32_t pid, enum hot_want want);
/* Whether its calls of a group are left out, whatever is wanted of them otherwise. */
void libraries_leave_out(struct libraries *libraries, uint32_t pid, enum probe_group group,
			 bool out);
/* Its hot calls are reported by our library in it: they are not watched, whatever is asked for. */
int libraries_hold(struct libraries *libraries, uint32_t pid, bool hold);
/* Whether all its calls are seen, as far as probes do that, but for reports. */
bool libraries_is_watched(const struct libraries *libraries, uint32_t pid);
/* Whether it is known to map any. */
bool libraries_has(const struct libraries *libraries, uint32_t pid);
/* Of some of its calls nothing can be known: it has an inline hook. */
bool libraries_is_hooked(const struct libraries *libraries, uint32_t pid);
enum hot_state libraries_hot_state(const struct libraries *libraries, uint32_t pid);
/* No process maps any copy, and each will be seen from its first call on. */
bool libraries_at_rest(const struct libraries *libraries);

/* What takes single probes off, and what puts them on. */
struct remover *libraries_remover(const struct libraries *libraries);
struct linker *libraries_linker(const struct libraries *libraries);

/* The n-th, NULL after the last. */
const struct library_copy *libraries_get(const struct libraries *libraries, uint32_t n);

#endif
