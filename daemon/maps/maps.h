/* maps.h: which process maps which executable file where, on the whole host, from the moment it
 * happens.
 *
 * The kernel reports every executable mapping, fork, exec and exit through one perf ring per CPU;
 * earlier mappings are read from /proc. This provides two things: the copies of the driver library
 * that any process maps (found at once, and released when no process does any more), and, for
 * processes that are followed, the file and offset behind an address, even after their end.
 */
#ifndef TS_MAPS_H
#define TS_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "daemon/maps/ring.h"

struct maps;
struct helpers;

/* A file, known by device and inode, held open so that it can be read when its last process, or its
 * mount namespace, is gone. Counted references. */
struct maps_file {
	dev_t device;
	ino_t inode;
	int fd; /* O_RDONLY, -1: could not be opened; does not change while others hold a reference
		 */
	uint32_t references;
	uint32_t mappers; /* processes that map it now; counted for libraries only */
	bool library;	  /* matches a pattern */
	uint32_t user;	  /* of a library: whose process was the first to map it */
	char *path;	  /* as its process sees it */
	void *data;	  /* the user's, for libraries */
};

struct maps_config {
	const char *patterns; /* of the library's file name, fnmatch(3), separated by spaces */
	size_t ring_bytes;    /* of each CPU's perf ring, a power of two */
	uint32_t max_processes, max_mappings, max_files;
	uint32_t max_libraries;	 /* 0: LIMIT_LIBRARIES */
	uint32_t grace_ms;	 /* how long to keep what has ended, 0: LIMIT_MAPS_GRACE_MS */
	struct helpers *helpers; /* look into processes; NULL: done here */
	uint32_t look_kind;	 /* of such a task: maps_look() */
	struct maps_events events;
};

struct maps_replaced {
	uint32_t pid;
	uint64_t time_ns, start, end;
};

struct maps_callbacks {
	/* A matching library is mapped for the first time, by `pid`. */
	void (*library_found)(void *data, struct maps_file *file, uint32_t pid);
	/* Another process maps it, too; may be NULL. */
	void (*library_shared)(void *data, struct maps_file *file, uint32_t pid);
	/* A library stays out, because this user's processes map as many as one user may; may be
	 * NULL. */
	void (*library_refused)(void *data, struct maps_file *file, uint32_t pid, uint32_t user);
	/* No process has mapped it for grace_ms; the file is valid during the call. */
	void (*library_gone)(void *data, struct maps_file *file);
	/* A process mapped a library, and its program ended before it could be looked into (NULL:
	 * it is not known which), or it has not ended (0), and the file cannot be opened;
	 * `executed`: its process ran another program then. May be NULL. */
	void (*library_missed)(void *data, struct maps_file *file, uint32_t pid, uint64_t mapped_ns,
			       uint64_t ended_ns, bool executed);
	/* It runs another program now; may be NULL. */
	void (*process_executed)(void *data, uint32_t pid);
	/* A process maps an executable file, of whatever kind; may be NULL. */
	void (*mapped)(void *data, uint32_t pid);
	/* A followed process maps an executable file, or memory, where another one was; may be
	 * NULL. */
	void (*replaced)(void *data, const struct maps_replaced *replaced);
	/* At the first look it has executable memory there without a file; may be NULL. */
	void (*memory)(void *data, uint32_t pid, uint64_t start);
	/* It let nobody look into its memory: its mappings are not all known, for now; may be
	 * NULL. */
	void (*late)(void *data, uint32_t pid);
	/* What maps_resolve() and maps_spans() had to wait for is there; may be NULL. */
	void (*settled)(void *data, uint32_t pid);
	/* A process that maps a library has ended; for those whose EXIT never reached the model. */
	void (*process_gone)(void *data, uint32_t pid, uint64_t time_ns);
};

/* Without perf events (permission, old kernel) it falls back to reading /proc periodically, and
 * says so in maps_stats. Returns negative errno only if nothing would work. */
int maps_new(uv_loop_t *loop, const struct maps_config *config,
	     const struct maps_callbacks *callbacks, void *data, struct maps **ret);
/* Begins to read current mappings; calls library_found for what it finds. */
int maps_scan(struct maps *maps);
/* How many processes it has not looked at yet, until the first time that it has at all. */
uint32_t maps_unlooked(const struct maps *maps);
/* Dies in two steps as every libuv handle; `closed` is called when all is freed. */
void maps_close(struct maps *maps, void (*closed)(void *data));

/* When the process mapped what it was last found to, or was forked, if it still runs its parent's
 * program; 0: it was found to do so later. */
uint64_t maps_mapped_ns(struct maps *maps, uint32_t pid, bool *ret_forked);

/* When the first of those was mapped that nobody has heard of yet; UINT64_MAX: there are none. */
uint64_t maps_unheard_ns(const struct maps *maps);

/* Follow a process: keep its mappings and hold its files open, even when it runs another program.
 * Those that map a library are followed as long as they do. -ESRCH: gone, and nothing known. */
int maps_follow(struct maps *maps, uint32_t pid);
void maps_unfollow(struct maps *maps, uint32_t pid); /* its addresses are no longer looked up */

/* The file behind an address of a followed process, in the program that it ran at `time_ns`; works
 * until grace_ms after the end of that program. -ENOENT: none known; -EAGAIN: not before the call
 * of settled(). `file` is borrowed; maps_file_ref keeps it. Only the loop counts references. */
int maps_resolve(struct maps *maps, uint32_t pid, uint64_t time_ns, uint64_t address,
		 struct maps_file **file, uint64_t *offset);
/* All mappings of the process in the program that it ran at `time_ns`, in order of address, with a
 * reference to each file; for a thread that cannot ask. The array is the caller's. -ENOENT and
 * -EAGAIN as above. */
struct maps_span {
	uint64_t start, end, offset;
	struct maps_file *file;
};
int maps_spans(struct maps *maps, uint32_t pid, uint64_t time_ns, struct maps_span **ret,
	       uint32_t *ret_count);
struct maps_file *maps_file_ref(struct maps_file *file);
struct maps_file *maps_file_unref(struct maps_file *file);

/* Takes in what the kernel has reported so far, without waiting for the loop (before resolving
 * addresses of a process that was just seen). */
void maps_catch_up(struct maps *maps);

struct maps_stats {
	bool live; /* perf events work; otherwise /proc is read periodically */
	uint64_t records, lost;
	uint64_t late;	  /* processes that could not be looked into in time */
	uint64_t limited; /* processes, mappings and files left out by a limit */
	uint64_t refused; /* libraries */
	uint32_t processes, mappings, files, libraries;
};
void maps_stats(const struct maps *maps, struct maps_stats *ret);

#endif
