/* Autopsies: what fails again is the same failure, what gets its memory has recovered, and a
 * program that fails all the time gets a few. */
#include "core_fixture.h"

#define MIB (1ull << 20)
#define S   1000000000ull

static int begin(void **state)
{
	struct core_config config = fixture_config();

	config.max_growths = 64;
	config.one_device = true;
	pid = tid = 100;
	fixture_begin(state);
	fixture_restart(&config);
	announce();
	return 0;
}

#define OOM_STORY(function) cmocka_unit_test_setup_teardown(function, begin, fixture_end)

static void fails(enum fn fn, uint64_t at, uint64_t bytes)
{
	struct ts_event event = call_event(fn, at, at + 1);

	event.api.bytes = bytes;
	event.stack_id = 9;
	event.result = 2;
	give(&event); /* INGEST_LIMIT, if it is only counted */
}

static void reports(uint64_t at, uint64_t bytes, uint64_t live, uint64_t reserved, uint8_t type)
{
	struct ts_event event = call_event(FN_OOM, at, 0);

	event.api.bytes = bytes;
	event.api.source = live;
	event.api.handle = reserved;
	event.api.device = type;
	event.stack_id = 11;
	assert_int_equal(give(&event), INGEST_OK);
}

static void room(uint64_t at, uint64_t left, uint64_t total)
{
	struct ts_event event = call_event(FN_ROOM, at, at + 1);

	event.api.address = left;
	event.api.handle = total;
	assert_int_equal(give(&event), INGEST_OK);
}

static void tensor(uint64_t at, uint64_t address, int64_t bytes, uint64_t live, uint64_t reserved)
{
	struct ts_event event = call_event(FN_TENSOR, at, 0);

	event.api.address = address;
	event.api.bytes = (uint64_t)bytes;
	event.api.source = live;
	event.api.handle = reserved;
	event.api.device = 1;
	event.stack_id = 8;
	assert_int_equal(give(&event), INGEST_OK);
}

/* The latest row of an autopsy. */
static const struct core_oom *told(uint32_t id)
{
	for (size_t i = seen.ooms; i-- > 0;)
		if (seen.oom[i].id == id)
			return &seen.oom[i];
	fail_msg("there is no row of %u", id);
	return NULL;
}

static uint32_t highest(void)
{
	uint32_t id = 0;

	for (size_t i = 0; i < seen.ooms; i++)
		if (seen.oom[i].id > id)
			id = seen.oom[i].id;
	return id;
}

static void oom_says_who_held_what(void **state)
{
	on_memory(FN_ALLOC, S, S + 1, 0x1000, 10 * MIB);
	pid = tid = 200;
	announce();
	on_memory(FN_ALLOC, 2 * S, 2 * S + 1, 0x2000, 20 * MIB);
	on_memory(FN_ALLOC_HOST, 2 * S, 2 * S + 1, 0x3000, 5 * MIB);
	pid = tid = 100;
	fails(FN_ALLOC, 3 * S, 64 * MIB);
	core_checkpoint(core, 3 * S + 100);
	assert_int_equal(told(1)->bytes, 64 * MIB);
	assert_int_equal(told(1)->held_bytes, 30 * MIB);
	assert_int_equal(told(1)->kind, MEMORY_DEVICE);
	assert_int_equal(told(1)->failures, 1);
	assert_int_equal(told(1)->room_ns, 0);
	assert_int_equal(told(1)->stack_id, 9);
	assert_int_equal(seen.oom_memories, 2);
	assert_int_equal(seen.oom_memory[0].bytes, 10 * MIB);
	assert_int_equal(seen.oom_memory[1].bytes, 20 * MIB);
	assert_int_equal(seen.oom_stacks, 2);
	assert_int_equal(seen.oom_stack[0].rank, 0);
	assert_int_equal(seen.oom_stack[0].stack_id, 7);
	assert_int_equal(seen.oom_stack[0].recent_bytes, 10 * MIB);
	assert_int_equal(seen.oom_stack[1].rank, 1);
}

static void oom_of_the_host_is_about_host_memory(void **state)
{
	on_memory(FN_ALLOC, S, S + 1, 0x1000, 10 * MIB);
	on_memory(FN_ALLOC_HOST, S, S + 1, 0x3000, 5 * MIB);
	fails(FN_ALLOC_HOST, 2 * S, 64 * MIB);
	core_checkpoint(core, 2 * S + 100);
	assert_int_equal(told(1)->held_bytes, 5 * MIB);
	assert_int_equal(told(1)->device, DEVICE_UNKNOWN);
	assert_int_equal(seen.oom_memories, 1);
	assert_int_equal(seen.oom_memory[0].kind, MEMORY_HOST);
}

static void oom_that_recovers_is_no_news(void **state)
{
	fails(FN_ALLOC, S, 64 * MIB);
	core_checkpoint(core, S + 100);
	assert_false(told(1)->news);
	on_memory(FN_ALLOC, 2 * S - 10, 2 * S - 9, 0x1000, 63 * MIB);
	core_checkpoint(core, 2 * S - 5);
	assert_int_equal(told(1)->recovered_ns, 0);
	on_memory(FN_ALLOC, 2 * S - 3, 2 * S - 2, 0x9000000, 64 * MIB);
	core_checkpoint(core, 2 * S);
	assert_int_equal(told(1)->recovered_ns, 2 * S - 2);
	core_checkpoint(core, 20 * S);
	for (size_t i = 0; i < seen.ooms; i++)
		assert_false(seen.oom[i].news);
}

static void oom_that_stays_is_news_once(void **state)
{
	int news = 0;

	fails(FN_ALLOC, S, 64 * MIB);
	for (uint64_t at = S; at < 100 * S; at += S / 8)
		core_checkpoint(core, at);
	for (size_t i = 0; i < seen.ooms; i++)
		news += seen.oom[i].news;
	assert_int_equal(news, 1);
	assert_true(seen.ooms <= 3);
}

static void oom_of_driver_and_framework_is_one(void **state)
{
	fails(FN_ALLOC, S, 20 * MIB);
	fails(FN_ALLOC, S + 10, 20 * MIB);
	room(S + 20, 3 * MIB, 64 * MIB);
	reports(S + 30, 2 * MIB, 40 * MIB, 60 * MIB, 1);
	core_checkpoint(core, S + 100);
	assert_int_equal(highest(), 1);
	assert_int_equal(told(1)->failures, 2);
	assert_int_equal(told(1)->reports, 1);
	assert_int_equal(told(1)->bytes, 20 * MIB);
	assert_int_equal(told(1)->wanted_bytes, 2 * MIB);
	assert_int_equal(told(1)->live_bytes, 40 * MIB);
	assert_int_equal(told(1)->reserved_bytes, 60 * MIB);
	assert_int_equal(told(1)->free_bytes, 3 * MIB);
	assert_int_equal(told(1)->stack_id, 11);
	assert_true(told(1)->news);
	/* The next request of the framework fails at the same size of the driver's. */
	fails(FN_ALLOC, 2 * S, 20 * MIB);
	reports(2 * S + 30, 4 * MIB, 40 * MIB, 60 * MIB, 1);
	core_checkpoint(core, 3 * S);
	assert_int_equal(told(1)->failures, 2);
	assert_int_equal(told(2)->failures, 1);
	assert_int_equal(told(2)->bytes, 20 * MIB);
	assert_int_equal(told(2)->wanted_bytes, 4 * MIB);
}

static void oom_of_the_frameworks_host_memory_is_left_out(void **state)
{
	reports(S, 2 * MIB, 0, 0, 0);
	core_checkpoint(core, 2 * S);
	assert_int_equal(seen.ooms, 0);
}

static void oom_by_fragmentation_has_its_pieces(void **state)
{
	on_memory(FN_ALLOC, S, S + 1, 0x10000000, 20 * MIB);
	on_memory(FN_ALLOC, S, S + 1, 0x90000000, 8 * MIB); /* of something else */
	for (uint64_t i = 0; i < 5; i++)
		tensor(S + 10 + i, 0x10000000 + i * 4 * MIB, 2 * MIB, (i + 1) * 2 * MIB, 20 * MIB);
	fails(FN_ALLOC, 2 * S, 20 * MIB);
	core_checkpoint(core, 2 * S + 100);
	assert_int_equal(told(1)->pieces, 5);
	assert_int_equal(told(1)->pieces_bytes, 10 * MIB);
	assert_int_equal(told(1)->piece_bytes, 2 * MIB);
	assert_int_equal(told(1)->fragment_ppm, 800000);
	assert_int_equal(told(1)->live_bytes, 10 * MIB);
	/* Of more than what is known, nothing is said. */
	tensor(3 * S, 0x10000000 + 2 * MIB, MIB, 19 * MIB, 20 * MIB);
	fails(FN_ALLOC, 4 * S, 21 * MIB);
	core_checkpoint(core, 4 * S + 100);
	assert_int_equal(told(2)->pieces, 0);
}

static void oom_in_a_loop_is_bounded(void **state)
{
	uint64_t failures = 0;

	for (uint64_t i = 0; i < 2000; i++)
		fails(FN_ALLOC, S + i * 10, 64 * MIB + i);
	core_checkpoint(core, 3 * S);
	assert_true(highest() <= 8);
	for (uint32_t id = 1; id <= highest(); id++)
		failures += told(id)->failures + told(id)->skipped;
	assert_int_equal(failures, 2000);
	/* A minute later it is looked at again. */
	core_checkpoint(core, 100 * S);
	fails(FN_ALLOC, 101 * S, 64 * MIB);
	core_checkpoint(core, 102 * S);
	assert_int_equal(told(highest())->time_ns, 101 * S + 1);
}

static void oom_that_recovers_all_the_time_leaves_room(void **state)
{
	uint64_t at = S;

	for (int i = 0; i < 40; i++, at += S) {
		fails(FN_ALLOC, at, 20 * MIB + (uint64_t)i);
		on_memory(FN_ALLOC, at + 10, at + 11, 0x1000, 30 * MIB);
		core_checkpoint(core, at + 20);
	}
	fails(FN_ALLOC, at, 64 * MIB);
	core_checkpoint(core, at + 2 * S);
	assert_true(highest() <= 8);
	for (uint32_t id = 1; id <= highest(); id++)
		if (told(id)->bytes == 64 * MIB)
			return;
	fail_msg("the failure that stays was not looked at");
}

/* One user's processes do not take the room of another's. */
static void oom_is_shared_by_users(void **state)
{
	fixture_uid = 1;
	for (pid = tid = 300; pid < 330; pid = ++tid) {
		announce();
		for (uint64_t i = 0; i < 8; i++)
			fails(FN_ALLOC, S + i, 64 * MIB + i);
		core_process_gone(core, pid, 2 * S);
		core_tick(core, 2 * S + S / 2);
	}
	core_checkpoint(core, 3 * S);
	assert_true(highest() <= 64);
	assert_true(lost(LOSS_LIMIT) > 0);
	fixture_uid = 2;
	pid = tid = 400;
	announce();
	fails(FN_ALLOC, 4 * S, 64 * MIB);
	core_checkpoint(core, 5 * S);
	assert_int_equal(told(highest())->time_ns, 4 * S + 1);
	fixture_uid = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OOM_STORY(oom_says_who_held_what),
		OOM_STORY(oom_of_the_host_is_about_host_memory),
		OOM_STORY(oom_that_recovers_is_no_news),
		OOM_STORY(oom_that_stays_is_news_once),
		OOM_STORY(oom_of_driver_and_framework_is_one),
		OOM_STORY(oom_of_the_frameworks_host_memory_is_left_out),
		OOM_STORY(oom_by_fragmentation_has_its_pieces),
		OOM_STORY(oom_in_a_loop_is_bounded),
		OOM_STORY(oom_that_recovers_all_the_time_leaves_room),
		OOM_STORY(oom_is_shared_by_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
