/* stack.h: what the threads of a process do at this moment, for clients. */
#ifndef TS_STACK_H
#define TS_STACK_H

#include <uv.h>

#include "daemon/api/api.h"

struct stacks;

int stacks_new(uv_loop_t *loop, struct stacks **ret);
/* Once no request is left, which the loop waits for. */
struct stacks *stacks_free(struct stacks *stacks);

/* Reads them in a thread of its own and answers the ticket, on the loop: a process can make a read
 * of its memory or files take for ever, so the ticket does not wait longer than LIMIT_STACK_S. */
void stacks_read(struct stacks *stacks, struct api_ticket *ticket, const struct api_target *target);

#endif
