/* test_leak_history: what a history keeps of blocks, however long it gets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "core/leak/verdict.h"

#define START_NS (1000 * NS_PER_S)

static uint64_t alive(const struct history *history)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < history->count; i++)
		sum += history->slot[i].alive;
	return sum;
}

static void a_block_that_is_allocated_once_takes_one_slot(void **state)
{
	struct history history = { 0 };

	(void)state;
	history_allocated(&history, START_NS, 4096, 1);
	assert_int_equal(history.count, 1);
	assert_int_equal(history.live_bytes, 4096);
	history_freed(&history, START_NS, START_NS + 5 * NS_PER_S, 4096, 2);
	assert_int_equal(history.live_bytes, 0);
	assert_int_equal(history.peak_bytes, 4096);
	assert_int_equal(alive(&history), 0);
	history_clear(&history);
}

/* From milliseconds to a month: the slots get wider, and lose nothing. */
static void slots_stay_few_and_add_up(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS, born_ns[3000];

	(void)state;
	for (uint64_t i = 0; i < 3000; i++) {
		born_ns[i] = ns;
		history_allocated(&history, ns, 100 + i, i);
		ns += 1000000 + ns / 500;
		assert_true(history.count <= HISTORY_SLOTS);
		assert_int_equal(alive(&history), history.live_count);
	}
	for (uint64_t i = 1; i < 3000; i += 3)
		history_freed(&history, born_ns[i], ns, 100 + i, 3000 + i);
	assert_int_equal(alive(&history), 2000);
	assert_int_equal(history.live_count, 2000);
	for (unsigned int i = 1; i < history.count; i++)
		assert_true(history.slot[i - 1].number < history.slot[i].number);
	for (uint64_t i = 0; i < 3000; i++)
		if (i % 3 != 1)
			history_freed(&history, born_ns[i], ns, 100 + i, 6000 + i);
	assert_int_equal(alive(&history), 0);
	assert_int_equal(history.live_bytes, 0);
	for (unsigned int i = 0; i < history.count; i++)
		assert_int_equal(history.slot[i].alive_bytes, 0);
	history_clear(&history);
}

static void ages_are_counted_up_to_weeks(void **state)
{
	struct history history = { 0 };

	(void)state;
	for (unsigned int age = 1; age < HISTORY_AGES; age++) {
		uint64_t now_ns = START_NS + history_age_ns(age);

		assert_true(history_age_ns(age) > history_age_ns(age - 1));
		history_allocated(&history, START_NS, 1, 0);
		history_freed(&history, START_NS, now_ns, 1, 0);
		assert_int_equal(history.age[age], 1);
	}
	assert_true(history_age_ns(HISTORY_AGES - 1) > 14 * 86400 * NS_PER_S);
	history_clear(&history);
}

/* What was freed meanwhile looks as if it lived. */
static void a_long_gap_puts_all_in_doubt(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS;

	(void)state;
	for (int i = 0; i < 200; i++, ns += NS_PER_S)
		history_allocated(&history, ns, 1000, (uint64_t)i);
	assert_int_equal(verdict_of(&history, ns, 200).kind, VERDICT_LEAK);
	history_missed(&history, ns, ns + 100 * NS_PER_S, 200);
	ns += 100 * NS_PER_S;
	assert_int_equal(verdict_of(&history, ns + NS_PER_S, 300).kind, VERDICT_YOUNG);
	assert_int_equal(verdict_of(&history, ns + NS_PER_S, 300).needs_ns,
			 VERDICT_WATCH_NS - NS_PER_S + 1);
	assert_int_equal(history.live_count, 200);
	history_clear(&history);
}

/* Blocks of which most are freed within a second: those of the last two are in doubt. */
static void a_short_gap_puts_young_blocks_in_doubt(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS, before;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++, ns += NS_PER_S / 10) {
		history_allocated(&history, ns, 1000, 2 * i);
		if (i % 20)
			history_freed(&history, ns, ns + NS_PER_S / 20, 1000, 2 * i + 1);
	}
	before = alive(&history);
	history_missed(&history, ns, ns + NS_PER_S, 20000);
	assert_true(alive(&history) < before);
	assert_true(alive(&history) + 20 > before);
	assert_int_equal(verdict_of(&history, ns + NS_PER_S, 30000).kind, VERDICT_LEAK);
	history_clear(&history);
}

/* A free that was missed is known once the address is allocated again: that block was in doubt, and
 * no other one is. */
static void what_is_freed_later_was_in_doubt(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS, born_ns[1000], doubt = 0, before;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++, ns += NS_PER_S / 10) {
		history_allocated(&history, born_ns[i] = ns, 1000, i);
		if (i >= 50 && i % 10)
			history_freed(&history, born_ns[i - 50], ns, 1000, i);
	}
	before = alive(&history);
	history_missed(&history, ns, ns + 2 * NS_PER_S, 2000);
	assert_in_range(alive(&history), 90, before - 18);
	ns += 2 * NS_PER_S;
	for (unsigned int i = 950; i < 1000; i++)
		if (i % 10)
			history_freed(&history, born_ns[i], ns, 1000, 2000);
	for (unsigned int i = 0; i < history.count; i++)
		doubt += history.slot[i].doubt;
	assert_int_equal(alive(&history) + doubt, history.live_count);
	assert_in_range(doubt, 0, 10);
	history_clear(&history);
}

/* A gap that is short beside the life of blocks starts no watch anew. */
static void of_blocks_that_live_long_few_are_freed_in_a_short_gap(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS, born_ns[1000];

	(void)state;
	for (uint64_t i = 0; i < 1000; i++, ns += NS_PER_S) {
		history_allocated(&history, born_ns[i] = ns, 1000, i);
		if (i >= 100)
			history_freed(&history, born_ns[i - 100], ns, 1000, i);
		if (i % 50 == 49)
			history_missed(&history, ns, ns + NS_PER_S / 10, i);
	}
	assert_int_equal(history.sure_ns, START_NS);
	assert_int_equal(verdict_of(&history, ns, 1000).kind, VERDICT_CACHE);
	history_clear(&history);
}

/* Those of before a daemon's restart count as live, and prove nothing. */
static void blocks_that_were_found_prove_nothing(void **state)
{
	struct history history = { 0 };
	struct verdict verdict;

	(void)state;
	for (int i = 0; i < 1000; i++)
		history_found(&history, START_NS - NS_PER_S, 1000);
	history_watch(&history, START_NS, 0);
	verdict = verdict_of(&history, START_NS + 10 * NS_PER_S, 10);
	assert_int_equal(verdict.kind, VERDICT_YOUNG);
	verdict = verdict_of(&history, START_NS + 1000 * NS_PER_S, 100000);
	assert_int_equal(verdict.kind, VERDICT_HELD);
	assert_int_equal(history.live_bytes, 1000000);
	history_freed(&history, START_NS - NS_PER_S, START_NS + 2000 * NS_PER_S, 1000, 100001);
	assert_int_equal(history.live_count, 999);
	history_clear(&history);
}

static void a_history_is_resumed_from_its_text_and_its_blocks(void **state)
{
	struct history history = { 0 }, again = { 0 };
	char ages[HISTORY_AGES + 1], twice[HISTORY_AGES + 1];
	uint64_t ns = START_NS, sum = 0;
	struct history_past past;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++, ns += 10000000) {
		history_allocated(&history, ns, 100, i);
		if (i % 50)
			history_freed(&history, ns, ns + (i % 7) * 3000000, 100, i);
	}
	history_ages(&history, ages);
	past = (struct history_past){ .since_ns = START_NS,
				      .told_ns = ns,
				      .last_ns = ns - 10000000,
				      .birth_ns = ns - 10000000,
				      .allocations = history.allocations,
				      .frees = history.frees,
				      .peak_bytes = history.peak_bytes,
				      .activity = 100000,
				      .ages = ages };
	assert_int_equal(history_resume(&again, &past), 0);
	for (uint64_t i = 0; i < 20000; i += 50)
		history_found(&again, START_NS + i * 10000000, 100);
	assert_int_equal(again.allocations, history.allocations);
	assert_int_equal(again.frees, history.frees);
	assert_int_equal(again.live_bytes, history.live_bytes);
	assert_int_equal(alive(&again), alive(&history));
	for (unsigned int age = 0; age < HISTORY_AGES; age++) {
		sum += again.age[age];
		assert_in_range(again.age[age], history.age[age] * 3 / 4, history.age[age] * 5 / 4);
	}
	assert_int_equal(sum, history.frees);
	history_ages(&again, twice);
	assert_int_equal(verdict_of(&again, ns, 100000).kind,
			 verdict_of(&history, ns, 100000).kind);
	history_clear(&history);
	history_clear(&again);
}

/* A database may have been edited. */
static void what_cannot_be_is_not_resumed(void **state)
{
	static const struct history_past bad[] = {
		{ .since_ns = 0, .told_ns = 5, .ages = "" },
		{ .since_ns = 6, .told_ns = 5, .last_ns = 6, .ages = "" },
		{ .since_ns = 5, .told_ns = UINT64_MAX, .last_ns = 9, .ages = "" },
		{ .since_ns = 5, .told_ns = 9, .last_ns = 9, .frees = 1, .ages = "" },
		{ .since_ns = 5, .told_ns = 9, .last_ns = 9, .frees = 1, .ages = "!!!" },
		{ .since_ns = 5, .told_ns = 9, .last_ns = 9, .frees = 1, .ages = "!\x7f" },
		{ .since_ns = 5, .told_ns = 9, .last_ns = 9, .frees = 1, .ages = "\xff" },
		{ .since_ns = 5,
		  .told_ns = 9,
		  .last_ns = 9,
		  .ages = "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!" },
		{ .since_ns = 5, .told_ns = 9, .last_ns = 9 },
	};
	static const struct history_past odd = { .since_ns = 1,
						 .told_ns = INT64_MAX,
						 .last_ns = INT64_MAX,
						 .birth_ns = UINT64_MAX,
						 .allocations = UINT64_MAX,
						 .frees = UINT64_MAX,
						 .peak_bytes = UINT64_MAX,
						 .activity = UINT64_MAX,
						 .ages = "rrr" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct history history = { 0 };

		assert_int_equal(history_resume(&history, &bad[i]), -EINVAL);
		assert_int_equal(history.first_ns, 0);
		history_clear(&history);
	}
	for (uint64_t born_ns = 1; born_ns; born_ns *= 2) {
		struct history history = { 0 };

		assert_int_equal(history_resume(&history, &odd), 0);
		history_found(&history, born_ns, UINT64_MAX / 2);
		(void)verdict_of(&history, START_NS, UINT64_MAX);
		assert_true(history.count <= HISTORY_SLOTS);
		history_clear(&history);
	}
}

/* Of what lives, in narrow slots and in wide ones, of which a part is recent. */
static void what_was_allocated_lately_is_recent(void **state)
{
	struct history history = { 0 };
	uint64_t ns = START_NS, recent;

	(void)state;
	assert_int_equal(history_recent_bytes(&history, ns), 0);
	history_allocated(&history, ns, 1000, 1);
	assert_int_equal(history_recent_bytes(&history, ns + NS_PER_S), 1000);
	history_missed(&history, ns, ns + NS_PER_S, 1);
	history_allocated(&history, ns, 5, 1); /* in what was missed, of which it is told later */
	assert_int_equal(history_recent_bytes(&history, ns + 2 * NS_PER_S), 1005);
	assert_int_equal(history_recent_bytes(&history, ns + 100 * NS_PER_S), 0);
	history_allocated(&history, ns + 90 * NS_PER_S, 70, 2);
	history_allocated(&history, ns + 91 * NS_PER_S, 7, 3);
	history_freed(&history, ns + 90 * NS_PER_S, ns + 92 * NS_PER_S, 70, 4);
	assert_int_equal(history_recent_bytes(&history, ns + 100 * NS_PER_S), 7);
	history_clear(&history);
	for (uint64_t i = 0; i < 36000; i++)
		history_allocated(&history, ns += NS_PER_S, 10, i);
	recent = history_recent_bytes(&history, ns);
	assert_in_range(recent, 450, 750);
	history_clear(&history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_that_is_allocated_once_takes_one_slot),
		cmocka_unit_test(a_history_is_resumed_from_its_text_and_its_blocks),
		cmocka_unit_test(what_cannot_be_is_not_resumed),
		cmocka_unit_test(slots_stay_few_and_add_up),
		cmocka_unit_test(ages_are_counted_up_to_weeks),
		cmocka_unit_test(a_long_gap_puts_all_in_doubt),
		cmocka_unit_test(a_short_gap_puts_young_blocks_in_doubt),
		cmocka_unit_test(what_is_freed_later_was_in_doubt),
		cmocka_unit_test(of_blocks_that_live_long_few_are_freed_in_a_short_gap),
		cmocka_unit_test(blocks_that_were_found_prove_nothing),
		cmocka_unit_test(what_was_allocated_lately_is_recent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
