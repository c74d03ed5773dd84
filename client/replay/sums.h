/* sums.h: sums and states of emulated ops, as rows of a recording. */
#ifndef TS_CLIENT_REPLAY_SUMS_H
#define TS_CLIENT_REPLAY_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "client/record/file.h"
#include "core/model/op.h"

/* Ops in order of start_ns; `boot` is their row. `state`: their states, to be freed, unordered.
 * Write errors are printed. */
int replay_sums_write(struct record_file *file, int64_t boot, const struct op *op, size_t count,
		      struct op **ret_state, size_t *ret_state_count);

#endif
