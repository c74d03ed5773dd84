/* work.h: what a stream has to do. */
#ifndef TS_STACK_WORK_H
#define TS_STACK_WORK_H

#include <stdbool.h>
#include <stdint.h>

/* A stream with work that is not known to be finished, see core/model/open.h. */
struct stack_work {
	const char *call; /* lives as long as the program; NULL: unknown */
	uint64_t start_ns, stream;
	uint32_t count;
	int16_t device;
	bool waits;
};

#endif
