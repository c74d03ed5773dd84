/* answer.h: ops with the device's own times, made of its records. */
#ifndef TS_CORE_ANSWER_H
#define TS_CORE_ANSWER_H

#include <stdbool.h>

#include "proto/event.h"

struct core;
struct exact;
struct ticket;

/* Whether the record came before, not long ago; it counts as come now. */
bool answer_is_duplicate(struct exact *exact, const struct ts_event *event);
/* Of a call that is known: fills its op, or makes one of a part of it. `swept`: see below. */
void answer_take(struct core *core, struct exact *exact, struct ticket *ticket,
		 const struct ts_event *event, bool swept);
/* Of a call that is not known. */
void answer_stray(struct core *core, struct exact *exact, const struct ts_event *event, bool swept);
/* Tells the states of the stream before the call is known, where the stream is. */
bool answer_sweep_early(struct core *core, struct exact *exact, const struct ts_event *event);

#endif
