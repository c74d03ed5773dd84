/* Plan times: when the calls and works of a plan started and ended. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/huge.h"
#include "core/plan/critical.h"

static int times_alloc(const struct plan *plan, struct plan_times *times)
{
	size_t calls = plan->call_count + 1ul, works = plan->work_count + 1ul;

	times->call_start_ns = huge_malloc(calls, sizeof(uint64_t));
	times->call_end_ns = huge_malloc(calls, sizeof(uint64_t));
	times->work_start_ns = huge_malloc(works, sizeof(uint64_t));
	times->work_end_ns = huge_malloc(works, sizeof(uint64_t));
	return times->call_start_ns && times->call_end_ns && times->work_start_ns &&
			       times->work_end_ns
		       ? 0
		       : -ENOMEM;
}

int plan_times_new(const struct plan *plan, struct plan_times **ret)
{
	_cleanup_(plan_times_freep) struct plan_times *times = calloc(1, sizeof(*times));

	if (!times || times_alloc(plan, times) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		times->call_start_ns[i] = plan->call[i].start_ns;
		times->call_end_ns[i] = plan->call[i].end_ns;
	}
	for (uint32_t i = 0; i < plan->work_count; i++) {
		times->work_start_ns[i] = plan->work[i].start_ns;
		times->work_end_ns[i] = plan->work[i].end_ns;
	}
	times->start_ns = plan->start_ns;
	times->end_ns = plan->end_ns;
	*ret = TAKE(times);
	return 0;
}

struct plan_times *plan_times_free(struct plan_times *times)
{
	if (!times)
		return NULL;
	free(times->call_start_ns);
	free(times->call_end_ns);
	free(times->work_start_ns);
	free(times->work_end_ns);
	free(times);
	return NULL;
}
