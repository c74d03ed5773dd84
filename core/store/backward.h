/* backward.h: stacks of PyTorch's backward pass with those of the forward pass behind them. */
#ifndef TS_BACKWARD_H
#define TS_BACKWARD_H

#include <stdint.h>

#include <sqlite3.h>

#include "core/base/cleanup.h"

struct backward;

int backward_new(sqlite3 *db, struct backward **ret);
struct backward *backward_free(struct backward *backward);
CLEANUP_DEFINE(struct backward, backward_free)

/* A stack, or the row of `backward` that has this id, has been written: makes the stacks of both
 * whose parts are all there, again if they have changed. */
int backward_write(struct backward *backward, uint64_t id, int64_t batch);

#endif
