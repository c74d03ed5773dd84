/* What is called on NCCL's communicators: who they are, and which kernels the calls became. */
#include "exact_fixture.h"

#include "core/model/collective.h"
#include "core/model/communicator.h"

#define COMM	0xc0
#define FLOAT32 7

static struct ts_event comm_event(enum fn fn, uint64_t start_ns, uint64_t handle)
{
	struct ts_event event = call_event(fn, start_ns, start_ns + 1000);

	event.api.handle = handle;
	return event;
}

static int comm_init(uint64_t start_ns, uint64_t handle, uint64_t id, int32_t rank, int32_t size)
{
	struct ts_event event = comm_event(FN_COMM_INIT, start_ns, handle);

	event.api.source = id;
	event.api.rank = rank;
	event.api.size = size;
	return give(&event);
}

static int comm_split(uint64_t start_ns, uint64_t parent, uint64_t handle, int32_t color)
{
	struct ts_event event = comm_event(FN_COMM_SPLIT, start_ns, handle);

	event.api.source = parent;
	event.api.color = color;
	return give(&event);
}

static struct ts_event collective_event(enum fn fn, uint64_t start_ns, uint64_t handle,
					uint64_t count)
{
	struct ts_event event = comm_event(fn, start_ns, handle);

	event.api.bytes = count;
	event.api.type = FLOAT32;
	event.api.stream = S1;
	return event;
}

static int collective(enum fn fn, uint64_t start_ns, uint64_t handle, uint64_t count)
{
	struct ts_event event = collective_event(fn, start_ns, handle, count);

	return give(&event);
}

static int group(enum fn fn, uint64_t start_ns)
{
	struct ts_event event = comm_event(fn, start_ns, 0);

	return give(&event);
}

/* A launch that is in the middle of a call that starts then, and its records. */
static void launch_in(uint64_t start_ns, uint32_t correlation, uint64_t ran_ns, uint64_t stream)
{
	launch(start_ns + 500, stream);
	call_record(correlation, FN_LAUNCH, start_ns + 550, start_ns + 600);
	kernel(correlation, start_ns + 1 * MS, start_ns + 1 * MS + ran_ns, stream == S1 ? N1 : N2);
}

static const struct core_communicator *told(uint32_t number)
{
	for (size_t i = seen.communicators; i > 0; i--)
		if (seen.communicator[i - 1].number == number)
			return &seen.communicator[i - 1];
	fail_msg("no communicator %u", number);
	return NULL;
}

static const struct core_collective *sum_of(enum collective operation, uint32_t communicator)
{
	const struct core_collective *found = NULL;

	for (size_t i = 0; i < seen.collectives; i++) {
		if (seen.collective[i].operation != operation ||
		    seen.collective[i].communicator != communicator)
			continue;
		assert_null(found);
		found = &seen.collective[i];
	}
	return found;
}

static void the_probe_tier_counts_calls_and_bytes(void **state)
{
	const struct core_collective *sum;

	announce();
	comm_init(1000, COMM, 77, 2, 8);
	for (uint64_t i = 0; i < 3; i++) {
		launch(10000 + i * 10000 + 500, S1);
		collective(FN_ALL_REDUCE, 10000 + i * 10000, COMM, 1000);
	}
	core_checkpoint(core, 100000);
	assert_int_equal(told(1)->id, 77);
	assert_int_equal(told(1)->rank, 2);
	assert_int_equal(told(1)->size, 8);
	sum = sum_of(COLLECTIVE_ALL_REDUCE, 1);
	assert_int_equal(sum->calls, 3);
	assert_int_equal(sum->bytes, 12000);
	assert_int_equal(sum->runs, 3);
	assert_int_equal(sum->timed, 0);
	assert_int_equal(sum->total_ns, 0);
	assert_int_equal(sum->type, FLOAT32 + 1);
	assert_int_equal(sum->reduction, 1);
	assert_int_equal(sum->peer, -1);
	assert_int_equal(sum->size, 12);
}

static void the_exact_tier_knows_how_long_it_took(void **state)
{
	const struct core_collective *sum;

	begin_exact();
	comm_init(1001 * MS, COMM, 77, 0, 2);
	launch_in(1010 * MS, 1, 3000, S1);
	collective(FN_ALL_REDUCE, 1010 * MS, COMM, 100);
	/* The program's own, before and after it. */
	launch(1010 * MS - 2000, S1);
	call_record(2, FN_LAUNCH, 1010 * MS - 1900, 1010 * MS - 1800);
	kernel(2, 1009 * MS, 1010 * MS, N1);
	launch_in(1011 * MS, 3, 9000, S1);
	/* One whose record came before it returned. */
	launch_in(1020 * MS, 4, 5000, S1);
	collective(FN_ALL_REDUCE, 1020 * MS, COMM, 100);
	pass_until(6000 * MS);
	sum = sum_of(COLLECTIVE_ALL_REDUCE, 1);
	assert_int_equal(sum->calls, 2);
	assert_int_equal(sum->timed, 2);
	assert_int_equal(sum->timed_bytes, 800);
	assert_int_equal(sum->total_ns, 8000);
	assert_int_equal(sum->min_ns, 3000);
	assert_int_equal(sum->max_ns, 5000);
	assert_int_equal(sum->shared, 0);
}

static void another_thread_launches_for_itself(void **state)
{
	begin_exact();
	comm_init(1001 * MS, COMM, 77, 0, 2);
	tid = 101;
	launch_in(1010 * MS, 1, 3000, S1);
	tid = 100;
	collective(FN_ALL_REDUCE, 1010 * MS, COMM, 100);
	pass_until(6000 * MS);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->calls, 1);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->timed, 0);
}

static void calls_of_a_group_share_its_kernel(void **state)
{
	struct ts_event to = collective_event(FN_SEND, 1012 * MS, COMM, 100);
	const struct core_collective *sum;

	begin_exact();
	comm_init(1001 * MS, COMM, 77, 0, 4);
	group(FN_GROUP_START, 1010 * MS);
	group(FN_GROUP_START, 1011 * MS);
	for (int peer = 1; peer < 4; peer++) {
		to.api.peer = peer;
		give(&to);
	}
	to.fn = FN_RECV;
	give(&to);
	group(FN_GROUP_END, 1013 * MS);
	core_checkpoint(core, 1014 * MS);
	assert_int_equal(seen.collectives, 0);
	launch_in(1015 * MS, 1, 4000, S1);
	group(FN_GROUP_END, 1015 * MS);
	pass_until(6000 * MS);
	sum = sum_of(COLLECTIVE_SEND, 1);
	assert_int_equal(sum->calls, 3);
	assert_int_equal(sum->runs, 1);
	assert_int_equal(sum->shared, 1);
	assert_int_equal(sum->bytes, 1200);
	assert_int_equal(sum->peer, -1);
	assert_int_equal(sum->timed, 1);
	assert_int_equal(sum->total_ns, 4000);
	sum = sum_of(COLLECTIVE_RECV, 1);
	assert_int_equal(sum->calls, 1);
	assert_int_equal(sum->peer, 3);
	assert_int_equal(sum->shared, 1);
	assert_int_equal(sum->total_ns, 4000);
}

/* As of a process that has several devices. */
static void communicators_of_a_group_have_a_kernel_each(void **state)
{
	struct ts_event second = collective_event(FN_ALL_REDUCE, 1012 * MS, 2 * COMM, 200);

	begin_exact();
	comm_init(1001 * MS, COMM, 77, 0, 2);
	comm_init(1002 * MS, 2 * COMM, 77, 1, 2);
	group(FN_GROUP_START, 1010 * MS);
	collective(FN_ALL_REDUCE, 1011 * MS, COMM, 100);
	second.api.stream = S2;
	give(&second);
	launch_in(1015 * MS, 1, 4000, S1);
	launch_in(1015 * MS + 200, 2, 6000, S2);
	group(FN_GROUP_END, 1015 * MS);
	pass_until(6000 * MS);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->total_ns, 4000);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->bytes, 400);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 2)->total_ns, 6000);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 2)->bytes, 800);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 2)->shared, 0);
}

static void what_fails_is_not_counted(void **state)
{
	struct ts_event event = collective_event(FN_ALL_REDUCE, 2000, COMM, 100);

	announce();
	comm_init(1000, COMM, 77, 0, 2);
	event.result = 4;
	give(&event);
	event.result = 0;
	event.flags = TS_EVENT_UNFINISHED;
	event.end_ns = 0;
	give(&event);
	group(FN_GROUP_START, 10000);
	collective(FN_ALL_REDUCE, 11000, COMM, 100);
	event = comm_event(FN_GROUP_END, 13000, 0);
	event.result = 5;
	give(&event);
	/* Without a start, which was lost. */
	group(FN_GROUP_END, 15000);
	core_checkpoint(core, 20000);
	assert_int_equal(seen.collectives, 0);
	event = collective_event(FN_ALL_REDUCE, 30000, COMM, 100);
	event.result = 7; /* ncclInProgress */
	give(&event);
	core_checkpoint(core, 40000);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->calls, 1);
}

static void a_group_whose_end_was_lost_ends(void **state)
{
	announce();
	comm_init(1000, COMM, 77, 0, 2);
	group(FN_GROUP_START, 10000);
	collective(FN_ALL_GATHER, 20000, COMM, 100);
	launch(30500, S1);
	collective(FN_ALL_REDUCE, 30000, COMM, 100);
	core_checkpoint(core, 40000);
	assert_null(sum_of(COLLECTIVE_ALL_GATHER, 1));
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->calls, 1);
}

static void parts_have_the_same_id_in_all_ranks(void **state)
{
	uint64_t first, second, other;

	announce();
	comm_init(1000, COMM, 77, 0, 4);
	comm_split(3000, COMM, 0xd0, 5);
	comm_split(5000, COMM, 0xd1, 5);
	comm_split(7000, COMM, 0xd2, 6);
	/* Another rank, which is in none of the first ones. */
	comm_init(9000, 0xe0, 77, 1, 4);
	comm_split(11000, 0xe0, 0, -1);
	comm_split(13000, 0xe0, 0xe1, 5);
	comm_split(15000, 0xe0, 0xe2, 6);
	first = told(2)->id;
	second = told(3)->id;
	other = told(4)->id;
	assert_int_equal(told(2)->parent, 77);
	assert_int_equal(told(2)->rank, -1);
	assert_int_equal(told(2)->size, 0);
	assert_true(first && second && other);
	assert_true(first != second && second != other && first != other);
	assert_int_equal(told(6)->id, second);
	assert_int_equal(told(7)->id, other);
	/* Of a parent that is not known nothing is. */
	comm_split(17000, 0xf0, 0xf1, 5);
	assert_int_equal(told(8)->id, 0);
}

static void the_library_may_say_later_which_rank_it_is(void **state)
{
	struct ts_event size = comm_event(FN_COMM_SIZE, 3000, 0xd0);
	struct ts_event rank = comm_event(FN_COMM_RANK, 4000, 0xd0);
	size_t count;

	announce();
	collective(FN_ALL_REDUCE, 2000, 0xd0, 100);
	assert_int_equal(told(1)->id, 0);
	assert_int_equal(told(1)->created_ns, 0);
	size.api.bytes = 16;
	rank.api.bytes = 15;
	give(&size);
	give(&rank);
	assert_int_equal(told(1)->size, 16);
	assert_int_equal(told(1)->rank, 15);
	count = seen.communicators;
	give(&size);
	rank.api.bytes = UINT64_MAX;
	give(&rank);
	assert_int_equal(seen.communicators, count);
}

static void a_handle_may_be_used_again(void **state)
{
	struct ts_event end = comm_event(FN_COMM_END, 5000, COMM);

	announce();
	comm_init(1000, COMM, 77, 0, 2);
	give(&end);
	assert_int_equal(told(1)->ended_ns, 5000);
	comm_init(6000, COMM, 78, 0, 2);
	comm_init(8000, COMM, 79, 0, 2);
	assert_int_equal(told(2)->ended_ns, 8000);
	collective(FN_ALL_REDUCE, 10000, COMM, 100);
	core_checkpoint(core, 20000);
	assert_non_null(sum_of(COLLECTIVE_ALL_REDUCE, 3));
	end = process_event(TS_EVENT_EXIT, 30000, 0);
	give(&end);
	assert_int_equal(told(3)->ended_ns, 30000);
}

static void counts_may_be_anything(void **state)
{
	struct ts_event event = collective_event(FN_ALL_REDUCE, 2000, COMM, UINT64_MAX);

	announce();
	comm_init(1000, COMM, 77, INT32_MIN, INT32_MAX);
	assert_int_equal(told(1)->rank, -1);
	assert_int_equal(told(1)->size, 0);
	for (int i = 0; i < 100; i++)
		give(&event);
	event.api.type = UINT32_MAX;
	event.api.reduction = UINT32_MAX;
	give(&event);
	core_checkpoint(core, 40000);
	assert_int_equal(seen.collectives, 2);
	assert_int_equal(seen.collective[0].bytes, 100ull << 50);
	assert_int_equal(seen.collective[1].bytes, 0);
	assert_int_equal(seen.collective[1].type, 0);
	assert_int_equal(seen.collective[1].reduction, NCCL_REDUCTION_CUSTOM + 1);
}

static void a_process_has_so_many_communicators(void **state)
{
	announce();
	for (uint64_t i = 1; i <= COMMUNICATORS_MAX + 10; i++) {
		struct ts_event end = comm_event(FN_COMM_END, 1000 * i + 900, COMM + i);

		comm_init(1000 * i, COMM + i, i, 0, 2);
		give(&end);
	}
	assert_int_equal(seen.communicators, 2 * COMMUNICATORS_MAX);
	collective(FN_ALL_REDUCE, 1000 * (COMMUNICATORS_MAX + 20), 5, 100);
	core_checkpoint(core, 1000 * (COMMUNICATORS_MAX + 30));
	assert_int_equal(lost(LOSS_LIMIT), 11);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 0)->calls, 1);
}

static void a_process_has_so_many_open_groups(void **state)
{
	announce();
	for (uint32_t i = 0; i < GROUPS_MAX + 5; i++) {
		tid = 1000 + i;
		group(FN_GROUP_START, 1000 + i);
	}
	tid = 1000 + GROUPS_MAX + 4;
	collective(FN_ALL_REDUCE, 5000, COMM, 100);
	group(FN_GROUP_END, 7000);
	tid = 100;
	core_checkpoint(core, 10000);
	assert_int_equal(lost(LOSS_LIMIT), 5);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, 1)->calls, 1);
}

static void a_group_has_so_many_kinds_of_calls(void **state)
{
	announce();
	group(FN_GROUP_START, 1000);
	for (uint64_t i = 0; i < PARTS_MAX + 7; i++)
		for (int twice = 0; twice < 2; twice++)
			collective(FN_ALL_REDUCE, 2000 + i, COMM + i, 100);
	group(FN_GROUP_END, 9000);
	core_checkpoint(core, 20000);
	assert_int_equal(lost(LOSS_LIMIT), 2 * 7);
	assert_int_equal(seen.collectives, PARTS_MAX);
	assert_int_equal(sum_of(COLLECTIVE_ALL_REDUCE, PARTS_MAX)->calls, 2);
}

static void a_restored_communicator_goes_on(void **state)
{
	struct core_process process = { .id = 9, .pid = 100, .exit_code = EXIT_UNKNOWN };
	struct core_communicator row = {
		.process = 9, .number = 5, .id = 77, .handle = COMM, .rank = 1, .size = 2
	};

	assert_int_equal(core_restore_communicator(core, &row), -ENOENT);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(core_restore_communicator(core, &row), 0);
	assert_int_equal(core_restore_communicator(core, &row), -EEXIST);
	collective(FN_ALL_REDUCE, 10000, COMM, 100);
	collective(FN_ALL_REDUCE, 12000, COMM + 1, 100);
	core_checkpoint(core, 20000);
	assert_non_null(sum_of(COLLECTIVE_ALL_REDUCE, 5));
	assert_non_null(sum_of(COLLECTIVE_ALL_REDUCE, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(the_probe_tier_counts_calls_and_bytes),
		STORY(the_exact_tier_knows_how_long_it_took),
		STORY(another_thread_launches_for_itself),
		STORY(calls_of_a_group_share_its_kernel),
		STORY(communicators_of_a_group_have_a_kernel_each),
		STORY(what_fails_is_not_counted),
		STORY(a_group_whose_end_was_lost_ends),
		STORY(parts_have_the_same_id_in_all_ranks),
		STORY(the_library_may_say_later_which_rank_it_is),
		STORY(a_handle_may_be_used_again),
		STORY(counts_may_be_anything),
		STORY(a_process_has_so_many_communicators),
		STORY(a_process_has_so_many_open_groups),
		STORY(a_group_has_so_many_kinds_of_calls),
		STORY(a_restored_communicator_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
