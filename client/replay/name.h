/* name.h: the names of a replay's ops, escaped once for output. */
#ifndef TS_CLIENT_REPLAY_NAME_H
#define TS_CLIENT_REPLAY_NAME_H

#include <regex.h>
#include <stdbool.h>

#include "client/trace/meta.h"
#include "core/replay/replay.h"

struct replay_name {
	char *text; /* NULL: not written yet */
	uint32_t size;
	bool wanted; /* it matches */
};

struct replay_names {
	const struct meta *meta;
	const regex_t *wanted; /* NULL: all */
	bool json;	       /* quoted; else as a terminal may show it */
	struct replay_name none, copy[COPY_KIND_MAX + 1];
	struct replay_name *text; /* by number */
	uint32_t room;
};

/* NULL: no memory. */
const struct replay_name *replay_name_of(struct replay_names *names, const struct replay_op *op);
void replay_names_clear(struct replay_names *names);

#endif
