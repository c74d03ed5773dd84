/* live.h: what devices and processes do now, for those who watch: what the model reports, added up
 * until somebody takes it, about once a second. One for all viewers; it holds nothing while there
 * are none. Pure: time comes as an argument.
 */
#ifndef TS_DAEMON_LIVE_H
#define TS_DAEMON_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/model/core.h"
#include "proto/control.pb-c.h"

struct live;

/* NULL: no memory. */
struct live *live_new(void);
struct live *live_free(struct live *live);

/* Somebody watches from now on: what holds now comes next, as rows of core_look(). */
void live_start(struct live *live, uint64_t now_ns);
/* Nobody does. */
void live_stop(struct live *live);
bool live_is_on(const struct live *live);

/* What the model reports. */
core_row_fn live_row; /* of a live */
void live_op(struct live *live, const struct op *op);

/* Before each message: what a device does for a process, what a stream does that is not idle, and
 * what watching a process costs it. */
void live_doing(struct live *live, const struct core_doing *doing, uint64_t now_ns);
void live_stream(struct live *live, const struct core_doing *doing);
struct live_price {
	int32_t cost_ppm;
	uint32_t budget_ppm; /* 0: none */
	uint32_t watched_ppm;
};
void live_price(struct live *live, uint32_t id, const struct live_price *price);

/* A process whose container is not known yet; 0: none. And what it is, "" for none. */
uint32_t live_unknown(const struct live *live);
void live_describe(struct live *live, uint32_t pid, const char *container);

/* What came since the last message. Its parts are the live's until the next one. */
struct live_message {
	const Tracesmith__V1__LiveReply *whole, *changed;
};
/* -ENOMEM */
int live_take(struct live *live, uint64_t now_ns, struct live_message *ret);

#endif
