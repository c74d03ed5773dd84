/* site.h: where in a driver library a function can be probed, and what a hit costs there. */
#ifndef TS_SITE_H
#define TS_SITE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/library/library.h"

/* How the kernel handles the instruction under the probe. Figures: docs/measurements.md. */
enum site_cost {
	SITE_NOP,	  /* a nop, but of those that are passed */
	SITE_EMULATED,	  /* push, jump or call: emulated in the trap */
	SITE_SINGLE_STEP, /* anything else: executed out of line, ten times as slow */
};

struct site {
	const struct library_function *function;
	uint64_t offset;	/* in the file */
	uint8_t passed;		/* bytes of the function before it */
	uint8_t size;		/* of the instruction there, as far as it is known; at least 1 */
	uint64_t semaphore;	/* of a note, likewise: counts who looks; 0: none */
	struct probe_note note; /* where the arguments are there */
	uint16_t event_flags;
	uint8_t cost; /* enum site_cost */
};

/* Finds the functions of `row` among the dynamic symbols of the ELF file behind `fd`, and those
 * with PROBE_NOTE among its notes, PROBE_NOTES_MAX places at most; sorted by offset; the caller
 * frees *ret. Functions that the library does not have are left out. -EBADMSG: not an ELF file, or
 * a broken one. */
int site_find(int fd, const struct library_row *row, struct site **ret, size_t *ret_count);

/* For the instruction at `code`. `skip` gets the size of what is passed before it: an
 * endbr64, a nop of five bytes. */
enum site_cost site_cost(const uint8_t *code, size_t size, uint64_t *skip);
/* Its size, or 1 if that is not known. */
uint8_t site_instruction(const uint8_t *code, size_t size);

#endif
