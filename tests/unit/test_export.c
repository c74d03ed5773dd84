/* Export: the bytes of the formats. What they mean is read back by tests/tools/test_export.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "client/export/bins.h"
#include "client/export/export.h"
#include "client/export/gzip.h"
#include "client/export/lane.h"
#include "client/export/pb.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/utf8.h"
#include "tests/frame_of.h"

struct memory {
	uint8_t bytes[64 << 10];
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

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
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

static struct meta *one_process(void)
{
	struct meta *meta = NULL;

	assert_int_equal(meta_new(&meta), 0);
	assert_int_equal(meta_add_process(meta, 1, 42, "train", NULL), 0);
	assert_int_equal(meta_add_function(meta, 3, "cuMemAlloc_v2"), 0);
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
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct memory memory = { 0 };
	struct out_sink sink = { keep, &memory };
	struct export_run *x = NULL;

	assert_int_equal(export_new(&export_chrome, meta, &sink, &x), 0);
	assert_int_equal(export_ops(x, &allocation, 1), 0);
	assert_int_equal(export_end(x), 0);
	export_free(x);
	assert_non_null(strstr((char *)memory.bytes,
			       "{\"ph\":\"X\",\"pid\":42,\"tid\":42,\"ts\":1.001,\"dur\":1.002,"
			       "\"cat\":\"alloc\",\"name\":\"cuMemAlloc_v2\","
			       "\"args\":{\"bytes\":4096}}"));
}

static void a_process_that_nobody_knows_is_an_error(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto, &export_chrome,
							       &export_csv };
	struct memory memory = { 0 };
	struct out_sink sink = { keep, &memory };
	struct op stray = allocation;

	stray.process = 2;
	for (size_t i = 0; i < 3; i++) {
		struct export_run *x = NULL;

		assert_int_equal(export_new(formats[i], meta, &sink, &x), 0);
		assert_int_equal(export_ops(x, &stray, 1), -ENOENT);
		export_free(x);
	}
}

static void an_error_of_the_sink_ends_the_export(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto, &export_chrome,
							       &export_csv };

	for (size_t i = 0; i < 3; i++) {
		int calls = 0, r = 0;
		struct out_sink sink = { refuse, &calls };
		struct export_run *x = NULL;

		assert_int_equal(export_new(formats[i], meta, &sink, &x), 0);
		for (int op = 0; op < 100000 && r == 0; op++)
			r = export_ops(x, &allocation, 1);
		assert_int_equal(r, -ENOSPC);
		assert_int_equal(export_end(x), -ENOSPC);
		assert_int_equal(calls, 1);
		export_free(x);
	}
}

/* The longest texts and the deepest stack that there can be, each in one piece of room. */
static void hostile_metadata_fits_in_the_room_that_is_asked_for(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	static const struct export_format *const formats[] = { &export_perfetto,  &export_chrome,
							       &export_folded,	  &export_svg,
							       &export_csv,	  &export_pprof,
							       &export_memory_viz };
	const struct meta_frame *frame[TS_STACK_FRAMES_MAX];
	char text[8192];
	struct op op = allocation;

	memset(text, '\1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (uint32_t i = 0; i < TS_STACK_FRAMES_MAX; i++) {
		struct frame source = FRAME(i, i, text, text + i);

		frame[i] = meta_frame(meta, &source);
		assert_non_null(frame[i]);
	}
	assert_int_equal(meta_add_stack(meta, 9, frame, TS_STACK_FRAMES_MAX), 0);
	assert_int_equal(meta_add_process(meta, 1, 42, text, text), 0);
	assert_int_equal(meta_add_function(meta, 3, text), 0);
	assert_int_equal(meta_add_name(meta, 5, text), 0);
	assert_int_equal(meta_add_device(meta, 1, 0, text), 0);
	op.kind = OP_LAUNCH;
	op.name = 5;
	op.stack_id = 9;
	memset(op.grid, 0xff, sizeof(op.grid));
	memset(op.block, 0xff, sizeof(op.block));
	op.address = op.source = op.handle = op.correlation = UINT64_MAX;
	op.result = INT32_MIN;
	op.shared_bytes = op.static_bytes = op.local_bytes = op.registers = UINT32_MAX;
	op.node = op.bytes = UINT64_MAX;
	op.graph = UINT32_MAX;
	op.flags = UINT16_MAX & ~(OP_NODE | OP_NO_CALL);
	op.gpu_start_ns = 1;
	op.gpu_end_ns = UINT64_MAX - 1;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		size_t size = 0;
		struct out_sink sink = { discard, &size };
		struct export_run *x = NULL;

		assert_int_equal(export_new(formats[i], meta, &sink, &x), 0);
		if (formats[i]->allocations) {
			op.kind = OP_ALLOC;
			op.detail = MEMORY_TENSOR;
			op.result = 0;
			op.bytes = 1;
		}
		for (int round = 0; round < 3000; round++) {
			op.address = formats[i]->allocations ? (uint64_t)round : UINT64_MAX;
			assert_int_equal(export_ops(x, &op, 1), 0);
		}
		assert_int_equal(export_end(x), 0);
		export_free(x);
		assert_true(size > (formats[i] == &export_pprof ? 100 : 100000)); /* compressed */
	}
}

static const struct op kernel = { .process = 1,
				  .tid = 42,
				  .fn = 3,
				  .kind = OP_LAUNCH,
				  .flags = OP_EXACT,
				  .start_ns = 1000,
				  .end_ns = 1100,
				  .gpu_start_ns = 5000,
				  .gpu_end_ns = 5400,
				  .name = 7 };

/* What the format makes of the ops, as text. */
static const char *meta_text(const struct export_format *format, const struct meta *meta,
			     const struct op *op, size_t count)
{
	static struct memory memory;
	struct out_sink sink = { keep, &memory };
	struct export_run *x = NULL;

	memset(&memory, 0, sizeof(memory));
	assert_int_equal(export_new(format, meta, &sink, &x), 0);
	assert_int_equal(export_ops(x, op, count), 0);
	assert_int_equal(export_end(x), 0);
	export_free(x);
	assert_true(memory.size < sizeof(memory.bytes));
	return (const char *)memory.bytes;
}

static void add_stack(struct meta *meta, uint64_t id, const char *inner, uint64_t offset)
{
	struct frame source[] = { FRAME(0, offset, "/lib", inner), FRAME(0, 1, "/bin", "main") };
	const struct meta_frame *frame[] = { meta_frame(meta, &source[0]),
					     meta_frame(meta, &source[1]) };

	assert_int_equal(meta_add_stack(meta, id, frame, 2), 0);
}

static void folded_stacks_add_up_to_the_microsecond(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct op op[5];

	meta_add_name(meta, 7, "a");
	meta_add_name(meta, 8, "b");
	add_stack(meta, 1, "f", 16);
	for (size_t i = 0; i < 5; i++)
		op[i] = kernel;
	op[0].stack_id = op[1].stack_id = op[2].stack_id = 1; /* 3 times 400 ns: 1.2 us */
	op[2].name = 8;
	op[3].kind = OP_COPY; /* 400 ns */
	op[3].name = 0;
	op[3].detail = COPY_DTOH;
	op[4].gpu_end_ns = 5000 + 2000000; /* 2 ms */
	op[4].flags |= OP_STACK_LOST;
	assert_string_equal(meta_text(&export_folded, meta, op, 5),
			    "train_(42);[no stack];[GPU_Copy]DtoH 0\n"
			    "train_(42);[no stack];[GPU_Kernel]a 2000\n"
			    "train_(42);main;f;[GPU_Kernel]a 1\n"
			    "train_(42);main;f;[GPU_Kernel]b 1\n");
}

/* Of six launches of 400 ns one in three has a stack. */
static void what_was_not_sampled_is_estimated(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	char *svg, *summary;
	struct op op[6];

	meta_add_name(meta, 7, "a");
	add_stack(meta, 1, "f", 16);
	add_stack(meta, 2, "g", 16);
	for (size_t i = 0; i < 6; i++)
		op[i] = kernel;
	op[2].stack_id = 1;
	op[5].stack_id = 2;
	assert_string_equal(meta_text(&export_folded, meta, op, 6),
			    "train_(42);main;f;[GPU_Kernel]a 1\n"
			    "train_(42);main;g;[GPU_Kernel]a 1\n");
	svg = strdup(meta_text(&export_svg, meta, op, 6));
	summary = strstr(svg, "Stacks are estimated from 2 samples: &#39;tsctl run --stacks all");
	assert_non_null(summary);
	assert_non_null(strstr(svg, "<title>main\nhost · about 2.40 µs · 100.00 % · 6 ×</title>"));
	assert_non_null(strstr(svg, "<title>f\nhost · about 1.20 µs · 50.00 % · 3 ×</title>"));
	assert_non_null(strstr(svg, "<title>train (42)\nprocess · 2.40 µs"));
	free(svg);
	for (size_t i = 0; i < 6; i++)
		op[i].stack_id = 1 + i % 2;
	assert_null(strstr(meta_text(&export_svg, meta, op, 6), "about"));
	assert_null(strstr(meta_text(&export_svg, meta, op, 6), "estimated"));
}

static void folded_stacks_that_read_alike_are_one_line(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct op op[3] = { kernel, kernel, kernel };

	meta_add_name(meta, 7, "k");
	add_stack(meta, 1, "f", 16);
	add_stack(meta, 2, "f", 48); /* elsewhere in the same function */
	add_stack(meta, 3, "f;g h\t", 48);
	for (size_t i = 0; i < 3; i++) {
		op[i].stack_id = i + 1;
		op[i].gpu_end_ns = op[i].gpu_start_ns + 1000;
	}
	assert_string_equal(meta_text(&export_folded, meta, op, 3),
			    "train_(42);main;f:g_h_;[GPU_Kernel]k 1\n"
			    "train_(42);main;f;[GPU_Kernel]k 2\n");
}

static void only_exact_times_are_folded(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct op op[4] = { kernel, kernel, kernel, allocation };

	op[0].flags = OP_BOUNDS;
	op[1].flags = OP_UNTIMED;
	op[2].gpu_end_ns = op[2].gpu_start_ns - 1;
	assert_string_equal(meta_text(&export_folded, meta, op, 4), "");
}

/* As zlib reads it back. */
static size_t unpack(const struct memory *packed, uint8_t *plain, size_t room)
{
	z_stream stream = { .next_in = (Bytef *)packed->bytes,
			    .avail_in = (uInt)packed->size,
			    .next_out = plain,
			    .avail_out = (uInt)room };

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	inflateEnd(&stream);
	return stream.total_out;
}

static void compressed_bytes_come_back(void **state)
{
	static uint8_t plain[1 << 20], back[1 << 20];
	static const size_t pieces[] = { 1, 0, 70000, 300, 200000 };
	_cleanup_(gzip_freep) struct gzip *gzip = NULL;
	static struct memory memory;
	struct out_sink sink = { keep, &memory };
	size_t at = 0;

	memory.size = 0;
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(i / 50 * 7);
	assert_int_equal(gzip_new(&sink, &gzip), 0);
	sink = gzip_sink(gzip);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); at += pieces[i++])
		assert_int_equal(sink.write(sink.data, plain + at, pieces[i]), 0);
	assert_int_equal(gzip_end(gzip), 0);
	assert_int_equal(unpack(&memory, back, sizeof(back)), at);
	assert_memory_equal(plain, back, at);
}

static void a_profile_that_cannot_be_written_is_an_error(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct export_run *x = NULL;
	int calls = 0;
	struct out_sink sink = { refuse, &calls };

	assert_int_equal(export_new(&export_pprof, meta, &sink, &x), 0);
	assert_int_equal(export_ops(x, &kernel, 1), 0);
	assert_int_equal(export_end(x), -ENOSPC);
	assert_int_equal(calls, 1);
	export_free(x);
}

static void fields_of_csv_are_quoted_where_they_must_be(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct op op = kernel;
	const char *text;

	assert_int_equal(meta_add_name(meta, 7, "f<1, 2>(\"x\")\r\n"), 0);
	op.address = UINT64_MAX;
	op.device = DEVICE_UNKNOWN;
	text = strchr(meta_text(&export_csv, meta, &op, 1), '\n') + 1;
	assert_string_equal(text,
			    "1,42,42,1000,1100,100,5000,5400,,0,1,-1,0,,0,-1,0,0,0,0,0,0,0,0,0,0,"
			    "0,0,0,0,0,0,0,0,0,0,4,launch,cuMemAlloc_v2,,"
			    "\"f<1, 2>(\"\"x\"\")\uFFFD\n\",train,\n");
}

static void a_flame_graph_shows_names_as_text(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	const char *svg;

	meta_add_name(meta, 7, "<script>x</script>]]>&\"'\n\xff\x01");
	svg = meta_text(&export_svg, meta, &kernel, 1);
	assert_non_null(strstr(svg, "<title>&lt;script&gt;x&lt;/script&gt;]]&gt;&amp;&quot;&#39;"
				    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n"
				    "kernel · 400 ns · 100.00 % · 1 ×</title>"));
	assert_non_null(strstr(svg, "<g class=\"process\" data-x=\"0\" data-n=\"400\"><title>train "
				    "(42)\nprocess"));
	assert_null(strstr(svg, "<script>x"));
}

static void what_is_too_narrow_to_draw_is_drawn_together(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct op op[101];
	const char *svg;

	for (size_t i = 0; i < 101; i++) {
		char name[16];

		snprintf(name, sizeof(name), "kernel%d", (int)i);
		meta_add_name(meta, i + 1, name);
		op[i] = kernel;
		op[i].name = i + 1;
		op[i].gpu_end_ns = op[i].gpu_start_ns + (i ? 10 : 1000000);
	}
	svg = meta_text(&export_svg, meta, op, 101);
	assert_non_null(strstr(svg, "<title>kernel0\n"));
	assert_null(strstr(svg, "<title>kernel1\n"));
	assert_non_null(strstr(svg, "<title>(100 smaller)\n1.00 µs · 0.10 % · 100 ×</title>"));
}

static void slices_that_overlap_have_lanes_of_their_own(void **state)
{
	struct rows rows = { 0 };
	struct lanes *lanes = rows_get(&rows, 1, 2);

	assert_ptr_equal(rows_get(&rows, 1, 2), lanes);
	lanes_take(lanes, 0, 100, true)->track = 1;
	assert_int_equal(lanes_take(lanes, 10, 60, true)->track, 1);  /* within */
	assert_int_equal(lanes_take(lanes, 60, 100, true)->track, 1); /* behind that, within */
	assert_int_equal(lanes_take(lanes, 70, 120, true)->track, 0); /* across the end */
	assert_int_equal(lanes->count, 2);
	lanes->lane[1].track = 2;
	assert_int_equal(lanes_take(lanes, 70, 71, false)->track, 0);  /* may not be within */
	assert_int_equal(lanes_take(lanes, 100, 110, true)->track, 1); /* touches */
	assert_int_equal(lanes_take(lanes, 5, 6, true)->track, 0);     /* told too late for all */
	assert_int_equal(lanes->count, 4);
	rows_clear(&rows);
}

static void bins_hold_all_that_was_added_however_long_it_gets(void **state)
{
	static const uint64_t starts[] = { 5000000000, 4000000000, 9000000000, 1, 90000000000 };
	struct bins bins = { 0 };
	double sum = 0;

	for (size_t i = 0; i < 5; i++) {
		bins_add(&bins, starts[i], starts[i] + 3000000, 3);
		bins_add(&bins, starts[i], starts[i], 3); /* no time, no amount */
	}
	for (uint32_t i = 0; i < BINS_MAX; i++)
		sum += bins.amount[i];
	assert_true(sum > 14.999999 && sum < 15.000001);
	assert_true(bins.count <= BINS_MAX && bins.count > BINS_MAX / 4);
	assert_true(bins_start_ns(&bins, 0) <= 1);
	assert_true(bins_start_ns(&bins, bins.count) >= 90003000000);
	assert_true(bins.amount[0] > 2.999999 && bins.amount[0] < 3.000001);
}

static void the_name_of_a_device_is_cut_between_characters(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	char text[128], name[SHOW_NAME_BYTES];

	for (size_t length = 20; length < 60; length++) {
		memset(text, 'x', length);
		strcpy(text + length, "äöü€äöü€äöü€äöü€äöü€");
		assert_int_equal(meta_add_device(meta, 1, 0, text), 0);
		show_gpu_name(name, meta, &kernel);
		assert_true(utf8_valid(name, strlen(name)));
		assert_true(strlen(name) > SHOW_NAME_BYTES - 6);
		assert_int_equal(name[strlen(name) - 1], ')');
	}
}

static void python_is_shown_by_line(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	const struct frame source = {
		.function = "forward", .file = "/a/net.py", .line = 31, .kind = FRAME_PYTHON
	};
	const struct meta_frame *frame = meta_frame(meta, &source);
	struct op op = kernel;
	const char *svg;

	assert_int_equal(meta_add_stack(meta, 1, &frame, 1), 0);
	op.stack_id = 1;
	assert_non_null(strstr(meta_text(&export_folded, meta, &op, 1), ";forward_(net.py:31);"));
	assert_non_null(strstr(meta_text(&export_chrome, meta, &op, 1), "\"forward (net.py:31)\""));
	svg = meta_text(&export_svg, meta, &op, 1);
	assert_true(strstr(svg, "<title>forward (net.py:31)\nPython") && strstr(svg, "legend y"));
}

static void equal_texts_and_frames_are_kept_once(void **state)
{
	_cleanup_(meta_freep) struct meta *meta = one_process();
	struct frame a = FRAME(100, 16, "/lib", "f"), b = FRAME(200, 16, "/lib", "f");
	struct frame c = FRAME(100, 17, "/lib", "f"), nothing = { .address = 0xbeef };

	assert_ptr_equal(meta_frame(meta, &a), meta_frame(meta, &b));
	assert_ptr_not_equal(meta_frame(meta, &a), meta_frame(meta, &c));
	assert_ptr_equal(meta_frame(meta, &a)->function, meta_frame(meta, &c)->function);
	assert_string_equal(meta_frame(meta, &nothing)->function->text, "0xbeef");
	a.function = NULL;
	assert_string_equal(meta_frame(meta, &a)->function->text, "lib+0x10");
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
		cmocka_unit_test(folded_stacks_add_up_to_the_microsecond),
		cmocka_unit_test(what_was_not_sampled_is_estimated),
		cmocka_unit_test(folded_stacks_that_read_alike_are_one_line),
		cmocka_unit_test(only_exact_times_are_folded),
		cmocka_unit_test(compressed_bytes_come_back),
		cmocka_unit_test(a_profile_that_cannot_be_written_is_an_error),
		cmocka_unit_test(fields_of_csv_are_quoted_where_they_must_be),
		cmocka_unit_test(a_flame_graph_shows_names_as_text),
		cmocka_unit_test(what_is_too_narrow_to_draw_is_drawn_together),
		cmocka_unit_test(slices_that_overlap_have_lanes_of_their_own),
		cmocka_unit_test(bins_hold_all_that_was_added_however_long_it_gets),
		cmocka_unit_test(the_name_of_a_device_is_cut_between_characters),
		cmocka_unit_test(python_is_shown_by_line),
		cmocka_unit_test(equal_texts_and_frames_are_kept_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
