/* The page's memory: what is drawn of a time is its moment with the most, of those who then hold
 * most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/serve/held.h"

static struct held_picture picture;

static void add(struct held *held, uint64_t at_ns, int64_t path, int64_t bytes)
{
	const struct held_event event = { at_ns, 7, path, bytes, bytes > 0 ? 1 : -1 };

	assert_int_equal(held_add(held, &event), 0);
}

static void a_column_shows_its_highest_moment(void **state)
{
	struct held held = { 0 };

	add(&held, 0, 1, 100); /* from before */
	add(&held, 1005, 2, 50);
	add(&held, 1006, 1, -100);
	add(&held, 1007, 3, 60);
	add(&held, 1015, 2, -50);
	add(&held, 1030, 4, 1000); /* behind the window */
	held_draw(&held, 1000, 10, 3, &picture);
	assert_int_equal(picture.layers, 3);
	assert_int_equal(picture.others, 0);
	assert_int_equal(picture.most, 150);
	assert_int_equal(picture.most_ns, 1005);
	const int64_t wanted[3][3] = { { 100, 0, 50 }, { 0, 60, 50 }, { 0, 60, 0 } };

	for (int column = 0; column < 3; column++)
		for (int layer = 0; layer < 3; layer++)
			assert_int_equal(picture.bytes[column][layer], wanted[column][layer]);
	held_done(&held);
}

static void small_ones_are_shown_together(void **state)
{
	const int count = 3 * HELD_LAYERS_MAX;
	struct held held = { 0 };

	for (int i = 1; i <= count; i++)
		add(&held, 10, i * 5 % count + 1, i * 5 % count + 1);
	held_draw(&held, 20, 1, 1, &picture);
	assert_int_equal(picture.layers, HELD_LAYERS_MAX);
	assert_int_equal(picture.layers + picture.others, held.layers);
	for (uint32_t i = 0; i < picture.layers; i++)
		assert_int_equal(picture.bytes[0][i], count - (int)i);
	assert_int_equal(picture.most, (int64_t)count * (count + 1) / 2);
	assert_int_equal(picture.bytes[0][HELD_LAYERS_MAX],
			 (int64_t)picture.others * (picture.others + 1) / 2);
	held_done(&held);
}

static void processes_are_added_up(void **state)
{
	struct held held = { .by_process = true };

	add(&held, 1, 1, 10);
	add(&held, 2, 2, INT64_MAX); /* as a recording may say */
	add(&held, 3, 3, INT64_MAX);
	held_draw(&held, 1, 1, 5, &picture);
	assert_int_equal(held.layers, 1);
	held_done(&held);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_shows_its_highest_moment),
		cmocka_unit_test(small_ones_are_shown_together),
		cmocka_unit_test(processes_are_added_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
