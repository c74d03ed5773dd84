/* view.h: the ops of a trace for a person to read: as a list, a tree, or lanes.
 * What goes wrong is said on stderr. */
#ifndef TS_CLIENT_VIEW_H
#define TS_CLIENT_VIEW_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/trace/show.h"
#include "client/trace/trace.h"

struct view {
	const struct options *options;
	struct trace trace;
	FILE *out;
	size_t width; /* of the terminal, or what lanes take for it */
	bool color, utf8;
	bool by_name; /* of such that match `name` */
	regex_t name;
	struct map matches; /* by number of a text: whether it does */
	/* Only what is of these, where it is said; a part of the tree. */
	const struct view_part *part;
};

struct view_part {
	uint32_t process, stream, tid; /* tid: of what is on no stream */
};

/* Takes the next op in order of time. A negative errno ends it. */
typedef int view_fn(void *data, const struct op *op);
/* Gives the ops that the options ask for. `ret_end`: as of trace_read(). */
int view_read(struct view *view, view_fn *call, void *data, Tracesmith__V1__Reply **ret_end);

/* Each returns 0 or a negative errno. */
int view_list(struct view *view);
int view_tree(struct view *view);
int view_lanes(struct view *view);

/* What an op is called: what ran, or the function that was called. */
const struct meta_text *view_name(const struct meta *meta, const struct op *op);
/* Its size: the grid, bytes. "": it has none. */
#define VIEW_SIZE_BYTES 96
void view_size(const struct op *op, char text[VIEW_SIZE_BYTES]);
/* What else to know, separated by commas. */
#define VIEW_MARKS_BYTES 160
void view_marks(const struct op *op, char text[VIEW_MARKS_BYTES]);
/* Seconds since the begin of the recording. */
#define VIEW_TIME_BYTES 32
void view_time(const struct view *view, uint64_t time_ns, char text[VIEW_TIME_BYTES]);
/* In a field of so many columns: to the right, or below 0 to the left. */
void view_field(FILE *out, int width, const char *text);
/* Rows of a list, or of a part of the tree. */
uint64_t view_limit(const struct view *view);
/* Where 0 is. */
void view_begin(const struct view *view);

#endif
