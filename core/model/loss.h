/* loss.h: what was lost, by process and reason, until the next checkpoint. */
#ifndef TS_CORE_LOSS_H
#define TS_CORE_LOSS_H

#include "core/model/core.h"

struct process;

struct loss {
	struct {
		uint64_t first_ns, last_ns, count;
	} of[LOSS_REASON_MAX + 1];
	bool any;
};

/* Counts one loss, now. `process` is NULL if it is unknown whose it is. */
void loss_count(struct core *core, struct process *process, enum loss_reason reason);
/* Counts losses between these times. */
void loss_add(struct process *process, enum loss_reason reason, uint64_t count, uint64_t start_ns,
	      uint64_t end_ns);
/* Hands over and resets. `id` is that of the process, 0 for none. */
void loss_hand_over(struct core *core, struct loss *loss, uint32_t id);
void loss_checkpoint(struct core *core);

#endif
