/* test_core_growth: the model follows what becomes of each stack's memory, and tells verdicts. */
#include "core_fixture.h"

#include "core/base/time.h"
#include "core/leak/verdict.h"

#define SECONDS 70

static uint64_t address = 0x10000;

static uint64_t allocate(uint64_t ns, uint64_t stack_id)
{
	struct ts_event event = call_event(FN_ALLOC, ns, ns + 10);

	address += 4096;
	event.api.address = address;
	event.api.bytes = 4096;
	event.stack_id = stack_id;
	assert_int_equal(give(&event), INGEST_OK);
	return address;
}

static int growth_begin_with(uint32_t stacks, uint64_t allocations)
{
	struct core_config config = fixture_config();

	config.max_growths = stacks;
	config.max_allocations = allocations;
	return fixture_begin_with(&config);
}

static int growth_begin(void **state)
{
	return growth_begin_with(64, 4096);
}

/* The last row of a stack. */
static const struct core_growth *growth_of(uint64_t stack_id)
{
	for (size_t i = seen.growths; i-- > 0;)
		if (seen.growth[i].stack_id == stack_id)
			return &seen.growth[i];
	fail();
	return NULL;
}

/* Two blocks at one stack, of which another thread frees the first, and one at another. */
static void run(uint64_t from_s, uint64_t seconds)
{
	for (uint64_t ns = (1000 + from_s) * NS_PER_S; seconds--; ns += NS_PER_S) {
		uint64_t freed = allocate(ns, 7);

		allocate(ns + 1000, 8);
		tid = 102;
		on_memory(FN_FREE, ns + 2000, ns + 2010, freed, 0);
		tid = 100;
		core_checkpoint(core, ns + NS_PER_S / 2);
	}
}

static void leak_is_told_by_stack(void **state)
{
	announce();
	run(0, SECONDS);
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	assert_int_not_equal(growth_of(7)->verdict, VERDICT_LEAK);
	assert_int_equal(growth_of(8)->fn, FN_ALLOC);
	assert_int_equal(growth_of(8)->process, 1);
	assert_int_equal(growth_of(8)->frees, 0);
	assert_true(growth_of(8)->kept > 50);
	assert_in_range(growth_of(8)->bytes_per_hour, 3500 * 4096, 3700 * 4096);
	assert_int_equal(growth_of(8)->since_ns, 1000 * NS_PER_S + 1000);
}

/* Of the other verdicts one is told when it is another one, or something has happened. */
static void nothing_new_is_not_told(void **state)
{
	uint64_t ns = 1000 * NS_PER_S;
	size_t told;

	announce();
	allocate(ns, 8);
	core_checkpoint(core, ns + 100);
	assert_int_equal(growth_of(8)->verdict, VERDICT_YOUNG);
	assert_in_range(growth_of(8)->ready_ns, ns + VERDICT_WATCH_NS,
			ns + VERDICT_WATCH_NS + NS_PER_S);
	told = seen.growths;
	for (int i = 0; i < 50; i++)
		core_checkpoint(core, ns += NS_PER_S);
	assert_int_equal(seen.growths, told);
	for (int i = 0; i < 10; i++)
		core_checkpoint(core, ns += NS_PER_S);
	assert_int_equal(seen.growths, told + 1);
	assert_int_equal(growth_of(8)->verdict, VERDICT_HELD);
	assert_int_equal(growth_of(8)->ready_ns, 0);
}

static void gap_starts_the_watch_anew(void **state)
{
	struct core_loss loss = {
		.start_ns = (1000 + SECONDS) * NS_PER_S,
		.end_ns = (1100 + SECONDS) * NS_PER_S,
		.reason = LOSS_GAP,
		.count = 1,
	};

	announce();
	run(0, SECONDS);
	core_lose(core, &loss);
	run(SECONDS + 110, 20);
	assert_int_equal(growth_of(8)->verdict, VERDICT_YOUNG);
	assert_true(growth_of(8)->since_ns > loss.end_ns);
}

static void lose_for(uint64_t from_s, uint64_t seconds, uint8_t reason)
{
	core_lose(core, &(struct core_loss){
				.start_ns = (1000 + from_s) * NS_PER_S,
				.end_ns = (1000 + from_s + seconds) * NS_PER_S,
				.process = 1,
				.reason = reason,
				.count = 1,
			});
}

static int begin_again(void **state)
{
	fixture_end(state);
	return growth_begin(state);
}

/* Frees are always watched, and have room of their own: not each loss hides them. */
static void no_verdict_where_frees_were_not_seen(void **state)
{
	static const bool hides_frees[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, missing, ...)                                         \
	[number] = LOSS_MISSES_##missing == LOSS_MISSES_CALLS,
		LOSS_REASONS(X)
#undef X
	};

	assert_true(hides_frees[LOSS_GAP] && hides_frees[LOSS_CALL_STATE]);
	assert_true(hides_frees[LOSS_LEFT_OUT] && !hides_frees[LOSS_WINDOWS]);
	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		announce();
		run(0, SECONDS);
		assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
		lose_for(SECONDS, 100, reason);
		core_checkpoint(core, (1110 + SECONDS) * NS_PER_S);
		run(SECONDS + 110, 20);
		if ((growth_of(8)->verdict == VERDICT_YOUNG) != hides_frees[reason])
			fail_msg("reason %u: verdict %u", reason, growth_of(8)->verdict);
		assert_int_equal(begin_again(state), 0);
	}
}

/* Where not even the room that is kept for frees was enough. */
static void no_verdict_where_a_full_ring_hid_frees(void **state)
{
	const struct core_loss full = {
		.start_ns = (1000 + SECONDS) * NS_PER_S,
		.end_ns = (1100 + SECONDS) * NS_PER_S,
		.process = 1,
		.reason = LOSS_RING_FULL,
		.count = 1,
	};

	announce();
	run(0, SECONDS);
	core_lose(core, &full);
	core_checkpoint(core, full.end_ns);
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	core_miss_frees(core, &full);
	core_checkpoint(core, full.end_ns + NS_PER_S);
	assert_int_equal(growth_of(8)->verdict, VERDICT_YOUNG);
}

/* It says so at once, not when the stack is looked at again. */
static void verdict_of_a_gap_that_lasts_is_open(void **state)
{
	announce();
	run(0, 10 * SECONDS);
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	lose_for(10 * SECONDS, 90, LOSS_GAP);
	core_checkpoint(core, (1090 + 10 * SECONDS) * NS_PER_S);
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	lose_for(10 * SECONDS, 110, LOSS_GAP);
	core_checkpoint(core, (1110 + 10 * SECONDS) * NS_PER_S);
	assert_int_equal(growth_of(8)->verdict, VERDICT_YOUNG);
	assert_int_equal(growth_of(8)->since_ns, (1110 + 10 * SECONDS) * NS_PER_S + 1);
}

/* Tensors are watched by probes of their own. */
static void unseen_tensors_are_no_other_memory(void **state)
{
	announce();
	run(0, SECONDS);
	lose_for(SECONDS, 100, LOSS_GAP_TORCH);
	lose_for(SECONDS, 100, LOSS_TENSORS);
	run(SECONDS + 110, 20);
	assert_int_not_equal(growth_of(8)->verdict, VERDICT_YOUNG);
}

/* Whose frees were before a restart is unknown: what was found proves nothing. */
static void restored_blocks_are_no_leak(void **state)
{
	const struct core_process process = { .id = 1, .pid = 100, .started_ticks = 1 };
	uint64_t ns = 1000 * NS_PER_S;

	assert_int_equal(core_restore_process(core, &process), 0);
	for (uint64_t i = 1; i < 100; i++)
		assert_int_equal(core_restore_allocation(core,
							 &(struct core_allocation){
								 .id = i,
								 .address = i << 20,
								 .bytes = 4096,
								 .start_ns = i * NS_PER_S,
								 .end_ns = i * NS_PER_S + 1,
								 .stack_id = 8,
								 .process = 1,
								 .handles = 1,
								 .fn = FN_ALLOC,
								 .kind = MEMORY_DEVICE,
							 }),
				 0);
	core_checkpoint(core, ns);
	assert_int_equal(growth_of(8)->verdict, VERDICT_YOUNG);
	assert_int_equal(growth_of(8)->since_ns, ns);
	core_checkpoint(core, ns + 100 * NS_PER_S);
	assert_int_equal(growth_of(8)->verdict, VERDICT_HELD);
}

static void mark(uint16_t fn, uint64_t ns, uint64_t number)
{
	struct ts_event event = call_event(fn, ns, 0);

	event.api.handle = number;
	assert_int_equal(give(&event), INGEST_OK);
}

/* Two steps a second are marked, each with a part. */
static void rate_is_told_by_step(void **state)
{
	announce();
	for (uint64_t second = 0; second < SECONDS; second++) {
		uint64_t ns = (1000 + second) * NS_PER_S;

		for (uint64_t half = 0; half < 2; half++, ns += NS_PER_S / 2) {
			mark(FN_RANGE_BEGIN, ns, 1);
			mark(FN_RANGE_BEGIN, ns + 10, 2);
			if (!half)
				allocate(ns + 20, 8);
			mark(FN_RANGE_END, ns + 50, 2);
			mark(FN_RANGE_END, ns + 60, 1);
			core_checkpoint(core, ns + 100);
		}
	}
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	assert_in_range(growth_of(8)->bytes_per_step, 1950, 2150);
	core_checkpoint(core, (1000 + 3 * SECONDS) * NS_PER_S);
	allocate((1001 + 3 * SECONDS) * NS_PER_S, 8);
	core_checkpoint(core, (1010 + 3 * SECONDS) * NS_PER_S);
	assert_int_equal(growth_of(8)->bytes_per_step, 0);
}

/* A leak is one for the next daemon as well. */
static void verdicts_survive_a_restart(void **state)
{
	const struct core_process process = { .id = 1, .pid = 100, .started_ticks = 1 };
	struct core_loss gap = { .start_ns = (1000 + SECONDS) * NS_PER_S,
				 .end_ns = (1001 + SECONDS) * NS_PER_S,
				 .reason = LOSS_GAP,
				 .count = 1 };
	struct core_growth growth;

	announce();
	run(0, SECONDS);
	growth = *growth_of(8);
	assert_int_equal(growth.verdict, VERDICT_LEAK);
	core = core_free(core);
	assert_int_equal(growth_begin(state), 0);
	assert_int_equal(core_restore_growth(core, &growth), -ENOENT);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(core_restore_growth(core, &growth), 0);
	for (uint64_t i = 0; i < SECONDS; i++)
		assert_int_equal(
			core_restore_allocation(core,
						&(struct core_allocation){
							.id = i + 1,
							.address = (i + 1) << 20,
							.bytes = 4096,
							.start_ns = (1000 + i) * NS_PER_S + 1000,
							.end_ns = (1000 + i) * NS_PER_S + 1010,
							.stack_id = 8,
							.process = 1,
							.handles = 1,
							.fn = FN_ALLOC,
							.kind = MEMORY_DEVICE,
							.device = growth.device,
						}),
			0);
	core_lose(core, &gap);
	core_checkpoint(core, (1002 + SECONDS) * NS_PER_S);
	assert_int_equal(growth_of(8)->verdict, VERDICT_LEAK);
	assert_int_equal(growth_of(8)->since_ns, 1000 * NS_PER_S + 1000);
	assert_in_range(growth_of(8)->bytes_per_hour, 3400 * 4096, 3800 * 4096);
}

/* A process with more stacks than there is room for gives up those that hold nothing. */
static void stacks_are_bounded(void **state)
{
	uint64_t ns = 1000 * NS_PER_S;

	core = core_free(core);
	assert_int_equal(growth_begin_with(16, 4096), 0);
	announce();
	for (uint64_t stack = 1; stack < 100; stack++, ns += 100) {
		uint64_t freed = allocate(ns, stack);

		on_memory(FN_FREE, ns + 20, ns + 30, freed, 0);
	}
	core_checkpoint(core, ns);
	assert_int_equal(seen.growths, 8);
	for (uint64_t stack = 200; stack < 300; stack++, ns += 100)
		allocate(ns, stack);
	core_checkpoint(core, ns);
	assert_int_equal(seen.growths, 8 + 8);
	assert_int_equal(lost(LOSS_LIMIT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(leak_is_told_by_stack, growth_begin, fixture_end),
		cmocka_unit_test_setup_teardown(nothing_new_is_not_told, growth_begin, fixture_end),
		cmocka_unit_test_setup_teardown(gap_starts_the_watch_anew, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(no_verdict_where_frees_were_not_seen, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(no_verdict_where_a_full_ring_hid_frees,
						growth_begin, fixture_end),
		cmocka_unit_test_setup_teardown(verdict_of_a_gap_that_lasts_is_open, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(unseen_tensors_are_no_other_memory, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(restored_blocks_are_no_leak, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(rate_is_told_by_step, growth_begin, fixture_end),
		cmocka_unit_test_setup_teardown(verdicts_survive_a_restart, growth_begin,
						fixture_end),
		cmocka_unit_test_setup_teardown(stacks_are_bounded, fixture_begin, fixture_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
