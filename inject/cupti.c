/* Cupti: collects what CUPTI records, on behalf of the daemon that link.c talks to. */
#include <stdio.h>

#include "inject/internal.h"

void cupti_start(const struct ts_settings *settings)
{
	link_tell(TS_LIBRARY_FAILED, false, "this library was built without CUPTI");
}

void cupti_settings(const struct ts_settings *settings)
{
}

void cupti_tick(void)
{
}

void cupti_suspend(void)
{
}

bool cupti_stop(char *why, size_t size)
{
	return true;
}

void cupti_at_exit(void)
{
}

void cupti_forked(void)
{
}
