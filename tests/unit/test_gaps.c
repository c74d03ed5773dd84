/* Gaps: who is looked at again and again takes one place, and the gaps of others stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/model/loss_row.h"
#include "daemon/gaps.h"

static const struct gap *find(const struct gaps *gaps, uint32_t pid)
{
	for (uint32_t i = 0; i < GAPS_MAX; i++)
		if (gaps->gap[i].pid == pid)
			return &gaps->gap[i];
	return NULL;
}

static void test_looks_at_one_process_leave_the_gaps_of_others(void **state)
{
	struct gaps gaps = { .replaced = 0 };

	(void)state;
	gaps_keep(&gaps, &(struct gap){ .pid = 1, .reason = LOSS_GAP, .count = 1, .end_ns = 9 });
	for (uint32_t i = 1; i <= 3 * GAPS_MAX; i++)
		gaps_keep(&gaps, &(struct gap){ .pid = 2,
						.reason = LOSS_MAPPING,
						.count = 1,
						.start_ns = i,
						.end_ns = i });
	assert_non_null(find(&gaps, 1));
	assert_int_equal(find(&gaps, 2)->start_ns, 1);
	assert_int_equal(find(&gaps, 2)->end_ns, 3 * GAPS_MAX);
	assert_int_equal(find(&gaps, 2)->count, UINT8_MAX);
}

static void test_places_that_are_free_again_go_first(void **state)
{
	struct gaps gaps = { .replaced = 0 };

	(void)state;
	for (uint32_t pid = 1; pid <= GAPS_MAX; pid++)
		gaps_keep(&gaps, &(struct gap){ .pid = pid, .reason = LOSS_GAP });
	gaps.gap[99].pid = 0;
	gaps_keep(&gaps, &(struct gap){ .pid = 1000, .reason = LOSS_GAP });
	assert_non_null(find(&gaps, 1));
	gaps_keep(&gaps, &(struct gap){ .pid = 1001, .reason = LOSS_GAP });
	assert_null(find(&gaps, 1));
	assert_non_null(find(&gaps, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks_at_one_process_leave_the_gaps_of_others),
		cmocka_unit_test(test_places_that_are_free_again_go_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
