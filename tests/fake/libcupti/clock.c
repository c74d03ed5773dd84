/* Clock: the simulated GPU's times are CLOCK_MONOTONIC. Clients see them on the clock that they
 * registered, or on CLOCK_REALTIME as on Linux: whoever forgets the callback gets other numbers. */
#include "fake_cupti.h"

#include <time.h>

#define DAY_NS 86400000000000u

static _Atomic int64_t clock_offset;
static _Atomic bool clock_known;

static uint64_t clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t clock_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

static uint64_t clock_default(void)
{
	if (cupti.odd.clock == ODD_CLOCK_ALIEN)
		return clock_ns() + DAY_NS;
	return clock_read(CLOCK_REALTIME);
}

/* A clock whose answer lies between two of ours is ours. */
static void clock_measure(cupti_time_fn time)
{
	uint64_t before = clock_ns(), theirs = time(), after = clock_ns();

	if (theirs >= before && theirs <= after)
		atomic_store(&clock_offset, 0);
	else
		atomic_store(&clock_offset, (int64_t)(theirs - before - (after - before) / 2));
	atomic_store(&clock_known, true);
}

uint64_t clock_stamp(uint64_t ns)
{
	if (!atomic_load_explicit(&clock_known, memory_order_acquire))
		clock_measure(clock_default);
	return ns + (uint64_t)atomic_load_explicit(&clock_offset, memory_order_relaxed);
}

void clock_register(cupti_time_fn time)
{
	clock_measure(time && !cupti.odd.clock ? time : clock_default);
}

int cuptiActivityRegisterTimestampCallback(cupti_time_fn time)
{
	cupti_begin(__func__);
	if (!time)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti.odd.clock == ODD_CLOCK_NONE)
		return CUPTI_E_NOT_COMPATIBLE;
	clock_register(time);
	return CUPTI_OK;
}
