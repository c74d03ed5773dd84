/* drops.h: ops and rows that could not be kept, by the process that they were about. */
#ifndef TS_DROPS_H
#define TS_DROPS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/op.h"

#define DROPS_MAX 64

/* Of ops the times are those of their start, of rows when they were added. */
struct drop {
	uint32_t process; /* 0: of several, or nobody's */
	uint64_t ops, rows;
	uint64_t first_ns, last_ns;
	uint64_t rows_first_ns, rows_last_ns;
};

/* Zeroed: none. */
struct drops {
	uint64_t ops, rows; /* the sums of all */
	uint32_t count;
	uint32_t last; /* of the latest call, if there are any */
	struct drop of[DROPS_MAX];
};

void drops_add_ops(struct drops *drops, const struct op *op, uint32_t count);
void drops_add_rows(struct drops *drops, uint32_t process, uint64_t rows, uint64_t time_ns);
void drops_add(struct drops *drops, const struct drops *more);
/* So many of the ops are in `to` from now on, whoever's they are. */
void drops_move_ops(struct drops *from, uint64_t ops, struct drops *to);

#endif
