/* prologue.h: where in a function's first instructions a jump can be placed. */
#ifndef TS_LIGHT_PROLOGUE_H
#define TS_LIGHT_PROLOGUE_H

#include <stddef.h>
#include <stdint.h>

#define PROLOGUE_JUMP 5	 /* bytes of a jump */
#define PROLOGUE_MAX  32 /* bytes that are looked at */

struct prologue {
	uint8_t start; /* of the jump: at the instruction behind the one that probes use */
	uint8_t moved; /* bytes of whole instructions from there on, at least PROLOGUE_JUMP */
	uint8_t words; /* that are on the stack by then, above them the return address */
};

/* -ENOTSUP: no jump can be placed there safely. */
int prologue_read(const uint8_t *code, size_t size, struct prologue *ret);

#endif
