/* canvas.h: a screen of cells, to be drawn on and then shown. Pure. Nothing is drawn outside. */
#ifndef TS_TOP_CANVAS_H
#define TS_TOP_CANVAS_H

#include <stdint.h>

enum canvas_style { /* bits */
		    CANVAS_PLAIN = 0,
		    CANVAS_BOLD = 1,
		    CANVAS_REVERSE = 2,
		    CANVAS_DIM = 4,
		    CANVAS_GOOD = 8, /* colours, where there are any */
		    CANVAS_WARN = 16,
		    CANVAS_BAD = 32,
};

struct canvas_cell {
	uint32_t code; /* one column wide */
	uint8_t style;
};

struct canvas {
	int width, height;
	struct canvas_cell *cell; /* rows one after the other */
};

/* Blank, of this size. -ENOMEM */
int canvas_size(struct canvas *canvas, int width, int height);
void canvas_done(struct canvas *canvas);
/* At most `width` columns of the text; returns how many. What steers a terminal, or takes other
 * than one column, is shown as U+FFFD. */
int canvas_text(struct canvas *canvas, int row, int column, int width, uint8_t style,
		const char *text);
/* The same at the right end of the width. */
void canvas_right(struct canvas *canvas, int row, int column, int width, uint8_t style,
		  const char *text);
void canvas_fill(struct canvas *canvas, int row, uint8_t style);
/* A share from 0 to 1, as a bar in one cell. */
void canvas_level(struct canvas *canvas, int row, int column, uint8_t style, double share);
/* Shares from 0 to 1, the latest at the right; negative: nothing. */
void canvas_spark(struct canvas *canvas, int row, int column, int width, uint8_t style,
		  const double *value, int count);

#endif
