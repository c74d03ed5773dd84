/* memory_map.h: which addresses were taken when, as SVG: time from left to right, addresses
 * upwards, a rectangle for each block in the colour of the stack that made it.
 *
 * Ops come in any order. What is kept and what is drawn is bounded; the rest is counted, and said.
 */
#ifndef TS_CLIENT_REPORT_MEMORY_MAP_H
#define TS_CLIENT_REPORT_MEMORY_MAP_H

#include "client/report/picture.h"
#include "client/trace/address_map.h"

/* What was allocated and freed; the error is printed. */
int memory_map_ops(struct address_map *map, const struct op *op, size_t count);
/* Draws the time of the picture: what its metadata says is live at the end, and a limited number of
 * blocks for each process and device. As picture_lanes(). */
int memory_map_draw(const struct picture *picture, struct address_map *map, size_t blocks_max,
		    FILE *out);

#endif
