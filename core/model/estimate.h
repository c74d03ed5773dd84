/* estimate.h: what each call stack stands for, where stacks were taken of a sample of calls only.
 *
 * Things of one kind that a thread submitted to a stream are a part, and are told in their order,
 * with or without a stack. A sample stands for what came without one since the last sample of its
 * part, and the last one for what follows it; where a part has no sample, those of the same kind
 * in other parts stand for it. A sample weighs what it measured itself, times for how many it
 * stands (D. G. Horvitz, D. J. Thompson: A Generalization of Sampling Without Replacement From a
 * Finite Universe, 1952), scaled so that what a part measured in all is kept: that is exact, only
 * the shares are estimated. What has no sample at all keeps no stack. Where everything has a
 * stack, nothing is estimated.
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
	struct estimate_part *next;    /* of the kind */
	const void *owner;	       /* the caller's, NULL at first */
	struct estimate_cell *cell;    /* a stack each, the newest first */
	struct estimate_cell *group;   /* of the last samples, which wait for more or stand for what
					  follows */
	struct estimate_sum unstacked; /* that never has a stack */
	struct estimate_sum unsampled;
	uint64_t pending; /* of these the count for which no sample stands yet */
	uint64_t step, group_step;
};

/* Zeroed is empty. */
struct estimate {
	struct map kind_by_key, part_by_key, cell_by_key;
	struct estimate_kind *kind;
	struct arena arena;
};

/* NULL: no memory. */
struct estimate_part *estimate_part(struct estimate *estimate, const struct estimate_key *key);

/* Things whose stack could not be had, or that never have one. */
void estimate_add_unstacked(struct estimate_part *part, const struct estimate_sum *value);
/* A stack of 0: it was not taken. What is told of one `step` has no order within; 0: it is one
 * thing, in its place. Returns 0 or -ENOMEM. */
int estimate_add(struct estimate *estimate, struct estimate_part *part, uint64_t step,
		 uint64_t stack, const struct estimate_sum *value);

struct estimate_result {
	const void *owner;
	uint64_t stack;		  /* 0: none */
	struct estimate_sum sum;  /* estimated */
	uint64_t sampled, scaled; /* the sum's count: with a stack of their own, and others */
};

typedef int estimate_fn(void *data, const struct estimate_result *result);

/* All parts with each of their stacks, until `call` returns something else than 0. Once, at the
 * end. */
int estimate_end(struct estimate *estimate, estimate_fn *call, void *data);
void estimate_clear(struct estimate *estimate);

#endif
