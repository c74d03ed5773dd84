/* Inject_double: stands in for the CUPTI part of the library. */
#include <stdio.h>

#include "tests/unit/inject_double.h"

static struct double_counts counts;

#define COUNT(member) __atomic_fetch_add(&counts.member, 1, __ATOMIC_SEQ_CST)

void cupti_start(const struct ts_settings *settings)
{
	__atomic_store_n(&counts.records, settings->records, __ATOMIC_SEQ_CST);
	COUNT(starts);
	link_tell(TS_LIBRARY_COLLECTING, false, "double");
}

void cupti_settings(const struct ts_settings *settings)
{
	__atomic_store_n(&counts.records, settings->records, __ATOMIC_SEQ_CST);
	COUNT(settings);
}

void cupti_window(const struct ts_window *window)
{
	__atomic_store_n(&counts.open, window->how == TS_WINDOW_OPEN, __ATOMIC_SEQ_CST);
	COUNT(windows);
}

void cupti_modules(void)
{
}

void cupti_tick(void)
{
	COUNT(ticks);
}

void cupti_suspend(void)
{
	COUNT(suspends);
}

bool cupti_stop(char *why, size_t size)
{
	bool clings = __atomic_load_n(&counts.clings, __ATOMIC_SEQ_CST);

	COUNT(stops);
	if (clings)
		snprintf(why, size, "it clings");
	return !clings;
}

void cupti_at_exit(void)
{
	const struct ts_event event = { .kind = TS_EVENT_KERNEL, .tid = 777 };

	COUNT(exits);
	link_put(&event, sizeof(event));
}

void cupti_forked(void)
{
	COUNT(forks);
}

__attribute__((visibility("default"))) const struct inject_double *inject_double(void)
{
	static const struct inject_double shown = { &counts, link_put, link_lost, link_wake };

	return &shown;
}
