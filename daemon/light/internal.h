/* internal.h: shared by the files of light mode. plan.c finds out what is to be changed where,
 * lead.c changes it while the process is stopped. */
#ifndef TS_LIGHT_INTERNAL_H
#define TS_LIGHT_INTERNAL_H

#include "daemon/light/detour.h"
#include "daemon/light/light.h"

#define LIGHT_RANGES_MAX 8

struct light_range {
	uint64_t start, end, offset;
};

/* A function that leads, or is to lead, to its place in the region. */
struct light_site {
	uint64_t jump, detour; /* to there */
	uint64_t word;	       /* eight bytes with the jump, and with no place of a probe */
	struct prologue prologue;
	uint8_t code[PROLOGUE_MAX]; /* that is moved, as in the file */
	uint8_t to[PROLOGUE_JUMP];  /* the jump */
};

struct light_plan {
	pid_t pid, tid; /* the latter is stopped while something is written */
	int mem;	/* of the program that is meant: fails after an exec */
	uint64_t region;
	struct light_range range[LIGHT_RANGES_MAX]; /* the driver's code */
	size_t ranges;
	struct light_site site[TS_LIGHT_SITES];
	size_t sites;
	uint8_t *content; /* of the region, TS_LIGHT_BYTES */
};

int light_plan_make(const struct light_request *request, struct light_plan *ret,
		    struct remarks *why);
void light_plan_release(struct light_plan *plan);

#endif
