/* Whether the probes keep the kernel's workers from their work: programs that do are left out, and
 * on a host that is merely busy hardly anybody is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "core/price/starve.h"

#define TICK_NS	 (NS_PER_S / 4)
#define OUT_NS	 (5 * NS_PER_S)
#define PROGRAMS 3
#define HEAVY	 0.05 /* of a CPU, and one can be blamed */

/* A host of two CPUs. */
struct host {
	struct starve starve;
	double traps[PROGRAMS]; /* of the CPU's time, as it goes without us */
	uint64_t out_ns[PROGRAMS];
	double starving; /* from this share of traps on, work waits for as long as it is so; 0:
			    never */
	double busy;	 /* in so many of the turns work waits anyway, for up to 3 s */
	uint64_t now_ns, starved_ns;
	uint32_t blames, ticks_out;
	unsigned int seed;
};

static struct host begin(void)
{
	return (struct host){ .now_ns = 10 * NS_PER_S, .seed = 3 };
}

static double draw(struct host *host)
{
	return (double)rand_r(&host->seed) / RAND_MAX;
}

static bool is_out(const struct host *host, int program)
{
	return host->now_ns < host->out_ns[program];
}

static double traps_now(const struct host *host)
{
	double all = 0;

	for (int i = 0; i < PROGRAMS; i++)
		all += is_out(host, i) ? 0 : host->traps[i];
	return all;
}

static void blame_worst(struct host *host)
{
	int worst = -1;

	for (int i = 0; i < PROGRAMS; i++)
		if (!is_out(host, i) && host->traps[i] > HEAVY &&
		    (worst < 0 || host->traps[i] > host->traps[worst]))
			worst = i;
	host->blames++;
	if (worst >= 0)
		host->out_ns[worst] = host->now_ns + (uint64_t)OUT_NS;
}

static void tick(struct host *host)
{
	double traps = traps_now(host);
	uint64_t waited_ns = NS_PER_MS;

	host->now_ns += TICK_NS;
	if (host->starving > 0 && traps >= host->starving)
		host->starved_ns += TICK_NS;
	else
		host->starved_ns = 0;
	if (draw(host) < host->busy)
		waited_ns = (uint64_t)(draw(host) * 3 * NS_PER_S);
	if (host->starved_ns > waited_ns)
		waited_ns = host->starved_ns;
	starve_wait(&host->starve, waited_ns, traps * (double)waited_ns);
	starve_wait(&host->starve, NS_PER_MS, 0);
	if (starve_turn(&host->starve, host->now_ns))
		blame_worst(host);
	for (int i = 0; i < PROGRAMS; i++)
		host->ticks_out += is_out(host, i);
}

static void run(struct host *host, double seconds)
{
	uint64_t end_ns = host->now_ns + (uint64_t)(seconds * NS_PER_S);

	while (host->now_ns < end_ns)
		tick(host);
}

static void who_starves_the_workers_is_left_out_at_once(void **state)
{
	struct host host = begin();

	host.traps[1] = 0.7;
	host.starving = 0.3;
	run(&host, 1.5);
	assert_true(is_out(&host, 1));
	assert_int_equal(host.blames, 1);
	/* And each time that it comes back: work then waits for a second of six. */
	run(&host, 600);
	assert_in_range(host.blames, 80, 120);
}

static void all_who_starve_them_are_left_out(void **state)
{
	struct host host = begin();

	host.traps[0] = host.traps[1] = host.traps[2] = 0.4;
	host.starving = 0.3;
	run(&host, 4.5);
	assert_int_equal(host.blames, 3);
	assert_true(is_out(&host, 0) && is_out(&host, 1) && is_out(&host, 2));
}

static void a_busy_host_is_not_the_programs_fault(void **state)
{
	struct host host = begin();

	host.traps[0] = 0.1;
	host.traps[2] = 0.05;
	host.busy = 0.5;
	run(&host, 3600);
	assert_int_equal(host.blames, 0);
}

static void a_wrong_suspicion_is_dropped(void **state)
{
	struct host host = begin();

	host.traps[0] = 0.4;
	host.busy = 0.5;
	run(&host, 10);
	assert_int_equal(host.blames, 1);
	/* In a day: pauses from a minute to an hour, then one an hour; a few times by chance no
	 * work waits while it is left out. */
	run(&host, 24 * 3600);
	assert_in_range(host.blames, 20, 50);
	assert_true(host.ticks_out * TICK_NS < 300 * NS_PER_S);
}

/* Long before it was suspected, the same program did no harm: nothing is held against it. */
static void who_is_cleared_can_be_suspected_again(void **state)
{
	struct host host = begin();

	host.traps[0] = 0.4;
	host.busy = 0.5;
	run(&host, 60);
	assert_int_equal(host.blames, 1);
	host.busy = 0;
	run(&host, 60);
	host.traps[0] = 0.8;
	host.starving = 0.6;
	host.blames = 0;
	run(&host, 60);
	assert_true(host.blames > 5);
}

static void a_wait_from_before_is_no_evidence(void **state)
{
	struct starve starve = { 0 };
	uint64_t now_ns = 100 * NS_PER_S;

	starve_wait(&starve, NS_PER_S, 0.9 * NS_PER_S);
	assert_true(starve_turn(&starve, now_ns));
	/* It is taken on when the traps are gone. */
	now_ns += 3 * NS_PER_S / 2;
	starve_wait(&starve, 2 * NS_PER_S, 0.1 * NS_PER_S);
	assert_false(starve_turn(&starve, now_ns));
	now_ns += NS_PER_S;
	starve_wait(&starve, NS_PER_S, 0.9 * NS_PER_S);
	assert_true(starve_turn(&starve, now_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_starves_the_workers_is_left_out_at_once),
		cmocka_unit_test(all_who_starve_them_are_left_out),
		cmocka_unit_test(a_busy_host_is_not_the_programs_fault),
		cmocka_unit_test(a_wrong_suspicion_is_dropped),
		cmocka_unit_test(who_is_cleared_can_be_suspected_again),
		cmocka_unit_test(a_wait_from_before_is_no_evidence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
