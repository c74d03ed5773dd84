/* maps_scan: looks at all processes of the host, a few at a time: at the start, after a loss of
 * records, and again and again where there are none. */
#include <errno.h>
#include <stdio.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/base/vector.h"
#include "daemon/maps/proc.h"
#include "daemon/maps/state.h"
#include "daemon/proc/owner.h"

#define AT_ONCE 8
/* Without perf events /proc is read at most this share of the time. */
#define SHARE	  50
#define LATES_MAX 6 /* of which each doubles the time until the next scan, if there are */

struct search {
	struct helper_task task;
	struct maps *maps;
	uint32_t pid; /* 0: none */
};

struct maps_scan {
	struct search search[AT_ONCE];
	uint32_t *pid;
	uint32_t count, room, at; /* at < count: under way */
	uint64_t start_ns;
	bool again;
	uint32_t late;	/* processes that could not be looked into in time */
	bool whole;	/* there was a scan without any */
	uint32_t lates; /* how many scans in a row that was so */
};

static void scan_advance(struct maps *maps);

static int say_nothing(void *data, char *message, size_t size, const int *fd, uint32_t fds)
{
	return 0;
}

static void on_searched(struct helper_task *task, int result)
{
	struct search *search = list_item(task, struct search, task);
	struct maps *maps = search->maps;
	uint32_t pid = search->pid;

	search->pid = 0;
	maps->scan->late += result == -ETIMEDOUT || result == -EPIPE || result == -EBUSY;
	if (result > 0 && !maps_process_find(maps, pid))
		maps_process_track(maps, pid, 0);
	scan_advance(maps);
}

static int search_start(struct search *search, uint32_t pid)
{
	struct maps_look look = { .kind = MAPS_LOOK_SEARCH, .pid = pid };
	struct maps *maps = search->maps;
	int r;

	snprintf(look.patterns, sizeof(look.patterns), "%s", maps->patterns);
	if (!maps->helpers) {
		if (maps_look(&look, sizeof(look), say_nothing, NULL) > 0)
			maps_process_track(maps, pid, 0);
		return -ENOENT;
	}
	search->task = (struct helper_task){ .kind = maps->look_kind,
					     .uid = owner_of_process(pid),
					     .deadline_ms = LIMIT_MAPS_LOOK_MS,
					     .done = on_searched };
	r = helpers_ask(maps->helpers, &search->task, &look, sizeof(look), NULL, 0);
	search->pid = r < 0 ? 0 : pid;
	maps->scan->late += r == -EBUSY;
	return r;
}

/* What is known is read again, what is not is searched. */
static void scan_process(struct search *search, uint32_t pid)
{
	struct maps_process *process = maps_process_find(search->maps, pid);

	if (process)
		maps_process_refresh(process);
	else
		search_start(search, pid);
}

/* Most of the time that a scan takes is a wait for those who are late. */
static uint64_t scan_next_ms(const struct maps *maps)
{
	const struct maps_scan *scan = maps->scan;
	uint64_t next_ms = (uv_hrtime() - scan->start_ns) * SHARE / NS_PER_MS;

	if (maps->rings)
		return maps->grace_ns / NS_PER_MS << scan->lates;
	return next_ms < MAPS_SCAN_MIN_MS ? MAPS_SCAN_MIN_MS : next_ms;
}

static void scan_over(struct maps *maps)
{
	struct maps_scan *scan = maps->scan;
	uint64_t next_ms = scan_next_ms(maps);

	scan->whole |= !scan->late;
	scan->lates = scan->late ? scan->lates + (scan->lates < LATES_MAX) : 0;
	if (scan->again) {
		scan->again = false;
		maps_scan(maps);
	} else if (!maps->rings || scan->late) {
		uv_timer_start(&maps->scan_timer, maps_scan_on_timer, next_ms, 0);
	}
}

static void scan_advance(struct maps *maps)
{
	struct maps_scan *scan = maps->scan;
	bool busy = false;

	for (uint32_t i = 0; i < AT_ONCE; i++) {
		while (!scan->search[i].pid && scan->at < scan->count)
			scan_process(&scan->search[i], scan->pid[scan->at++]);
		busy |= scan->search[i].pid != 0;
	}
	if (busy || !scan->count)
		return;
	scan->count = scan->at = 0;
	scan_over(maps);
}

static void on_process(void *data, uint32_t pid)
{
	struct maps_scan *scan = data;

	if (VECTOR_ROOM(scan->pid, scan->room, scan->count + 1) == 0)
		scan->pid[scan->count++] = pid;
}

int maps_scan(struct maps *maps)
{
	struct maps_scan *scan = maps->scan;
	int r;

	if (scan->count) {
		scan->again = true;
		return 0;
	}
	scan->start_ns = uv_hrtime();
	scan->late = 0;
	r = maps_proc_processes(on_process, scan);
	if (r < 0)
		return r;
	scan_advance(maps);
	return 0;
}

void maps_scan_on_timer(uv_timer_t *timer)
{
	maps_scan(timer->data);
}

uint32_t maps_unlooked(const struct maps *maps)
{
	const struct maps_scan *scan = maps->scan;
	uint32_t unlooked = scan->count - scan->at + scan->late;

	if (scan->whole)
		return 0;
	for (uint32_t i = 0; i < AT_ONCE; i++)
		unlooked += scan->search[i].pid != 0;
	return unlooked;
}

int maps_scan_init(struct maps *maps)
{
	maps->scan = calloc(1, sizeof(*maps->scan));
	if (!maps->scan)
		return -ENOMEM;
	for (uint32_t i = 0; i < AT_ONCE; i++)
		maps->scan->search[i].maps = maps;
	return 0;
}

void maps_scan_cancel(struct maps *maps)
{
	for (uint32_t i = 0; i < AT_ONCE; i++)
		if (maps->scan->search[i].pid)
			helpers_cancel(maps->helpers, &maps->scan->search[i].task);
	maps->scan->count = 0;
}

void maps_scan_free(struct maps *maps)
{
	if (maps->scan)
		free(maps->scan->pid);
	free(TAKE(maps->scan));
}
