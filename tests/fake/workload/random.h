/* Random: what the parts of the random program share. */
#pragma once

#include "workload.h"

#define CHUNK	  (2ull << 20)
#define SLOTS	  64	 /* things of one kind that are remembered */
#define DEPTH_MAX 6	 /* of the stack of contexts */
#define KERNEL	  "step" /* takes no time */

/* The things that were made and may still be there. Handles stay after their end, now and then, so
 * that they are used once too often. */
struct slots {
	uint64_t value[SLOTS];
	uint64_t extra[SLOTS]; /* bytes, or whose */
};

struct world {
	int devices;
	unsigned int depth; /* of the stack of contexts */
	struct slots contexts, streams, pools, blocks, host, registered, physical, reserved, mapped,
		graphs, execs, events;
	CUfunction function; /* of the context below */
	CUcontext function_context;
	CUstream capturing;
};

extern struct world w;

uint32_t random_below(uint32_t below);
/* One of the remembered, 0 for none; sometimes nonsense. */
uint64_t slots_any(const struct slots *slots);
uint64_t slots_pick(const struct slots *slots, uint64_t *ret_extra);
/* It was refused: most likely it is gone, with its context for instance. */
void slots_failed(struct slots *slots, uint64_t value);
/* The same, and forgets it, but sometimes not. */
uint64_t slots_take(struct slots *slots, uint64_t *ret_extra);
void slots_add(struct slots *slots, uint64_t value, uint64_t extra);

struct step {
	void (*run)(void);
	unsigned int weight;
};

extern const struct step memory_steps[], work_steps[], context_steps[];
