/* Task: reads /proc/PID/task. */
#include "daemon/stack/task.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/vector.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"
#include "daemon/stack/syscall.h"

#define TEXT_SIZE  4096
#define PF_KTHREAD 0x00200000u
#define NO_STATE   "unknown"

static const char *state_of(char letter)
{
	static const struct {
		char letter;
		const char *name;
	} states[] = {
		{ 'R', "running" }, { 'S', "sleeping" }, { 'D', "uninterruptible" },
		{ 'T', "stopped" }, { 't', "traced" },	 { 'Z', "ended" },
		{ 'X', "ended" },   { 'I', "idle" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (states[i].letter == letter)
			return states[i].name;
	return NO_STATE;
}

static ssize_t read_of(uint32_t pid, uint32_t tid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%u/%s", tid, name);
	return procfs_file(pid, path, text, size);
}

/* The name may contain anything; it is between the first bracket and the last. */
static const char *split_stat(char *text, char ret_name[TASK_NAME_SIZE])
{
	char *name = strchr(text, '('), *end = strrchr(text, ')');

	if (!name || !end || end < name || end[1] != ' ')
		return NULL;
	*end = '\0';
	snprintf(ret_name, TASK_NAME_SIZE, "%.*s", TASK_NAME_SIZE - 1, name + 1);
	return end + 2;
}

static void read_call(struct task *task)
{
	char text[256];
	const char *last;
	long number;
	char *end;

	task->call = task->driver_call = "";
	if (procfs_opened(OPENER_CALL, task->tid, text, sizeof(text)) <= 0)
		return;
	number = strtol(text, &end, 10);
	if (end == text)
		return;
	/* Its number and arguments, the stack pointer, the instruction. */
	last = strrchr(text, ' ');
	while (last && last > text && last[-1] != ' ')
		last--;
	task->sp = last ? strtoull(last, NULL, 16) : 0;
	if (number < 0)
		return;
	task->call = syscall_name(number);
	if (task->call)
		return;
	snprintf(task->number, sizeof(task->number), "%ld", number);
	task->call = task->number;
}

static void read_waits(struct task *task)
{
	if (procfs_opened(OPENER_WAITS, task->tid, task->waits, sizeof(task->waits)) <= 0 ||
	    strcmp(task->waits, "0") == 0)
		task->waits[0] = '\0';
}

static uint32_t read_ns_tid(uint32_t pid, uint32_t tid)
{
	char text[TEXT_SIZE];
	uint32_t inner = 0;

	if (read_of(pid, tid, "status", text, sizeof(text)) > 0)
		inner = procfs_status_number(text, "\nNSpid:\t", true);
	return inner ? inner : tid;
}

static int read_task(uint32_t pid, uint32_t tid, struct task *ret)
{
	char text[1024];
	const char *state;
	ssize_t n = read_of(pid, tid, "stat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	*ret = (struct task){ .tid = tid, .ns_tid = read_ns_tid(pid, tid) };
	state = split_stat(text, ret->name);
	ret->state = state ? state_of(*state) : NO_STATE;
	ret->ended = state && (*state == 'Z' || *state == 'X');
	read_call(ret);
	read_waits(ret);
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Its number is that of the process; others may be lower, after numbers have started over. */
static void put_main_first(struct tasks *tasks, uint32_t pid)
{
	for (size_t i = 1; i < tasks->count; i++) {
		const struct task task = tasks->task[i];

		if (task.tid != pid)
			continue;
		memmove(&tasks->task[1], &tasks->task[0], i * sizeof(task));
		tasks->task[0] = task;
		return;
	}
}

/* Their own text moves with them. */
static void fix_calls(struct tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->task[i].number[0])
			tasks->task[i].call = tasks->task[i].number;
}

static int read_tasks(uint32_t pid, DIR *dir, struct tasks *tasks)
{
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
		int r;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		tasks->cut = tasks->count == LIMIT_STACK_THREADS;
		if (tasks->cut)
			break;
		r = VECTOR_ROOM(tasks->task, tasks->room, tasks->count + 1);
		if (r < 0)
			return r;
		tasks->count += read_task(pid, tid, &tasks->task[tasks->count]) == 0;
	}
	return tasks->count ? 0 : -ESRCH;
}

int tasks_read(uint32_t pid, struct tasks *ret)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	struct tasks tasks = { 0 };
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	r = read_tasks(pid, dir, &tasks);
	if (r < 0) {
		tasks_clear(&tasks);
		return r;
	}
	qsort(tasks.task, tasks.count, sizeof(*tasks.task), by_tid);
	put_main_first(&tasks, pid);
	fix_calls(&tasks);
	*ret = tasks;
	return 0;
}

void tasks_clear(struct tasks *tasks)
{
	free(tasks->task);
	*tasks = (struct tasks){ 0 };
}

int task_kind(uint32_t pid, uint32_t *ret_process, char ret_name[TASK_NAME_SIZE])
{
	char text[TEXT_SIZE];
	const char *rest;
	unsigned int flags = 0;

	if (procfs_file(pid, "status", text, sizeof(text)) < 0)
		return -ESRCH;
	*ret_process = procfs_status_number(text, "\nTgid:\t", false);
	if (procfs_file(pid, "stat", text, sizeof(text)) < 0)
		return -ESRCH;
	rest = split_stat(text, ret_name);
	/* state, parent, group, session, terminal, its group, flags */
	if (!rest || sscanf(rest, "%*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return -ESRCH;
	if (flags & PF_KTHREAD)
		return TASK_KERNEL;
	if (*ret_process != pid)
		return TASK_THREAD;
	return procfs_has_first_thread(procfs_living_thread(pid)) ? TASK_PROCESS : TASK_ZOMBIE;
}
