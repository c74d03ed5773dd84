/* ranks.h: the processes of a job that have operations in a window, their hosts' clocks, and which
 * of their collectives belong together. */
#ifndef TS_CLIENT_FLEET_RANKS_H
#define TS_CLIENT_FLEET_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "client/fleet/align.h"
#include "client/fleet/asked.h"
#include "client/fleet/server.h"
#include "client/fleet/timeline.h"
#include "core/base/arena.h"

/* Of one stream. */
struct rank_stream {
	int64_t stream;
	uint64_t first;			/* of the reference: the number of its first collective */
	struct align_sequence sequence; /* on the timeline */
};

struct rank {
	const char *host, *boot, *comm;
	int64_t process;
	uint32_t pid;
	int32_t rank;		/* -1: unknown */
	size_t clock;		/* of its host */
	int64_t from_ns, to_ns; /* the window, on its own clock */
	struct rank_stream *stream;
	size_t streams, room;
};

/* The collectives of a stream are those of one of the reference, i being its i - shift. */
struct rank_tie {
	size_t rank, stream, of;
	int64_t shift;
};

struct ranks {
	struct rank *rank;
	size_t count, room;
	struct timeline_clock *clock;
	size_t clocks, clock_room;
	struct rank_tie *tie;
	size_t ties, tie_room;
	size_t reference;     /* a rank */
	uint64_t collectives; /* of the reference, that others are tied to */
	struct arena arena;
};

/* Fills for a statement about the window of one process. */
#define RANKS_FILLS_MAX (ASKED_FILLS_MAX + 8)
struct ranks_fills {
	char process[ASKED_NUMBER_BYTES], from[ASKED_NUMBER_BYTES], to[ASKED_NUMBER_BYTES];
	struct fill fill[RANKS_FILLS_MAX];
};
void ranks_fills(const struct rank *rank, const struct asked *asked, struct ranks_fills *ret);

/* -ENODATA and others: it is printed. Free it in any case. */
int ranks_load(struct ranks *ranks, struct server *server, const struct asked *asked);
void ranks_done(struct ranks *ranks);
/* -ENODATA: says that nobody has sent operations of the window. */
int ranks_explain_none(void);
/* SIZE_MAX: none of them. */
size_t ranks_find(const struct ranks *ranks, const char *host, const char *boot, int64_t process);

#endif
