/* Times and decisions that a helper shares with the daemon: each holds from the moment at which it
 * is written, and a change that nobody waits for any more does not begin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/exact/internal.h"

struct pair {
	struct span span;
	struct light_span *theirs;
};

static int begin(void **state)
{
	static struct pair pair;

	assert_int_equal(span_new(&pair.span), 0);
	pair.theirs = span_map(pair.span.fd);
	assert_non_null(pair.theirs);
	*state = &pair;
	return 0;
}

static int end(void **state)
{
	struct pair *pair = *state;

	munmap(pair->theirs, sizeof(*pair->theirs));
	span_release(&pair->span);
	span_release(&pair->span);
	return 0;
}

static void test_what_a_helper_writes_holds_at_once(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(span_begin(&pair->span), 0);
	assert_false(span_has(&pair->span, 5));
	__atomic_store_n(&pair->theirs->from_ns, 3, __ATOMIC_RELEASE);
	assert_int_equal(span_begin(&pair->span), 3);
	assert_false(span_has(&pair->span, 2));
	assert_true(span_has(&pair->span, 3));
	assert_true(span_has(&pair->span, UINT64_MAX));
	assert_false(span_is_over(&pair->span));
	__atomic_store_n(&pair->theirs->until_ns, 7, __ATOMIC_RELEASE);
	assert_true(span_is_over(&pair->span));
	assert_true(span_has(&pair->span, 6));
	assert_false(span_has(&pair->span, 7));
	span_end(&pair->span, 9);
	assert_false(span_has(&pair->span, 8));
}

static bool helper_begins(uint32_t *change)
{
	uint32_t open = LIGHT_OPEN;

	return __atomic_compare_exchange_n(change, &open, LIGHT_BEGUN, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void test_a_change_begins_or_is_withdrawn(void **state)
{
	struct pair *pair = *state;

	assert_true(span_withdraw(&pair->span, false));
	assert_false(helper_begins(&pair->theirs->put));
	assert_true(helper_begins(&pair->theirs->take));
	assert_false(span_withdraw(&pair->span, true));
	span_open(&pair->span, false);
	assert_true(helper_begins(&pair->theirs->put));
	assert_false(span_withdraw(&pair->span, false));
}

static void test_no_span(void **state)
{
	struct span none = { 0 };

	assert_null(span_map(-1));
	assert_false(span_has(&none, 1));
	assert_false(span_is_over(&none));
	assert_int_equal(span_begin(&none), 0);
	assert_true(span_withdraw(&none, true));
	span_open(&none, true);
	span_end(&none, 1);
	span_release(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_a_helper_writes_holds_at_once, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_change_begins_or_is_withdrawn, begin, end),
		cmocka_unit_test(test_no_span),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
