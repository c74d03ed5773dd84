/* show.h: a comparison on standard output: a table for each section, or as JSON or CSV all
 * rows in one. */
#ifndef TS_CLIENT_DIFF_SHOW_H
#define TS_CLIENT_DIFF_SHOW_H

#include "client/base/options.h"
#include "client/diff/diff.h"

/* The recordings of a side. */
struct diff_paths {
	char **path;
	int count;
};

/* options->limit rows of a section at most, 0: all (of text: a screenful). */
int diff_show(const struct options *options, const struct diff *diff,
	      const struct diff_paths side[2]);

#endif
