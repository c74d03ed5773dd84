/* picture.h: what the streams did and what memory was live, over the time of a report, as SVG.
 *
 * Ops come in any order. It grows with streams and devices, up to a bound each, never with ops. */
#ifndef TS_CLIENT_REPORT_PICTURE_H
#define TS_CLIENT_REPORT_PICTURE_H

#include <stdint.h>
#include <stdio.h>

#include "client/trace/trace.h"

#define PICTURE_COLUMNS 900
#define PICTURE_LEFT	280 /* of the columns: for names */
#define PICTURE_AXIS	26  /* height of the times below them */

struct picture_lane;
struct picture_curve;

struct picture {
	const struct meta *meta;
	const char *style; /* of a picture that stands alone; NULL: its page has it */
	uint64_t from_ns, to_ns;
	struct map lane, curve; /* by process and stream; by process and device */
	struct picture_lane *first_lane;
	struct picture_curve *first_curve;
	uint32_t lanes, curves;
	uint64_t left_out; /* ops of streams and devices beyond the bounds */
};

void picture_init(struct picture *picture, const struct meta *meta, uint64_t from_ns,
		  uint64_t to_ns);
/* For all of a trace: a recording starts at its first operation, a window at --since. */
void picture_init_trace(struct picture *picture, const struct trace *trace, bool recording);
int picture_op(struct picture *picture, const struct op *op);
/* Several of them; the error is printed. */
int picture_ops(struct picture *picture, const struct op *op, size_t count);
/* An <svg> element each. 0: there is nothing to draw, and nothing is written; 1: it is. */
int picture_lanes(const struct picture *picture, FILE *out);
int picture_memory(const struct picture *picture, FILE *out);
void picture_done(struct picture *picture);

/* Of any picture over this time: where a time is, what it starts with, times below it, and where
 * something was not seen. The first letters of titles on one page differ. */
double picture_column(const struct picture *picture, uint64_t ns);
void picture_write_begin(const struct picture *picture, FILE *out, const char *title,
			 double height);
/* Cut to what fits into PICTURE_LEFT. */
void picture_write_label(FILE *out, double x, double y, const char *text);
void picture_write_axis(const struct picture *picture, FILE *out, double y);
void picture_write_losses(const struct picture *picture, FILE *out, const char *title,
			  double height);

#endif
