/* memory_map.h: which addresses were taken when, as SVG: time from left to right, addresses
 * upwards, a rectangle for each block in the colour of the stack that made it.
 *
 * Ops come in any order. What is kept and what is drawn is bounded; the rest is counted, and said.
 */
#ifndef TS_CLIENT_REPORT_MEMORY_MAP_H
#define TS_CLIENT_REPORT_MEMORY_MAP_H

#include "client/report/picture.h"

struct memory_map_change {
	uint64_t at_ns, address, bytes, stack_id;
	uint32_t process;
	int16_t device;
	uint16_t fn;
	uint8_t kind; /* enum memory_kind */
	bool freed, failed;
};

struct memory_map {
	struct picture picture; /* its time, metadata and style */
	struct memory_map_change *change;
	size_t count, room;
	uint64_t left_out;
};

/* What was allocated and freed; the error is printed. */
int memory_map_ops(struct memory_map *map, const struct op *op, size_t count);
/* With what the metadata says is live at the end. As picture_lanes(). */
int memory_map_draw(struct memory_map *map, FILE *out);
void memory_map_done(struct memory_map *map);

#endif
