/* attach_proc: reads /proc about the process to attach to, on demand. The process chooses the names
 * in it. */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/vector.h"
#include "daemon/attach/internal.h"
#include "daemon/maps/proc.h"
#include "daemon/proc/procfs.h"

#define MAPS_MAX      16384
#define THREADS_MAX   65536
#define TEXT_SIZE     4096
#define PF_KTHREAD    0x00200000
#define PF_WORKERS    0x00004010 /* of io_uring, vhost: PF_IO_WORKER, PF_USER_WORKER */
#define LIBRARY_NAME  "libtracesmith.so"
#define MEMFD_MAPPING "memfd:tracesmith" /* former versions have no more in the name */

/* Of a thread of the process, or with 0 of itself. */
static ssize_t task_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];

	if (!tid)
		return procfs_file((uint32_t)pid, name, text, size);
	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	return procfs_file((uint32_t)pid, path, text, size);
}

static uint64_t status_field(const char *text, const char *name, int base)
{
	const char *found = strstr(text, name);

	return found ? strtoull(found + strlen(name), NULL, base) : 0;
}

/* The last number of the line. */
static pid_t status_last(const char *text, const char *name)
{
	const char *found = strstr(text, name), *end, *tab;

	if (!found)
		return 0;
	end = found + strlen(name) + strcspn(found + strlen(name), "\n");
	tab = memrchr(found, '\t', (size_t)(end - found));
	return tab ? atoi(tab) : 0;
}

/* The ninth field; the command before may hold anything. */
static unsigned long task_flags(pid_t pid, pid_t tid)
{
	char text[TEXT_SIZE], *p;

	if (task_file(pid, tid, "stat", text, sizeof(text)) < 0)
		return 0;
	p = strrchr(text, ')');
	for (int field = 2; p && field < 9; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoul(p, NULL, 10) : 0;
}

bool attach_thread_is_kernels(pid_t pid, pid_t tid)
{
	return task_flags(pid, tid) & (PF_KTHREAD | PF_WORKERS);
}

int attach_status_read(pid_t pid, pid_t tid, struct attach_status *ret)
{
	struct attach_status status = { 0 };
	char text[TEXT_SIZE], *state, *p;
	ssize_t n = task_file(pid, tid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	state = strstr(text, "\nState:\t");
	if (!state || sscanf(text, "Name:\t%16[^\n]", status.comm) < 1)
		return -ESRCH;
	for (p = status.comm; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
	status.state = state[strlen("\nState:\t")];
	status.tgid = (pid_t)status_field(state, "\nTgid:", 10);
	status.tracer = (pid_t)status_field(state, "\nTracerPid:", 10);
	status.seccomp = (int)status_field(state, "\nSeccomp:", 10);
	p = strstr(state, "\nUid:");
	if (!p || sscanf(p, "\nUid: %u %u %u %u", &status.uid[0], &status.uid[1], &status.uid[2],
			 &status.uid[3]) != 4)
		return -ESRCH;
	status.ns_tid = status_last(state, "\nNSpid:");
	status.kernel_thread = !tid && task_flags(pid, 0) & PF_KTHREAD;
	*ret = status;
	return 0;
}

bool attach_thread_is_over(pid_t pid, pid_t tid)
{
	struct attach_status status;

	return attach_status_read(pid, tid, &status) < 0 || strchr("ZX", status.state);
}

int attach_where_read(pid_t pid, pid_t tid, struct attach_where *ret)
{
	struct attach_where where = { .call = -1 };
	char text[512];
	ssize_t n = task_file(pid, tid, "syscall", text, sizeof(text));
	uint64_t *a = where.argument;

	if (n < 0)
		return (int)n;
	if (!strncmp(text, "running", strlen("running"))) {
		where.running = true;
	} else if (text[0] == '-') {
		if (sscanf(text, "%ld %" SCNx64 " %" SCNx64, &where.call, &where.sp, &where.pc) < 3)
			return -ESRCH;
	} else if (sscanf(text,
			  "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
			  " %" SCNx64 " %" SCNx64,
			  &where.call, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &where.sp,
			  &where.pc) < 9) {
		return -ESRCH;
	}
	*ret = where;
	return 0;
}

static int maps_add(void *data, const struct maps_record *record)
{
	struct attach_maps *maps = data;
	struct attach_map *map = &maps->map[maps->count];

	if (maps->count == MAPS_MAX)
		return -E2BIG;
	map->start = record->start;
	map->end = record->end;
	map->path = strdup(record->path);
	if (!map->path)
		return -ENOMEM;
	maps->count++;
	return 0;
}

int attach_maps_read(pid_t pid, struct attach_maps *ret)
{
	struct attach_maps maps = { .map = calloc(MAPS_MAX, sizeof(*maps.map)) };
	int r;

	if (!maps.map)
		return -ENOMEM;
	r = maps_proc_mappings((uint32_t)pid, maps_add, &maps);
	if (r < 0) {
		attach_maps_free(&maps);
		return r;
	}
	*ret = maps;
	return 0;
}

void attach_maps_free(struct attach_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->map[i].path);
	free(maps->map);
	*maps = (struct attach_maps){ 0 };
}

const struct attach_map *attach_maps_find(const struct attach_maps *maps, uint64_t address)
{
	for (size_t i = 0; i < maps->count; i++)
		if (address >= maps->map[i].start && address < maps->map[i].end)
			return &maps->map[i];
	return NULL;
}

const char *attach_map_name(const struct attach_map *map)
{
	const char *slash = strrchr(map->path, '/');

	return slash ? slash + 1 : map->path;
}

bool attach_map_is_ours(const struct attach_map *map)
{
	const char *name = attach_map_name(map);

	return !strncmp(name, MEMFD_MAPPING, strlen(MEMFD_MAPPING)) ||
	       !strncmp(name, LIBRARY_NAME, strlen(LIBRARY_NAME));
}

int attach_threads_read(pid_t pid, pid_t **ret, size_t *ret_count)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	_cleanup_(freep) pid_t *tid = NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (count < THREADS_MAX && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (VECTOR_ROOM(tid, room, count + 1) < 0)
			return -ENOMEM;
		tid[count++] = atoi(entry->d_name);
	}
	*ret = TAKE(tid);
	*ret_count = count;
	return count ? 0 : -ESRCH;
}

bool attach_is_live(pid_t pid)
{
	_cleanup_(freep) pid_t *tid = NULL;
	size_t count;
	char comm[32];

	if (attach_threads_read(pid, &tid, &count) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (task_file(pid, tid[i], "comm", comm, sizeof(comm)) > 0 &&
		    !strcmp(comm, ATTACH_THREAD_NAME "\n"))
			return true;
	return false;
}

uint64_t attach_auxiliary(pid_t pid, uint64_t key)
{
	Elf64_auxv_t entry[64];
	ssize_t n = procfs_file((uint32_t)pid, "auxv", (char *)entry, sizeof(entry));

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(entry[0]); i++)
		if (entry[i].a_type == key)
			return entry[i].a_un.a_val;
	return 0;
}
