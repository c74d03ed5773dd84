/* stack.h: what the threads of a process are doing, for clients. */
#ifndef TS_STACK_H
#define TS_STACK_H

#include <uv.h>

#include "daemon/api/api.h"
#include "daemon/stack/work.h"

struct broker;
struct helpers;
struct probe_open_place;
struct stacks;

struct stacks_config {
	struct broker *broker;
	struct helpers *helpers;
	uint32_t kind; /* of helper */
	/* Where a thread's open call is found: the map, which stays the callee's. */
	int (*open)(void *data, struct probe_open_place *ret);
	/* Of a process, the first `max`; called on the loop. */
	size_t (*work)(void *data, uint32_t pid, struct stack_work *ret, size_t max);
	void *data;
};

int stacks_new(uv_loop_t *loop, const struct stacks_config *config, struct stacks **ret);
/* Once no request is left, which the loop waits for. */
struct stacks *stacks_free(struct stacks *stacks);

/* A helper reads them, LIMIT_STACK_S at most; then the ticket is answered, on the loop. */
void stacks_read(struct stacks *stacks, struct api_ticket *ticket, const struct api_target *target,
		 const struct api_stack *wanted);

#endif
