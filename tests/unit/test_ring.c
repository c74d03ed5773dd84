/* Ring: records of many writers reach the one reader whole, whatever writers and memory do. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "proto/ring.h"

#define SLOTS	    64
#define WRITERS	    4
#define DEADLINE_MS 60000
#ifdef __SANITIZE_THREAD__ /* some twenty times as slow */
#define PER_WRITER 200000
#else
#define PER_WRITER 1000000
#endif

struct fixture {
	struct ts_ring ring; /* as writers see it */
	struct ts_ring_reader reader;
	uint8_t record[TS_RING_COPY_MAX];
	uint8_t beyond[SLOTS * TS_EVENT_SIZE]; /* stays zero */
};

static struct fixture *fixture_new(uint32_t slots)
{
	struct fixture *f = calloc(1, sizeof(*f));
	void *memory = mmap(NULL, ts_ring_bytes(slots), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_non_null(f);
	assert_true(memory != MAP_FAILED);
	f->ring = ts_ring_init(memory, slots);
	f->reader.ring = ts_ring_at(memory, slots);
	return f;
}

static void fixture_free(struct fixture *f)
{
	munmap(f->ring.head, ts_ring_bytes(f->ring.mask + 1));
	free(f);
}

static int setup(void **state)
{
	*state = fixture_new(SLOTS);
	return 0;
}

static int teardown(void **state)
{
	fixture_free(*state);
	return 0;
}

/* Each word of an event says which event it is, so that a torn one shows. */
static struct ts_event event_of(uint32_t writer, uint64_t number)
{
	struct ts_event event = { .kind = TS_EVENT_KERNEL, .tid = writer, .start_ns = number };

	for (int i = 0; i < 10; i++)
		event.payload[i] = number << 8 | writer;
	return event;
}

static bool event_is_whole(const struct ts_event *event)
{
	const struct ts_event wanted = event_of(event->tid, event->start_ns);

	return memcmp(event, &wanted, sizeof(wanted)) == 0;
}

static int put_event(const struct ts_ring *ring, uint32_t writer, uint64_t number)
{
	const struct ts_event event = event_of(writer, number);

	return ts_ring_put(ring, &event, sizeof(event));
}

static size_t name_make(struct ts_name *name, uint32_t id, uint16_t length)
{
	name->kind = TS_EVENT_NAME;
	name->length = length;
	name->id = id;
	name->tgid = name->tid = 0;
	for (uint16_t i = 0; i < length; i++)
		name->text[i] = (char)('a' + (id + i) % 26);
	return sizeof(*name) + length;
}

static int put_name(const struct ts_ring *ring, uint32_t id, uint16_t length)
{
	_Alignas(8) uint8_t room[TS_RING_RECORD_MAX];
	size_t size = name_make((struct ts_name *)room, id, length);

	return ts_ring_put(ring, room, size);
}

static bool name_is_whole(const uint8_t *record, size_t size)
{
	_Alignas(8) uint8_t room[TS_RING_RECORD_MAX];
	const struct ts_name *name = (const struct ts_name *)record;
	size_t wanted = name_make((struct ts_name *)room, name->id, name->length);

	return size >= wanted && memcmp(record, room, wanted) == 0;
}

static void expect_event(struct fixture *f, uint32_t writer, uint64_t number)
{
	const struct ts_event *event = (const struct ts_event *)f->record;

	assert_int_equal(ts_ring_get(&f->reader, f->record), TS_EVENT_SIZE);
	assert_true(event_is_whole(event));
	assert_int_equal(event->tid, writer);
	assert_int_equal(event->start_ns, number);
}

static void expect_none(struct fixture *f)
{
	assert_int_equal(ts_ring_get(&f->reader, f->record), 0);
}

static void records_of_one_writer_come_in_their_order(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(put_event(&f->ring, 1, 2 * i), 0);
		assert_int_equal(put_event(&f->ring, 1, 2 * i + 1), 0);
		expect_event(f, 1, 2 * i);
		expect_event(f, 1, 2 * i + 1);
		expect_none(f);
		ts_ring_release(&f->reader);
	}
}

static void a_full_ring_takes_nothing_until_room_is_given_back(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < SLOTS; i++) {
		assert_int_equal(ts_ring_is_crowded(&f->ring), i > SLOTS - SLOTS / 8);
		assert_int_equal(put_event(&f->ring, 1, i), 0);
	}
	assert_int_equal(put_event(&f->ring, 1, 99), -ENOSPC);
	ts_ring_drop(&f->ring, 1);
	expect_event(f, 1, 0);
	assert_int_equal(put_event(&f->ring, 1, 99), -ENOSPC);
	ts_ring_release(&f->reader);
	assert_int_equal(put_event(&f->ring, 1, SLOTS), 0);
	assert_int_equal(put_event(&f->ring, 1, 99), -ENOSPC);
	assert_int_equal(f->ring.head->dropped, 1);
	for (uint64_t i = 1; i <= SLOTS; i++)
		expect_event(f, 1, i);
	expect_none(f);
}

static void names_take_slots_in_a_row_also_across_the_end(void **state)
{
	static const uint16_t length[] = { 0, 1, 112, 113, 240, 241, 1000, 4095, TS_NAME_MAX };
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 500; i++) {
		uint16_t wanted = length[i % (ARRAY_SIZE(length))];
		size_t size;

		assert_int_equal(put_name(&f->ring, i, wanted), 0);
		assert_int_equal(put_event(&f->ring, 7, i), 0);
		size = ts_ring_get(&f->reader, f->record);
		assert_int_equal(size,
				 ts_ring_slots_of(sizeof(struct ts_name) + wanted) * TS_EVENT_SIZE);
		assert_true(name_is_whole(f->record, size));
		expect_event(f, 7, i);
		ts_ring_release(&f->reader);
	}
}

struct writer {
	struct ts_ring ring;
	uint32_t number;
	int done; /* atomic */
	pthread_t thread;
};

static void *write_all(void *data)
{
	struct writer *writer = data;

	for (uint64_t i = 0; i < PER_WRITER; i++) {
		/* Now and then a name, of a number of slots that changes. */
		if (i % 64 == 63)
			while (put_name(&writer->ring, (uint32_t)i, (uint16_t)(i / 64 % 600)) < 0)
				sched_yield();
		while (put_event(&writer->ring, writer->number, i) < 0)
			sched_yield();
	}
	__atomic_store_n(&writer->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static bool writers_done(const struct writer writer[WRITERS])
{
	for (int i = 0; i < WRITERS; i++)
		if (!__atomic_load_n(&writer[i].done, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

static void start_writers(struct writer writer[WRITERS], const struct ts_ring *ring)
{
	for (uint32_t i = 0; i < WRITERS; i++) {
		writer[i] = (struct writer){ .ring = *ring, .number = i };
		assert_int_equal(pthread_create(&writer[i].thread, NULL, write_all, &writer[i]), 0);
	}
}

static void nothing_of_four_writers_is_lost_or_torn(void **state)
{
	struct fixture *f = fixture_new(4096);
	struct writer writer[WRITERS];
	uint64_t next[WRITERS] = { 0 }, events = 0, names = 0;

	start_writers(writer, &f->ring);
	while (events < (uint64_t)WRITERS * PER_WRITER) {
		const struct ts_event *event = (const struct ts_event *)f->record;
		size_t size = ts_ring_get(&f->reader, f->record);

		ts_ring_release(&f->reader);
		if (!size) {
			sched_yield();
		} else if (event->kind == TS_EVENT_NAME) {
			assert_true(name_is_whole(f->record, size));
			names++;
		} else {
			assert_true(event_is_whole(event));
			assert_int_equal(event->start_ns, next[event->tid]++);
			events++;
		}
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writer[i].thread, NULL);
	expect_none(f);
	assert_int_equal(names, (uint64_t)WRITERS * (PER_WRITER / 64));
	assert_int_equal(f->ring.head->claimed, f->reader.position);
	fixture_free(f);
}

/* The reader waits for nobody here, so that writers are passed over all the time. */
static void a_reader_that_skips_too_soon_loses_records_and_tears_none(void **state)
{
	struct fixture *f = fixture_new(128);
	struct writer writer[WRITERS];
	uint64_t next[WRITERS] = { 0 }, events = 0, skipped = 0, lost = 0;
	bool done = false;

	start_writers(writer, &f->ring);
	for (bool more = true; more || !done;) {
		const struct ts_event *event = (const struct ts_event *)f->record;
		size_t size;
		uint64_t now;

		if (!more) { /* what they wrote before they were done is looked for once more */
			done = writers_done(writer);
			sched_yield();
		}
		size = ts_ring_get(&f->reader, f->record);
		now = size ? 0 : ts_ring_skip(&f->reader);
		more = size || now;
		skipped += now;
		ts_ring_release(&f->reader);
		if (size && event->kind == TS_EVENT_NAME) {
			assert_true(name_is_whole(f->record, size));
		} else if (size) {
			assert_int_equal(event->kind, TS_EVENT_KERNEL);
			assert_true(event_is_whole(event));
			assert_true(event->start_ns >= next[event->tid]);
			lost += event->start_ns - next[event->tid];
			next[event->tid] = event->start_ns + 1;
			events++;
		}
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writer[i].thread, NULL);
	for (int i = 0; i < WRITERS; i++)
		lost += PER_WRITER - next[i];
	assert_true(events + lost == (uint64_t)WRITERS * PER_WRITER);
	assert_true(lost <= skipped);
	/* All late writers have come out. */
	for (int i = 0; i < 128; i++)
		assert_int_equal(f->ring.word[i] & TS_RING_LATE, 0);
	fixture_free(f);
}

static void a_late_writer_tears_no_record_and_its_slot_comes_back(void **state)
{
	const struct ts_event late = event_of(9, 9);
	struct fixture *f = *state;
	uint64_t at = 0;

	assert_int_equal(ts_ring_begin(&f->ring, 1, &at), 0); /* and it falls asleep */
	assert_int_equal(put_event(&f->ring, 1, 1), 0);
	expect_none(f);
	assert_int_equal(ts_ring_skip(&f->reader), 1);
	expect_event(f, 1, 1);
	ts_ring_release(&f->reader);
	for (uint64_t i = 0; i < SLOTS - 1; i++)
		assert_int_equal(put_event(&f->ring, 2, i), 0);
	assert_int_equal(put_event(&f->ring, 2, 99), -ENOSPC); /* one slot is out of use */
	memcpy(ts_ring_slot(&f->ring, at), &late, sizeof(late));
	assert_false(ts_ring_publish(&f->ring, at, 0));
	for (uint64_t i = 0; i < SLOTS - 1; i++)
		expect_event(f, 2, i);
	expect_none(f);
	ts_ring_release(&f->reader);
	for (uint64_t i = 0; i < SLOTS; i++)
		assert_int_equal(put_event(&f->ring, 3, i), 0);
	for (uint64_t i = 0; i < SLOTS; i++)
		expect_event(f, 3, i);
}

static void a_slot_is_free_again_when_all_its_late_writers_are_out(void **state)
{
	struct fixture *f = *state;
	uint64_t first = 0, second = 0;

	assert_int_equal(ts_ring_begin(&f->ring, 1, &first), 0);
	assert_int_equal(ts_ring_skip(&f->reader), 1);
	ts_ring_release(&f->reader);
	for (uint64_t i = 1; i < SLOTS; i++)
		assert_int_equal(put_event(&f->ring, 1, i), 0);
	for (uint64_t i = 1; i < SLOTS; i++)
		expect_event(f, 1, i);
	ts_ring_release(&f->reader);
	/* Another one claims the same slot, and sleeps before it has looked at it. */
	assert_int_equal(ts_ring_claim(&f->ring, 1, &second), 0);
	assert_ptr_equal(ts_ring_word(&f->ring, first), ts_ring_word(&f->ring, second));
	assert_int_equal(ts_ring_skip(&f->reader), 1);
	assert_false(ts_ring_enter(&f->ring, second));
	assert_int_not_equal(*ts_ring_word(&f->ring, first) & TS_RING_LATE, 0);
	assert_false(ts_ring_publish(&f->ring, first, 0));
	assert_int_equal(*ts_ring_word(&f->ring, first) & TS_RING_LATE, 0);
}

static void who_was_passed_over_before_it_began_leaves_later_records_alone(void **state)
{
	struct fixture *f = *state;
	uint64_t at = 0;

	assert_int_equal(ts_ring_claim(&f->ring, 1, &at), 0);
	assert_int_equal(ts_ring_skip(&f->reader), 1);
	ts_ring_release(&f->reader);
	for (uint64_t i = 0; i < SLOTS - 1; i++)
		assert_int_equal(put_event(&f->ring, 1, i), 0);
	assert_int_equal(put_event(&f->ring, 1, 99), -ENOSPC); /* has passed the slot over */
	assert_false(ts_ring_enter(&f->ring, at));
	for (uint64_t i = 0; i < SLOTS - 1; i++)
		expect_event(f, 1, i);
	expect_none(f);
	ts_ring_release(&f->reader);
	assert_int_equal(ts_ring_waiting(&f->reader), 0);
	for (uint64_t i = 0; i < SLOTS; i++)
		assert_int_equal(put_event(&f->ring, 2, i), 0);
}

static void a_long_record_that_is_half_passed_over_is_lost_as_a_whole(void **state)
{
	struct fixture *f = *state;
	uint64_t at = 0;

	assert_int_equal(ts_ring_begin(&f->ring, 4, &at), 0);
	assert_true(ts_ring_publish(&f->ring, at + 3, TS_RING_PASS));
	assert_true(ts_ring_publish(&f->ring, at + 2, TS_RING_PASS));
	assert_int_equal(ts_ring_skip(&f->reader), 2);
	assert_int_equal(put_event(&f->ring, 1, 1), 0);
	expect_event(f, 1, 1);
	assert_false(ts_ring_publish(&f->ring, at + 1, TS_RING_PASS));
	assert_false(ts_ring_publish(&f->ring, at, 0));
	expect_none(f);
}

static void a_writer_killed_in_the_middle_stops_the_reader_only_until_it_skips(void **state)
{
	struct fixture *f = *state;
	uint64_t at = 0;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		put_event(&f->ring, 1, 1);
		ts_ring_begin(&f->ring, 3, &at);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(put_event(&f->ring, 2, 2), 0);
	expect_event(f, 1, 1);
	expect_none(f);
	assert_int_equal(ts_ring_waiting(&f->reader), 4);
	assert_false(ts_ring_sleep(&f->reader));
	assert_int_equal(ts_ring_skip(&f->reader), 3);
	expect_event(f, 2, 2);
	assert_true(ts_ring_sleep(&f->reader));
	/* Names still find their way around the slots that are out of use. */
	for (uint32_t i = 0; i < 200; i++) {
		ts_ring_release(&f->reader);
		assert_int_equal(put_name(&f->ring, i, 1000), 0);
		assert_true(name_is_whole(f->record, ts_ring_get(&f->reader, f->record)));
	}
}

struct waker {
	struct ts_ring ring;
	int wake_fd;
};

static void *write_and_wake(void *data)
{
	const struct waker *waker = data;
	const uint64_t one = 1;

	for (uint64_t i = 0; i < PER_WRITER / 10; i++) {
		while (put_event(&waker->ring, 1, i) < 0)
			sched_yield();
		if (ts_ring_wake(&waker->ring) &&
		    write(waker->wake_fd, &one, sizeof(one)) != sizeof(one))
			abort();
	}
	return NULL;
}

static void no_record_comes_while_the_reader_sleeps_without_waking_it(void **state)
{
	struct fixture *f = *state;
	struct waker waker = { f->ring, eventfd(0, EFD_CLOEXEC) };
	struct pollfd wait = { .fd = waker.wake_fd, .events = POLLIN };
	uint64_t taken = 0, count;
	bool asleep = ts_ring_sleep(&f->reader);
	pthread_t thread;

	assert_true(asleep); /* so that there is one sleep at least, however fast the other is */
	assert_int_equal(pthread_create(&thread, NULL, write_and_wake, &waker), 0);
	while (taken < PER_WRITER / 10) {
		if (asleep) {
			assert_int_equal(poll(&wait, 1, DEADLINE_MS), 1);
			assert_int_equal(read(waker.wake_fd, &count, sizeof(count)), sizeof(count));
		}
		while (ts_ring_get(&f->reader, f->record))
			taken++;
		ts_ring_release(&f->reader);
		asleep = taken < PER_WRITER / 10 && ts_ring_sleep(&f->reader);
	}
	pthread_join(thread, NULL);
	close(waker.wake_fd);
}

static void a_reader_believes_no_count_of_the_memory(void **state)
{
	struct fixture *f = *state;
	uint64_t taken = 0;

	f->ring.head->claimed = UINT64_MAX / 2;
	assert_int_equal(ts_ring_waiting(&f->reader), 0);
	assert_int_equal(ts_ring_skip(&f->reader), 0);
	f->ring.head->claimed = SLOTS;
	assert_int_equal(ts_ring_skip(&f->reader), SLOTS);
	f->reader.position = 0;
	for (uint64_t i = 0; i < SLOTS; i++) {
		f->ring.word[i] = ts_ring_done(i);
		((struct ts_name *)ts_ring_slot(&f->ring, i))->kind = TS_EVENT_NAME;
		((struct ts_name *)ts_ring_slot(&f->ring, i))->length = UINT16_MAX;
	}
	while (ts_ring_get(&f->reader, f->record) == TS_EVENT_SIZE)
		taken++;
	assert_int_equal(taken, SLOTS);
	/* A name longer than any, in slots that all belong to it. */
	for (uint64_t i = 0; i < SLOTS; i++)
		f->ring.word[i] = ts_ring_done(SLOTS + i) | (i ? TS_RING_PASS : 0);
	memset(f->ring.slot + TS_EVENT_SIZE, 0xff, (SLOTS - 1) * TS_EVENT_SIZE);
	assert_int_equal(ts_ring_get(&f->reader, f->record), TS_EVENT_SIZE);
	for (size_t i = 0; i < sizeof(f->beyond); i++)
		assert_int_equal(f->beyond[i], 0);
	expect_none(f);
	/* A long name of which the rest was not published. */
	f->ring.word[0] = ts_ring_done(2 * SLOTS);
	f->ring.word[1] = ts_ring_done(SLOTS) | TS_RING_PASS;
	((struct ts_name *)f->ring.slot)->length = TS_NAME_MAX;
	assert_int_equal(ts_ring_get(&f->reader, f->record), TS_EVENT_SIZE);
	expect_none(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(records_of_one_writer_come_in_their_order),
		TEST(a_full_ring_takes_nothing_until_room_is_given_back),
		TEST(names_take_slots_in_a_row_also_across_the_end),
		TEST(nothing_of_four_writers_is_lost_or_torn),
		TEST(a_reader_that_skips_too_soon_loses_records_and_tears_none),
		TEST(a_late_writer_tears_no_record_and_its_slot_comes_back),
		TEST(a_slot_is_free_again_when_all_its_late_writers_are_out),
		TEST(who_was_passed_over_before_it_began_leaves_later_records_alone),
		TEST(a_long_record_that_is_half_passed_over_is_lost_as_a_whole),
		TEST(a_writer_killed_in_the_middle_stops_the_reader_only_until_it_skips),
		TEST(no_record_comes_while_the_reader_sleeps_without_waking_it),
		TEST(a_reader_believes_no_count_of_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
