/* estimate.h: what each call stack stands for, if stacks were taken for a sample of calls only.
 *
 * Things of one kind that a thread submitted to a stream are a part, and are passed in order, with
 * or without a stack. A sample stands for what came without one since the last sample of its part,
 * and the last one for what follows it; if a part has no sample, those of the same kind in other
 * parts stand for it. The weight of a sample is what it measured itself, times the number it stands
 * for (D. G. Horvitz, D. J. Thompson: A Generalization of Sampling Without Replacement From a
 * Finite Universe, 1952), scaled so that the total measured in a part is preserved: the total is
 * exact, only the shares are estimated. What has no sample at all keeps no stack. If everything has
 * a stack, nothing is estimated.
 */
#ifndef TS_CORE_ESTIMATE_H
#define TS_CORE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/map.h"

struct estimate_sum {
	uint64_t count, ns, bytes;
};

struct estimate_key {
	uint64_t what; /* with the process and the graph: the kind */
	uint32_t process, graph, thread, stream;
};

struct estimate_cell;
struct estimate_kind;

struct estimate_part {
	struct estimate_part *next; /* of the kind */
	const void *owner;	    /* the caller's, NULL at first */
	struct estimate_cell *cell; /* one per stack, the newest first */
	struct estimate_cell
		*group; /* of the last samples, which wait for more or stand for what follows */
	struct estimate_sum unstacked; /* never has a stack */
	struct estimate_sum unsampled;
	uint64_t pending; /* the part of the count that no sample stands for yet */
	uint64_t step, group_step;
};

/* All zero is empty. */
struct estimate {
	struct map kind_by_key, part_by_key, cell_by_key;
	struct estimate_kind *kind;
	struct arena arena;
};

/* NULL: no memory. */
struct estimate_part *estimate_part(struct estimate *estimate, const struct estimate_key *key);

/* Things whose stack could not be taken, or that never have one. */
void estimate_add_unstacked(struct estimate_part *part, const struct estimate_sum *value);
/* A stack of 0: not taken. Things of one `step` have no order among them; 0: a single thing, in
 * order. Returns 0 or -ENOMEM. */
int estimate_add(struct estimate *estimate, struct estimate_part *part, uint64_t step,
		 uint64_t stack, const struct estimate_sum *value);

struct estimate_result {
	const void *owner;
	uint64_t stack;		  /* 0: none */
	struct estimate_sum sum;  /* estimated */
	uint64_t sampled, scaled; /* the sum's count: with a stack of their own, and estimated */
};

typedef int estimate_fn(void *data, const struct estimate_result *result);

/* All parts with each of their stacks, until `call` returns nonzero. Once, at the end. */
int estimate_end(struct estimate *estimate, estimate_fn *call, void *data);
void estimate_clear(struct estimate *estimate);

#endif
