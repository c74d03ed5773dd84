/* Backlog: records leave as they came, and there is an end to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/probe/backlog.h"

static void records_leave_in_the_order_in_which_they_came(void **state)
{
	static const char *const record[] = { "first", "the second one", "3" };
	struct backlog backlog;
	size_t size;

	backlog_init(&backlog, 1 << 20);
	assert_true(backlog_is_empty(&backlog));
	assert_null(backlog_first(&backlog, &size));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(backlog_put(&backlog, record[i], strlen(record[i]) + 1), 0);
	for (size_t i = 0; i < 3; i++) {
		const char *first = backlog_first(&backlog, &size);

		assert_int_equal((uintptr_t)first % _Alignof(max_align_t), 0);
		assert_string_equal(first, record[i]);
		assert_int_equal(size, strlen(record[i]) + 1);
		backlog_drop_first(&backlog);
	}
	assert_true(backlog_is_empty(&backlog));
}

static void it_is_full_until_enough_have_left(void **state)
{
	static const char record[1000];
	struct backlog backlog;

	backlog_init(&backlog, 2 * sizeof(record));
	assert_int_equal(backlog_put(&backlog, record, sizeof(record)), 0);
	assert_false(backlog_is_full(&backlog));
	assert_int_equal(backlog_put(&backlog, record, sizeof(record)), 0);
	assert_true(backlog_is_full(&backlog));
	backlog_drop_first(&backlog);
	assert_false(backlog_is_full(&backlog));
	backlog_clear(&backlog);
	assert_true(backlog_is_empty(&backlog));
	assert_int_equal(backlog.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_leave_in_the_order_in_which_they_came),
		cmocka_unit_test(it_is_full_until_enough_have_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
