/* Order and spans: ops that come in chunks leave in order of time, in bounded memory. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/spans.h"
#include "core/sbt/order.h"
#include "core/sbt/sbt.h"

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t below(uint64_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % bound;
}

/* What is expected to come out: each op once, none before one that starts earlier. */
struct expected {
	uint64_t count, sum, last_ns;
};

static void expect(struct expected *expected, const struct op *op)
{
	assert_true(op->start_ns >= expected->last_ns);
	expected->last_ns = op->start_ns;
	expected->sum -= op->correlation;
	expected->count--;
}

static void take(struct sbt_order *order, uint64_t before_ns, struct expected *expected)
{
	const struct op *op;
	int r;

	while ((r = sbt_order_next(order, before_ns, &op)) > 0) {
		assert_true(op->start_ns < before_ns);
		expect(expected, op);
	}
	assert_int_equal(r, 0);
}

/* Chunks of so many streams that overlap, each of `count` ops. */
static void merge(uint32_t streams, uint32_t rounds, uint32_t count, size_t *ret_most)
{
	static struct op op[SBT_OPS_MAX];
	_cleanup_(sbt_order_freep) struct sbt_order *order = NULL;
	struct expected expected = { 0 };
	uint64_t number = 0;
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;

	assert_int_equal(sbt_order_new(&order), 0);
	*ret_most = 0;
	for (uint32_t i = 0; i < rounds * streams; i++) {
		uint64_t first_ns = 1000000 * (i / streams) + 1000000 * (i % streams) / streams;
		size_t used;

		take(order, first_ns, &expected);
		for (uint32_t k = 0; k < count; k++) {
			op[k] = (struct op){ .start_ns = first_ns + below(1000000),
					     .kind = OP_LAUNCH,
					     .stream = 1 + i % streams,
					     .process = 1,
					     .correlation = ++number };
			expected.sum += number;
		}
		op[0].start_ns = first_ns;
		assert_int_equal(sbt_order_add(order, op, count), 0);
		expected.count += count;
		used = mallinfo2().uordblks + mallinfo2().hblkhd - before;
		*ret_most = used > *ret_most ? used : *ret_most;
	}
	take(order, UINT64_MAX, &expected);
	assert_int_equal(expected.count, 0);
	assert_int_equal(expected.sum, 0);
}

static void chunks_that_overlap_leave_in_order(void **state)
{
	size_t most;

	for (uint32_t streams = 1; streams <= 40; streams += 13)
		for (uint32_t count = 1; count <= 1000; count += 333)
			merge(streams, 4, count, &most);
}

static void many_long_chunks_take_little_memory(void **state)
{
#ifdef __SANITIZE_THREAD__ /* slow, and it says that nothing is taken */
	uint32_t rounds = 10;
#else
	uint32_t rounds = 100; /* 200 MB, were all of it at hand */
#endif
	size_t most;

	merge(rounds, 2, SBT_OPS_MAX, &most);
	assert_true(most < 80 << 20); /* a sanitizer says 0 */
}

static void no_ops_and_too_many_are_told_apart(void **state)
{
	_cleanup_(sbt_order_freep) struct sbt_order *order = NULL;
	static struct op op[SBT_OPS_MAX + 1];
	const struct op *next;

	assert_int_equal(sbt_order_new(&order), 0);
	assert_int_equal(sbt_order_add(order, op, 0), 0);
	assert_int_equal(sbt_order_next(order, UINT64_MAX, &next), 0);
	assert_int_equal(sbt_order_add(order, op, SBT_OPS_MAX + 1), -EINVAL);
}

static void what_is_put_while_one_is_out_waits_its_turn(void **state)
{
	_cleanup_(sbt_order_freep) struct sbt_order *order = NULL;
	struct op op[2] = { { .start_ns = 5 }, { .start_ns = 9 } }, earlier = { .start_ns = 6 };
	const struct op *next;

	assert_int_equal(sbt_order_new(&order), 0);
	assert_int_equal(sbt_order_add(order, op, 2), 0);
	assert_int_equal(sbt_order_next(order, 9, &next), 1);
	assert_int_equal(next->start_ns, 5);
	assert_int_equal(sbt_order_add(order, &earlier, 1), 0);
	assert_int_equal(sbt_order_next(order, 9, &next), 1);
	assert_int_equal(next->start_ns, 6);
	assert_int_equal(sbt_order_next(order, 9, &next), 0);
	assert_int_equal(sbt_order_next(order, 10, &next), 1);
	assert_int_equal(next->start_ns, 9);
	assert_int_equal(sbt_order_next(order, 10, &next), 0);
}

static void spans_are_covered_once(void **state)
{
	static uint8_t covered[20000];
	struct spans spans = { 0 };
	struct span span;
	uint64_t sum = 0, wanted = 0;

	for (uint64_t at = 0; at < 10000; at += 10) {
		uint64_t start = at + below(500), end = start + below(100);

		while (spans_take(&spans, at, &span))
			sum += span.end_ns - span.start_ns;
		assert_int_equal(spans_put(&spans, start, end), 0);
		memset(covered + start, 1, end - start);
	}
	while (spans_take(&spans, UINT64_MAX, &span))
		sum += span.end_ns - span.start_ns;
	for (size_t i = 0; i < sizeof(covered); i++)
		wanted += covered[i];
	assert_int_equal(sum, wanted);
	spans_clear(&spans);
}

static void spans_without_length_are_none(void **state)
{
	struct spans spans = { 0 };
	struct span span;

	assert_int_equal(spans_put(&spans, 5, 5), 0);
	assert_int_equal(spans_put(&spans, 5, 4), 0);
	assert_false(spans_take(&spans, UINT64_MAX, &span));
	spans_clear(&spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_that_overlap_leave_in_order),
		cmocka_unit_test(many_long_chunks_take_little_memory),
		cmocka_unit_test(no_ops_and_too_many_are_told_apart),
		cmocka_unit_test(what_is_put_while_one_is_out_waits_its_turn),
		cmocka_unit_test(spans_are_covered_once),
		cmocka_unit_test(spans_without_length_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
