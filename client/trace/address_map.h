/* address_map.h: which addresses were taken when, ready to be drawn: blocks, each from its
 * allocation to its free, on bands of addresses without a gap, for each process and device.
 *
 * Blocks of a framework's allocator are told from the driver's memory around them. Changes come in
 * any order. What is kept is bounded, the rest is counted. */
#ifndef TS_CLIENT_ADDRESS_MAP_H
#define TS_CLIENT_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_PANELS_MAX 4  /* processes and devices: those that held most, for longest */
#define ADDRESS_STACKS_MAX 64 /* of a panel: those that held most, for longest */

struct address_change {
	uint64_t at_ns, address, bytes, stack_id;
	uint32_t process;
	int16_t device;
	uint16_t fn;
	uint8_t kind; /* enum memory_kind */
	bool freed, failed;
};

struct address_block {
	const struct address_change *made; /* or freed, if that is all that is known */
	uint64_t from_ns, to_ns;
};

/* Addresses without a gap between them. */
struct address_band {
	uint64_t address, bytes;
	double below; /* bytes of the bands below */
};

/* One process on one device. */
struct address_panel {
	const struct address_change *change;
	size_t changes;
	struct address_block *block; /* those that held most, for longest, first */
	size_t blocks;
	struct address_band *band; /* upwards */
	size_t bands;
	double bytes; /* of all bands */
	bool tensors; /* it has blocks of a framework's allocator */
	uint64_t stack[ADDRESS_STACKS_MAX];
	size_t stacks;
};

struct address_map {
	uint64_t from_ns, to_ns;
	struct address_change *change;
	size_t count, room;
	uint64_t left_out;
	struct address_panel panel[ADDRESS_PANELS_MAX];
	size_t panels;
};

/* Whether memory of this kind has addresses of its own on a device. */
bool address_map_has(uint8_t kind);
/* -ENOMEM. */
int address_map_add(struct address_map *map, const struct address_change *change);
/* After the last change: makes the panels. -ENOMEM. */
int address_map_arrange(struct address_map *map);
void address_map_done(struct address_map *map);

/* Of a block that is drawn filled, and not as what other blocks lie in. */
bool address_map_is_filled(const struct address_panel *panel, const struct address_block *block);
/* The number of the band that has the address. */
size_t address_map_band(const struct address_panel *panel, uint64_t address);

#endif
