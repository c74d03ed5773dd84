/* The library's own thread: it takes nothing of the thread that starts it, has a stack whatever the
 * program keeps in each thread's, and the program does not wait for it where it cannot get on. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/helper.h"
#include "inject/settle.h"

#define VARIABLES  (1010 << 10) /* of each thread of this program */
#define FRAME	   (256 << 10)
#define PATIENCE_S 60
#define WAIT_MS	   50

static __thread char variables[VARIABLES];

static struct {
	sem_t done, release;
	bool settles; /* when it has the mutex */
	int policy, processors;
	char *variable;
	pthread_mutex_t mutex;
} seen;

static void wait_done(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	assert_int_equal(sem_timedwait(&seen.done, &until), 0);
}

static void *look(void *unused)
{
	volatile char frame[FRAME];
	cpu_set_t processors;

	for (size_t i = 0; i < sizeof(frame); i += 4096)
		frame[i] = 1;
	variables[VARIABLES - 1] = 1;
	seen.variable = variables;
	seen.policy = sched_getscheduler(0);
	sched_getaffinity(0, sizeof(processors), &processors);
	seen.processors = CPU_COUNT(&processors);
	sem_post(&seen.done);
	return NULL;
}

static void it_has_a_stack_beside_a_megabyte_of_variables(void **state)
{
	variables[0] = 1;
	assert_int_equal(helper_start(look), 0);
	wait_done();
	assert_ptr_not_equal(seen.variable, variables);
}

static void *start_pinned(void *unused)
{
	const struct sched_param urgent = { .sched_priority = 10 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &urgent); /* needs root */
	assert_int_equal(helper_start(look), 0);
	return NULL;
}

static void it_runs_where_the_program_does_not_where_its_starter_does(void **state)
{
	cpu_set_t processors;
	pthread_t thread;

	sched_getaffinity(0, sizeof(processors), &processors);
	assert_int_equal(pthread_create(&thread, NULL, start_pinned, NULL), 0);
	pthread_join(thread, NULL);
	wait_done();
	assert_int_equal(seen.policy, SCHED_OTHER);
	assert_int_equal(seen.processors, CPU_COUNT(&processors));
}

static void *start_idle(void *unused)
{
	const struct sched_param none = { 0 };

	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_IDLE, &none), 0);
	assert_int_equal(helper_start(look), 0);
	return NULL;
}

static void it_runs_as_its_starter_where_that_may_not_be_left(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, start_idle, NULL), 0);
	pthread_join(thread, NULL);
	wait_done();
	assert_true(seen.policy == SCHED_OTHER || seen.policy == SCHED_IDLE);
}

static void *need_mutex(void *unused)
{
	settle_begin();
	pthread_mutex_lock(&seen.mutex);
	pthread_mutex_unlock(&seen.mutex);
	if (seen.settles)
		settle_done();
	sem_post(&seen.done);
	return NULL;
}

static void *hold_mutex(void *unused)
{
	pthread_mutex_lock(&seen.mutex);
	sem_post(&seen.done);
	sem_wait(&seen.release);
	pthread_mutex_unlock(&seen.mutex);
	return NULL;
}

static void the_program_waits_while_another_thread_holds_what_it_needs(void **state)
{
	uint64_t begin_ns;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, hold_mutex, NULL), 0);
	wait_done();
	assert_int_equal(helper_start(need_mutex), 0);
	begin_ns = clock_ns(CLOCK_MONOTONIC);
	settle_wait(WAIT_MS, 0);
	assert_true(clock_ns(CLOCK_MONOTONIC) - begin_ns >= WAIT_MS * NS_PER_MS);
	sem_post(&seen.release);
	pthread_join(thread, NULL);
	wait_done();
}

/* As cuInit in a constructor does, which holds the loader's lock. */
static void who_holds_what_it_needs_does_not_wait_for_it(void **state)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);

	seen.settles = true;
	pthread_mutex_lock(&seen.mutex);
	assert_int_equal(helper_start(need_mutex), 0);
	settle_wait(4 * PATIENCE_S * 1000, 4 * PATIENCE_S * 1000);
	assert_true(clock_ns(CLOCK_MONOTONIC) - begin_ns < PATIENCE_S * NS_PER_S);
	pthread_mutex_unlock(&seen.mutex);
	wait_done();
	assert_true(settle_missed_since_ns() >= begin_ns);
}

static void *be_watched(void *unused)
{
	settle_begin();
	settle_watched();
	sem_post(&seen.done);
	return NULL;
}

static void the_program_waits_until_its_calls_are_watched(void **state)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);

	assert_false(settle_wait(0, WAIT_MS));
	assert_true(clock_ns(CLOCK_MONOTONIC) - begin_ns >= WAIT_MS * NS_PER_MS);
	assert_int_equal(helper_start(be_watched), 0);
	assert_true(settle_wait(0, 4 * PATIENCE_S * 1000));
	wait_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_a_stack_beside_a_megabyte_of_variables),
		cmocka_unit_test(it_runs_where_the_program_does_not_where_its_starter_does),
		cmocka_unit_test(it_runs_as_its_starter_where_that_may_not_be_left),
		cmocka_unit_test(the_program_waits_while_another_thread_holds_what_it_needs),
		cmocka_unit_test(who_holds_what_it_needs_does_not_wait_for_it),
		cmocka_unit_test(the_program_waits_until_its_calls_are_watched),
	};

	sem_init(&seen.done, 0, 0);
	sem_init(&seen.release, 0, 0);
	pthread_mutex_init(&seen.mutex, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
