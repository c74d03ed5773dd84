/* test_queue: each call of a thread comes out once and in its order, whoever takes it. */
#include "cupti_fixture.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "inject/cupti_call.h"
#include "inject/queue.h"

#define HELD   128 /* calls of a thread that nobody has taken */
#define LAUNCH 307

static cupti_callback_fn *call_back;

static int fake_subscribe(void **handle, cupti_callback_fn *callback, void *data)
{
	call_back = callback;
	*handle = &call_back;
	return CUPTI_OK;
}

static const struct cupti fake = { .subscribe = fake_subscribe };

static int setup(void **state)
{
	put_reset();
	launcher_forget_all();
	call_forget();
	return call_subscribe(&fake);
}

static void call_site(uint32_t correlation, uint32_t site, int32_t result)
{
	const struct cupti_call call = { .site = site,
					 .result = &result,
					 .correlation = correlation };

	call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, &call);
}

static void call_made(uint32_t correlation)
{
	call_site(correlation, CUPTI_SITE_ENTER, 0);
	call_site(correlation, CUPTI_SITE_EXIT, 0);
}

static void calls_made(uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		call_made(first + i);
}

static void assert_order(uint32_t count)
{
	assert_int_equal(put_count, count);
	assert_int_equal(put_batches, put_ends);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(put[i].size, sizeof(struct ts_event));
		assert_int_equal(put[i].event.call.correlation, i + 1);
	}
}

static void call_is_told_whole_at_the_next_tick(void **state)
{
	uint64_t before_ns = clock_ns(CLOCK_MONOTONIC);
	const struct ts_event *event = &put[0].event;

	call_site(1, CUPTI_SITE_ENTER, 0);
	call_site(1, CUPTI_SITE_EXIT, 719);
	assert_int_equal(put_count, 0);
	queue_take_all();
	assert_order(1);
	assert_int_equal(event->kind, TS_EVENT_CALL);
	assert_int_equal(event->fn, LAUNCH);
	assert_int_equal(event->flags, TS_EVENT_RETURNED);
	assert_int_equal(event->tid, thread_id());
	assert_int_equal(event->ns_tid, thread_id());
	assert_int_equal(event->result, 719);
	assert_true(before_ns <= event->start_ns && event->start_ns <= event->end_ns);
	queue_take_all();
	assert_int_equal(put_count, 1);
}

static void calls_within_a_call_are_a_part_of_it(void **state)
{
	call_site(1, CUPTI_SITE_ENTER, 0);
	call_made(1);
	call_site(1, CUPTI_SITE_EXIT, 0);
	call_site(7, CUPTI_SITE_EXIT, 0); /* began before we did */
	queue_take_all();
	assert_order(1);
}

static void thread_that_calls_often_hands_batches_over_itself(void **state)
{
	calls_made(1, 7 * HELD);
	assert_in_range(put_count, 6 * HELD, 7 * HELD);
	assert_true(put_batches <= 7 * HELD / 32);
	assert_true(woken > 0);
	queue_take_all();
	assert_order(7 * HELD);
	assert_int_equal(put_lost[TS_LOST_RING], 0);
}

static void full_ring_keeps_calls_and_then_loses_them_by_number(void **state)
{
	put_room = 10;
	calls_made(1, 10 + HELD);
	assert_true(put_count <= 10);
	put_room = 0;
	calls_made(11 + HELD, 5);
	assert_int_equal(put_lost[TS_LOST_RING], 5 + 10 - put_count);
	put_room = SIZE_MAX;
	queue_take_all();
	assert_order(10 + HELD + 5 - (uint32_t)put_lost[TS_LOST_RING]);
}

static void little_room_is_used(void **state)
{
	calls_made(1, 20);
	put_room = 7;
	queue_take_all();
	assert_in_range(put_count, 1, 7);
	put_room = SIZE_MAX;
	queue_take_all();
	assert_order(20);
}

static void at_the_end_what_finds_no_room_is_counted(void **state)
{
	calls_made(1, 20);
	put_refuses = 8; /* room comes after a while */
	queue_end();
	assert_order(20);
	calls_made(21, 3);
	put_refuses = -1;
	queue_end();
	assert_int_equal(put_lost[TS_LOST_RING], 3);
	put_refuses = 0;
	queue_take_all();
	assert_order(20);
}

static void without_a_daemon_calls_are_forgotten(void **state)
{
	put_away = true;
	calls_made(100, 3 * HELD);
	queue_take_all();
	put_away = false;
	assert_int_equal(put_lost[TS_LOST_RING], 0);
	calls_made(1, 2);
	queue_take_all();
	assert_order(2);
}

static void *call_and_end(void *data)
{
	*(uint32_t *)data = thread_id();
	calls_made(1, 5);
	return NULL;
}

static void thread_that_ends_is_forgotten_after_its_calls_are_taken(void **state)
{
	pthread_t thread;
	uint64_t most_ns;
	uint32_t tid;

	assert_int_equal(pthread_create(&thread, NULL, call_and_end, &tid), 0);
	pthread_join(thread, NULL);
	wait_until_gone(tid);
	for (int i = 0; i < 3; i++)
		launcher_costs(&most_ns);
	assert_non_null(launcher_find(tid));
	queue_take_all();
	assert_order(5);
	assert_int_equal(put[0].event.tid, tid);
	launcher_costs(&most_ns);
	assert_null(launcher_find(tid));
}

static void child_of_a_fork_forgets(void **state)
{
	calls_made(1, 5);
	launcher_forget_all(); /* as cupti_forked() does */
	queue_take_all();
	assert_int_equal(put_count, 0);
	calls_made(1, 1);
	queue_take_all();
	assert_order(1);
}

static void what_others_say_that_it_cost_is_added(void **state)
{
	struct launcher *launcher = launcher_note(thread_id());
	uint64_t most_ns;

	launcher_charge(launcher, 5);
	launcher_charge_other(launcher, 7);
	assert_int_equal(launcher_costs(&most_ns), 12);
	assert_int_equal(most_ns, 12);
	assert_int_equal(launcher_costs(&most_ns), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(call_is_told_whole_at_the_next_tick),
		TEST(calls_within_a_call_are_a_part_of_it),
		TEST(thread_that_calls_often_hands_batches_over_itself),
		TEST(full_ring_keeps_calls_and_then_loses_them_by_number),
		TEST(little_room_is_used),
		TEST(at_the_end_what_finds_no_room_is_counted),
		TEST(without_a_daemon_calls_are_forgotten),
		TEST(thread_that_ends_is_forgotten_after_its_calls_are_taken),
		TEST(child_of_a_fork_forgets),
		TEST(what_others_say_that_it_cost_is_added),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
