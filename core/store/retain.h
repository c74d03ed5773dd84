/* retain.h: deletes what is too old, and the oldest data when there is too much. */
#ifndef TS_RETAIN_H
#define TS_RETAIN_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/store/store.h"

struct retain;

int retain_new(sqlite3 *db, int64_t boot, const struct store_config *config, struct retain **ret);
struct retain *retain_free(struct retain *retain);

/* Deletes a bounded number of rows in a transaction of its own. `log_bytes`: size of the log, which
 * counts too. 1: there may be more to do, 0: not now. */
int retain_turn(struct retain *retain, uint64_t now_ns, uint64_t log_bytes);

#endif
