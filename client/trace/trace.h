/* trace.h: the ops of a window, from the daemon or from an .sbt file, with what they refer to.
 * What goes wrong is said on stderr. */
#ifndef TS_CLIENT_TRACE_H
#define TS_CLIENT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/link/link.h"
#include "client/trace/meta.h"
#include "core/model/op.h"
#include "core/sbt/sbt.h"

struct trace {
	struct link *link;
	struct meta *meta;
	struct sbt_codec *codec;
	struct op *op;	   /* SBT_OPS_MAX */
	uint32_t pid;	   /* 0: all */
	uint64_t begin_ns; /* of the recording, from which --from and --to count */
	uint64_t since_ns, until_ns;
	uint64_t end_ns;   /* until_ns, or earlier where a recording has nothing after that */
	uint64_t first_ns; /* of the first chunk that came */
	uint64_t op_count;
	uint64_t chunk_count; /* read, of all passes */
	/* Chunks of which it says no are not read; NULL: all are. */
	bool (*want)(const void *data, const struct sbt_info *info);
	const void *want_data;
};

/* Connects (to options->file, where that is given), and loads the metadata of the window, which is
 * what --since and --until, and --from and --to leave of all that is there. */
int trace_open(const struct options *options, struct trace *ret);
void trace_done(struct trace *trace);

/* Some ops of one process, stream and kind, those of the window only; chunk by chunk in order of
 * first_ns, which is the smallest start time of what is still to come; ops of different chunks
 * overlap in time. `done_ns` is that of the chunk. A negative errno ends it, and is returned. */
typedef int trace_fn(void *data, struct op *op, size_t count, uint64_t done_ns);
/* `ret_done`: the end of the answer with its losses, to be freed with reply_free(); may be NULL. */
int trace_read(struct trace *trace, trace_fn *call, void *data, Tracesmith__V1__Reply **ret_end);

#endif
