/* total.h: what each process has done since it was first seen, in few rows that only grow: for
 * whoever counts on, and cannot add up seconds that are gone.
 *
 * Process 0 has what belongs to none, and what processes did that ended a while ago. */
#ifndef TS_TOTAL_H
#define TS_TOTAL_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/store/record.h"
#include "core/store/row.h"

/* Number, identifier, name, and what `part` is. Numbers are stored. */
#define TOTALS(X)                                                                                  \
	X(1, CALLS, "calls")	 /* enum op_kind; ns: of those whose return was seen */            \
	X(2, FAILED, "failed")	 /* the same, of failed calls */                                   \
	X(3, ERRORS, "errors")	 /* CUresult */                                                    \
	X(4, COPIES, "copies")	 /* enum copy_kind */                                              \
	X(5, KERNELS, "kernels") /* they took at least 2^part ns each. Exact tier, as: */          \
	X(6, DELAYS, "delays")	 /* 0; from the start of a call to that of its kernel or graph */  \
	X(7, DEVICE_COPIES, "device-copies") /* enum copy_kind; as the device did them */          \
	X(8, STATES, "states")		     /* enum op_state */                                   \
	X(9, LOSSES, "losses")		     /* enum loss_reason */                                \
	X(10, MISSED, "missed")		     /* enum price_part; estimated */                      \
	X(11, STARTS, "starts")		     /* as for kernels, of the delays */                   \
	X(12, SHORTAGES, "shortages")	     /* 0; allocations that failed for good */

enum total_what {
#define X(number, identifier, name) TOTAL_##identifier = number,
	TOTALS(X)
#undef X
};

/* Numbers above come from other processes; they must not make rows without end. */
#define TOTAL_ORDINALS 64
#define TOTAL_CODES    1000

/* What it takes until the totals of an ended process are those of nobody. */
#define TOTAL_KEPT_NS (600 * UINT64_C(1000000000))

struct totals;

int totals_new(sqlite3 *db, struct totals **ret);
struct totals *totals_free(struct totals *totals);

/* What was added and not written is forgotten. */
void totals_begin(struct totals *totals);
/* Takes a row of any type. */
int totals_add(struct totals *totals, uint32_t type, const void *data);
/* Inside the caller's transaction. */
int totals_write(struct totals *totals);

/* Makes totals of ended processes those of nobody. 1: there is more to do. */
int totals_settle(struct totals *totals, int64_t boot, uint64_t now_ns);

CLEANUP_DEFINE(struct totals, totals_free)

#endif
