/* Calls that are seen at their entry only, as their functions are not probed at their return: what
 * they still say, and what is missing then. */
#include "core_fixture.h"

#define A  0xa000
#define S1 0x51

static struct function entry_functions[FN_COUNT];

/* Those of the fixture that return, as the table of libraries has them. */
static int begin(void **state)
{
	static const enum fn returning[] = { FN_ALLOC,	       FN_FREE, FN_STREAM_SYNC,
					     FN_STREAM_CREATE, FN_INIT, FN_COPY_WAIT,
					     FN_ALL_REDUCE };
	struct core_config config = fixture_config();

	memcpy(entry_functions, fixture_functions, sizeof(entry_functions));
	for (size_t i = 0; i < sizeof(returning) / sizeof(returning[0]); i++)
		entry_functions[returning[i]].returns = true;
	config.functions.row = entry_functions;
	if (fixture_begin(state) < 0)
		return -1;
	fixture_restart(&config);
	return 0;
}

#define ENTRY(function) cmocka_unit_test_setup_teardown(function, begin, fixture_end)

static void initialize(uint64_t end_ns)
{
	struct ts_event event = call_event(FN_INIT, 2, end_ns);

	announce();
	give(&event);
}

static void expect_losses(uint64_t no_effect, uint64_t no_return)
{
	core_checkpoint(core, 1000);
	assert_int_equal(lost(LOSS_NO_EFFECT), no_effect);
	assert_int_equal(lost(LOSS_NO_RETURN), no_return);
}

static void an_allocation_is_no_memory(void **state)
{
	initialize(3);
	assert_int_equal(on_memory(FN_ALLOC, 10, 0, A, 100), INGEST_OK);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(last_op(FN_ALLOC)->flags & OP_RETURNED, 0);
	assert_int_equal(last_op(FN_ALLOC)->end_ns, 0);
	expect_losses(1, 0);
}

static void a_free_frees(void **state)
{
	initialize(3);
	on_memory(FN_ALLOC, 10, 11, A, 100);
	on_memory(FN_FREE, 20, 0, A, 0);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(last_op(FN_FREE)->bytes, 100);
	expect_losses(0, 1);
}

/* It may go on for long. */
static void a_wait_finishes_nothing_before_it_returns(void **state)
{
	initialize(3);
	launch(10, 0);
	on_stream(FN_STREAM_SYNC, 20, 0, 0);
	assert_null(op_at(10));
	on_stream(FN_STREAM_SYNC, 30, 40, 0);
	assert_int_equal(op_at(10)->gpu_end_ns, 40);
	expect_losses(0, 1);
}

static void a_copy_is_work_of_its_stream(void **state)
{
	initialize(3);
	on_stream(FN_COPY_WAIT, 10, 0, 0);
	assert_null(op_at(10));
	on_stream(FN_STREAM_SYNC, 30, 40, 0);
	assert_int_equal(op_at(10)->gpu_end_ns, 40);
	expect_losses(0, 1);
}

static void a_stream_may_be_one_that_was_not_seen_made(void **state)
{
	initialize(3);
	launch(10, S1);
	on_stream(FN_STREAM_CREATE, 20, 0, 0);
	launch(30, S1);
	core_flush(core, 100);
	assert_int_equal(op_at(10)->stream, 0);
	assert_int_not_equal(op_at(30)->stream, 0);
	expect_losses(1, 0);
}

static void an_initialization_may_have_failed(void **state)
{
	initialize(0);
	launch(30, S1);
	core_flush(core, 100);
	assert_int_not_equal(op_at(30)->stream, 0);
	expect_losses(1, 0);
}

static void a_call_in_which_its_thread_ended_is_another_thing(void **state)
{
	struct ts_event event = call_event(FN_ALLOC, 10, 0);

	initialize(3);
	event.flags |= TS_EVENT_UNFINISHED;
	give(&event);
	expect_losses(0, 0);
}

static void a_collective_is_not_counted(void **state)
{
	struct ts_event event = call_event(FN_ALL_REDUCE, 10, 0);

	initialize(3);
	assert_int_equal(give(&event), INGEST_OK);
	expect_losses(1, 0);
	assert_int_equal(seen.collectives, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENTRY(an_allocation_is_no_memory),
		ENTRY(a_free_frees),
		ENTRY(a_wait_finishes_nothing_before_it_returns),
		ENTRY(a_copy_is_work_of_its_stream),
		ENTRY(a_stream_may_be_one_that_was_not_seen_made),
		ENTRY(an_initialization_may_have_failed),
		ENTRY(a_call_in_which_its_thread_ended_is_another_thing),
		ENTRY(a_collective_is_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
