/* answer.h: ops with the device's own times, made from its records. */
#ifndef TS_CORE_ANSWER_H
#define TS_CORE_ANSWER_H

#include <stdbool.h>

#include "proto/event.h"

struct core;
struct exact;
struct ticket;

/* Whether the same record came before, recently; it is remembered from now on. */
bool answer_is_duplicate(struct exact *exact, const struct ts_event *event);
/* For a known call: fills its op, or makes an op for a part of it. `swept`: see below. */
void answer_ticket(struct core *core, struct exact *exact, struct ticket *ticket,
		   const struct ts_event *event, bool swept);
/* For an unknown call. */
void answer_stray(struct core *core, struct exact *exact, const struct ts_event *event, bool swept);
/* Reports states of the stream before the call is known, if the stream is known. */
bool answer_sweep_early(struct core *core, struct exact *exact, const struct ts_event *event);

#endif
