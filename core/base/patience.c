/* Patience: one number, which is 1 unless the environment says otherwise. */
#include "core/base/patience.h"

#include <stdlib.h>

uint64_t patience_ms(uint64_t ms)
{
	const char *text = getenv("TRACESMITH_PATIENCE");
	unsigned long times = text ? strtoul(text, NULL, 10) : 1;

	return times > 0 && times <= 100 ? times * ms : ms;
}
