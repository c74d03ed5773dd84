/* watch_fixture.h: simulated programs, and their time under a watch. */
#ifndef TS_WATCH_FIXTURE_H
#define TS_WATCH_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/price/watch.h"

#define TICK_NS	    (25 * NS_PER_MS)
#define TICK_GAP_NS (250 * NS_PER_MS)
#define LINK_NS	    (15 * NS_PER_MS) /* to put the probes in or take them out */
#define START_NS    (5 * NS_PER_S)
#define HIT_NS	    3000
#define BUDGET	    0.01
#define MINUTES(n)  ((n)*60 * NS_PER_S)

/* A step is so much work, and hot calls on the way; then it waits for the GPU, which needs this
 * long for a step, and that is one cold call. */
struct program {
	double work_ns, gpu_ns;
	uint32_t calls;
	double call_ns; /* what a watched call costs it */
	double noise;	/* of a step */
	double drift;	/* slow waves of the machine's speed */
	bool silent;	/* no cold calls */
	uint32_t cold;	/* hits of a step that are always watched, and cost as much */
	bool stuck;	/* the kernel is busy: no link is made or taken off */
	bool exact;	/* CUPTI comes and goes, and costs this much whenever it does */
	uint64_t switch_cost_ns;

	struct watch watch;
	bool open, wanted;
	uint64_t now_ns, switch_ns, tick_ns;
	uint64_t paid_ns, on_ns;
	uint64_t seen, made;			     /* hot calls */
	uint64_t estimated, cycle_made, cycles_made; /* of the cycle that goes on, of all before */
};

static inline double noise(void)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (double)rand() / RAND_MAX;
	return sum - 6;
}

static inline void program_start(struct program *program, double budget, uint64_t seed)
{
	struct watch_config config = {
		.budget = budget,
		.hit_ns = HIT_NS,
		.turn_ns = program->exact ? NS_PER_S : 0,
		.cold_hit_ns = program->exact ? HIT_NS : 0,
		.switch_ns = program->exact ? 50 * NS_PER_MS : 0,
	};

	program->now_ns = program->tick_ns = START_NS;
	program->open = program->wanted = true;
	program->paid_ns = program->on_ns = program->seen = program->made = 0;
	watch_init(&program->watch, &config, seed);
	srand((unsigned int)seed);
}

/* Between windows seldom, as in daemon/price/price.c. */
static inline uint64_t program_next_tick(const struct program *program)
{
	uint64_t rests_ns = watch_rests_until(&program->watch);
	uint64_t soon_ns = program->tick_ns + (uint64_t)TICK_NS;
	uint64_t late_ns = program->tick_ns + (uint64_t)TICK_GAP_NS;

	if (rests_ns == UINT64_MAX || rests_ns < soon_ns)
		return soon_ns;
	return rests_ns < late_ns ? rests_ns : late_ns;
}

static inline void program_tick(struct program *program)
{
	bool wanted = watch_tick(&program->watch, program->tick_ns, program->open);
	struct watch_cycle cycle;

	while (watch_take_cycle(&program->watch, &cycle)) {
		program->estimated += cycle.hits + cycle.missed;
		program->cycles_made += program->cycle_made;
		program->cycle_made = 0;
	}
	if (wanted != program->wanted) {
		program->wanted = wanted;
		program->switch_ns = program->tick_ns + (uint64_t)LINK_NS + program->switch_cost_ns;
		program->now_ns += program->switch_cost_ns;
		program->paid_ns += program->switch_cost_ns;
	}
	if (program->open != program->wanted && !program->stuck &&
	    program->tick_ns >= program->switch_ns)
		program->open = program->wanted;
	program->tick_ns = program_next_tick(program);
}

static inline double program_work_ns(const struct program *program)
{
	return program->work_ns * (1 + program->drift * sin((double)program->now_ns / 37e9));
}

static inline void program_step(struct program *program)
{
	double work_ns = program_work_ns(program) * fmax(0.1, 1 + program->noise * noise());
	double hits = program->cold + (program->open ? program->calls : 0);
	double step_ns = fmax(work_ns + hits * program->call_ns, program->gpu_ns);

	program->made += program->calls;
	program->cycle_made += program->calls;
	if (program->open) {
		program->seen += program->calls;
		for (uint32_t i = 0; i < program->calls; i++)
			if (watch_hit(&program->watch))
				program->tick_ns = program->now_ns;
		program->on_ns += (uint64_t)step_ns;
	}
	program->paid_ns += (uint64_t)(step_ns - fmax(work_ns, program->gpu_ns));
	program->now_ns += (uint64_t)step_ns;
	watch_cold_hits(&program->watch, program->cold);
	if (!program->silent)
		watch_cold_call(&program->watch);
	if (!program->silent)
		watch_cold(&program->watch, program->now_ns);
	while (program->tick_ns <= program->now_ns)
		program_tick(program);
}

static inline void program_run(struct program *program, uint64_t ns)
{
	uint64_t until_ns = program->now_ns + ns;

	while (program->now_ns < until_ns)
		program_step(program);
}

static inline double program_price(const struct program *program, double work_ns)
{
	double with = work_ns + program->calls * program->call_ns;

	return fmax(with, program->gpu_ns) / fmax(work_ns, program->gpu_ns) - 1;
}

static inline double program_truth(const struct program *program)
{
	return program_price(program, program->work_ns);
}

/* As PyTorch's small training step on the H200. */
static const struct program launch_bound = {
	.work_ns = 4200000,
	.calls = 200,
	.call_ns = 4000,
	.noise = 0.05,
	.drift = 0.1,
};

#endif
