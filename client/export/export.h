/* export.h: converts a trace to another program's format. Metadata and ops go in, bytes come out.
 *
 * The memory of a format grows with the processes, threads and stacks of the trace, never with its
 * ops. A format is a file <name>.c and a row of EXPORT_FORMATS in options.h. */
#ifndef TS_CLIENT_EXPORT_H
#define TS_CLIENT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/output/out.h"
#include "client/trace/show.h"
#include "core/model/op.h"

struct exporter;

#define EXPORT_NOTE_BYTES 128

struct export_format {
	int (*begin)(const struct meta *meta, const struct out_sink *sink, struct exporter **ret);
	/* Ops may come in any order; the metadata has the process of each. The closer they are to
	 * order of time, the less is held. */
	int (*ops)(struct exporter *exporter, const struct op *op, size_t count);
	int (*end)(struct exporter *exporter);
	/* After the end: a note for the reader of the file, or "". NULL: no note. */
	void (*note)(const struct exporter *exporter, char note[EXPORT_NOTE_BYTES]);
	void (*free)(struct exporter *exporter);
	bool exact; /* shows only ops with exact times */
};

/* Those of options.h, and CSV, which is also an output form of tables. */
#define EXPORTS(X) EXPORT_FORMATS(X) X(CSV, "csv", 0, NULL, "comma-separated values", csv)

#define X(id, name, letter, argument, text, symbol)                                                \
	extern const struct export_format export_##symbol;
EXPORTS(X)
#undef X

/* Ops in the order in which their slices start, outer before inner. Zeroed is empty. */
struct export_order {
	const struct op **op;
	size_t room;
};
const struct op **export_sort(struct export_order *order, const struct op *op, size_t count);
void export_order_clear(struct export_order *order);

/* 1: this thing is named for the first time; 0: it was named before; or -ENOMEM. */
int export_first(struct map *seen, uint64_t what, uint64_t id);

#endif
