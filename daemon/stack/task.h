/* task.h: the threads of a process, and what the kernel says of each. */
#ifndef TS_STACK_TASK_H
#define TS_STACK_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_NAME_SIZE 16
#define TASK_WAIT_SIZE 64

struct task {
	uint32_t tid, ns_tid;	   /* here, and as its own PID namespace counts */
	char name[TASK_NAME_SIZE]; /* any bytes: the thread chooses them */
	const char *state;
	bool ended;	  /* a first thread, before the others: it has no stack any more */
	const char *call; /* system call, "" if none or unknown */
	char number[24];  /* of one without a name, which `call` then is */
	char waits[TASK_WAIT_SIZE]; /* function of the kernel, or "" */
	uint64_t sp;		    /* 0: it runs */
	const char *driver_call;    /* "": none that was seen */
	uint64_t driver_ns;	    /* for how long */
};

struct tasks {
	struct task *task; /* by tid, the main thread first */
	size_t count, room;
	bool cut; /* LIMIT_STACK_THREADS */
};

/* -ESRCH: there is no such process. Threads that end meanwhile are left out. */
int tasks_read(uint32_t pid, struct tasks *ret);
void tasks_clear(struct tasks *tasks);

/* What a pid is of. */
enum task_kind { TASK_PROCESS, TASK_THREAD, TASK_ZOMBIE, TASK_KERNEL };

/* With the pid of its process, and its name. -ESRCH: there is none. */
int task_kind(uint32_t pid, uint32_t *ret_process, char ret_name[TASK_NAME_SIZE]);

#endif
