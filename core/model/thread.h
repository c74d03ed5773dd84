/* thread.h: which contexts are current to a thread. */
#ifndef TS_CORE_THREAD_H
#define TS_CORE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct core;
struct process;

#define THREAD_DEPTH_MAX 8

struct thread {
	struct list in_process; /* oldest first */
	uint32_t process;	/* id */
	uint32_t user;
	uint32_t tid;
	uint8_t depth; /* at least 1: a thread without a context is forgotten */
	bool used;     /* since the limit was last reached */
	uint64_t context[THREAD_DEPTH_MAX];
};

/* The handle of the current context, 0 if none was seen. */
uint64_t thread_context(const struct core *core, const struct process *process, uint32_t tid);
void thread_push(struct core *core, struct process *process, uint32_t tid, uint64_t context);
/* A context is gone: it is no longer current in any thread, though another one may get its
 * handle. */
void thread_lose_context(struct process *process, uint64_t context);
void thread_pop(struct core *core, struct process *process, uint32_t tid);
void thread_forget_all(struct core *core, struct process *process);

#endif
