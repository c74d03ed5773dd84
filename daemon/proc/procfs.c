/* Procfs: reads a process's own description. The process chooses arguments and names, so control
 * characters are removed here. */
#include "daemon/proc/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/proc/opener.h"

#define CONTAINER_ID_SIZE 64
#define HOST_PID_NS	  0xeffffffc /* inode of the first namespace, fixed in the kernel */

ssize_t procfs_file(uint32_t pid, const char *name, char *text, size_t size)
{
	_cleanup_(closep) int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return n;
}

ssize_t procfs_opened(enum opener_kind kind, uint32_t pid, char *text, size_t size)
{
	ssize_t n = opener_read(kind, pid, text, size);

	return n == -ENOENT ? -ESRCH : n;
}

/* What follows the command, which may contain anything, in brackets. NULL: there is none. */
static const char *behind_command(const char *text)
{
	const char *end = strrchr(text, ')');

	return end && end[1] == ' ' ? end + 1 : NULL;
}

static const char *procfs_stat(uint32_t pid, char *text, size_t size)
{
	return procfs_file(pid, "stat", text, size) < 0 ? NULL : behind_command(text);
}

char procfs_state(uint32_t pid)
{
	char text[1024];
	const char *p = procfs_stat(pid, text, sizeof(text));

	return p ? p[1] : '\0';
}

bool procfs_has_first_thread(uint32_t pid)
{
	char state = procfs_state(pid);

	return state && state != 'Z' && state != 'X';
}

uint32_t procfs_living_thread(uint32_t pid)
{
	_cleanup_(closedirp) DIR *tasks = NULL;
	struct dirent *entry;
	char path[32];

	if (procfs_has_first_thread(pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (tid && procfs_has_first_thread(tid))
			return tid;
	}
	return pid;
}

#define FIELD_STATE   3
#define FIELD_STARTED 22
#define FIELD_STACK   28

/* The field that comes `count` further in /proc/PID/stat. */
static const char *procfs_field(const char *field, int count)
{
	while (field && count--)
		field = strchr(field + 1, ' ');
	return field;
}

int procfs_started_ticks(uint32_t pid, uint64_t *ret)
{
	char text[1024];
	const char *p =
		procfs_field(procfs_stat(pid, text, sizeof(text)), FIELD_STARTED - FIELD_STATE);

	if (!p)
		return -ESRCH;
	*ret = strtoull(p, NULL, 10);
	return 0;
}

int procfs_program(uint32_t pid, struct procfs_program *ret)
{
	struct procfs_program program = { 0 };
	_cleanup_(closep) int fd = -1;
	char text[1024];
	const char *started, *stack;
	struct stat st;

	if (procfs_opened(OPENER_STAT, pid, text, sizeof(text)) < 0)
		return -ESRCH;
	started = procfs_field(behind_command(text), FIELD_STARTED - FIELD_STATE);
	stack = procfs_field(started, FIELD_STACK - FIELD_STARTED);
	if (!started)
		return -ESRCH;
	program.started_ticks = strtoull(started, NULL, 10);
	program.stack = stack ? strtoull(stack, NULL, 10) : 0;
	fd = opener_open(OPENER_PROGRAM, pid);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		program.device = st.st_dev;
		program.inode = st.st_ino;
	}
	*ret = program;
	return 0;
}

void procfs_join(char *command, size_t size)
{
	while (size > 0 && !command[size - 1])
		size--;
	for (size_t i = 0; i < size; i++)
		if (iscntrl((unsigned char)command[i]))
			command[i] = ' ';
	command[size] = '\0';
}

static void procfs_command(uint32_t pid, struct procfs_process *process)
{
	ssize_t n = procfs_file(pid, "cmdline", process->command, sizeof(process->command));

	procfs_join(process->command, n > 0 ? (size_t)n : 0);
}

/* The line of the unified hierarchy, or the last one on a host that still has the old ones. */
static void procfs_cgroup(uint32_t pid, struct procfs_process *process)
{
	char text[4096], *line, *path;

	if (procfs_file(pid, "cgroup", text, sizeof(text)) <= 0)
		return;
	line = strstr(text, "0::");
	if (line && (line == text || line[-1] == '\n'))
		path = line + strlen("0::");
	else
		path = (path = strchr(text, '/')) ? path : text;
	path[strcspn(path, "\n")] = '\0';
	snprintf(process->cgroup, sizeof(process->cgroup), "%.*s", PROCFS_CGROUP_SIZE - 1, path);
}

static void procfs_find_container(struct procfs_process *process)
{
	size_t digits = 0;

	for (const char *p = process->cgroup; *p; p++) {
		digits = isxdigit((unsigned char)*p) ? digits + 1 : 0;
		if (digits == CONTAINER_ID_SIZE)
			memcpy(process->container, p + 1 - CONTAINER_ID_SIZE, CONTAINER_ID_SIZE);
	}
}

void procfs_container(uint32_t pid, char ret[PROCFS_CONTAINER_SIZE])
{
	struct procfs_process process = { 0 };

	procfs_cgroup(pid, &process);
	procfs_find_container(&process);
	memcpy(ret, process.container, PROCFS_CONTAINER_SIZE);
}

int procfs_read(uint32_t pid, struct procfs_process *ret)
{
	struct procfs_process process = { 0 };
	int r;

	procfs_command(pid, &process);
	procfs_cgroup(pid, &process);
	procfs_find_container(&process);
	if (procfs_opened(OPENER_VARIABLES, pid, process.variables, sizeof(process.variables)) < 0)
		process.variables[0] = '\0';
	/* Last: if the pid is still the same process now, so it was before. */
	r = procfs_started_ticks(pid, &process.started_ticks);
	if (r < 0)
		return r;
	*ret = process;
	return 0;
}

bool procfs_take(const void *data, size_t size, struct procfs_process *ret)
{
	if (size != sizeof(*ret))
		return false;
	memcpy(ret, data, size);
	ret->command[sizeof(ret->command) - 1] = '\0';
	ret->cgroup[sizeof(ret->cgroup) - 1] = '\0';
	ret->container[sizeof(ret->container) - 1] = '\0';
	ret->variables[sizeof(ret->variables) - 1] = '\0';
	return true;
}

uint32_t procfs_status_number(const char *status, const char *key, bool last)
{
	const char *line = strstr(status, key);
	const char *end = line ? strchr(line + 1, '\n') : NULL;
	const char *at;

	if (!end)
		return 0;
	for (at = last ? end : line; last && at > line && at[-1] != '\t'; at--)
		;
	return (uint32_t)strtoul(last ? at : line + strlen(key), NULL, 10);
}

int procfs_identity(uint32_t pid, struct ts_process *ret)
{
	struct ts_process process = { 0 };
	char status[4096];
	ssize_t n = procfs_file(pid, "status", status, sizeof(status));
	uint64_t ticks;
	int r;

	if (n < 0)
		return (int)n;
	process.ppid = procfs_status_number(status, "\nPPid:\t", false);
	process.uid = procfs_status_number(status, "\nUid:\t", false);
	process.ns_pid = procfs_status_number(status, "\nNSpid:\t", true);
	if (strncmp(status, "Name:\t", 6) == 0)
		snprintf(process.comm, sizeof(process.comm), "%.*s", (int)strcspn(status + 6, "\n"),
			 status + 6);
	r = procfs_started_ticks(pid, &ticks);
	if (r < 0)
		return r;
	process.started_ns = ticks * NS_PER_TICK;
	*ret = process;
	return 0;
}

int procfs_boot_id(char ret[37])
{
	_cleanup_(closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, ret, 36) != 36)
		return -EIO;
	ret[36] = '\0';
	return 0;
}

bool procfs_is_host(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == HOST_PID_NS;
}

bool procfs_has_host_clock(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long seconds, ns;
	bool other =
		file && fscanf(file, "monotonic %ld %ld", &seconds, &ns) == 2 && (seconds || ns);

	if (file)
		fclose(file);
	return !other;
}
