/* gaps.h: what was not seen of processes that the model does not know yet, until it does. */
#ifndef TS_GAPS_H
#define TS_GAPS_H

#include <stdbool.h>
#include <stdint.h>

#define GAPS_MAX 256

struct gap {
	uint32_t pid;	/* 0: none */
	uint8_t reason; /* enum loss_reason */
	uint8_t count;	/* 0: it has got longer */
	bool doubt;	/* counts only if the process had used the driver by then */
	uint64_t start_ns, end_ns;
};

struct gaps {
	struct gap gap[GAPS_MAX];
	uint32_t replaced;
};

/* In the place of the oldest where there is none free. Mappings that cannot be looked at are one of
 * a process, however often that is tried: it may never be known. */
void gaps_keep(struct gaps *gaps, const struct gap *gap);

#endif
