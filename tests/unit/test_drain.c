/* test_drain: CUPTI's buffers, taken, filled by hand and drained into what stands for the ring. */
#include "cupti_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "inject/budget.h"
#include "inject/buffer.h"
#include "inject/drain.h"
#include "inject/launcher.h"
#include "inject/name.h"

#define SET_BYTES  88
#define MIB	   (1u << 20)
#define HELD_UP_NS 500000000 /* a flush of ours that takes longer waits no more */

static size_t dropped_now;
static unsigned flushes, forced;

/* CUPTI's walk over records: all of this test are sets, but one of a kind that it does not know. */
static int fake_next(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + SET_BYTES : buffer;

	if (at + SET_BYTES > buffer + valid)
		return CUPTI_LIMIT_REACHED;
	*record = at;
	return CUPTI_OK;
}

static int fake_dropped(void *context, uint32_t stream, size_t *ret)
{
	*ret = dropped_now;
	dropped_now = 0;
	return CUPTI_OK;
}

static size_t fill(uint8_t *buffer, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct cupti_set *set = (struct cupti_set *)(buffer + i * SET_BYTES);

		set->kind = CUPTI_KIND_MEMSET;
		set->start = 10 + i;
		set->end = 20 + i;
		set->correlation = i + 1;
	}
	return count * SET_BYTES;
}

static uint8_t *filling;
static unsigned buffers;

/* CUPTI's worker, which hands over buffers while a flush waits for its lock. */
static void *worker_main(void *data)
{
	unsigned *woken_by_last = data;

	for (unsigned i = 0; i < buffers; i++) {
		uint8_t *buffer = NULL;
		size_t size, records;
		unsigned before = woken;

		drain_request(&buffer, &size, &records);
		drain_complete(NULL, 0, buffer, size, fill(buffer, 1));
		*woken_by_last = woken - before;
	}
	return NULL;
}

static uint64_t held_up_ns; /* how long a flush waits before the worker comes */
static unsigned woken_by_last;

static void hold_up(void)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + held_up_ns;
	pthread_t worker;

	while (clock_ns(CLOCK_MONOTONIC) < until_ns)
		sched_yield();
	assert_int_equal(pthread_create(&worker, NULL, worker_main, &woken_by_last), 0);
	assert_int_equal(pthread_join(worker, NULL), 0);
}

static int fake_flush(uint32_t flag)
{
	flushes++;
	if (held_up_ns)
		hold_up();
	forced += flag == CUPTI_FLUSH_FORCED;
	if (filling)
		drain_complete(NULL, 0, filling, 0, SET_BYTES);
	filling = NULL;
	return CUPTI_OK;
}

static const struct cupti fake = { .next_record = fake_next,
				   .dropped = fake_dropped,
				   .flush_all = fake_flush };

static uint8_t *take(size_t *ret_size)
{
	uint8_t *buffer = NULL;
	size_t records = 1;

	drain_request(&buffer, ret_size, &records);
	assert_int_equal(records, 0);
	return buffer;
}

static int setup(void **state)
{
	put_reset();
	name_reset();
	drain_use(&fake);
	buffer_set(0, true);
	dropped_now = flushes = forced = 0;
	return 0;
}

static void buffer_becomes_events_and_is_zeros_again(void **state)
{
	struct buffer_stats stats;
	size_t size;
	uint8_t *buffer = take(&size);

	assert_non_null(buffer);
	assert_int_equal((uintptr_t)buffer % 8, 0);
	buffer_stats(&stats);
	assert_int_equal(stats.out, 1);
	assert_int_equal(stats.out_bytes, size);
	drain_complete(NULL, 0, buffer, size, fill(buffer, 3));
	assert_int_equal(put_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(put[i].event.kind, TS_EVENT_SET);
		assert_int_equal(put[i].event.work.correlation, i + 1);
	}
	assert_true(woken > 0);
	buffer_stats(&stats);
	assert_int_equal(stats.out, 0);
	assert_ptr_equal(take(&size), buffer);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(buffer[i], 0);
	drain_complete(NULL, 0, buffer, size, 0);
}

/* And what CUPTI never came to stays untouched. */
static void first_buffers_are_big_and_cost_only_what_is_used(void **state)
{
	static unsigned char resident[4 * MIB / 4096];
	unsigned pages = 0;
	size_t size;
	uint8_t *buffer;

	buffer_release();
	buffer = take(&size);
	assert_int_equal(size, 4 * MIB);
	fill(buffer, 3000);
	buffer[4000 * SET_BYTES] = 1; /* begun, and never finished */
	drain_complete(NULL, 0, buffer, size, 100 * SET_BYTES);
	assert_int_equal(mincore(buffer, size, resident), 0);
	for (size_t i = 0; i < sizeof(resident); i++)
		pages += resident[i] & 1;
	assert_true(pages < sizeof(resident)); /* less where pages are not huge */
	assert_ptr_equal(take(&size), buffer);
	for (size_t i = 0; i < size; i++)
		if (buffer[i])
			fail_msg("byte %zu is not cleared", i);
	drain_complete(NULL, 0, buffer, size, 0);
}

static void buffer_of_another_user_is_not_touched(void **state)
{
	static uint8_t theirs[4096];

	fill(theirs, 2);
	drain_complete(NULL, 0, theirs, sizeof(theirs), 2 * SET_BYTES);
	drain_complete(NULL, 0, NULL, 0, 0);
	assert_int_equal(put_count, 0);
	assert_int_equal(theirs[0], CUPTI_KIND_MEMSET);
}

static void records_that_cannot_be_read_are_counted(void **state)
{
	size_t size;
	uint8_t *buffer = take(&size);
	size_t valid = fill(buffer, 3);

	((struct cupti_set *)(buffer + SET_BYTES))->kind = 1000;
	drain_complete(NULL, 0, buffer, size, valid);
	assert_int_equal(put_count, 2);
	assert_int_equal(put_lost[TS_LOST_UNKNOWN], 1);
}

static void what_cupti_dropped_is_counted(void **state)
{
	size_t size;
	uint8_t *buffer = take(&size);

	dropped_now = 17;
	drain_complete(NULL, 0, buffer, size, 0);
	assert_int_equal(put_lost[TS_LOST_CUPTI], 17);
}

/* A thread of the program does not wait. */
static void full_ring_loses_on_the_threads_of_the_program(void **state)
{
	size_t size;
	uint8_t *buffer = take(&size);

	assert_non_null(launcher_note(thread_id()));
	put_refuses = 2;
	drain_complete(NULL, 0, buffer, size, fill(buffer, 5));
	assert_int_equal(put_lost[TS_LOST_RING], 2);
	assert_int_equal(put_count, 3);
	launcher_forget_all();
}

/* One that is known only by CUPTI's records of its calls does not wait either. */
static void full_ring_loses_on_threads_that_made_calls(void **state)
{
	struct drain_stats stats;
	uint8_t *buffer;
	size_t size;

	for (int i = 0; i < 8; i++) {
		struct cupti_api *call;

		buffer = take(&size);
		call = (struct cupti_api *)buffer;
		put_reset();
		fill(buffer, 2);
		call->kind = CUPTI_KIND_DRIVER;
		call->cbid = 307;
		call->start = call->end = clock_ns(CLOCK_MONOTONIC);
		call->thread = thread_id();
		drain_complete(NULL, 0, buffer, size, 2 * SET_BYTES);
		assert_int_equal(put_count, 2);
	}
	drain_stats(&stats);
	assert_int_equal(stats.calls, 8);
	put_refuses = 1;
	buffer = take(&size);
	drain_complete(NULL, 0, buffer, size, fill(buffer, 1));
	assert_int_equal(put_lost[TS_LOST_RING], 1);
}

/* Nobody calls for them, but whoever launches their graph waits for them. */
static void records_of_graphs_have_a_price(void **state)
{
	const uint64_t second_ns = 1000000000;
	size_t size;
	uint8_t *buffer = take(&size);
	const struct ts_cost *cost;

	budget_set(second_ns, 0, TS_RECORDS_DEFAULT);
	put_reset();
	fill(buffer, 3);
	for (int i = 0; i < 2; i++)
		((struct cupti_set *)(buffer + i * SET_BYTES))->graph = 1;
	drain_complete(NULL, 0, buffer, size, 3 * SET_BYTES);
	budget_tick(2 * second_ns);
	cost = &put[3].event.cost;
	assert_int_equal(put[3].event.kind, TS_EVENT_COST);
	assert_int_equal(cost->records, 3);
	assert_int_equal(cost->nodes, 2);
	assert_in_range(cost->busiest_ppm, 2 * TS_NODE_NS / 1000, UINT32_MAX);
	budget_tick(3 * second_ns);
	assert_int_equal(put[4].event.cost.nodes, 0);
}

/* One record, into a ring that has no room at first, or little; again if it was the machine that
 * held the flush up. */
static void flush_one(int refuses, bool crowded)
{
	uint64_t start_ns;
	size_t size;

	do {
		put_reset();
		filling = take(&size);
		fill(filling, 1);
		put_refuses = refuses;
		put_crowded = crowded;
		start_ns = clock_ns(CLOCK_MONOTONIC);
		drain_flush(false);
		assert_int_equal(put_count + put_lost[TS_LOST_RING], 1);
	} while ((!put_count || woken < 3) && clock_ns(CLOCK_MONOTONIC) - start_ns > HELD_UP_NS);
	put_crowded = false;
}

static void full_ring_is_waited_for_in_a_flush_of_ours(void **state)
{
	flush_one(3, false);
	assert_int_equal(put_lost[TS_LOST_RING], 0);
	assert_true(woken >= 3);
}

/* But in the end they are worth more than room for what may come. */
static void last_room_is_left_to_those_who_cannot_wait(void **state)
{
	flush_one(0, true);
	assert_int_equal(put_lost[TS_LOST_RING], 0);
	assert_true(woken >= 3);
}

static void full_ring_is_not_waited_for_without_end(void **state)
{
	size_t size;

	filling = take(&size);
	fill(filling, 1);
	put_refuses = -1;
	drain_flush(false); /* returns */
	assert_int_equal(put_lost[TS_LOST_RING], 1);
}

/* Once it has taken long the worker loses records rather than wait, so that it can go on. */
static void flush_that_is_held_up_gets_its_turn(void **state)
{
	uint64_t start_ns, flushed = 0;

	put_refuses = -1;
	held_up_ns = 1;
	buffers = 5; /* waits with one: more take too long on a busy machine */
	/* Again if it was the machine that held it up. */
	do {
		start_ns = clock_ns(CLOCK_MONOTONIC);
		drain_flush(false);
		flushed += buffers;
	} while (woken_by_last == 1 && clock_ns(CLOCK_MONOTONIC) - start_ns > HELD_UP_NS);
	assert_true(woken_by_last > 1);
	held_up_ns = HELD_UP_NS + 100000000;
	buffers = 6;
	drain_flush(false);
	assert_int_equal(woken_by_last, 1);
	held_up_ns = 1;
	drain_hurry(true);
	drain_flush(false);
	assert_int_equal(woken_by_last, 1);
	drain_hurry(false);
	held_up_ns = 0;
	assert_int_equal(put_lost[TS_LOST_RING], flushed + 2 * buffers);
}

static void waiting_for_buffers_flushes_until_they_are_back(void **state)
{
	size_t size;

	filling = take(&size);
	fill(filling, 1);
	assert_true(drain_wait(false, 1000000000));
	assert_int_equal(forced, 0);
	assert_int_equal(put_count, 1);
	filling = NULL;
	take(&size); /* CUPTI keeps this one */
	assert_false(drain_wait(true, 3000000));
	assert_true(forced > 0);
}

static void buffers_have_a_cap(void **state)
{
	struct buffer_stats before, stats;
	uint64_t bytes = 0;
	size_t size, last = SIZE_MAX;
	unsigned count = 0;
	uint8_t *buffer[1024];

	buffer_stats(&before);
	buffer_set(before.out_bytes + MIB, true);
	while ((buffer[count] = take(&size))) {
		assert_true(size <= last && size >= 4096);
		last = size;
		bytes += size;
		buffer[count][0] = 1;
		assert_true(++count < 1024);
	}
	assert_int_equal(size, 0);
	assert_in_range(bytes, MIB / 2, MIB);
	assert_int_equal(put_lost[TS_LOST_BUFFERS], 0); /* CUPTI says how many records that were */
	dropped_now = 5;
	drain_complete(NULL, 0, buffer[--count], 0, 0);
	assert_int_equal(put_lost[TS_LOST_BUFFERS], 5);
	while (count)
		drain_complete(NULL, 0, buffer[--count], 0, 0);
	buffer_stats(&stats);
	assert_int_equal(stats.out, before.out);
	assert_true(stats.refused > before.refused);
}

static void older_cupti_is_never_refused(void **state)
{
	struct buffer_stats before, stats;
	uint8_t *buffer[300];
	size_t size;

	buffer_stats(&before);
	buffer_set(before.out_bytes + 65536, false);
	for (unsigned i = 0; i < 300; i++) {
		buffer[i] = take(&size);
		assert_non_null(buffer[i]);
		assert_int_not_equal(size, 0);
	}
	assert_int_equal(size, 4096);
	for (unsigned i = 0; i < 300; i++)
		drain_complete(NULL, 0, buffer[i], 0, 0);
	buffer_stats(&stats);
	assert_int_equal(stats.out, before.out);
}

static void what_is_ready_is_given_back_to_the_system(void **state)
{
	struct buffer_stats stats;
	uint8_t *held;
	size_t size;

	held = take(&size);
	held[0] = 9;
	for (int i = 0; i < 10; i++)
		buffer_tend();
	buffer_stats(&stats);
	assert_true(stats.bytes > stats.out_bytes);
	buffer_release();
	buffer_stats(&stats);
	assert_int_equal(stats.bytes, stats.out_bytes);
	assert_int_equal(held[0], 9);
	drain_complete(NULL, 0, held, size, 0);
}

static void *churn(void *unused)
{
	for (int i = 0; i < 2000; i++) {
		uint8_t *buffer[4];
		size_t size[4];

		for (int n = 0; n < 4; n++) {
			buffer[n] = buffer_take(&size[n]);
			if (buffer[n] && buffer[n][0])
				return buffer[n];
			if (buffer[n])
				buffer[n][0] = 1;
		}
		for (int n = 0; n < 4; n++)
			if (buffer[n])
				buffer_give(buffer[n], 0);
		if (i % 16 == 0)
			buffer_tend();
	}
	return NULL;
}

static void threads_never_share_a_buffer(void **state)
{
	struct buffer_stats before, stats;
	pthread_t thread[4];
	void *r;

	buffer_stats(&before);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &r);
		assert_null(r);
	}
	buffer_stats(&stats);
	assert_int_equal(stats.out, before.out);
	assert_int_equal(stats.out_bytes, before.out_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(buffer_becomes_events_and_is_zeros_again, setup),
		cmocka_unit_test_setup(first_buffers_are_big_and_cost_only_what_is_used, setup),
		cmocka_unit_test_setup(buffer_of_another_user_is_not_touched, setup),
		cmocka_unit_test_setup(records_that_cannot_be_read_are_counted, setup),
		cmocka_unit_test_setup(what_cupti_dropped_is_counted, setup),
		cmocka_unit_test_setup(full_ring_loses_on_the_threads_of_the_program, setup),
		cmocka_unit_test_setup(full_ring_loses_on_threads_that_made_calls, setup),
		cmocka_unit_test_setup(records_of_graphs_have_a_price, setup),
		cmocka_unit_test_setup(full_ring_is_waited_for_in_a_flush_of_ours, setup),
		cmocka_unit_test_setup(last_room_is_left_to_those_who_cannot_wait, setup),
		cmocka_unit_test_setup(full_ring_is_not_waited_for_without_end, setup),
		cmocka_unit_test_setup(flush_that_is_held_up_gets_its_turn, setup),
		cmocka_unit_test_setup(waiting_for_buffers_flushes_until_they_are_back, setup),
		cmocka_unit_test_setup(buffers_have_a_cap, setup),
		cmocka_unit_test_setup(older_cupti_is_never_refused, setup),
		cmocka_unit_test_setup(what_is_ready_is_given_back_to_the_system, setup),
		cmocka_unit_test_setup(threads_never_share_a_buffer, setup),
	};

	return cmocka_run_group_tests_name("drain", tests, NULL, NULL);
}
