/* Busy: the time of a device by second, state and number of running kernels and copies. Every
 * nanosecond between start and end is in one row. */
#include "core/model/busy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/model/model.h"

#define BUSY_MAX 15 /* that many, or more */
/* No pause is longer; after a larger clock jump a row per second is not worthwhile. */
#define BUSY_JUMP_NS (3600 * NS_PER_S)

/* While something runs the numbers give the state. */
struct busy {
	uint64_t passed_ns;
	uint64_t ns[BUSY_MAX + 1][BUSY_MAX + 1]; /* of kernels and copies; [0][0] is below */
	uint64_t still_ns[OP_STATE_SYNCING + 1];
	bool any;
};

int busy_begin(struct device *device, uint64_t time_ns)
{
	if (!device->busy)
		device->busy = calloc(1, sizeof(*device->busy));
	if (!device->busy)
		return -ENOMEM;
	device->busy->passed_ns = time_ns;
	return 0;
}

static void busy_tell(struct core *core, const struct device *device, uint8_t state, int kernels,
		      int copies, uint64_t ns)
{
	struct core_busy row = {
		.second = device->busy->passed_ns / NS_PER_S,
		.ns = ns,
		.process = device->state.process,
		.device = device->state.device,
		.state = state,
		.kernels = (uint8_t)kernels,
		.copies = (uint8_t)copies,
	};

	if (ns)
		core_tell(core, &row);
}

static void busy_tell_second(struct core *core, struct device *device)
{
	struct busy *busy = device->busy;

	if (!busy->any)
		return;
	for (int kernels = 0; kernels <= BUSY_MAX; kernels++)
		for (int copies = 0; copies <= BUSY_MAX; copies++)
			busy_tell(core, device, kernels ? OP_STATE_RUNNING : OP_STATE_COPYING,
				  kernels, copies, busy->ns[kernels][copies]);
	for (uint8_t state = 0; state <= OP_STATE_SYNCING; state++)
		busy_tell(core, device, state, 0, 0, busy->still_ns[state]);
	memset(busy->ns, 0, sizeof(busy->ns));
	memset(busy->still_ns, 0, sizeof(busy->still_ns));
	busy->any = false;
}

static uint32_t busy_capped(uint32_t count)
{
	return count < BUSY_MAX ? count : BUSY_MAX;
}

static void busy_add(struct device *device, uint64_t ns)
{
	uint32_t kernels = busy_capped(device->runs[SWEEP_KERNEL]);
	uint32_t copies = busy_capped(device->runs[SWEEP_COPY]);

	if (kernels || copies)
		device->busy->ns[kernels][copies] += ns;
	else
		device->busy->still_ns[device->state.now] += ns;
	device->busy->any = true;
}

void busy_pass(struct core *core, struct device *device, uint64_t time_ns)
{
	struct busy *busy = device->busy;

	if (busy && time_ns > BUSY_JUMP_NS && busy->passed_ns < time_ns - BUSY_JUMP_NS) {
		busy_tell_second(core, device);
		busy->passed_ns = time_ns - BUSY_JUMP_NS;
	}
	while (busy && busy->passed_ns < time_ns) {
		uint64_t next_ns = (busy->passed_ns / NS_PER_S + 1) * NS_PER_S;
		/* A time from a file may be the maximum, and the next second would overflow. */
		bool second = next_ns > busy->passed_ns && next_ns < time_ns;
		uint64_t until_ns = second ? next_ns : time_ns;

		busy_add(device, until_ns - busy->passed_ns);
		if (until_ns == next_ns)
			busy_tell_second(core, device);
		busy->passed_ns = until_ns;
	}
}

void busy_end(struct core *core, struct device *device, uint64_t time_ns)
{
	if (!device->busy)
		return;
	busy_pass(core, device, time_ns);
	busy_tell_second(core, device);
	free(device->busy);
	device->busy = NULL;
}
