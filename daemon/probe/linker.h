/* linker.h: threads of their own for those who ask the broker for links. The kernel takes as long
 * for a link as the processes that it is for let it; nobody else is to wait with them, as whoever
 * has work for the loop's pool.
 */
#ifndef TS_LINKER_H
#define TS_LINKER_H

#include <uv.h>

#include "core/base/list.h"

struct linker;

/* The owner's until `done`. */
struct linking {
	struct list link;
	void (*run)(struct linking *linking);  /* on one of its threads */
	void (*done)(struct linking *linking); /* on the loop */
};

int linker_new(uv_loop_t *loop, struct linker **ret);
/* On the loop; while work is under way the loop does not end. -ECANCELED: it is closed; what came
 * before that is done all the same. */
int linker_add(struct linker *linker, struct linking *linking, void (*run)(struct linking *linking),
	       void (*done)(struct linking *linking));
void linker_close(struct linker *linker);
/* When the loop has ended. */
struct linker *linker_free(struct linker *linker);

#endif
