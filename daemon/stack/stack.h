/* stack.h: what the threads of a process are doing, for clients. */
#ifndef TS_STACK_H
#define TS_STACK_H

#include <uv.h>

#include "daemon/api/api.h"
#include "daemon/stack/work.h"

struct broker;
struct stacks;

/* A driver call whose end was not seen. */
struct stack_call {
	const char *name; /* lives as long as the program */
	uint64_t start_ns, sp;
};

struct stacks_config {
	struct broker *broker;
	/* That of a thread, 0 or a negative errno; called on any thread. */
	int (*call)(void *data, uint32_t tid, struct stack_call *ret);
	/* Of a process, the first `max`; called on the loop. */
	size_t (*work)(void *data, uint32_t pid, struct stack_work *ret, size_t max);
	void *data;
};

int stacks_new(uv_loop_t *loop, const struct stacks_config *config, struct stacks **ret);
/* Once no request is left, which the loop waits for. */
struct stacks *stacks_free(struct stacks *stacks);

/* Reads them in a thread of its own and answers the ticket, on the loop: a process can make a read
 * of its memory or files take for ever, so the ticket does not wait longer than LIMIT_STACK_S. */
void stacks_read(struct stacks *stacks, struct api_ticket *ticket, const struct api_target *target,
		 const struct api_stack *wanted);

/* Drops what it kept for further requests that did not come. */
void stacks_tick(struct stacks *stacks, uint64_t now_ns);

#endif
