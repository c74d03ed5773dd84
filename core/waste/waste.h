/* waste.h: device memory and copies that one process could have done without. Pure: it gets the
 * process's allocations, frees, copies and sets, and when what else ran.
 *
 * What a kernel touches is unknown, so that memory was not used is certain only while nothing ran.
 * docs/queries.md has the rules.
 */
#ifndef TS_WASTE_WASTE_H
#define TS_WASTE_WASTE_H

#include "core/base/sums.h"
#include "core/model/op.h"
#include "core/waste/pattern.h"

struct waste;

/* For one process; `max` operations are remembered at most. -ENOMEM */
int waste_new(uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	      struct waste **ret);
struct waste *waste_free(struct waste *waste);
CLEANUP_DEFINE(struct waste, waste_free)

/* Allocations, frees, copies, sets and memory operations, in any order; others are left out.
 * -E2BIG: there are too many; -ENOMEM. */
int waste_add(struct waste *waste, const struct op *op);
/* What was not seen, or touches memory unseen. -ENOMEM */
int waste_ran(struct waste *waste, int16_t device, uint64_t start_ns, uint64_t end_ns);
/* Adds what was found to rows, once. Operations before `from_ns` are not looked at: some of them
 * are missing. -ENOMEM */
int waste_find(struct waste *waste, uint64_t from_ns, struct sums *rows);

#endif
