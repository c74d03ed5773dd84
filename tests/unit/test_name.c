/* Names of the library: sent once a session, kernels and other texts each within their share, and
 * what has none is counted. */
#include "cupti_fixture.h"

#include "inject/name.h"

#define KERNELS 16384
#define TEXTS	8192
#define MANY	40000

static int setup(void **state)
{
	put_reset();
	name_reset();
	return 0;
}

static uint32_t number_of(const char *text)
{
	return name_number(text, NAME_KERNEL);
}

/* How many of `count` different ones have a number; those from `first` on. */
static uint32_t fill(enum name_of of, uint32_t first, uint32_t count)
{
	uint32_t named = 0;
	char text[32];

	for (uint32_t i = first; i < first + count; i++) {
		put_count = 0;
		snprintf(text, sizeof(text), "text %u", i);
		named += name_number(text, of) != 0;
	}
	return named;
}

static void names_are_sent_once_a_session(void **state)
{
	uint32_t first = number_of("alpha"), second = number_of("beta");

	assert_int_not_equal(first, 0);
	assert_int_not_equal(first, second);
	assert_int_equal(number_of("alpha"), first);
	assert_int_equal(put_count, 2);
	name_reset();
	assert_int_equal(number_of("alpha"), first);
	assert_int_equal(put_count, 3);
	assert_int_equal(put[2].name.id, first);
	assert_int_equal(number_of(NULL), 0);
	assert_int_equal(number_of(""), 0);
	assert_int_equal(put_count, 3);
	assert_int_equal(put_lost[TS_LOST_NAMES], 0);
}

static void name_without_room_in_the_ring_is_sent_the_next_time(void **state)
{
	put_refuses = 1;
	assert_int_equal(number_of("gamma"), 0);
	assert_int_equal(put_lost[TS_LOST_NAMES], 1);
	assert_int_not_equal(number_of("gamma"), 0);
	assert_int_equal(put_count, 1);
	assert_int_equal(put_lost[TS_LOST_NAMES], 1);
}

static void long_names_are_cut_between_characters(void **state)
{
	static char text[TS_NAME_MAX + 100];

	memset(text, 'x', sizeof(text) - 1);
	assert_int_not_equal(number_of(text), 0);
	assert_int_equal(put[0].name.length, TS_NAME_MAX);
	/* A character of three bytes across the end. */
	memcpy(text + TS_NAME_MAX - 2, "\xe2\x82\xac", 3);
	assert_int_not_equal(number_of(text), 0);
	assert_int_equal(put[1].name.length, TS_NAME_MAX - 2);
	memcpy(text + TS_NAME_MAX - 3, "\xe2\x82\xac", 3);
	text[TS_NAME_MAX] = 'x';
	assert_int_not_equal(number_of(text), 0);
	assert_int_equal(put[2].name.length, TS_NAME_MAX);
}

static void names_beyond_the_bound_are_none_and_are_counted(void **state)
{
	uint32_t named = fill(NAME_KERNEL, 0, MANY);

	assert_in_range(named, KERNELS - KERNELS / 16, KERNELS);
	assert_int_equal(put_lost[TS_LOST_NAMES], MANY - named);
}

static void texts_leave_kernels_their_places(void **state)
{
	uint32_t texts = fill(NAME_TEXT, 0, MANY);

	assert_in_range(texts, TEXTS - TEXTS / 16, TEXTS);
	assert_int_equal(fill(NAME_KERNEL, 0, KERNELS / 2), KERNELS / 2);
	/* The same text is another name there. */
	put_reset();
	assert_int_not_equal(name_number("text 0", NAME_TEXT), name_number("text 0", NAME_KERNEL));
	assert_int_equal(put_count, 0);
}

static void a_session_has_the_places_of_the_one_before(void **state)
{
	uint32_t before = fill(NAME_KERNEL, 0, MANY);

	for (uint32_t i = 1; i <= 3; i++) {
		name_reset();
		put_reset();
		assert_int_equal(fill(NAME_KERNEL, i * MANY, KERNELS / 2), KERNELS / 2);
		assert_int_equal(put_lost[TS_LOST_NAMES], 0);
	}
	name_reset();
	assert_in_range(fill(NAME_KERNEL, 0, MANY), before - KERNELS / 16, KERNELS);
}

/* Two texts never have one number in a session, whatever was there before. */
static void each_text_has_a_number_of_its_own(void **state)
{
	static uint8_t seen[2 * (2 * KERNELS + 2 * TEXTS)];
	char text[32];

	fill(NAME_KERNEL, 0, MANY);
	name_reset();
	for (uint32_t i = 0; i < KERNELS / 2; i++) {
		uint32_t number;

		put_count = 0;
		snprintf(text, sizeof(text), "text %u", 3 * i);
		number = number_of(text);
		assert_in_range(number, 1, sizeof(seen) - 1);
		assert_int_equal(seen[number]++, 0);
		assert_int_equal(put_count, 1);
		assert_int_equal(put[0].name.id, number);
	}
}

/* A session's number comes again after 65,535 others. */
static void names_of_a_session_long_ago_are_sent_again(void **state)
{
	uint32_t first = number_of("alpha");

	for (int i = 0; i < 65535; i++)
		name_reset();
	put_reset();
	assert_int_not_equal(number_of("alpha"), 0);
	assert_int_equal(put_count, 1);
	assert_int_not_equal(first, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(names_are_sent_once_a_session, setup),
		cmocka_unit_test_setup(name_without_room_in_the_ring_is_sent_the_next_time, setup),
		cmocka_unit_test_setup(long_names_are_cut_between_characters, setup),
		cmocka_unit_test_setup(names_beyond_the_bound_are_none_and_are_counted, setup),
		cmocka_unit_test_setup(texts_leave_kernels_their_places, setup),
		cmocka_unit_test_setup(a_session_has_the_places_of_the_one_before, setup),
		cmocka_unit_test_setup(each_text_has_a_number_of_its_own, setup),
		cmocka_unit_test_setup(names_of_a_session_long_ago_are_sent_again, setup),
	};

	return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
