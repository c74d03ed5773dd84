/* wasted.h: what one process wasted in a window: its operations, as core/waste/waste.h wants them.
 */
#ifndef TS_STORE_WASTED_H
#define TS_STORE_WASTED_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/base/sums.h"

/* Adds those of a process to the waste_rows of `rows`. Of more than `max` operations that it must
 * remember only the latest are looked at; `left_out` counts the others. -EINTR: the query is
 * over, according to its SQL function query_is_over(), if there is one. */
int wasted_add(sqlite3 *db, uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	       struct sums *rows, uint64_t *left_out);

#endif
