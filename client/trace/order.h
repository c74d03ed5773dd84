/* order.h: ops of many chunks in the order in which they start.
 *
 * What has to wait for its turn does so encoded, but for a part of each chunk: so memory grows with
 * the chunks that overlap, some bytes an op, and not with the length of a trace.
 */
#ifndef TS_CLIENT_VIEW_ORDER_H
#define TS_CLIENT_VIEW_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/op.h"

struct view_order;

int view_order_new(struct view_order **ret);
struct view_order *view_order_free(struct view_order *order);

/* Ops of one process, stream and kind, SBT_OPS_MAX at most, in any order; they are copied. */
int view_order_add(struct view_order *order, const struct op *op, size_t count);
/* Chunks that overlap now. */
size_t view_order_count(const struct view_order *order);
/* 1: the next op, which starts before that time and lives until the next call; 0: there is none. */
int view_order_next(struct view_order *order, uint64_t before_ns, const struct op **ret);

CLEANUP_DEFINE(struct view_order, view_order_free)

#endif
