/* Threads: since Linux 6.11 the kernel translates a number. Before, the status of each thread has
 * both, and a process may have tens of thousands: so they are read in slices, with pauses. */
#include "daemon/exact/threads.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"
#include "daemon/proc/opener.h"

#define THREADS_MAX	      4096 /* that are known at one time */
#define SLICE		      64
#define SLICE_NS	      (10 * NS_PER_MS)

#define NS_GET_PID_FROM_PIDNS _IOR(0xb7, 0x6, int) /* newer than our headers */

static struct map_key key_of(uint32_t theirs)
{
	return (struct map_key){ theirs, 0 };
}

void threads_learn(struct threads *threads, uint32_t theirs, uint32_t ours)
{
	if (!theirs || !ours)
		return;
	if (threads->ours.count >= THREADS_MAX)
		map_empty(&threads->ours);
	/* Without memory it is asked for again. */
	map_put(&threads->ours, key_of(theirs), (void *)(uintptr_t)ours);
}

void threads_clear(struct threads *threads)
{
	map_clear(&threads->ours);
}

/* A number may be one of another process of that namespace. */
static bool is_of(uint32_t pid, uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", pid, tid);
	return access(path, F_OK) == 0;
}

/* 0: there is no such thread; -ENOTTY: this kernel does not tell. */
static int translate(uint32_t pid, uint32_t theirs)
{
	_cleanup_(closep) int fd = opener_open(OPENER_THREADS, pid);
	int tid;

	if (fd < 0)
		return 0;
	tid = ioctl(fd, NS_GET_PID_FROM_PIDNS, (unsigned long)theirs);
	if (tid < 0)
		return errno == ESRCH ? 0 : -ENOTTY;
	return is_of(pid, (uint32_t)tid) ? tid : 0;
}

void threads_search(struct threads *threads, uint32_t pid)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	struct attach_status status;
	struct dirent *entry = NULL;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	seekdir(dir, threads->at);
	for (int i = 0; i < SLICE && (entry = readdir(dir)); i++)
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    attach_status_read((pid_t)pid, atoi(entry->d_name), &status) == 0)
			threads_learn(threads, (uint32_t)status.ns_tid,
				      (uint32_t)atoi(entry->d_name));
	threads->at = entry ? telldir(dir) : 0;
}

static uint32_t known(const struct threads *threads, uint32_t theirs)
{
	return (uint32_t)(uintptr_t)map_get(&threads->ours, key_of(theirs));
}

uint32_t threads_find(struct threads *threads, uint32_t pid, uint32_t theirs, uint64_t now_ns)
{
	uint32_t ours = known(threads, theirs);
	int r;

	if (ours)
		return ours;
	r = translate(pid, theirs);
	if (r == -ENOTTY && now_ns >= threads->next_ns) {
		threads->next_ns = now_ns + (uint64_t)SLICE_NS;
		threads_search(threads, pid);
		/* All have been looked at. */
		r = threads->at ? r : 0;
	}
	if (r >= 0 && !known(threads, theirs))
		threads_learn(threads, theirs, r ? (uint32_t)r : theirs);
	ours = known(threads, theirs);
	return ours ? ours : theirs;
}
