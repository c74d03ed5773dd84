/* Cycles: how often CUPTI was taken out of the process. Each time leaves memory of the device there
 * (TS_CYCLES_MAX). */
#include "inject/cycles.h"

#include <stdio.h>

#include "inject/cupti_call.h"
#include "inject/drain.h"
#include "inject/yield.h"
#include "proto/hello.h"

static uint32_t cycles;

void cycles_begin(uint32_t before)
{
	if (cycles < before)
		cycles = before;
}

uint32_t cycles_count(void)
{
	return cycles;
}

bool cycles_are_left(void)
{
	return cycles < TS_CYCLES_MAX;
}

bool cycles_take_out(const struct cupti *cupti, char *why, size_t size)
{
	const char *text = NULL;

	if (yield_is_used())
		text = "another profiler in the process uses CUPTI too, so it stays";
	else if (cupti->version < CUPTI_VERSION_12_6 || !cupti->finalize)
		text = "a CUPTI older than CUDA 12.6 cannot be unloaded safely, so it stays, "
		       "switched off";
	else if (drain_saw_graphs())
		text = "a CUDA graph may crash without CUPTI after a launch with it, so it stays, "
		       "switched off";
	else if (!cycles_are_left())
		text = "CUPTI was taken out of the process as often as it may be, since each time "
		       "leaves device memory there, so it stays, switched off";
	else if (call_subscribe(cupti) != CUPTI_OK)
		text = "another profiler holds CUPTI, so it stays, switched off";
	else if (!call_finalize(cupti))
		text = "CUPTI could not be unloaded, so it stays, switched off";
	if (!text)
		cycles++;
	else
		snprintf(why, size, "%s", text);
	return !text;
}
