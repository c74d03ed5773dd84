/* broker.h: the process that may do what the daemon may not.
 *
 * It has the capabilities that BPF and perf need, and one way to be asked (request.h). It loads our
 * own programs, puts them on functions of the library table in files that are copies of those
 * libraries, and hands descriptors back: maps, links, perf events. What it is sent it does not
 * believe. It holds no link that it has handed over: a link ends when the daemon closes it or
 * ends. The broker ends with the daemon; the daemon cannot go on without it.
 */
#ifndef TS_BROKER_H
#define TS_BROKER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "daemon/broker/request.h"
#include "daemon/library/returns.h"

struct broker;

struct broker_config {
	uint64_t calibrated; /* offset in our own program of what CALIBRATE puts a probe on */
	struct returns returns;
	/* In the broker: whether the settings name that file, whose name is no library's. May be
	 * NULL. */
	bool (*wanted)(void *data, const char *path, const struct stat *file);
	void *data;
};

/* Before any thread. */
int broker_start(const struct broker_config *config, struct broker **ret);
/* The end of this socket is the broker's. */
int broker_life(const struct broker *broker);
struct broker *broker_free(struct broker *broker);
CLEANUP_DEFINE(struct broker, broker_free)

/* Requests for links at a time: they may wait long for the kernel, and hold up only one another. */
#define BROKER_LINKERS 4
#define BROKER_OTHERS  2 /* and all other requests */

/* On any thread but the loop's, which may ask only while nothing runs yet. -EPIPE: it has ended;
 * -EPERM: it refuses. */

struct broker_links {
	size_t count;
	uint32_t failed; /* sites */
	int *fd;	 /* in the order in which they were made; the caller's */
};

/* Once. The maps are the caller's. */
int broker_load(struct broker *broker, enum probe_way way, uint64_t ring_bytes,
		struct broker_programs *ret, int ret_map[BROKER_MAPS]);
/* Of the sites those of the group; `pid` 0: in all processes. -ESTALE: the file has lost its name,
 * with the container that it was bound into, before the broker saw it. */
int broker_link(struct broker *broker, int file, const struct broker_request *request,
		const struct broker_site *site, struct broker_links *ret);
/* Each of these: a descriptor. */
int broker_calibrate(struct broker *broker, uint32_t pid);
int broker_stub(struct broker *broker, int file, uint64_t offset, uint32_t pid);
/* `place`: in codes_freed. */
int broker_freed(struct broker *broker, int file, uint64_t offset, uint32_t pid, uint32_t place);
int broker_mapped(struct broker *broker, uint32_t cpu);
/* The iterator's link and the map of who wants what. */
int broker_look(struct broker *broker, int ret[2]);
/* The same of who holds the lock of his memory. */
int broker_held(struct broker *broker, int ret[2]);
/* The iterator of who can have changed his code, its map, and the iterator of who has. */
int broker_hooked(struct broker *broker, int ret[3]);
/* A channel for a helper, which may wait for a process without end, and its broker's thread with
 * it. -EBUSY: there are too many. */
int broker_sampler(struct broker *broker);
/* By such a channel, which one thread has. A descriptor. */
int broker_sample(int sampler, uint32_t tid);

/* Of the broker's own process; for broker_start(). */
struct broker_ends {
	int life;
	int *channel;
	uint32_t channels;
};
_Noreturn void broker_run(const struct broker_config *config, const struct broker_ends *ends);

#endif
