/* walk_variables.h: what a thread has of a library that stands for PyTorch's. */
#ifndef TS_WALK_VARIABLES_H
#define TS_WALK_VARIABLES_H

#include <stdint.h>

#define WALK_VARIABLES "walk_variables"

struct walk_variables {
	uint64_t before[3];
	uint64_t next;	 /* number of the next node */
	uint64_t node;	 /* that is run */
	uint64_t thread; /* its number */
};

struct walk_variables *walk_variables(void);

#endif
