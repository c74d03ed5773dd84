/* Reissue, running: as many threads as recorded, each making its calls at their recorded times.
 * After a call that waited for the device, times count from its actual return. So the time between
 * a thread's calls stays as recorded, and a faster or slower device makes a difference. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/reissue/world.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/store/thread.h"

#define SPIN_NS	    200000 /* the end of a wait, since sleeping is imprecise */
#define START_NS    20000000
#define STRANDED_NS NS_PER_S /* longest wait of a call for another thread's */
#define STACK_BYTES (256u << 10)
#define THREADS_MAX 4096

struct runner {
	struct gpu_world *world;
	uint32_t thread;
	pthread_t id;
	int64_t late_ns; /* what to add to a recorded time */
	uint32_t *call;	 /* in order */
	uint32_t count;
};

static void wait_until(uint64_t time_ns)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), sleep_ns;
	struct timespec ts;

	if (now_ns >= time_ns) /* launches that follow at once */
		return;
	if (time_ns > now_ns + SPIN_NS) {
		sleep_ns = time_ns - SPIN_NS;
		ts = timespec_of(sleep_ns);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
	}
	while (clock_ns(CLOCK_MONOTONIC) < time_ns)
		__builtin_ia32_pause();
}

/* What another thread must submit first: earlier work on the stream, or an event's. */
static void wait_for_work(struct runner *runner, uint32_t work)
{
	const struct plan *plan = runner->world->plan;
	uint32_t call = work == PLAN_NONE ? PLAN_NONE : plan->work[work].call;
	uint64_t until_ns = 0;

	if (call == PLAN_NONE || plan->call[call].thread == runner->thread)
		return;
	while (!atomic_load_explicit(&runner->world->issued[call], memory_order_acquire)) {
		if (until_ns == 0)
			until_ns = clock_ns(CLOCK_MONOTONIC) + STRANDED_NS;
		if (clock_ns(CLOCK_MONOTONIC) > until_ns || atomic_load(&runner->world->error))
			return;
		sched_yield();
	}
}

static void wait_for_others(struct runner *runner, const struct plan_call *call)
{
	const struct plan *plan = runner->world->plan;

	for (uint32_t i = call->work; i != PLAN_NONE; i = plan->work[i].next) {
		const struct plan_work *work = &plan->work[i];

		wait_for_work(runner, work->before);
		for (uint32_t k = 0; k < work->edge_count; k++)
			if (plan->edge[work->edge + k].kind == PLAN_EDGE_EVENT)
				wait_for_work(runner, plan->edge[work->edge + k].work);
	}
}

static void *run(void *data)
{
	struct runner *runner = data;
	struct gpu_world *world = runner->world;
	const struct plan *plan = world->plan;
	int device = -1;

	runner->late_ns = (int64_t)(world->start_ns - plan->start_ns);
	for (uint32_t i = 0; i < runner->count && atomic_load(&world->error) == 0; i++) {
		const struct plan_call *call = &plan->call[runner->call[i]];
		const struct op *op = &plan->op[call->op];
		int on = gpu_world_device(world, op), result, none = 0;

		if (on != device)
			world->driver->cuCtxSetCurrent(world->device[on].context);
		device = on;
		wait_until((uint64_t)((int64_t)call->start_ns + runner->late_ns));
		wait_for_others(runner, call);
		result = gpu_issue(world, runner->call[i]);
		if (result != 0)
			atomic_compare_exchange_strong(&world->error, &none, result);
		atomic_store_explicit(&world->issued[runner->call[i]], true, memory_order_release);
		if (call->flags & PLAN_BLOCKS)
			runner->late_ns =
				(int64_t)clock_ns(CLOCK_MONOTONIC) - (int64_t)call->end_ns;
	}
	return NULL;
}

/* The calls of each thread, in order. */
static void deal(struct gpu_world *world, struct runner *runner, uint32_t *room)
{
	const struct plan *plan = world->plan;

	for (uint32_t i = 0; i < plan->call_count; i++)
		runner[plan->call[i].thread].count += !world->skip[i];
	for (uint32_t t = 0; t < plan->thread_count; t++) {
		runner[t].world = world;
		runner[t].thread = t;
		runner[t].call = room;
		room += runner[t].count;
		runner[t].count = 0;
	}
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct runner *of = &runner[plan->call[i].thread];

		if (!world->skip[i])
			of->call[of->count++] = i;
	}
}

static int start_all(struct gpu_world *world, struct runner *runner)
{
	uint32_t threads = world->plan->thread_count, started = 0;
	int r = 0;

	world->start_ns = clock_ns(CLOCK_MONOTONIC) + START_NS;
	for (; started < threads && r == 0; started++)
		r = thread_start_sized(&runner[started].id, STACK_BYTES, run, &runner[started]);
	if (r < 0) {
		started--;
		atomic_store(&world->error, -1);
		complain("Cannot start as many threads as recorded: %s", strerror(-r));
	}
	for (uint32_t t = 0; t < started; t++)
		pthread_join(runner[t].id, NULL);
	return r;
}

int gpu_run(struct gpu_world *world)
{
	const struct plan *plan = world->plan;
	struct runner *runner = NULL;
	uint32_t *call = NULL;
	int r = -ENOMEM, result;

	if (plan->thread_count > THREADS_MAX) {
		complain("The recording has more than %d threads: select a part with --from and "
			 "--to, or --pid",
			 THREADS_MAX);
		return -E2BIG;
	}
	runner = calloc(plan->thread_count + 1, sizeof(*runner));
	call = calloc(plan->call_count + 1, sizeof(*call));
	if (runner && call) {
		deal(world, runner, call);
		r = start_all(world, runner);
	} else {
		complain_memory();
	}
	free(runner);
	free(call);
	for (int i = 0; r == 0 && i < GPU_DEVICES_MAX; i++) {
		if (!world->device[i].used)
			continue;
		world->driver->cuCtxSetCurrent(world->device[i].context);
		result = world->driver->cuCtxSynchronize();
		if (result != 0 && atomic_load(&world->error) == 0)
			atomic_store(&world->error, result);
	}
	world->end_ns = clock_ns(CLOCK_MONOTONIC);
	if (r == 0 && atomic_load(&world->error) != 0) {
		complain("The device refused a command: %s",
			 gpu_driver_error(world->driver, atomic_load(&world->error)));
		r = -EIO;
	}
	return r;
}
