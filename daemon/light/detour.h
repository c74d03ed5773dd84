/* detour.h: the code of a site: what a function that leads into the region runs there. */
#ifndef TS_LIGHT_DETOUR_H
#define TS_LIGHT_DETOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/light/prologue.h"
#include "proto/light.h"

/* Where things are in the process. */
struct detour {
	uint64_t jump; /* of the function, where its jump stands */
	uint64_t code; /* of the site */
	uint64_t call; /* its struct ts_light_call */
	uint64_t hook; /* where the address of the hook is */
};

/* `moved` are the function's own instructions. -ERANGE: too far from each other. */
int detour_write(const struct detour *detour, const struct prologue *prologue, const uint8_t *moved,
		 uint8_t ret[TS_LIGHT_CODE]);
/* Where in the code of a site the function's own instructions are. */
uint64_t detour_moved(void);
/* A jump at address `from`. -ERANGE. */
int detour_jump(uint64_t from, uint64_t to, uint8_t ret[PROLOGUE_JUMP]);
/* Where the jump that stands at `from` leads; 0: none does. */
uint64_t detour_target(uint64_t from, const uint8_t code[PROLOGUE_JUMP]);

#endif
