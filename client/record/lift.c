/* Record lift: asks the daemon for another budget for each process, a few seconds at a time. */
#include "client/record/lift.h"

#include "client/base/complain.h"
#include "core/base/time.h"

#define HOLDS_NS (5 * NS_PER_S)

static int lift_one(struct record_lift *lift, struct link *link, uint32_t pid)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__BudgetRequest budget = TRACESMITH__V1__BUDGET_REQUEST__INIT;
	int r;

	budget.pid = pid;
	budget.budget_ppm = lift->budget_ppm;
	budget.for_ns = HOLDS_NS;
	budget.recording = true;
	r = link_send(link, &budget.base);
	if (r == 0)
		r = link_next_or_error(link, &reply);
	if (r < 0 || reply->body_case != TRACESMITH__V1__REPLY__BODY_ERROR ||
	    reply->error->code != TRACESMITH__V1__ERROR__CODE__DENIED)
		return r < 0 ? r : 0;
	if (!lift->told)
		complain("Frequent calls are recorded as far as the budget allows: %s",
			 reply->error->message);
	lift->told = true;
	return 0;
}

int record_lift(struct record_lift *lift, struct link *link, const uint32_t *pid, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = lift_one(lift, link, pid[i]);
	return r;
}
