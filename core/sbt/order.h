/* order.h: hands out the ops of many chunks in order of their start.
 *
 * Ops that wait for their turn stay encoded, except for a part of each chunk. So memory grows with
 * the chunks that overlap, a few bytes per op, and not with the length of the trace. */
#ifndef TS_CORE_SBT_ORDER_H
#define TS_CORE_SBT_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/op.h"

struct sbt_order;

int sbt_order_new(struct sbt_order **ret);
struct sbt_order *sbt_order_free(struct sbt_order *order);

/* Adds ops of one process, stream and kind, at most SBT_OPS_MAX, in any order; they are copied. */
int sbt_order_add(struct sbt_order *order, const struct op *op, size_t count);
/* Chunks that overlap now. */
size_t sbt_order_count(const struct sbt_order *order);
/* 1: the next op that starts before this time, valid until the next call; 0: none. */
int sbt_order_next(struct sbt_order *order, uint64_t before_ns, const struct op **ret);

CLEANUP_DEFINE(struct sbt_order, sbt_order_free)

#endif
