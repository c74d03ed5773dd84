/* export.h: converts a trace to another program's format. Metadata and ops go in, bytes come out.
 *
 * The memory of a format grows with the processes, threads and stacks of the trace, never with its
 * ops. A format is a file <name>.c and a row of EXPORT_FORMATS in options.h. */
#ifndef TS_CLIENT_EXPORT_H
#define TS_CLIENT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/options.h"
#include "client/output/out.h"
#include "client/trace/show.h"
#include "core/base/cleanup.h"
#include "core/model/op.h"

#define EXPORT_NOTE_BYTES 128

struct exporter; /* of a format, which defines it */

struct export_format {
	size_t exporter_bytes;
	/* Into a zeroed exporter; it does not own `out`. */
	int (*begin)(struct exporter *exporter, const struct meta *meta, struct out *out);
	int (*op)(struct exporter *exporter, const struct op *op);
	/* After the ops. NULL: losses are not shown */
	int (*loss)(struct exporter *exporter, const struct meta_loss *loss);
	int (*end)(struct exporter *exporter); /* NULL: nothing comes last */
	/* After the end: a note for the reader of the file, or "". NULL: no note. */
	void (*note)(const struct exporter *exporter, char note[EXPORT_NOTE_BYTES]);
	void (*clear)(struct exporter *exporter); /* NULL: there is nothing to free */
	bool sorted;	  /* ops of one call come as their slices start, outer before inner */
	bool gzipped;	  /* the output is compressed */
	bool exact;	  /* shows only ops with exact times */
	bool allocations; /* shows only those, and what is live at the end: meta.held */
};

/* Those of options.h, and CSV, which is also an output form of tables. */
#define EXPORTS(X) EXPORT_FORMATS(X) X(CSV, "csv", 0, NULL, "comma-separated values", csv)

#define X(id, name, letter, argument, text, symbol)                                                \
	extern const struct export_format export_##symbol;
EXPORTS(X)
#undef X
extern const struct export_format export_csv_spreadsheet; /* the same without formulas */

struct export_run;

/* `format`, `meta` and what is behind `sink` live longer. */
int export_new(const struct export_format *format, const struct meta *meta,
	       const struct out_sink *sink, struct export_run **ret);
/* Ops may come in any order; the metadata has the process of each. The closer they are to order of
 * time, the less is held. */
int export_ops(struct export_run *export, const struct op *op, size_t count);
int export_end(struct export_run *export);
void export_note(const struct export_run *export, char note[EXPORT_NOTE_BYTES]);
struct export_run *export_free(struct export_run *export);

CLEANUP_DEFINE(struct export_run, export_free)

/* Where a format shows the parts of an op. */
struct export_slices {
	int (*call)(struct exporter *exporter, const struct op *op);
	int (*work)(struct exporter *exporter, const struct op *op);
	int (*memory)(struct exporter *exporter, const struct op *op);
	int (*range)(struct exporter *exporter, const struct op *op);
	int (*state)(struct exporter *exporter, const struct op *op);
};
int export_slices(const struct export_slices *slices, struct exporter *exporter,
		  const struct op *op);

/* 1: this thing is named for the first time; 0: it was named before; or -ENOMEM. */
int export_first(struct map *seen, uint64_t what, uint64_t id);

#endif
