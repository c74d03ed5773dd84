/* queue.h: the calls of each launcher on their way to the ring. */
#ifndef TS_INJECT_QUEUE_H
#define TS_INJECT_QUEUE_H

#include "inject/launcher.h"

struct queue_call {
	uint64_t start_ns, end_ns;
	uint32_t correlation;
	uint32_t cbid;
	int32_t result;
};

/* On the launcher's own thread. True: it took longer than usual; that is already charged. */
bool queue_put(struct launcher *launcher, const struct queue_call *call);
/* From our thread: hands over the calls of all launchers, as far as the ring has room. */
void queue_take_all(void);
/* The same when no more calls come: waits briefly for room, and counts the rest as lost. */
void queue_end(void);
/* For a thread without a launcher. */
void queue_pass(uint32_t tid, const struct queue_call *call);

#endif
