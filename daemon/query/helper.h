/* helper.h: answers one request that reads the store, in a process of its own.
 *
 * The daemon starts it (daemon/api/child.c), and sends an order with a stream; over the stream it
 * sends the request, in a frame, and gets the replies, in frames, as its client gets them. What SQL
 * can do with a process is bounded here: memory, time, temporary files. It has the store open for
 * reading only, and may open nothing else.
 */
#ifndef TS_QUERY_HELPER_H
#define TS_QUERY_HELPER_H

#include <limits.h>
#include <stdint.h>

#define QUERY_WATCHED 128 /* bytes */

/* Its one message, with the descriptor of the stream. All texts end. */
struct query_order {
	uint64_t now_ns;
	int64_t suspended_ns;
	uint64_t older_ns;
	uint32_t own, owner, unlooked; /* as in query.h */
	char boot_id[64];
	char watched[QUERY_WATCHED]; /* the only traced processes, "": all */
	char database[PATH_MAX];
};

/* For a role of daemon/helper/spawn.h. */
void query_helper_run(int socket);

#endif
