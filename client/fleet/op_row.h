/* op_row.h: an operation from a row of the fleet's table `op`. */
#ifndef TS_CLIENT_FLEET_OP_ROW_H
#define TS_CLIENT_FLEET_OP_ROW_H

#include "client/fleet/timeline.h"
#include "client/trace/meta.h"
#include "core/base/map.h"
#include "core/model/op.h"

#define OP_ROW_COLUMNS 18 /* of export-ops.sql */

/* What its texts and streams become numbers by. Zeroed is empty. */
struct op_row {
	struct meta *meta;
	struct map function, stream;
	uint16_t functions;
	uint32_t streams;
};

void op_row_done(struct op_row *row);
/* The trace's number of a process's stream; 0: it has none, or no memory. */
uint32_t op_row_stream(struct op_row *row, uint32_t process, int64_t stream);
/* On the timeline; 0 stays 0. `base_ns` is where the trace's times start on it. */
uint64_t op_row_time(const struct timeline_clock *clock, int64_t base_ns, int64_t monotonic_ns);
/* -ENOMEM. 1: it is of a kind that this tsctl does not know. */
int op_row_read(struct op_row *row, uint32_t process, const struct timeline_clock *clock,
		int64_t base_ns, char **cell, struct op *ret);

#endif
