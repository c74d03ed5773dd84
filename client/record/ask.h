/* ask.h: what a recorder asks the daemon besides the recording itself. Functions return 0 or a
 * negative errno, and print errors. */
#ifndef TS_CLIENT_RECORD_ASK_H
#define TS_CLIENT_RECORD_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/link.h"

/* The daemon's current time, and the id of the boot's row. */
int record_ask_cursor(struct link *link, Tracesmith__V1__RecordCursor *ret, int64_t *ret_boot);

struct record_process {
	uint32_t pid, ppid;
	bool ended;
};
/* The processes that have used CUDA and lived at or after `since_ns`; to be freed. */
int record_ask_processes(struct link *link, uint64_t since_ns, struct record_process **ret,
			 size_t *ret_count);

#endif
