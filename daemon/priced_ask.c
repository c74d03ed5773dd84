/* Priced ask: what clients ask about prices and budgets: another budget for a process, a
 * measurement now, and the section of the status. */
#include <errno.h>
#include <stdio.h>

#include "core/base/time.h"
#include "core/base/units.h"
#include "daemon/daemon_internal.h"
#include "daemon/proc/procfs.h"

#define PPM	1e6
#define PERCENT 1e2
#define WHOLE	"every process is watched all the time, whatever its budget"

static const char no_windows[] =
	"This kernel has no links to single processes (Linux 6.10 has them): " WHOLE;
static const char is_exact[] = "The process is recorded exactly, which takes each of its calls: "
			       "the budget holds when that "
			       "has ended";

static bool has_windows(struct daemon *daemon)
{
	struct probe_stats stats;

	probe_stats(daemon->probe, &stats, NULL, 0);
	return stats.single;
}

/* Its parent has not collected its exit status yet. */
static bool has_ended(uint32_t pid)
{
	char state = procfs_state(pid);

	return state == 'Z' || state == 'X';
}

/* The one whose permissions were checked, if it uses CUDA. */
static bool is_known(struct daemon *daemon, const struct api_target *target,
		     Tracesmith__V1__Remark__Reason *ret_why)
{
	const struct core_process *process = core_process_by_pid(daemon->core, target->pid);

	if (!process) {
		*ret_why = has_ended(target->pid) ? REASON(PROCESS_ENDED) : REASON(UNKNOWN_PROCESS);
		return false;
	}
	*ret_why = REASON(PID_REUSED);
	return process->started_ticks == target->started_ticks;
}

int daemon_budget(void *data, const struct api_budget *request, struct api_budget_result *ret,
		  Tracesmith__V1__Remark__Reason *ret_why)
{
	enum price_giver giver = request->recording ? PRICE_BY_RECORDING : PRICE_BY_HAND;
	uint32_t pid = request->target.pid;
	struct daemon *daemon = data;
	uint64_t now_ns = uv_hrtime(), until_ns = 0;
	struct exact_tier tier = { 0 };

	if (!is_known(daemon, &request->target, ret_why))
		return -ESRCH;
	ret->setting_ppm = (uint32_t)daemon->config->budget_ppm;
	if (request->reset) {
		price_reset_budget(daemon->price, pid, giver);
		ret->budget_ppm = ret->setting_ppm;
	} else {
		if (request->for_ns && request->for_ns < UINT64_MAX - now_ns)
			until_ns = now_ns + request->for_ns;
		*ret_why = REASON(NO_MEMORY);
		if (price_set_budget(daemon->price, pid, giver, request->budget_ppm / PPM,
				     until_ns) < 0)
			return -ENOMEM;
		ret->budget_ppm = request->budget_ppm;
		ret->for_ns = until_ns ? request->for_ns : 0;
	}
	if (daemon->exact)
		exact_tier(daemon->exact, pid, &tier);
	if (!has_windows(daemon))
		ret->note = no_windows;
	else if (tier.carries && !tier.windows)
		ret->note = is_exact;
	return 0;
}

static Tracesmith__V1__Remark__Reason measure_reason(int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		return REASON(NO_WINDOWS);
	case -EAGAIN:
		return REASON(PAUSED_PROCESS);
	case -EBUSY:
		return REASON(NOT_IN_WINDOWS);
	case -ENXIO:
		return REASON(NO_MAPPING);
	case -ENODATA:
		return REASON(NO_PACE);
	default:
		return REASON(NO_HOT_CALLS);
	}
}

int daemon_measure(void *data, const struct api_target *target, bool start,
		   struct api_measure_result *ret, Tracesmith__V1__Remark__Reason *ret_why)
{
	struct price_measuring measuring;
	struct daemon *daemon = data;
	int r;

	if (!is_known(daemon, target, ret_why))
		return -ESRCH;
	r = price_measure(daemon->price, target->pid, start, &measuring);
	if (r < 0) {
		*ret_why = measure_reason(r);
		return r;
	}
	*ret = (struct api_measure_result){ measuring.busy, measuring.turns, measuring.wanted };
	return 0;
}

static const char *budget_text(char text[UNITS_TEXT_SIZE], double budget)
{
	if (budget > 0)
		snprintf(text, UNITS_TEXT_SIZE, "%.3g %%", budget * PERCENT);
	else
		snprintf(text, UNITS_TEXT_SIZE, "none");
	return text;
}

static void report_process(void *data, uint32_t pid, const struct price_told *told)
{
	char name[32], budget[UNITS_TEXT_SIZE], left[UNITS_TEXT_SIZE];
	struct status_builder *builder = data;
	uint64_t now_ns = uv_hrtime();

	snprintf(name, sizeof(name), "process %u", pid);
	budget_text(budget, told->budget);
	if (told->until_ns > now_ns)
		status_text(builder, "price", name, false, "budget %s for another %s", budget,
			    units_nanoseconds(left, (int64_t)(told->until_ns - now_ns)));
	if (told->price.over)
		status_text(
			builder, "price", name, true,
			"its budget of %s is out of reach, even with as few windows as there can "
			"be",
			budget);
}

static void report_calibration(struct daemon *daemon, struct status_builder *builder)
{
	char text[UNITS_TEXT_SIZE];
	struct calibration hit;

	calibrate_result(daemon->calibrate, &hit);
	if (hit.busy) {
		status_text(builder, "price", "calibration", false, "under way");
		return;
	}
	if (hit.why) {
		status_text(builder, "price", "calibration", true,
			    "not done: %s; estimates take %s for a hit of a probe", hit.why,
			    units_nanoseconds(text, (int64_t)hit.hit_ns));
		return;
	}
	status_number(builder, "price", "hit_hot_ns", false, (int64_t)hit.hot_ns,
		      "%s for a hit of a probe in a loop",
		      units_nanoseconds(text, (int64_t)hit.hot_ns));
	status_number(builder, "price", "hit_cold_ns", false, (int64_t)hit.cold_ns,
		      "%s for one with cold caches", units_nanoseconds(text, (int64_t)hit.cold_ns));
	status_number(builder, "price", "hit_ns", false, (int64_t)hit.hit_ns,
		      "%s for one in estimates", units_nanoseconds(text, (int64_t)hit.hit_ns));
}

void daemon_report_price(struct daemon *daemon, struct status_builder *builder)
{
	uint32_t budget_ppm = (uint32_t)daemon->config->budget_ppm;
	char text[UNITS_TEXT_SIZE];

	status_number(builder, "price", "budget_ppm", false, budget_ppm, "%s",
		      budget_text(text, budget_ppm / PPM));
	report_calibration(daemon, builder);
	if (has_windows(daemon))
		status_text(builder, "price", "windows", false,
			    "possible: the kernel has links to single processes");
	else
		status_text(builder, "price", "windows", true, "%s", no_windows);
	if (status_names_all(builder))
		price_each(daemon->price, report_process, builder);
}
