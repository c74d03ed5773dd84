/* test_open: where a thread's open call is said to lie, by somebody who may have been taken over.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "daemon/probe/probe.h"
#include "proto/event.h"

#define SIZE 256 /* of a value */

static void places_outside_of_a_value_are_refused(void **state)
{
	const struct probe_open_place good = { SIZE, SIZE - 4, 8, SIZE - 8 }, bad[] = {
		{ SIZE / 2, 0, 0, 0 }, /* the kernel would write more */
		{ SIZE * 2, 0, 0, 0 },		{ SIZE, SIZE - 3, 8, 0 },
		{ SIZE, UINT32_MAX, 8, 0 },	{ SIZE, 0, SIZE - sizeof(struct ts_event) + 1, 0 },
		{ SIZE, 0, UINT32_MAX, 0 },	{ SIZE, 0, 8, SIZE - 7 },
		{ SIZE, 0, 8, UINT32_MAX - 7 },
	};
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "test_open", sizeof(uint32_t), SIZE, 1, NULL);

	if (map < 0) {
		print_message("needs the right to make BPF maps\n");
		skip();
	}
	assert_int_equal(probe_open_check(map, &good), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(probe_open_check(map, &bad[i]), -EBADMSG);
	assert_int_equal(probe_open_check(STDERR_FILENO, &good), -EBADMSG);
	close(map);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_outside_of_a_value_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
