/* View: a recording made by hand, as a list, a tree and lanes. */
#include "client/file/serve.h"
#include "client/verbs/command.h"
#include "client/view/view.h"
#include "tests/unit/file_fixture.h"

#define T0 (100 * SECOND_NS)
#define US 1000ull

enum { LAUNCH = 1, ALLOC, SYNC, COPY };
enum { GEMM = 1, HOSTILE, GPU };

static struct op op_of(uint8_t kind, uint16_t fn, uint32_t stream, uint64_t start_us,
		       uint64_t end_us)
{
	return (struct op){
		.process = 1,
		.tid = 42,
		.kind = kind,
		.fn = fn,
		.stream = stream,
		.device = stream ? 0 : DEVICE_UNKNOWN,
		.start_ns = T0 + start_us * US,
		.end_ns = T0 + end_us * US,
		.flags = OP_RETURNED,
	};
}

static struct op kernel_of(uint32_t stream, uint64_t name, uint64_t start_us, uint64_t gpu_us,
			   uint64_t gpu_end_us)
{
	struct op op = op_of(OP_LAUNCH, LAUNCH, stream, start_us, start_us + 2);

	op.flags |= OP_EXACT;
	op.gpu_start_ns = T0 + gpu_us * US;
	op.gpu_end_ns = T0 + gpu_end_us * US;
	op.name = name;
	op.grid[0] = op.grid[1] = op.grid[2] = 2;
	op.block[0] = 128;
	op.block[1] = op.block[2] = 1;
	return op;
}

static void put_name(struct made *made, int id, const char *text)
{
	made_row(made, "name", NAMES("id", "text", "symbol", "boot", "told_ns"), INTEGER(id),
		 TEXT(text), TEXT(text), INTEGER(1), INTEGER(T0));
}

static void put_function(struct made *made, int id, const char *name)
{
	made_row(made, "function", NAMES("id", "name", "kind"), INTEGER(id), TEXT(name),
		 INTEGER(0));
}

static void put_stream(struct made *made, int id)
{
	made_row(made, "stream", NAMES("id", "process", "handle", "context", "device", "tid"),
		 INTEGER(id), INTEGER(1), INTEGER(0x5500 + id), INTEGER(1), INTEGER(0), INTEGER(0));
}

static void put_names(struct made *made)
{
	made_row(made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1), TEXT(BOOT),
		 INTEGER(0));
	made_fact(made, "since_ns", INTEGER(T0));
	made_fact(made, "until_ns", INTEGER(T0 + 1000 * US));
	made_row(made, "process", NAMES("id", "boot", "pid", "comm"), INTEGER(1), INTEGER(1),
		 INTEGER(42), TEXT("train"));
	made_row(made, "device", NAMES("process", "ordinal", "name"), INTEGER(1), INTEGER(0),
		 INTEGER(GPU));
	put_stream(made, 3);
	put_stream(made, 4);
	put_name(made, GEMM, "gemm<float, 128>");
	put_name(made, HOSTILE, "\033[31mconv");
	put_name(made, GPU, "H200");
	put_function(made, LAUNCH, "cuLaunchKernel");
	put_function(made, ALLOC, "cuMemAlloc_v2");
	put_function(made, SYNC, "cuStreamSynchronize");
	put_function(made, COPY, "cuMemcpyHtoDAsync_v2");
	made_row(made, "loss_reason", NAMES("id", "name", "text"), INTEGER(1), TEXT("ring-full"),
		 TEXT("the ring was full"));
	made_row(made, "loss",
		 NAMES("boot", "second", "process", "reason", "start_ns", "end_ns", "count"),
		 INTEGER(1), INTEGER(100), INTEGER(0), INTEGER(1), INTEGER(T0), INTEGER(T0 + US),
		 INTEGER(17));
}

/* Half a millisecond of kernels on stream 3, some beside them on stream 4, a copy behind. */
static void put_trace(struct made *made)
{
	struct op gemm[5], conv[2], copy = op_of(OP_COPY, COPY, 3, 505, 508);
	struct op alloc = op_of(OP_ALLOC, ALLOC, 0, 0, 10),
		  sync = op_of(OP_SYNC, SYNC, 3, 510, 750);
	struct op idle = op_of(OP_STATE, 0, 3, 0, 900);

	for (uint64_t i = 0; i < 5; i++)
		gemm[i] = kernel_of(3, GEMM, 20 + i * 100, 30 + i * 100, 100 + i * 100);
	conv[0] = kernel_of(4, HOSTILE, 25, 50, 150);
	conv[1] = kernel_of(4, HOSTILE, 700, 0, 0);
	conv[1].flags = OP_RETURNED | OP_UNTIMED;
	conv[1].gpu_start_ns = conv[1].gpu_end_ns = 0;
	copy.flags |= OP_EXACT;
	copy.detail = COPY_HTOD;
	copy.bytes = 4096;
	copy.gpu_start_ns = T0 + 520 * US;
	copy.gpu_end_ns = T0 + 740 * US;
	alloc.bytes = 1 << 20;
	alloc.result = 2;
	alloc.detail = MEMORY_DEVICE;
	idle.detail = OP_STATE_IDLE;
	made_chunk(made, &alloc, 1);
	made_chunk(made, gemm, 5);
	made_chunk(made, conv, 2);
	made_chunk(made, &copy, 1);
	made_chunk(made, &sync, 1);
	made_chunk(made, &idle, 1);
}

static struct made made;

static int make(void **state)
{
	struct fixture *fixture;
	int r = fixture_setup(state);

	fixture = *state;
	made_begin(&made, fixture);
	put_names(&made);
	put_trace(&made);
	made_end(&made, true);
	return r;
}

static bool terminal;

#define TO_LAST 1

/* What it says on standard output. */
static char *show(int (*how)(struct view *view), struct options options)
{
	struct view view = {
		.options = &options, .width = 60, .color = terminal, .utf8 = terminal
	};
	size_t size;
	char *text;

	options.file = made.path;
	options.files = &file_serve;
	/* Up to the end of the recording, which is later than the last op. */
	if (options.to_ns == 0)
		options.to_ns = 1000 * US;
	if (options.to_ns != TO_LAST)
		options.given |= OPTION(TO);
	assert_int_equal(trace_open(&options, &view.trace), 0);
	if (options.kernel) {
		assert_int_equal(regcomp(&view.name, options.kernel, REG_EXTENDED), 0);
		view.by_name = true;
	}
	view.out = open_memstream(&text, &size);
	assert_int_equal(how(&view), 0);
	fclose(view.out);
	if (view.by_name)
		regfree(&view.name);
	map_clear(&view.matches);
	trace_done(&view.trace);
	return text;
}

#define SHOW(how, ...) show(how, (struct options){ __VA_ARGS__ })

static void expect_part(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

static void expect_no_part(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("'%s' is in:\n%s", part, text);
}

static size_t lines_with(const char *text, const char *part)
{
	size_t count = 0;

	for (; (text = strstr(text, part)); text++)
		count++;
	return count;
}

static void test_a_line_an_op_in_order_of_time(void **state)
{
	_cleanup_(freep) char *text = SHOW(view_list, .given = 0);

	expect_part(text,
		    "0 is 1970-01-01 00:01:40.000\n"
		    "at              call  process     thread  gpu  stream  kind    gpu at       "
		    "gpu time    delay  size              marks    name\n"
		    "   0.000000  10.0 µs  train (42)      42    -       -  alloc   -            "
		    "       -        -  1.00 MiB          error 2  cuMemAlloc_v2\n"
		    "   0.000020  2.00 µs  train (42)      42    0       3  launch     0.000030  "
		    " 70.0 µs  10.0 µs  2x2x2 of 128x1x1  -        gemm<float, 128>\n"
		    "   0.000025  2.00 µs  train (42)      42    0       4  launch     0.000050  "
		    "  100 µs  25.0 µs  2x2x2 of 128x1x1  -        �[31mconv\n"
		    "   0.000120");
	expect_part(text,
		    "   0.000505  3.00 µs  train (42)      42    0       3  copy       0.000520  "
		    "  220 µs  15.0 µs  4.00 KiB          -        memcpy HtoD\n"
		    "   0.000510   240 µs  train (42)      42    0       3  sync    -            "
		    "       -        -  -                 -        cuStreamSynchronize\n"
		    "   0.000700  2.00 µs  train (42)      42    0       4  launch  -            "
		    "       -        -  2x2x2 of 128x1x1  untimed  �[31mconv\n");
	expect_part(text, "\nlost: 17 events (ring-full); see 'tsctl query loss'\n");
}

static void test_a_name_a_stream_and_a_time_choose(void **state)
{
	_cleanup_(freep) char *named = SHOW(view_list, .kernel = "ge.*(12|34)8>$");
	_cleanup_(freep) char *on_stream = SHOW(view_list, .given = OPTION(STREAM), .stream = 4);
	_cleanup_(freep) char *timed = SHOW(view_list, .given = OPTION(FROM) | OPTION(TO),
					    .from_ns = 505 * US, .to_ns = 510 * US);
	_cleanup_(freep) char *elsewhere = SHOW(view_list, .given = OPTION(DEVICE), .device = 1);

	assert_int_equal(lines_with(named, "train (42)"), 5);
	assert_int_equal(lines_with(named, "gemm"), 5);
	assert_int_equal(lines_with(on_stream, "train (42)"), 2);
	assert_int_equal(lines_with(timed, "train (42)"), 1);
	expect_part(timed, "memcpy HtoD");
	expect_part(elsewhere, "no rows\n");
	expect_no_part(elsewhere, "0 is ");
}

static void test_json_has_what_sql_has(void **state)
{
	_cleanup_(freep) char *text =
		SHOW(view_list, .given = OPTION(JSON) | OPTION(LIMIT), .limit = 2);

	expect_part(text, "{\"query\":\"view\",\"rows\":[\n{");
	expect_part(text,
		    "\"start_ns\":100000020000,\"end_ns\":100000022000,\"duration_ns\":2000,"
		    "\"gpu_start_ns\":100000030000,\"gpu_end_ns\":100000100000,\"gpu_ns\":70000,"
		    "\"device\":0,\"stream\":3");
	expect_part(text,
		    "\"delay_ns\":10000,\"pid\":42,\"process_name\":\"train\",\"kind\":\"launch\","
		    "\"fn\":\"cuLaunchKernel\",\"detail\":null,\"name\":\"gemm<float, 128>\"");
	expect_part(text, "\"stream\":null");
	expect_part(text, "],\"loss\":{\"ring-full\":17},\"missing\":\"lost: 17 events "
			  "(ring-full); see 'tsctl query loss'\",\"truncated\":true}\n");
	assert_int_equal(lines_with(text, "\"start_ns\""), 2);
}

/* Stream 3 is busy for 5 x 70 and 220, stream 4 for 100, of which 70 are of both, of 1000. */
static void test_a_tree_adds_up(void **state)
{
	_cleanup_(freep) char *text = SHOW(view_tree, .given = OPTION(LIMIT), .limit = 1);

	expect_part(text,
		    "               at      call  GPU time  kind      name\n"
		    "train (42)                                              10 ops  "
		    "GPU 670 µs, busy 60.0 %\n"
		    "  GPU 0 (H200)                                           9 ops  "
		    "GPU 670 µs, busy 60.0 %\n"
		    "    stream 3 (0x5503)                                    7 ops  "
		    "GPU 570 µs, busy 57.0 %\n"
		    "         0.000020   2.00 µs   70.0 µs  launch    gemm<float, 128>  "
		    "2x2x2 of 128x1x1\n"
		    "      and 6 more\n"
		    "    stream 4 (0x5504)                                    2 ops  "
		    "GPU 100 µs, busy 10.0 %\n"
		    "         0.000025   2.00 µs    100 µs  launch    �[31mconv  2x2x2 of 128x1x1\n"
		    "      and 1 more\n"
		    "  host                                                   1 ops\n"
		    "    thread 42                                            1 ops\n"
		    "         0.000000   10.0 µs         -  alloc     cuMemAlloc_v2  1.00 MiB  "
		    "[error 2]\n"
		    "\nlost: 17 events (ring-full)");
}

static void test_a_limit_of_0_is_none(void **state)
{
	_cleanup_(freep) char *tree = SHOW(view_tree, .given = OPTION(LIMIT));
	_cleanup_(freep) char *list = SHOW(view_list, .given = OPTION(LIMIT));

	assert_int_equal(lines_with(tree, "gemm"), 5);
	expect_no_part(tree, "more");
	assert_int_equal(lines_with(list, "gemm"), 5);
	expect_no_part(list, "showing the first");
}

static void test_a_tree_of_sums_only(void **state)
{
	_cleanup_(freep) char *json = SHOW(view_tree, .given = OPTION(JSON));

	expect_part(
		json,
		"\n{\"pid\":42,\"process_name\":\"train\",\"device\":0,\"stream\":3,\"tid\":null,"
		"\"ops\":7,\"gpu_ns\":570000,\"busy_ns\":570000,\"busy_share\":0.5");
	expect_part(json, "\"device\":null,\"stream\":null,\"tid\":42,\"ops\":1,");
	expect_part(json, "],\"loss\":{\"ring-full\":17}}\n");
}

static void test_lanes_end_with_the_last_op(void **state)
{
	_cleanup_(freep) char *text = SHOW(view_lanes, .to_ns = TO_LAST);

	expect_part(text, "from 0.000000 to 0.000750 s");
}

static void test_lanes_show_what_fills_a_cell(void **state)
{
	_cleanup_(freep) char *text = SHOW(view_lanes, .given = 0);

	expect_part(text, "0 is 1970-01-01 00:01:40.000\n"
			  "from 0.000000 to 0.001000 s, 25.0 µs per cell\n"
			  "\n"
			  "                    |0 ns       |300 µs     |600 µs     \n"
			  "train (42)\n"
			  "  GPU 0 busy        .8######.8##.8##.8##2########6..........\n"
			  "    stream 3        .KKK.KKK.KKK.KKK.KKKhHHHHHHHHH..........\n"
			  "    stream 4        ..KKKK..................................\n"
			  "  thread 42         ml..l...l...l...l...WWWWWWWWWW..........\n"
			  "\n"
			  "k kernel  h copy to device  l launch  w wait for device  \n"
			  "m memory  \n"
			  "capital: half of the cell or more\n"
			  "\n"
			  "lost: 17 events (ring-full)");
}

static void test_lanes_on_a_terminal(void **state)
{
	_cleanup_(freep) char *text = NULL;

	terminal = true;
	text = SHOW(view_lanes, .given = 0);
	terminal = false;
	expect_part(text, "\n\033[1mtrain (42)\033[0m\n"
			  "  GPU 0 busy        ·▇██████·▇██·▇██·▇██▂████████▅··········\n"
			  "    stream 3        ·\033[32mK\033[0m\033[32mK\033[0m");
}

static void test_lanes_of_a_window(void **state)
{
	_cleanup_(freep) char *text = SHOW(view_lanes, .given = OPTION(FROM) | OPTION(TO),
					   .from_ns = 520 * US, .to_ns = 560 * US);
	_cleanup_(freep) char *nothing =
		SHOW(view_lanes, .given = OPTION(FROM), .from_ns = 950 * US);

	expect_part(text, "from 0.000520 to 0.000560 s, 1.00 µs per cell\n");
	expect_part(text, "    stream 3        HHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHHH\n");
	expect_part(text, "  thread 42         WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW\n");
	expect_part(nothing, "no operations\n");
	expect_no_part(nothing, "0 is ");
}

static void test_more_lanes_than_are_shown(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(freep) char *text = NULL;
	struct op op[300];

	for (uint32_t i = 0; i < 300; i++) {
		op[i] = op_of(OP_ALLOC, ALLOC, 0, i, i + 1);
		op[i].tid = 1000 + i;
	}
	made_begin(&made, fixture);
	put_names(&made);
	made_chunk(&made, op, 300);
	made_end(&made, true);
	text = SHOW(view_lanes, .given = 0);
	expect_part(text, "  thread 1255       ");
	expect_no_part(text, "  thread 1256       ");
	expect_part(text, "and 44 more lanes: select some with --pid, --device or --stream\n");
}

/* The calls were made, but nothing ran. */
static void test_captured_work_keeps_nothing_busy(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(freep) char *text = NULL;
	struct op op[2];

	op[0] = kernel_of(3, GEMM, 100, 150, 400);
	op[0].end_ns = T0 + 300 * US;
	op[0].flags |= OP_CAPTURED;
	op[1] = kernel_of(3, GEMM, 500, 510, 600);
	made_begin(&made, fixture);
	put_names(&made);
	made_chunk(&made, op, 2);
	made_end(&made, true);
	text = SHOW(view_lanes, .given = 0);
	expect_part(text, "  GPU 0 busy        ................");
	expect_part(text, "    stream 3        ................");
	expect_part(text, "  thread 42         RRRRRRRRR........l....");
	expect_part(text, "r captured into a graph");
}

static int command(const char *said, option_set given, const char *kernel)
{
	struct options options = {
		.given = given,
		.kernel = kernel,
		.socket = "/nonexistent",
		.file = given & OPTION(FILE) ? "other.sbt" : NULL,
		.files = &file_serve,
	};
	char *path = made.path;
	int status;

	said_begin();
	status = cmd_view(&options, 1, &path);
	expect_part(said_end(), said);
	return status;
}

static void test_what_makes_no_sense_is_one_sentence(void **state)
{
	assert_int_equal(command("tsctl: Invalid --kernel '(': ", 0, "("), 2);
	assert_int_equal(command("--tree and --lanes exclude each other\n",
				 OPTION(TREE) | OPTION(LANES), NULL),
			 2);
	assert_int_equal(
		command("--lanes draws on a terminal only", OPTION(LANES) | OPTION(JSON), NULL), 2);
	assert_int_equal(command("and 'other.sbt'\n", OPTION(FILE), NULL), 2);
	strcat(made.path, ".gone");
	assert_int_equal(command("made.sbt.gone", 0, NULL), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_line_an_op_in_order_of_time),
		TEST(test_a_name_a_stream_and_a_time_choose),
		TEST(test_json_has_what_sql_has),
		TEST(test_a_tree_adds_up),
		TEST(test_a_limit_of_0_is_none),
		TEST(test_a_tree_of_sums_only),
		TEST(test_lanes_end_with_the_last_op),
		TEST(test_lanes_show_what_fills_a_cell),
		TEST(test_lanes_on_a_terminal),
		TEST(test_lanes_of_a_window),
		TEST(test_more_lanes_than_are_shown),
		TEST(test_captured_work_keeps_nothing_busy),
		TEST(test_what_makes_no_sense_is_one_sentence),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
