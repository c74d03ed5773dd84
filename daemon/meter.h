/* meter.h: how long a turn of the loop takes at most. Both the time that passes and what of it the
 * thread computes: a machine that is busy with other things makes the former longer. */
#ifndef TS_METER_H
#define TS_METER_H

#include <stdint.h>
#include <uv.h>

struct meter {
	uv_prepare_t prepare;
	uint64_t begun_ns, idle_ns, cpu_ns; /* of the turn */
	uint64_t longest_ns, longest_cpu_ns;
};

/* Before the loop has run. It does not keep the loop alive. */
int meter_start(struct meter *meter, uv_loop_t *loop);
void meter_close(struct meter *meter);

#endif
