/* Table: one answer as text, JSON and CSV, with what other processes may have named themselves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/distance.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

#define V(kind) TRACESMITH__V1__VALUE__VALUE_##kind
#define T(type) TRACESMITH__V1__COLUMNS__TYPE__##type
#define COLUMNS 4

/* The note of an answer. */
static const char *said = "";
/* The frames of its stack, and how many of them lead to the user's outermost. */
static char *frames[] = { "inner", "ou\"ter", "main", "__libc_start_main", "_start" };
static size_t frame_count = 2;
static uint32_t users;
/* The columns that are asked for; NULL: all. */
static const char *chosen;

static int table_status;

static char *write_table(option_set form, size_t width, const char *name, size_t rows,
			 uint64_t lost, char **ret_notes)
{
	static char *names[COLUMNS] = { "comm", "bytes", "time_ns", "stack" };
	static const int types[COLUMNS] = { T(TEXT), T(BYTES), T(NANOSECONDS), T(STACK) };
	struct options options = { .given = form, .columns = chosen };
	Tracesmith__V1__Columns__Column column[COLUMNS], *column_list[COLUMNS];
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Value value[COLUMNS], *value_list[COLUMNS];
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;
	Tracesmith__V1__Stack stack = TRACESMITH__V1__STACK__INIT;
	Tracesmith__V1__Loss loss = TRACESMITH__V1__LOSS__INIT, *loss_list = &loss;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	char *text = NULL;
	size_t size, notes_size;
	struct table table;

	for (int i = 0; i < COLUMNS; i++) {
		tracesmith__v1__columns__column__init(&column[i]);
		tracesmith__v1__value__init(&value[i]);
		column[i].name = names[i];
		column[i].type = types[i];
		column_list[i] = &column[i];
		value_list[i] = &value[i];
	}
	columns.n_column = row.n_value = COLUMNS;
	columns.column = column_list;
	row.value = value_list;
	value[0].value_case = V(TEXT);
	value[0].text = (char *)name;
	value[1].value_case = V(INTEGER);
	value[1].integer = 1536;
	stack.n_frame = frame_count;
	stack.frame = frames;
	stack.users = users;
	value[3].value_case = V(STACK);
	value[3].stack = &stack;
	loss.reason = "ring-full";
	loss.noun = "event";
	loss.text = "too much";
	loss.count = lost;
	done.n_loss = lost ? 1 : 0;
	done.loss = &loss_list;
	done.truncated = lost != 0;
	done.note = (char *)said;

	table_init(&table, &options, "te\"st", 0);
	table.out = open_memstream(&text, &size);
	table.notes = open_memstream(ret_notes, &notes_size);
	table.width = width;
	table.color = false;
	table_status = table_columns(&table, &columns);
	rows = table_status < 0 ? 0 : rows;
	for (size_t i = 0; i < rows; i++)
		assert_int_equal(table_row(&table, &row), 0);
	if (table_status == 0)
		assert_int_equal(table_end(&table, &done), 0);
	fclose(table.out);
	fclose(table.notes);
	table_done(&table);
	return text;
}

static void expect(option_set form, size_t width, const char *name, size_t rows, uint64_t lost,
		   const char *expected, const char *expected_notes)
{
	char *notes = NULL, *text = write_table(form, width, name, rows, lost, &notes);

	assert_string_equal(text, expected);
	assert_string_equal(notes, expected_notes);
	free(text);
	free(notes);
}

static void test_json_is_one_object(void **state)
{
	expect(OPTION(JSON), 0, "a", 2, 12,
	       "{\"query\":\"te\\\"st\",\"rows\":[\n"
	       "{\"comm\":\"a\",\"bytes\":1536,\"time_ns\":null,\"stack\":[\"inner\",\"ou\\\"ter\"]"
	       "},"
	       "\n{\"comm\":\"a\",\"bytes\":1536,\"time_ns\":null,"
	       "\"stack\":[\"inner\",\"ou\\\"ter\"]}\n"
	       "],\"loss\":{\"ring-full\":12},"
	       "\"missing\":\"lost: 12 events (ring-full); see 'tsctl query loss'\","
	       "\"truncated\":true}\n",
	       "tsctl: showing the first 2 rows: raise --limit\n");
	expect(OPTION(JSON), 0, "a", 0, 0, "{\"query\":\"te\\\"st\",\"rows\":[],\"loss\":{}}\n",
	       "");
}

static void test_json_strings_are_always_valid(void **state)
{
	/* A quote, a control, an overlong slash, a lone surrogate, a cut-off end, and a snowman. */
	expect(OPTION(JSON), 0, "\"\\\n\x01\x7f\xc0\xaf\xed\xa0\x80\xe2\x98\x83\xf0\x9f", 1, 0,
	       "{\"query\":\"te\\\"st\",\"rows\":[\n"
	       "{\"comm\":\"\\\"\\\\\\n\\u0001\\u007f\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf"
	       "\xbd\xef\xbf\xbd\xe2\x98\x83\xef\xbf\xbd\xef\xbf\xbd\",\"bytes\":1536,"
	       "\"time_ns\":null,\"stack\":[\"inner\",\"ou\\\"ter\"]}\n"
	       "],\"loss\":{}}\n",
	       "");
}

static void test_csv_quotes_what_needs_it(void **state)
{
	expect(OPTION(CSV), 0, "a,\"b\"", 1, 3,
	       "comm,bytes,time_ns,stack\n"
	       "\"a,\"\"b\"\"\",1536,,\"inner;ou\"\"ter\"\n",
	       "tsctl: lost: 3 events (ring-full); see 'tsctl query loss'\n"
	       "tsctl: showing the first 1 rows: raise --limit\n");
}

static void test_columns_can_be_chosen(void **state)
{
	char *notes = NULL;

	chosen = "bytes,comm";
	expect(0, 0, "a", 1, 0, "   bytes  comm\n1.50 KiB  a\n\nnothing lost\n", "");
	expect(OPTION(CSV), 0, "a", 1, 0, "bytes,comm\n1536,a\n", "");
	expect(OPTION(JSON), 0, "a", 1, 0,
	       "{\"query\":\"te\\\"st\",\"rows\":[\n{\"bytes\":1536,\"comm\":\"a\"}\n],\"loss\":{}}"
	       "\n",
	       "");
	for (const char *const *wrong = (const char *const[]){ "byte", "bytes,", ",", "", NULL };
	     *wrong; wrong++) {
		chosen = *wrong;
		free(write_table(0, 0, "a", 1, 0, &notes));
		assert_int_equal(table_status, -EINVAL);
		free(notes);
	}
	chosen = NULL;
}

static void test_text_is_aligned_with_units_and_stacks_below(void **state)
{
	expect(0, 0, "a\xe2\x98\x83", 1, 0,
	       "comm     bytes  time_ns\n"
	       "a\xe2\x98\x83    1.50 KiB        -\n"
	       "      inner\n"
	       "      ou\"ter\n"
	       "\nnothing lost\n",
	       "");
	expect(0, 0, "a", 0, 9, "no rows\n\nlost: 9 events (ring-full); see 'tsctl query loss'\n",
	       "tsctl: showing the first 0 rows: raise --limit\n");
}

static void expect_stack(option_set form, size_t count, uint32_t of_user, const char *expected)
{
	char *notes = NULL, *text;

	frame_count = count;
	users = of_user;
	text = write_table(form, 0, "a", 1, 0, &notes);
	frame_count = 2;
	users = 0;
	if (!strstr(text, expected))
		fail_msg("%s", text);
	free(text);
	free(notes);
}

static void test_stacks_end_with_the_users_outermost_frame(void **state)
{
	const char *all = "      ou\"ter\n      main\n      __libc_start_main\n      _start\n\n";

	expect_stack(0, 5, 3, "      ou\"ter\n      main\n      and 2 more\n\n");
	expect_stack(0, 5, 4, all); /* one line for one frame would save nothing */
	expect_stack(0, 5, 5, all);
	expect_stack(0, 5, 0, all); /* none is the user's, or the daemon is older */
	expect_stack(0, 5, UINT32_MAX, all);
	expect_stack(OPTION(WIDE), 5, 3, all);
	expect_stack(OPTION(JSON), 5, 3, "\"main\",\"__libc_start_main\",\"_start\"]");
	expect_stack(OPTION(CSV), 5, 3, ";main;__libc_start_main;_start");
}

static void test_text_fits_the_terminal_without_control_characters(void **state)
{
	expect(0, 45, "\033[2Jabcdefghijklmnopqrstuvwxyz", 1, 0,
	       "comm                           bytes  time_ns\n"
	       "\xef\xbf\xbd[2Jabcdefghijklmnopqrstu\xe2\x80\xa6  1.50 KiB        -\n"
	       "      inner\n"
	       "      ou\"ter\n"
	       "\nnothing lost\n",
	       "");
}

static void test_names_stay_readable_on_a_narrow_terminal(void **state)
{
	expect(0, 20, "\033[2Jabcdefghijklmnopqrstuvwxyz", 1, 0,
	       "comm                         bytes  time_ns\n"
	       "\xef\xbf\xbd[2Jabcdefghijklmnopqrs\xe2\x80\xa6  1.50 KiB        -\n"
	       "      inner\n"
	       "      ou\"ter\n"
	       "\nnothing lost\n",
	       "");
	expect(0, 20, "   12.345678901", 1, 0,
	       "comm                bytes  time_ns\n"
	       "   12.345678901  1.50 KiB        -\n"
	       "      inner\n"
	       "      ou\"ter\n"
	       "\nnothing lost\n",
	       "");
}

static void test_a_note_is_shown(void **state)
{
	said = "Process 7 is \033[2J, see \"x\"";
	expect(0, 0, "a", 0, 0,
	       "no rows: Process 7 is \xef\xbf\xbd[2J, see \"x\"\n\nnothing lost\n", "");
	expect(OPTION(JSON), 0, "a", 0, 0,
	       "{\"query\":\"te\\\"st\",\"rows\":[],\"loss\":{},"
	       "\"note\":\"Process 7 is \\u001b[2J, see \\\"x\\\"\"}\n",
	       "");
	said = "Others are hidden";
	expect(0, 0, "a", 1, 0,
	       "comm     bytes  time_ns\n"
	       "a     1.50 KiB        -\n"
	       "      inner\n"
	       "      ou\"ter\n"
	       "\nnote: Others are hidden\n"
	       "\nnothing lost\n",
	       "");
	expect(OPTION(CSV), 0, "a", 0, 0, "comm,bytes,time_ns,stack\n",
	       "tsctl: note: Others are hidden\n");
	said = "";
}

static char *loss_line(size_t count)
{
	static Tracesmith__V1__Loss row[] = {
		{ .reason = "ring-full", .noun = "event", .count = 24 },
		{ .reason = "gap",
		  .noun = "gap",
		  .count = 3,
		  .time_ns = 1200000000,
		  .said = "not watched for 1.20 s (probes were not attached yet)" },
		{ .reason = "paused", .noun = "pause", .count = 1, .time_ns = 5000000 },
		{ .reason = "new\033[2J", .noun = "", .count = 2 },
		{ .reason = "cut-off", .noun = "end", .count = 1 },
	};
	Tracesmith__V1__Loss *list[] = { &row[0], &row[1], &row[2], &row[3], &row[4] };
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	done.loss = list;
	done.n_loss = count;
	loss_write(out, &done);
	fclose(out);
	return text;
}

#define PS_COLUMNS 19

static void set(Tracesmith__V1__Value *value, const char *text, int64_t number)
{
	tracesmith__v1__value__init(value);
	if (text) {
		value->value_case = V(TEXT);
		value->text = (char *)text;
	} else if (number >= 0) {
		value->value_case = V(INTEGER);
		value->integer = number;
	}
}

/* `ps` of one process, of the probe tier where `cost` is negative. */
static char *write_ps(option_set given, size_t width, const char *container, int64_t cost)
{
	static const struct {
		const char *name;
		int type;
	} column[PS_COLUMNS] = {
		{ "pid", T(INTEGER) },	       { "user", T(TEXT) },
		{ "comm", T(TEXT) },	       { "container", T(TEXT) },
		{ "tier", T(TEXT) },	       { "since_ns", T(TIME) },
		{ "cost", T(SHARE) },	       { "cost_low", T(SHARE) },
		{ "cost_high", T(SHARE) },     { "budget", T(SHARE) },
		{ "callback_cost", T(SHARE) }, { "thread_cost", T(SHARE) },
		{ "records", T(INTEGER) },     { "lost", T(INTEGER) },
		{ "live_bytes", T(BYTES) },    { "peak_bytes", T(BYTES) },
		{ "calls", T(INTEGER) },       { "errors", T(INTEGER) },
		{ "command", T(TEXT) },
	};
	Tracesmith__V1__Columns__Column columns_of[PS_COLUMNS], *column_list[PS_COLUMNS];
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Value value[PS_COLUMNS], *value_list[PS_COLUMNS];
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	struct options options = { .given = given };
	struct table table;
	char *text = NULL;
	size_t size;

	for (int i = 0; i < PS_COLUMNS; i++) {
		tracesmith__v1__columns__column__init(&columns_of[i]);
		columns_of[i].name = (char *)column[i].name;
		columns_of[i].type = column[i].type;
		column_list[i] = &columns_of[i];
		value_list[i] = &value[i];
		set(&value[i], NULL, column[i].type == T(INTEGER) ? 0 : cost);
	}
	set(&value[0], NULL, 4194304);
	set(&value[1], "alexandra", 0);
	set(&value[2], "python3", 0);
	set(&value[3], container, -1);
	set(&value[4], cost < 0 ? "probe" : "exact", 0);
	set(&value[14], NULL, 1536 << 20);
	set(&value[16], NULL, 123456789);
	set(&value[18], "/usr/bin/python3 -m torch.distributed.run train.py --epochs 3", 0);
	columns.n_column = row.n_value = PS_COLUMNS;
	columns.column = column_list;
	row.value = value_list;
	table_init(&table, &options, "ps", 0);
	table.out = open_memstream(&text, &size);
	table.width = given & OPTION(WIDE) ? table.width : width;
	table.color = false;
	assert_int_equal(table_columns(&table, &columns), 0);
	assert_int_equal(table_row(&table, &row), 0);
	assert_int_equal(table_end(&table, &done), 0);
	fclose(table.out);
	table_done(&table);
	return text;
}

static void expect_lines_of(const char *text, size_t columns)
{
	for (size_t width = 0; *text; text++) {
		width = *text == '\n' ? 0 : width + ((*text & 0xc0) != 0x80);
		assert_true(width <= columns);
	}
}

static void test_a_column_that_says_nothing_is_left_out(void **state)
{
	Tracesmith__V1__Columns__Column sampled, name, *columns_of[] = { &sampled, &name };
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Value value[2], *values[] = { &value[0], &value[1] };
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	static const char *const expected[] = { "name\ngemm\n\nnothing lost\n",
						"sampled  name\n      7  gemm\n\nnothing lost\n" };

	tracesmith__v1__columns__column__init(&sampled);
	tracesmith__v1__columns__column__init(&name);
	sampled.name = "sampled";
	sampled.type = T(INTEGER);
	name.name = "name";
	name.type = T(TEXT);
	columns.n_column = row.n_value = 2;
	columns.column = columns_of;
	row.value = values;
	for (int by_stack = 0; by_stack < 2; by_stack++) {
		struct options options = { 0 };
		struct table table;
		char *text = NULL;
		size_t size;

		set(&value[0], NULL, by_stack ? 7 : -1);
		set(&value[1], "gemm", 0);
		table_init(&table, &options, "kernels", 0);
		table.out = open_memstream(&text, &size);
		assert_int_equal(table_columns(&table, &columns), 0);
		assert_int_equal(table_row(&table, &row), 0);
		assert_int_equal(table_end(&table, &done), 0);
		fclose(table.out);
		table_done(&table);
		assert_string_equal(text, expected[by_stack]);
		free(text);
	}
}

static void test_ps_fits_a_terminal(void **state)
{
	static const char id[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char *text = write_ps(0, 80, NULL, -1);

	assert_string_equal(text,
			    "    pid  user       comm     tier   live_bytes      calls  command\n"
			    "4194304  alexandra  python3  probe    1.50 GiB  123456789  "
			    "/usr/bin/python3 -m …\n\nnothing lost\n");
	expect_lines_of(text, 80);
	free(text);
	text = write_ps(0, 80, id, -1);
	assert_non_null(strstr(text, "container"));
	expect_lines_of(text, 80);
	free(text);
	text = write_ps(0, 80, NULL, 2500);
	assert_non_null(strstr(text, "0.25 %"));
	assert_null(strstr(text, "thread_cost"));
	expect_lines_of(text, 80);
	free(text);
	text = write_ps(OPTION(WIDE), 80, id, -1);
	assert_non_null(strstr(text, "thread_cost"));
	assert_non_null(strstr(text, id));
	assert_non_null(strstr(text, "--epochs 3"));
	free(text);
	text = write_ps(OPTION(JSON), 80, NULL, -1);
	assert_non_null(strstr(text, "\"records\":0,\"lost\":0,"));
	free(text);
	text = write_ps(OPTION(CSV), 80, NULL, -1);
	assert_non_null(strstr(text, ",thread_cost,records,"));
	free(text);
}

static void test_what_was_lost_is_one_line(void **state)
{
	static const char *const lines[] = {
		"",
		"lost: 24 events (ring-full); see 'tsctl query loss'\n",
		"not watched for 1.20 s (probes were not attached yet) · lost: 24 events "
		"(ring-full); see 'tsctl query loss'\n",
		"not watched for 1.20 s (probes were not attached yet) · lost: 24 events "
		"(ring-full), 1 pause of 5.00 ms (paused); see 'tsctl query loss'\n",
		"not watched for 1.20 s (probes were not attached yet) · lost: 24 events "
		"(ring-full), 1 pause of 5.00 ms (paused), 2 things (new\xef\xbf\xbd[2J); "
		"see 'tsctl query loss'\n",
		"not watched for 1.20 s (probes were not attached yet) · lost: 24 events "
		"(ring-full), 1 pause of 5.00 ms (paused), 2 things (new\xef\xbf\xbd[2J), "
		"1 end (cut-off); see 'tsctl query loss'\n",
	};

	for (size_t count = 0; count <= 5; count++) {
		char *text = loss_line(count);

		assert_string_equal(text, lines[count]);
		free(text);
	}
}

static void test_long_tables_are_not_held(void **state)
{
	char *notes = NULL;
	char *text = write_table(0, 0, "a", TABLE_ROWS_MEASURED + 500, 0, &notes);
	size_t lines = 0;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 1 + 3 * (TABLE_ROWS_MEASURED + 500) + 2);
	free(text);
	free(notes);
}

static void test_numbers_have_three_digits_and_a_unit(void **state)
{
	char out[UNITS_TEXT_SIZE];

	assert_string_equal(units_bytes(out, 0), "0 B");
	assert_string_equal(units_bytes(out, 1023), "1023 B");
	assert_string_equal(units_bytes(out, 1000), "1000 B");
	assert_string_equal(units_bytes(out, 1536), "1.50 KiB");
	assert_string_equal(units_bytes(out, 80ll << 30), "80.0 GiB");
	assert_string_equal(units_bytes(out, -(3 << 20)), "-3.00 MiB");
	assert_string_equal(units_bytes_per_second(out, 12345678901), "11.5 GiB/s");
	assert_string_equal(units_nanoseconds(out, 999), "999 ns");
	assert_string_equal(units_nanoseconds(out, 3214567), "3.21 ms");
	assert_string_equal(units_nanoseconds(out, 90000000000), "1.50 min");
	assert_string_equal(units_nanoseconds(out, 999999999), "1.00 s");
	setenv("TZ", "UTC", 1);
	tzset();
	assert_string_equal(units_time(out, 1706702405250000000), "2024-01-31 12:00:05.250");
}

static void test_near_names_are_found(void **state)
{
	assert_int_equal(distance_between("leaks", "leaks"), 0);
	assert_int_equal(distance_between("kitten", "sitting"), 3);
	assert_int_equal(distance_between("", "abc"), 3);
	assert_true(distance_near("leak", "leaks"));
	assert_true(distance_near("laeks", "leaks"));
	assert_true(distance_near("trans", "transfers"));
	assert_false(distance_near("processes", "apis"));
}

static void test_every_code_point_survives_utf8(void **state)
{
	char bytes[UTF8_LENGTH_MAX];
	uint32_t read;

	for (uint32_t code = 0; code < 0x110000; code++) {
		size_t size = utf8_write(bytes, code);

		if (code >= 0xd800 && code < 0xe000)
			continue;
		assert_int_equal(utf8_read(bytes, size, &read), size);
		assert_int_equal(read, code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_is_one_object),
		cmocka_unit_test(test_json_strings_are_always_valid),
		cmocka_unit_test(test_csv_quotes_what_needs_it),
		cmocka_unit_test(test_columns_can_be_chosen),
		cmocka_unit_test(test_text_is_aligned_with_units_and_stacks_below),
		cmocka_unit_test(test_stacks_end_with_the_users_outermost_frame),
		cmocka_unit_test(test_text_fits_the_terminal_without_control_characters),
		cmocka_unit_test(test_names_stay_readable_on_a_narrow_terminal),
		cmocka_unit_test(test_a_column_that_says_nothing_is_left_out),
		cmocka_unit_test(test_ps_fits_a_terminal),
		cmocka_unit_test(test_a_note_is_shown),
		cmocka_unit_test(test_what_was_lost_is_one_line),
		cmocka_unit_test(test_long_tables_are_not_held),
		cmocka_unit_test(test_numbers_have_three_digits_and_a_unit),
		cmocka_unit_test(test_near_names_are_found),
		cmocka_unit_test(test_every_code_point_survives_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
