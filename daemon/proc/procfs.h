/* procfs.h: what /proc adds to the kernel's events about a process. */
#ifndef TS_PROCFS_H
#define TS_PROCFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/proc/opener.h"
#include "proto/event.h"

#define PROCFS_COMMAND_SIZE   1024
#define PROCFS_CGROUP_SIZE    512
#define PROCFS_CONTAINER_SIZE 65
#define PROCFS_VARIABLES_SIZE 1024

struct procfs_process {
	uint64_t started_ticks; /* as in /proc/PID/stat, units of 10 ms */
	char command[PROCFS_COMMAND_SIZE];
	char cgroup[PROCFS_CGROUP_SIZE];
	char container[PROCFS_CONTAINER_SIZE]; /* 64 hexadecimal digits in the cgroup path */
	/* What it is part of, as KEY=VALUE in lines: variables of the environment that its program
	 * started with. Those for which there is no room are left out. */
	char variables[PROCFS_VARIABLES_SIZE];
};

/* -ESRCH: there is none, or it has ended. The command line lies in the process's memory, so this
 * may take as long as the process likes: in a helper only. */
int procfs_read(uint32_t pid, struct procfs_process *ret);
/* What a helper says that it has read, of which the texts may have no end. False: it is none. */
bool procfs_take(const void *data, size_t size, struct procfs_process *ret);
/* Its container, "": none. Nobody waits for that. */
void procfs_container(uint32_t pid, char ret[PROCFS_CONTAINER_SIZE]);
/* A command line as /proc and the kernel have it, of `size` bytes, becomes one line of text. There
 * is room for one byte more. */
void procfs_join(char *command, size_t size);
/* Also reported by the kernel's events. */
int procfs_identity(uint32_t pid, struct ts_process *ret);
/* Of its first thread, as in /proc/PID/stat: 'R', 'S', 'T' (stopped), 't' (by a debugger), 'Z' and
 * others; 0: there is none. */
char procfs_state(uint32_t pid);
/* Its first thread may end before the others: then the kernel finds no memory of the process, and
 * makes a link to it that sees nothing. */
bool procfs_has_first_thread(uint32_t pid);
/* Another thread of it then, under whose number /proc and system calls have its memory, its files
 * and its root; else the first one. */
uint32_t procfs_living_thread(uint32_t pid);
int procfs_started_ticks(uint32_t pid, uint64_t *ret);
/* What tells apart the programs that processes run one after the other, also of one process. */
struct procfs_program {
	uint64_t started_ticks, stack, device, inode;
};
int procfs_program(uint32_t pid, struct procfs_program *ret);
/* In what /proc/PID/status says: the first number of the line that starts with "\nKEY:\t", or its
 * last; 0: there is none. */
uint32_t procfs_status_number(const char *status, const char *key, bool last);
/* The first bytes of /proc/PID/`name`, and a NUL: how many, or -ESRCH. */
ssize_t procfs_file(uint32_t pid, const char *name, char *text, size_t size);
/* The same of what only who may trace the process can read. */
ssize_t procfs_opened(enum opener_kind kind, uint32_t pid, char *text, size_t size);
/* 36 characters and the zero. */
int procfs_boot_id(char ret[37]);

/* Whether pids here are those of the host, as in the kernel's events. */
bool procfs_is_host(void);
/* Whether CLOCK_MONOTONIC here is that of the kernel's events: not in a time namespace with
 * another. */
bool procfs_has_host_clock(void);

#endif
