/* view.h: shows the ops of a trace to people as a list, a tree, or lanes. Errors are printed. */
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
	size_t width; /* of the terminal, or the default for lanes */
	bool color, utf8;
	bool by_name; /* number of matches of `name` */
	regex_t name;
	struct map matches; /* by number of a text: whether it matches */
	/* Restricts the ops to a part of the tree, if set. */
	const struct view_part *part;
};

struct view_part {
	uint32_t process, stream, tid; /* tid: for ops without a stream */
};

/* Takes the next op in order of time. A negative errno ends it. */
typedef int view_fn(void *data, const struct op *op);
/* Passes on the ops that the options select. `ret_end`: as in trace_read(). */
int view_read(struct view *view, view_fn *call, void *data, Tracesmith__V1__Reply **ret_end);

/* Each returns 0 or a negative errno. */
int view_list(struct view *view);
int view_tree(struct view *view);
int view_lanes(struct view *view);

/* The name of an op: what ran, or the function that was called. */
const struct meta_text *view_name(const struct meta *meta, const struct op *op);
/* Its size: grid or bytes; "" if it has none. */
#define VIEW_SIZE_BYTES 96
void view_size(const struct op *op, char text[VIEW_SIZE_BYTES]);
/* Further details, separated by commas. */
#define VIEW_MARKS_BYTES 160
void view_marks(const struct op *op, char text[VIEW_MARKS_BYTES]);
/* Seconds since the start of the recording. */
#define VIEW_TIME_BYTES 32
void view_time(const struct view *view, uint64_t time_ns, char text[VIEW_TIME_BYTES]);
/* In a field of this many columns, right-aligned, or left-aligned if negative. */
void view_field(FILE *out, int width, const char *text);
/* Maximum rows of a list, or of a part of the tree. */
uint64_t view_limit(const struct view *view);
/* Prints the time that 0 stands for. */
void view_begin(const struct view *view);

#endif
