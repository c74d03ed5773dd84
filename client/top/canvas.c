/* Canvas: cells and how text becomes them. */
#include "client/top/canvas.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "core/base/utf8.h"

#define REPLACEMENT 0xfffd
#define CANVAS_MAX  2000 /* a side */
#define SPARK_FIRST 0x2581
#define SPARKS	    8

int canvas_size(struct canvas *canvas, int width, int height)
{
	struct canvas_cell *cell;

	width = width < 1 ? 1 : width > CANVAS_MAX ? CANVAS_MAX : width;
	height = height < 1 ? 1 : height > CANVAS_MAX ? CANVAS_MAX : height;
	cell = realloc(canvas->cell, (size_t)width * (size_t)height * sizeof(*cell));
	if (!cell)
		return -ENOMEM;
	*canvas = (struct canvas){ width, height, cell };
	for (int i = 0; i < width * height; i++)
		cell[i] = (struct canvas_cell){ ' ', CANVAS_PLAIN };
	return 0;
}

void canvas_done(struct canvas *canvas)
{
	free(canvas->cell);
	*canvas = (struct canvas){ 0 };
}

static void put(struct canvas *canvas, int row, int column, uint32_t code, uint8_t style)
{
	if (row >= 0 && row < canvas->height && column >= 0 && column < canvas->width)
		canvas->cell[row * canvas->width + column] = (struct canvas_cell){ code, style };
}

/* Others take two columns or none. wcwidth() knows what the locale has; without one, all but these
 * ranges is taken to be narrow. */
static bool is_narrow(uint32_t code)
{
	if (code < 0x300)
		return true;
	return wcwidth((wchar_t)code) == 1 || (code >= 0x2000 && code < 0x2600) ||
	       code == REPLACEMENT;
}

int canvas_text(struct canvas *canvas, int row, int column, int width, uint8_t style,
		const char *text)
{
	size_t size = strlen(text);
	int at = 0;

	while (size > 0 && at < width) {
		uint32_t code;
		size_t length = utf8_read(text, size, &code);

		if (utf8_is_control(code) || !is_narrow(code))
			code = REPLACEMENT;
		put(canvas, row, column + at++, code, style);
		text += length;
		size -= length;
	}
	return at;
}

static int columns_of(const char *text)
{
	int columns = 0;

	for (; *text; text++)
		columns += ((uint8_t)*text & 0xc0) != 0x80;
	return columns;
}

void canvas_right(struct canvas *canvas, int row, int column, int width, uint8_t style,
		  const char *text)
{
	int columns = columns_of(text);

	canvas_text(canvas, row, columns < width ? column + width - columns : column, width, style,
		    text);
}

void canvas_fill(struct canvas *canvas, int row, uint8_t style)
{
	for (int i = 0; i < canvas->width && row >= 0 && row < canvas->height; i++)
		canvas->cell[row * canvas->width + i].style = style;
}

void canvas_level(struct canvas *canvas, int row, int column, uint8_t style, double share)
{
	int level = (int)(share * (SPARKS - 1) + 0.5);

	put(canvas, row, column, SPARK_FIRST + (uint32_t)(level < SPARKS ? level : SPARKS - 1),
	    style);
}

void canvas_spark(struct canvas *canvas, int row, int column, int width, uint8_t style,
		  const double *value, int count)
{
	for (int i = 0; i < width; i++) {
		int from = count - width + i;

		if (from >= 0 && value[from] >= 0)
			canvas_level(canvas, row, column + i, style, value[from]);
	}
}
