/* The metadata of a trace, which is longer than one answer of the store. */
#include <inttypes.h>

#include "client/trace/trace.h"
#include "tests/unit/file_fixture.h"

#define OURS	     1 /* ids of processes */
#define OTHER	     2
#define OUR_PID	     4711
#define NAME_COUNT   200150 /* more than a page of meta_load.c has */
#define FIRST_NAME   (-100)
#define LONG_STACK   (-7)
#define LONG_FRAMES  200300 /* no stack has so many, but a file may */
#define STACKS	     70000
#define STACK_FRAMES 3
#define OWNER(stack) ((stack) % 64 ? OURS : OTHER)

struct rows {
	struct made *made;
	const char *table;
	const char *const *name;
	size_t columns, count;
};

static void rows_add(struct rows *rows, const struct sbt_value *value)
{
	if (rows->count % SBT_ROWS_MAX == 0) {
		if (rows->count > 0)
			made_block(rows->made);
		assert_int_equal(
			sbt_rows_begin(rows->made->rows, rows->table, rows->name, rows->columns),
			0);
	}
	assert_int_equal(sbt_rows_add(rows->made->rows, value), 0);
	rows->count++;
}

static void put_names(struct made *made)
{
	struct rows rows = { made, "name", NAMES("id", "text", "symbol", "boot", "told_ns"), 5, 0 };

	for (int64_t i = 0; i < NAME_COUNT; i++) {
		char text[32];

		snprintf(text, sizeof(text), "kernel %" PRId64, FIRST_NAME + i);
		rows_add(&rows, (const struct sbt_value[]){ INTEGER(FIRST_NAME + i), TEXT(text),
							    TEXT(""), INTEGER(1), INTEGER(1) });
	}
	made_block(made);
}

static void put_frames(struct rows *rows, int64_t stack, int64_t count)
{
	for (int64_t depth = 0; depth < count; depth++) {
		char symbol[32];

		snprintf(symbol, sizeof(symbol), "f%" PRId64,
			 stack == LONG_STACK ? 0 : stack * 10 + depth);
		rows_add(rows, (const struct sbt_value[]){ INTEGER(stack), INTEGER(depth),
							   INTEGER(depth), TEXT(symbol) });
	}
}

static void put_stacks(struct made *made)
{
	struct rows stacks = { made, "stack", NAMES("id", "process"), 2, 0 },
		    frames = { made, "frame", NAMES("stack", "depth", "address", "symbol"), 4, 0 };

	rows_add(&stacks, (const struct sbt_value[]){ INTEGER(LONG_STACK), INTEGER(OURS) });
	for (int64_t i = 1; i <= STACKS; i++)
		rows_add(&stacks, (const struct sbt_value[]){ INTEGER(i), INTEGER(OWNER(i)) });
	made_block(made);
	put_frames(&frames, LONG_STACK, LONG_FRAMES);
	for (int64_t i = 1; i <= STACKS; i++)
		put_frames(&frames, i, STACK_FRAMES);
	made_block(made);
}

static void put_process(struct made *made, int64_t id, int64_t pid)
{
	made_row(made, "process", NAMES("id", "boot", "pid", "comm"), INTEGER(id), INTEGER(1),
		 INTEGER(pid), TEXT("job"));
	made_row(made, "stream", NAMES("id", "process", "handle"), INTEGER(10 + id), INTEGER(id),
		 INTEGER(0x100 + id));
}

static struct made made;

static int make(void **state)
{
	int r = fixture_setup(state);

	made_begin(&made, *state);
	made_row(&made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1), TEXT(BOOT),
		 INTEGER(0));
	put_process(&made, OURS, OUR_PID);
	put_process(&made, OTHER, OUR_PID + 1);
	put_names(&made);
	put_stacks(&made);
	made_end(&made, true);
	return r;
}

static void expect_name(const struct meta *meta, int64_t id)
{
	const struct meta_text *name = meta_name(meta, (uint64_t)id);
	char text[32];

	snprintf(text, sizeof(text), "kernel %" PRId64, id);
	assert_non_null(name);
	assert_string_equal(name->text, text);
}

static void expect_stack(const struct meta *meta, int64_t id)
{
	const struct meta_stack *stack = meta_stack(meta, (uint64_t)id);
	char symbol[32];

	assert_non_null(stack);
	assert_int_equal(stack->count, STACK_FRAMES);
	for (uint32_t depth = 0; depth < STACK_FRAMES; depth++) {
		snprintf(symbol, sizeof(symbol), "f%" PRId64, id * 10 + depth);
		assert_string_equal(stack->frame[depth]->function->text, symbol);
	}
}

static void open_trace(uint64_t pid, struct trace *trace)
{
	struct options options = { .file = made.path, .files = &file_serve, .pid = pid };
	int r;

	said_begin();
	r = trace_open(&options, trace);
	assert_string_equal(said_end(), "");
	assert_int_equal(r, 0);
}

static void test_long_answers_arrive_in_pages(void **state)
{
	int64_t count = 1;
	struct trace trace;

	open_trace(OUR_PID, &trace);
	for (int64_t i = 0; i < NAME_COUNT; i++)
		expect_name(trace.meta, FIRST_NAME + i);
	assert_int_equal(meta_stack(trace.meta, (uint64_t)LONG_STACK)->count, FRAMES_MAX);
	for (int64_t i = 1; i <= STACKS; i++)
		if (OWNER(i) == OURS) {
			expect_stack(trace.meta, i);
			count++;
		}
	assert_int_equal(trace.meta->stack_count, count);
	trace_done(&trace);
}

static void test_only_one_process_is_loaded(void **state)
{
	struct trace trace;

	open_trace(OUR_PID + 1, &trace);
	assert_null(meta_process(trace.meta, OURS));
	assert_non_null(meta_process(trace.meta, OTHER));
	assert_null(meta_stream(trace.meta, 10 + OURS));
	assert_int_equal(meta_stream(trace.meta, 10 + OTHER)->handle, 0x100 + OTHER);
	assert_int_equal(trace.meta->stack_count, STACKS / 64);
	expect_stack(trace.meta, 64);
	trace_done(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_answers_arrive_in_pages),
		cmocka_unit_test(test_only_one_process_is_loaded),
	};

	return cmocka_run_group_tests(tests, make, fixture_teardown);
}
