/* show.h: prints a comparison: one table per section, or all rows in one as JSON or CSV. */
#ifndef TS_CLIENT_DIFF_SHOW_H
#define TS_CLIENT_DIFF_SHOW_H

#include "client/base/options.h"
#include "client/diff/diff.h"

/* The recordings of a side. */
struct diff_paths {
	char **path;
	int count;
};

/* At most options->limit rows per section; 0: all (in text, a screenful). */
int diff_show(const struct options *options, const struct diff *diff,
	      const struct diff_paths side[2]);

#endif
