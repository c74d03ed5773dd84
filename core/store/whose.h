/* whose.h: which user answers for a process, by its id; for a while after its end too, since rows
 * about it are still to come. */
#ifndef TS_WHOSE_H
#define TS_WHOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"

#define WHOSE_ENDED 1024

struct whose_process {
	uint32_t process, user;
};

/* Zeroed: no process is known. */
struct whose {
	struct map running; /* the user and 1, by the id of a process */
	struct whose_process last;
	struct whose_process ended[WHOSE_ENDED]; /* by its id; a later one takes the place */
};

/* `ended`: nothing but late rows comes from it. Without memory it is nobody's. */
void whose_tell(struct whose *whose, uint32_t process, uint32_t user, bool ended);
/* 0 of one that is not known. */
uint32_t whose_of(struct whose *whose, uint32_t process);
void whose_clear(struct whose *whose);

#endif
