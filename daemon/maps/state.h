/* state.h: shared by the files of maps. All of it belongs to the loop's thread. */
#ifndef TS_MAPS_STATE_H
#define TS_MAPS_STATE_H

#include "core/base/quota.h"
#include "daemon/helper/helper.h"
#include "daemon/maps/file.h"
#include "daemon/maps/history.h"
#include "daemon/maps/image.h"
#include "daemon/maps/ring.h"

#define MAPS_PROCESS_BUCKETS 1024

struct maps_library {
	struct maps_file *file; /* a mapping's reference */
	uint64_t idle_ns;	/* since when no process maps it, 0: it is mapped */
	uint32_t user;		/* whose slot it has */
};

struct maps {
	uv_loop_t *loop;
	char *patterns;
	uint32_t max_processes;
	uint64_t grace_ns;
	struct maps_callbacks callbacks;
	void *data;

	struct helpers *helpers; /* NULL: we look ourselves */
	uint32_t look_kind;
	struct list asks; /* struct maps_ask */
	struct maps_scan *scan;
	struct maps_rings *rings; /* NULL: refused */
	struct maps_history history;
	struct maps_files *files;
	struct maps_bounds bounds;
	struct maps_library library[LIMIT_LIBRARIES];
	uint32_t library_count;
	struct quota slots;			  /* of `library` */
	struct list bucket[MAPS_PROCESS_BUCKETS]; /* newest first */
	uint32_t live_count;
	struct list ended; /* struct maps_image, oldest first */
	uint32_t ended_count;

	uv_poll_t poll;	       /* of the rings */
	uv_timer_t rest_timer; /* until the rings are read again, in a storm of records */
	uv_timer_t grace_timer;
	uv_timer_t scan_timer;
	uint64_t woken_ns;
	uint32_t handles; /* not yet closed */
	bool reading;	  /* a record is being handled */
	bool closing;
	void (*closed)(void *data);
	uint64_t records, lost, limited, refused;
	uint64_t late; /* questions that were not answered in time */
};

/* library.c: the libraries that processes map. */
bool maps_library_matches(const struct maps *maps, const char *path);
/* A process maps the file, or no longer does. -ENOSPC: its user has too many libraries. */
int maps_library_add_mapper(struct maps *maps, struct maps_file *file, uint32_t pid);
void maps_library_drop_mapper(struct maps *maps, struct maps_file *file);
/* Releases those that no process has mapped for the grace time. Returns when to call again, 0: no
 * need. */
uint64_t maps_library_expire(struct maps *maps, uint64_t now_ns);

/* process.c: the processes that map a library or are followed. */
struct maps_watch;

struct maps_process {
	struct maps *maps;
	uint32_t pid;
	uint32_t uid;	  /* its helpers are his */
	bool live;	  /* live; else only what has ended is kept */
	bool followed;	  /* whatever it maps */
	bool forked;	  /* what it maps is its parent's */
	uint64_t exit_ns; /* of the last of its threads that ended so far */
	struct maps_watch *watch;
	struct maps_image *image; /* newest first; while live, the first one runs */
	struct list bucket;
};

struct maps_process *maps_process_find(struct maps *maps, uint32_t pid); /* that lives */
/* Starts to watch a process, with its current mappings or, if it is gone, its last ones.
 * `mapped_ns`: as it has mapped a library then; 0: for another reason. -ESRCH: gone, and nothing
 * known; -ENOSPC: too many. */
int maps_process_track(struct maps *maps, uint32_t pid, uint64_t mapped_ns);
/* The image of the program that ran at the time, NULL: none known. */
struct maps_image *maps_process_image(struct maps *maps, uint32_t pid, uint64_t time_ns);
void maps_process_unfollow(struct maps *maps, uint32_t pid);
void maps_process_map(struct maps_process *process, const struct maps_record *record);
void maps_process_exec(struct maps_process *process, uint64_t time_ns);
/* A new process with its parent's mappings. */
void maps_process_fork(struct maps *maps, const struct maps_image *parent, uint32_t pid,
		       uint64_t time_ns);
/* Reads /proc again, to find what no record reported. */
void maps_process_refresh(struct maps_process *process);
/* What an image was found to map; takes the file's reference over, NULL: memory. */
void maps_process_take(struct maps_image *image, uint64_t start, uint64_t end, uint64_t offset,
		       struct maps_file *file);
/* All that it maps is known, as far as it can be. May free the image. */
void maps_process_settled(struct maps_image *image);
/* It maps these libraries now, and no others. May free the image. */
void maps_process_refreshed(struct maps_image *image, struct maps_file *const *library,
			    uint32_t count);
/* NULL: none is mapped there. */
struct maps_file *maps_process_library_at(const struct maps_image *image, uint64_t address);
/* It could not be looked into in time: it is tried again, later each time. */
void maps_process_late(struct maps_image *image);
/* Looks again into those that are due. Returns when to call again, 0: no need. */
uint64_t maps_process_look_again(struct maps *maps, uint64_t now_ns);
uint64_t maps_process_expire(struct maps *maps, uint64_t now_ns);
void maps_process_unwatch_all(struct maps *maps);
void maps_process_free_all(struct maps *maps);

/* scan.c: the processes that ran before, or whose records were lost. */
int maps_scan_init(struct maps *maps);
void maps_scan_on_timer(uv_timer_t *timer);
void maps_scan_cancel(struct maps *maps);
void maps_scan_free(struct maps *maps);
#define MAPS_SCAN_MIN_MS 1000 /* between two scans */

/* maps.c */
void maps_grace_begin(struct maps *maps);
void maps_handle_closed(struct maps *maps);

#endif
