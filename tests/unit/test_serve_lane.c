/* Lanes of the page's timeline: what a column shows, and that no picture is too large to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/serve/lane.h"
#include "client/serve/web.h"

#define STEP 1000

static char *write_lanes(struct lanes *lanes)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	lanes_fit(lanes);
	fputc('{', out);
	lanes_write(out, lanes);
	fputc('}', out);
	fclose(out);
	lanes_done(lanes);
	return text;
}

static struct lanes picture(uint32_t columns)
{
	return (struct lanes){ .since_ns = 1000000, .step_ns = STEP, .columns = columns };
}

/* Nanoseconds are those of the picture. */
static struct lane_group group(uint64_t start, uint64_t end, uint64_t count, const char *name)
{
	return (struct lane_group){
		.what = LANE_WORK,
		.process = 1,
		.id = 7,
		.column = (int64_t)(start / STEP),
		.count = count,
		.busy_ns = count * (end - start),
		.longest_ns = end - start,
		.start_ns = 1000000 + start,
		.end_ns = 1000000 + end,
		.kind = "kernel",
		.name = name,
	};
}

static void expect_spans(struct lanes *lanes, const char *expected)
{
	char *text = write_lanes(lanes), *spans = strstr(text, "\"spans\":");

	if (!spans || strncmp(spans + 8, expected, strlen(expected)) != 0)
		fail_msg("%s", text);
	free(text);
}

static void add(struct lanes *lanes, struct lane_group what)
{
	assert_int_equal(lanes_add(lanes, &what), 0);
}

static void one_is_itself_and_several_cover_a_part(void **state)
{
	struct lanes lanes = picture(100);

	add(&lanes, group(500, 750, 1, "a"));	/* half of a column in, a quarter long */
	add(&lanes, group(2000, 2100, 5, "a")); /* 5 of 100 ns in 1000 */
	add(&lanes, group(3000, 3100, 5, "a")); /* and again: one span */
	add(&lanes, group(4000, 4100, 5, "b"));
	add(&lanes, group(5000, 9000, 3, "b")); /* one hides the others */
	add(&lanes, group(9900, 1000000, 1, "a"));
	expect_spans(&lanes, "[4,2,0,1,1000,16,16,0,10,500,32,8,1,5,500,40,32,1,3,1000,79,721,0,1,"
			     "1000]");
}

static void sums_cover_a_part_of_their_time(void **state)
{
	struct lanes lanes = picture(100);
	struct lane_group sum = group(0, 4000, 9, "a");

	sum.longest_ns = 0;
	sum.busy_ns = 1000;
	add(&lanes, sum);
	expect_spans(&lanes, "[0,32,0,9,250]");
}

static void ranges_lie_below_each_other(void **state)
{
	struct lanes lanes = picture(100);
	const uint64_t ranges[][2] = {
		{ 0, 9000 }, { 1000, 4000 }, { 2000, 3000 }, { 5000, 6000 }
	};
	char *text;

	for (size_t i = 0; i < 4; i++) {
		struct lane_group range = group(ranges[i][0], ranges[i][1], 1, "r");

		range.what = LANE_RANGES;
		add(&lanes, range);
	}
	assert_int_equal(lanes.count, 3);
	assert_int_equal(lanes.lane[1].count, 2); /* the second and the last */
	text = write_lanes(&lanes);
	assert_non_null(strstr(text, "\"depth\":2"));
	free(text);
}

static void hostile_names_are_text(void **state)
{
	struct lanes lanes = picture(100);
	char long_name[1000], *text;

	memset(long_name, 'x', sizeof(long_name));
	memcpy(long_name + 76, "\xf0\x9f\x92\xa9\xf0\x9f\x92\xa9", 8); /* across the cut */
	long_name[999] = '\0';
	add(&lanes, group(0, 5, 1, "</script><script>alert(1)</script>\n\x1b[2J\"\xff"));
	add(&lanes, group(5000, 5005, 1, long_name));
	add(&lanes, group(6000, 6005, 1, ""));
	text = write_lanes(&lanes);
	assert_non_null(
		strstr(text, "alert(1)</script>\xef\xbf\xbd\xef\xbf\xbd[2J\\\"\xef\xbf\xbd\""));
	assert_non_null(strstr(text, "xxx\xf0\x9f\x92\xa9\xe2\x80\xa6\""));
	free(text);
}

static void no_picture_is_too_large(void **state)
{
	struct lanes lanes = picture(4096);
	char name[32], *text;

	for (int64_t lane = 0; lane < 100000; lane++) {
		struct lane_group one = group(500, 750, 1, name);

		snprintf(name, sizeof(name), "kernel %d \x01\x02\x03", (int)(lane % 3000));
		one.id = lane;
		add(&lanes, one);
	}
	for (int64_t lane = 0; lane < 300; lane++) {
		for (uint64_t column = 0; column < 4096; column++) {
			struct lane_group one = group(column * STEP, column * STEP + 999, 1, name);

			snprintf(name, sizeof(name), "other %d", (int)(column % 3000));
			one.process = 2;
			one.id = lane;
			one.bounds = column % 2;
			add(&lanes, one);
		}
	}
	text = write_lanes(&lanes);
	assert_in_range(strlen(text), 50000, WEB_BYTES_MAX);
	assert_non_null(strstr(text, "\"left_out\":100140"));
	assert_non_null(strstr(text, "\"process\":2"));
	assert_null(strstr(text, "\"process\":1,"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_itself_and_several_cover_a_part),
		cmocka_unit_test(sums_cover_a_part_of_their_time),
		cmocka_unit_test(ranges_lie_below_each_other),
		cmocka_unit_test(hostile_names_are_text),
		cmocka_unit_test(no_picture_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
