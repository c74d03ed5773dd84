/* Export: the bytes of both formats. What they mean is read back by tests/tools/test_export.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/export.h"
#include "client/pb.h"

struct memory {
	uint8_t bytes[4096];
	size_t size;
	int error;
	int calls;
};

static int keep(void *data, const void *bytes, size_t size)
{
	struct memory *memory = data;

	memory->calls++;
	if (memory->error < 0)
		return memory->error;
	assert_true(memory->size + size <= sizeof(memory->bytes));
	memcpy(memory->bytes + memory->size, bytes, size);
	memory->size += size;
	return 0;
}

static int discard(void *data, const void *bytes, size_t size)
{
	*(size_t *)data += size;
	return 0;
}

static int refuse(void *data, const void *bytes, size_t size)
{
	++*(int *)data;
	return -ENOSPC;
}

static void varints_are_those_of_the_protobuf_documentation(void **state)
{
	struct memory memory = { 0 };
	struct out_sink sink = { keep, &memory };
	_cleanup_(out_freep) struct out *out = NULL;

	assert_int_equal(out_new(&sink, &out), 0);
	pb_uint(out, 1, 150);
	pb_uint(out, 16, UINT64_MAX);
	pb_string(out, 2, "testing");
	assert_int_equal(out_flush(out), 0);
	assert_memory_equal(memory.bytes,
			    "\x08\x96\x01"
			    "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
			    "\x12\x07testing",
			    memory.size);
	assert_int_equal(memory.size, 3 + 12 + 9);
}

static void a_message_has_the_shortest_length_that_holds_it(void **state)
{
	static const size_t sizes[] = { 0, 1, 127, 128, 300 };
	static const char *const heads[] = { "\x1a\x00", "\x1a\x01", "\x1a\x7f", "\x1a\x80\x01",
					     "\x1a\xac\x02" };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct memory memory = { 0 };
		struct out_sink sink = { keep, &memory };
		_cleanup_(out_freep) struct out *out = NULL;
		size_t head = sizes[i] < 128 ? 2 : 3;
		char body[300];
		uint8_t *message;

		memset(body, 'x', sizeof(body));
		assert_int_equal(out_new(&sink, &out), 0);
		message = pb_open(out, 3);
		out_bytes(out, body, sizes[i]);
		pb_close(out, message);
		assert_int_equal(out_flush(out), 0);
		assert_int_equal(memory.size, head + sizes[i]);
		assert_memory_equal(memory.bytes, heads[i], head);
		assert_memory_equal(memory.bytes + head, body, sizes[i]);
	}
}

static struct export_meta *one_process(void)
{
	struct export_meta *meta = NULL;

	assert_int_equal(export_meta_new(&meta), 0);
	assert_int_equal(export_meta_add_process(meta, 1, 42, "train", NULL), 0);
	assert_int_equal(export_meta_add_function(meta, 3, "cuMemAlloc_v2"), 0);
	return meta;
}

static const struct op allocation = { .process = 1,
				      .tid = 42,
				      .fn = 3,
				      .kind = OP_ALLOC,
				      .start_ns = 1001,
				      .end_ns = 2003,
				      .bytes = 4096,
				      .live_bytes = 4096,
				      .flags = OP_RETURNED };

static void chrome_writes_nanoseconds_as_microseconds(void **state)
{
	_cleanup_(export_meta_freep) struct export_meta *meta = one_process();
	struct memory memory = { 0 };
	struct out_sink sink = { keep, &memory };
	struct exporter *x = NULL;

	assert_int_equal(export_chrome.begin(meta, &sink, &x), 0);
	assert_int_equal(export_chrome.ops(x, &allocation, 1), 0);
	assert_int_equal(export_chrome.end(x), 0);
	export_chrome.free(x);
	assert_non_null(strstr((char *)memory.bytes,
			       "{\"ph\":\"X\",\"pid\":42,\"tid\":42,\"ts\":1.001,\"dur\":1.002,"
			       "\"cat\":\"alloc\",\"name\":\"cuMemAlloc_v2\","
			       "\"args\":{\"bytes\":4096}}"));
}

static void a_process_that_nobody_knows_is_an_error(void **state)
{
	_cleanup_(export_meta_freep) struct export_meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto, &export_chrome };
	struct memory memory = { 0 };
	struct out_sink sink = { keep, &memory };
	struct op stray = allocation;

	stray.process = 2;
	for (size_t i = 0; i < 2; i++) {
		struct exporter *x = NULL;

		assert_int_equal(formats[i]->begin(meta, &sink, &x), 0);
		assert_int_equal(formats[i]->ops(x, &stray, 1), -ENOENT);
		formats[i]->free(x);
	}
}

static void an_error_of_the_sink_ends_the_export(void **state)
{
	_cleanup_(export_meta_freep) struct export_meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto, &export_chrome };

	for (size_t i = 0; i < 2; i++) {
		int calls = 0, r = 0;
		struct out_sink sink = { refuse, &calls };
		struct exporter *x = NULL;

		assert_int_equal(formats[i]->begin(meta, &sink, &x), 0);
		for (int op = 0; op < 100000 && r == 0; op++)
			r = formats[i]->ops(x, &allocation, 1);
		assert_int_equal(r, -ENOSPC);
		assert_int_equal(formats[i]->end(x), -ENOSPC);
		assert_int_equal(calls, 1);
		formats[i]->free(x);
	}
}

/* The longest texts and the deepest stack that there can be, each in one piece of room. */
static void hostile_metadata_fits_in_the_room_that_is_asked_for(void **state)
{
	_cleanup_(export_meta_freep) struct export_meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto, &export_chrome };
	const struct export_frame *frame[TS_STACK_FRAMES_MAX];
	char text[8192];
	struct op op = allocation;

	memset(text, '\1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (uint32_t i = 0; i < TS_STACK_FRAMES_MAX; i++) {
		struct export_frame_source source = { text + i, text, i, i };

		frame[i] = export_meta_frame(meta, &source);
		assert_non_null(frame[i]);
	}
	assert_int_equal(export_meta_add_stack(meta, 9, frame, TS_STACK_FRAMES_MAX), 0);
	assert_int_equal(export_meta_add_process(meta, 1, 42, text, text), 0);
	assert_int_equal(export_meta_add_function(meta, 3, text), 0);
	op.stack_id = 9;
	memset(op.grid, 0xff, sizeof(op.grid));
	memset(op.block, 0xff, sizeof(op.block));
	op.address = op.source = op.handle = op.correlation = UINT64_MAX;
	op.result = INT32_MIN;
	op.flags = UINT16_MAX;
	for (size_t i = 0; i < 2; i++) {
		size_t size = 0;
		struct out_sink sink = { discard, &size };
		struct exporter *x = NULL;

		assert_int_equal(formats[i]->begin(meta, &sink, &x), 0);
		for (int round = 0; round < 3000; round++)
			assert_int_equal(formats[i]->ops(x, &op, 1), 0);
		assert_int_equal(formats[i]->end(x), 0);
		formats[i]->free(x);
		assert_true(size > 100000);
	}
}

static void equal_texts_and_frames_are_kept_once(void **state)
{
	_cleanup_(export_meta_freep) struct export_meta *meta = one_process();
	struct export_frame_source a = { "f", "/lib", 16, 100 }, b = { "f", "/lib", 16, 200 };
	struct export_frame_source c = { "f", "/lib", 17, 100 }, nothing = { .address = 0xbeef };

	assert_ptr_equal(export_meta_frame(meta, &a), export_meta_frame(meta, &b));
	assert_ptr_not_equal(export_meta_frame(meta, &a), export_meta_frame(meta, &c));
	assert_ptr_equal(export_meta_frame(meta, &a)->symbol, export_meta_frame(meta, &c)->symbol);
	assert_string_equal(export_meta_frame(meta, &nothing)->symbol->text, "0xbeef");
	a.symbol = NULL;
	assert_string_equal(export_meta_frame(meta, &a)->symbol->text, "lib+0x10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints_are_those_of_the_protobuf_documentation),
		cmocka_unit_test(a_message_has_the_shortest_length_that_holds_it),
		cmocka_unit_test(chrome_writes_nanoseconds_as_microseconds),
		cmocka_unit_test(a_process_that_nobody_knows_is_an_error),
		cmocka_unit_test(an_error_of_the_sink_ends_the_export),
		cmocka_unit_test(hostile_metadata_fits_in_the_room_that_is_asked_for),
		cmocka_unit_test(equal_texts_and_frames_are_kept_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
