/* How far the clocks of two ranks are apart, by their collectives alone: found within its bound, or
 * not at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/fleet/align.h"
#include "client/fleet/timeline.h"

#define COUNT 100
#define MS    1000000ll
#define FAR   (INT64_MAX / 4)

static uint64_t seed;

static int64_t any(int64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)below);
}

static struct align_collective one[COUNT], other[COUNT];

/* Both meet in each; the other's clock is ahead, and gains. */
static void meet(int64_t ahead_ns, int64_t gain_ppb, int64_t varies_ns)
{
	int64_t at_ns = 1700000000000 * MS;

	for (size_t i = 0; i < COUNT; i++) {
		int64_t left_ns = at_ns + 3 * MS + 50000;
		int64_t more_ns = ahead_ns + (left_ns - 1700000000000 * MS) * gain_ppb / 1000000000;

		one[i] = (struct align_collective){ i % 3, at_ns + any(3 * MS),
						    left_ns + any(10000) };
		other[i] = (struct align_collective){ i % 3, at_ns + any(3 * MS) + more_ns,
						      left_ns + any(10000) + more_ns };
		at_ns = left_ns + 5 * MS + (varies_ns ? any(varies_ns) : 0);
	}
}

static int align_parts(size_t from_one, size_t from_other, int64_t drift_ppb,
		       struct align_offset *known, int64_t *ret)
{
	struct align_sequence a = { one + from_one, COUNT - from_one };
	struct align_sequence b = { other + from_other, COUNT - from_other };

	return align_sequences(&a, &b, drift_ppb, known, ret);
}

static void the_offset_is_found_within_its_bound(void **state)
{
	static const int64_t aheads[] = { 0, 123456789, -7 * MS, 3600000 * MS };

	for (size_t i = 0; i < 4; i++) {
		for (seed = 1; seed < 20; seed++) {
			struct align_offset known = { -FAR, FAR, 0 };
			int64_t shift;

			meet(aheads[i], 0, 4 * MS);
			assert_int_equal(align_parts(0, 0, 0, &known, &shift), ALIGN_FOUND);
			assert_int_equal(shift, 0);
			assert_true(known.low_ns <= aheads[i] && aheads[i] <= known.high_ns);
			assert_true(known.high_ns - known.low_ns < MS);
			assert_true(llabs(known.median_ns - aheads[i]) < 10000);
			/* The window of each starts elsewhere. */
			known = (struct align_offset){ -FAR, FAR, 0 };
			assert_int_equal(align_parts(7, 20, 0, &known, &shift), ALIGN_FOUND);
			assert_int_equal(shift, -13);
			assert_true(known.low_ns <= aheads[i] && aheads[i] <= known.high_ns);
			/* What was known before says more. */
			known = (struct align_offset){ aheads[i] - 100, aheads[i] + 3, 0 };
			assert_int_equal(align_parts(7, 20, 0, &known, &shift), ALIGN_FOUND);
			assert_true(known.low_ns >= aheads[i] - 100);
			assert_true(known.high_ns <= aheads[i] + 3);
			assert_true(known.median_ns >= known.low_ns);
			assert_true(known.median_ns <= known.high_ns);
		}
	}
}

/* Clocks that drift apart by more than is allowed for have no offset. */
static void drift_is_allowed_for(void **state)
{
	struct align_offset known = { -FAR, FAR, 0 };
	int64_t shift;

	seed = 5;
	meet(1000, 200000, 4 * MS);
	assert_int_equal(align_parts(0, 0, 250000, &known, &shift), ALIGN_FOUND);
	meet(1000, 20000000, 4 * MS);
	assert_int_equal(align_parts(0, 0, 250000, &known, &shift), ALIGN_NONE);
}

/* In a steady beat a whole beat more or less fits as well, unless the server knows better. */
static void a_steady_beat_needs_a_clock(void **state)
{
	struct align_offset known = { -FAR, FAR, 0 };
	int64_t shift;

	seed = 9;
	meet(2 * MS, 0, 0);
	assert_int_equal(align_parts(0, 0, 0, &known, &shift), ALIGN_AMBIGUOUS);
	assert_true(known.low_ns == -FAR && known.high_ns == FAR);
	known = (struct align_offset){ 0, 5 * MS, 0 };
	assert_int_equal(align_parts(0, 0, 0, &known, &shift), ALIGN_FOUND);
	assert_true(known.low_ns <= 2 * MS && known.high_ns >= 2 * MS);
}

static void strangers_are_not_taken_for_peers(void **state)
{
	struct align_offset known = { -50 * MS, 50 * MS, 0 };
	int64_t shift;

	for (seed = 1; seed < 20; seed++) {
		static struct align_collective first[COUNT];

		meet(0, 0, 4 * MS);
		memcpy(first, one, sizeof(first));
		meet(0, 0, 4 * MS); /* of others, at the same times */
		memcpy(one, first, sizeof(first));
		assert_int_equal(align_parts(0, 0, 30000, &known, &shift), ALIGN_NONE);
		/* The same times by other names. */
		meet(0, 0, 4 * MS);
		for (size_t i = 0; i < COUNT; i++)
			other[i].name += 3;
		assert_int_equal(align_parts(0, 0, 30000, &known, &shift), ALIGN_NONE);
	}
	/* Too few to tell. */
	meet(0, 0, 4 * MS);
	assert_int_equal(align_parts(COUNT - 3, 0, 0, &known, &shift), ALIGN_NONE);
	assert_int_equal(align_parts(COUNT, COUNT, 0, &known, &shift), ALIGN_NONE);
}

static void times_go_there_and_back(void **state)
{
	const struct timeline_clock clock = { .at_ns = 5000 * MS,
					      .offset_ns = 1700000000000 * MS,
					      .drift_ppb = -80000,
					      .bound_ns = 100,
					      .drift_bound_ppb = 15000,
					      .shift_ns = 77 };

	for (int64_t ns = 0; ns < 1000000 * MS; ns += 999 * MS) {
		int64_t there = timeline_of(&clock, ns);

		assert_true(llabs(there - (ns + 1700000000000 * MS + 77 -
					   (ns - 5000 * MS) * 80000 / 1000000000)) <= 1);
		assert_true(llabs(timeline_back(&clock, there) - ns) < 100);
		assert_true(timeline_bound(&clock, ns) ==
			    100 + llabs(ns - 5000 * MS) * 15000 / 1000000000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_offset_is_found_within_its_bound),
		cmocka_unit_test(drift_is_allowed_for),
		cmocka_unit_test(a_steady_beat_needs_a_clock),
		cmocka_unit_test(strangers_are_not_taken_for_peers),
		cmocka_unit_test(times_go_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
