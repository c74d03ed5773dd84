/* Callers: the calls of each thread in a turn, and its times since the last one. */
#include "core/price/callers.h"

#include <math.h>
#include <stddef.h>

#define FEW	  10	/* times as many calls as another one makes: that one does not count */
#define SHARE_MIN 0.001 /* beyond it the times are too short to tell */

static struct caller *callers_find(struct callers *callers, uint32_t tid)
{
	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (callers->caller[i].tid == tid)
			return &callers->caller[i];
	return NULL;
}

void callers_call(struct callers *callers, uint32_t tid)
{
	struct caller *caller = callers_find(callers, tid);

	if (!caller) {
		caller = &callers->caller[callers->next++ % CALLERS_MAX];
		*caller = (struct caller){ .tid = tid };
	}
	caller->calls++;
}

bool callers_have(const struct callers *callers, uint32_t tid)
{
	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (callers->caller[i].tid == tid)
			return true;
	return false;
}

static uint64_t callers_most(const struct callers *callers)
{
	uint64_t most = 0;

	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (callers->caller[i].calls > most)
			most = callers->caller[i].calls;
	return most;
}

uint32_t callers_count(const struct callers *callers)
{
	uint64_t most = callers_most(callers);
	uint32_t count = 0;

	for (size_t i = 0; most && i < CALLERS_MAX; i++)
		count += callers->caller[i].calls * FEW >= most;
	return count;
}

double callers_turn(struct callers *callers, uint64_t now_ns, callers_times *times, void *data)
{
	uint64_t most = callers_most(callers), ran_ns, waited_ns;
	double turn_ns = (double)(now_ns - callers->since_ns), ran = 0, waited = 0;
	bool first = !callers->since_ns;

	if (!most)
		return 0;
	callers->since_ns = now_ns;
	for (size_t i = 0; i < CALLERS_MAX; i++) {
		struct caller *caller = &callers->caller[i];
		bool counts = caller->calls && caller->calls * FEW >= most && caller->known;

		caller->calls = 0;
		caller->known = caller->tid && times(data, caller->tid, &ran_ns, &waited_ns);
		if (!caller->known)
			continue;
		if (counts && ran_ns >= caller->ran_ns && waited_ns >= caller->waited_ns) {
			ran += (double)(ran_ns - caller->ran_ns);
			waited += (double)(waited_ns - caller->waited_ns);
		}
		caller->ran_ns = ran_ns;
		caller->waited_ns = waited_ns;
	}
	if (first || !(turn_ns > 0))
		return 0;
	return fmin(fmax(fmax(turn_ns - waited, ran) / turn_ns, SHARE_MIN), 1);
}
