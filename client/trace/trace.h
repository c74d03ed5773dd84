/* trace.h: the ops of a window, from the daemon or an .sbt file, with what they refer to. Errors
 * are printed. */
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
	bool lent; /* the link is not ours */
	struct meta *meta;
	struct sbt_codec *codec;
	struct op *op;	   /* SBT_OPS_MAX */
	uint32_t pid;	   /* 0: all */
	uint64_t begin_ns; /* of the recording, origin of --from and --to */
	uint64_t since_ns, until_ns;
	uint64_t end_ns;   /* until_ns, or earlier if the recording has nothing later */
	uint64_t first_ns; /* of the first chunk */
	uint64_t op_count;
	uint64_t chunk_count; /* read in all passes */
	/* Whether to read a chunk; NULL: all of them. */
	bool (*want)(const void *data, const struct sbt_info *info);
	const void *want_data;
};

/* Connects (to options->file, if given), and loads the metadata of the window, which --since and
 * --until, and --from and --to determine. */
int trace_open(const struct options *options, struct trace *ret);
/* The same on a link that stays the caller's. */
int trace_open_on(struct link *link, const struct options *options, struct trace *ret);
void trace_done(struct trace *trace);

/* Ops of one process, stream and kind, only those of the window. Chunks come in order of first_ns,
 * and `done_ns` is the chunk's: all later ops start at or after it. Ops of different chunks overlap
 * in time. A negative errno ends the reading, and is returned. */
typedef int trace_fn(void *data, struct op *op, size_t count, uint64_t done_ns);
/* `ret_done`: the end of the answer with its losses, to be freed with reply_free(); may be NULL. */
int trace_read(struct trace *trace, trace_fn *call, void *data, Tracesmith__V1__Reply **ret_end);

#endif
