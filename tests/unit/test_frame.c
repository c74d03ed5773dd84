/* Frame: messages in a stream, whatever the pieces in which it comes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/control.pb-c.h"
#include "proto/frame.h"

static void feed(struct ts_frame_reader *reader, const void *data, size_t size)
{
	const uint8_t *from = data;

	while (size) {
		size_t room, n;
		void *to = ts_frame_reader_room(reader, &room);

		assert_non_null(to);
		assert_true(room > 0);
		n = room < size ? room : size;
		memcpy(to, from, n);
		ts_frame_reader_fill(reader, n);
		from += n;
		size -= n;
	}
}

static void expect(struct ts_frame_reader *reader, const char *text)
{
	const uint8_t *data;
	size_t size;

	assert_int_equal(ts_frame_reader_next(reader, &data, &size), 1);
	assert_int_equal(size, strlen(text));
	assert_memory_equal(data, text, size);
}

static void expect_none(struct ts_frame_reader *reader)
{
	const uint8_t *data;
	size_t size;

	assert_int_equal(ts_frame_reader_next(reader, &data, &size), 0);
}

static void test_messages_come_out_in_order(void **state)
{
	struct ts_frame_reader reader = { .max = 100 };

	expect_none(&reader);
	feed(&reader, "\3\0\0\0abc\0\0\0\0\1\0\0\0d\2\0\0", 19);
	expect(&reader, "abc");
	expect(&reader, "");
	expect(&reader, "d");
	expect_none(&reader);
	assert_true(ts_frame_reader_half(&reader));
	feed(&reader, "\0ef", 3);
	expect(&reader, "ef");
	assert_false(ts_frame_reader_half(&reader));
	ts_frame_reader_done(&reader);
}

static void test_single_bytes_make_a_message(void **state)
{
	struct ts_frame_reader reader = { .max = 100 };
	static const char bytes[] = "\5\0\0\0hello";

	for (size_t i = 0; i < 9; i++) {
		expect_none(&reader);
		feed(&reader, bytes + i, 1);
	}
	expect(&reader, "hello");
	ts_frame_reader_done(&reader);
}

static void test_length_above_the_maximum_ends_the_stream(void **state)
{
	struct ts_frame_reader reader = { .max = 100 };
	const uint8_t *data;
	size_t size;

	feed(&reader, "\144\0\0\0", 4); /* 100 */
	expect_none(&reader);
	ts_frame_reader_done(&reader);
	feed(&reader, "\145\0\0\0", 4);
	assert_int_equal(ts_frame_reader_next(&reader, &data, &size), -EMSGSIZE);
	assert_int_equal(ts_frame_reader_next(&reader, &data, &size), -EMSGSIZE);
	ts_frame_reader_done(&reader);
}

static void test_memory_follows_what_came_and_not_what_is_claimed(void **state)
{
	struct ts_frame_reader reader = { .max = 1u << 30 };

	feed(&reader, "\0\0\0\60abc", 7); /* 768 MiB */
	expect_none(&reader);
	assert_true(reader.capacity <= 8192);
	ts_frame_reader_done(&reader);
}

static void test_large_message_passes_whole(void **state)
{
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	char *text = calloc(1, TS_FRAME_REQUEST_MAX + 1);
	uint32_t length = TS_FRAME_REQUEST_MAX;

	memset(text, 'x', TS_FRAME_REQUEST_MAX);
	for (int i = 0; i < 3; i++) {
		feed(&reader, &length, 4);
		feed(&reader, text, length);
		expect(&reader, text);
	}
	assert_true(reader.capacity <= 4 * TS_FRAME_REQUEST_MAX);
	ts_frame_reader_done(&reader);
	free(text);
}

static void test_packed_message_is_read_back(void **state)
{
	struct ts_frame_reader reader = { .max = 100 };
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT, *copy;
	const uint8_t *data;
	uint8_t *packed;
	size_t size;

	query.name = "apis";
	assert_int_equal(ts_frame_pack(&query.base, 5, &packed, &size), -EMSGSIZE);
	assert_int_equal(ts_frame_pack(&query.base, 6, &packed, &size), 0);
	assert_int_equal(size, 10);
	feed(&reader, packed, size);
	free(packed);
	assert_int_equal(ts_frame_reader_next(&reader, &data, &size), 1);
	assert_memory_equal(data, "\n\4apis", 6);
	assert_int_equal(ts_frame_unpack(query.base.descriptor, data, size, &copy), 0);
	assert_string_equal(copy->name, "apis");
	tracesmith__v1__query_request__free_unpacked(copy, NULL);
	assert_int_equal(ts_frame_unpack(query.base.descriptor, data, size - 1, &copy), -EBADMSG);
	ts_frame_reader_done(&reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_come_out_in_order),
		cmocka_unit_test(test_single_bytes_make_a_message),
		cmocka_unit_test(test_length_above_the_maximum_ends_the_stream),
		cmocka_unit_test(test_memory_follows_what_came_and_not_what_is_claimed),
		cmocka_unit_test(test_large_message_passes_whole),
		cmocka_unit_test(test_packed_message_is_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
