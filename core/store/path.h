/* path.h: the critical path of one process, summed up. */
#ifndef TS_STORE_PATH_H
#define TS_STORE_PATH_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sums.h"

enum path_what {
	PATH_KERNEL,
	PATH_COPY,
	PATH_SET,
	PATH_GRAPH,
	PATH_WORK,
	PATH_CALL,
	PATH_HOST,
	PATH_LATENCY,
	PATH_WAKE_UP,
	PATH_WHATS,
};

/* Without padding, to be compared bytewise. */
struct path_key {
	uint32_t process;
	uint16_t fn;
	uint8_t what; /* enum path_what */
	uint8_t kind;
	uint64_t detail, name, stack;
};

struct path_row {
	struct path_key key;
	uint64_t count, ns, idle_ns;
};

/* Adds those of a process in the window to the path_rows of `rows`. -E2BIG: it has more than `max`
 * operations in it; -EINTR: the query is over, according to its SQL function query_is_over(), if
 * there is one. */
int path_add(sqlite3 *db, uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	     struct sums *rows);

#endif
