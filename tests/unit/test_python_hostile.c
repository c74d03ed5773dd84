/* test_python_hostile: memory that only looks like an interpreter's ends no reader, and code
 * objects that are others by now are not taken for the old ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/python/place.h"
#include "daemon/python/python.h"

#define BASE	     0x100000
#define RUNTIME	     (BASE + 0x0)
#define INTERPRETER  (BASE + 0x1000)
#define THREAD	     (BASE + 0x2000)
#define CFRAME	     (BASE + 0x2800)
#define FRAME(n)     (BASE + 0x3000 + (n)*0x100)
#define CODE(n)	     (BASE + 0x8000 + (n)*0x200)
#define TEXT(n)	     (BASE + 0xa000 + (n)*0x100)
#define TABLE	     (BASE + 0xc000)
#define PTHREAD	     (BASE + 0xe000)
#define CODE_TYPE    (BASE + 0xd000)
#define TEXT_TYPE    (BASE + 0xd800)
#define TID	     77
#define VERSION_3_12 0x030c01f0
#define ASCII_STATE  (1u << 2 | 1u << 5 | 1u << 6)
#define LINE	     40

static struct memory {
	uint8_t bytes[0x10000];
	uint32_t reads;
	void (*before)(struct memory *memory); /* each read */
} memory;

static struct python *python;
static struct python_snapshot snapshot;

static int read_memory(void *data, uint64_t address, void *to, size_t size)
{
	struct memory *from = data;

	from->reads++;
	if (from->before)
		from->before(from);
	if (address < BASE || address - BASE > sizeof(from->bytes) - size)
		return -EFAULT;
	memcpy(to, from->bytes + (address - BASE), size);
	return 0;
}

static void put(uint64_t address, uint64_t value)
{
	memcpy(memory.bytes + (address - BASE), &value, sizeof(value));
}

static void put_int(uint64_t address, uint32_t value)
{
	memcpy(memory.bytes + (address - BASE), &value, sizeof(value));
}

static void put_text(uint64_t at, const char *text)
{
	put(at + 8, TEXT_TYPE);
	put(at + 16, strlen(text));
	put_int(at + 32, ASCII_STATE);
	memcpy(memory.bytes + (at - BASE) + 40, text, strlen(text));
}

static void put_code(uint64_t at, uint64_t name, uint32_t line)
{
	put(at, 1);
	put(at + 8, CODE_TYPE);
	put_int(at + 68, line);
	put(at + 112, TEXT(9));
	put(at + 128, name);
	put(at + 136, TABLE);
}

static void put_frame(uint64_t at, uint64_t previous, uint64_t code)
{
	put(at, code);
	put(at + 8, previous);
	put(at + 56, code + 192);
}

/* A thread in `inner`, called by `outer`. */
static int prepare(void **state)
{
	struct find find = { .version = VERSION_3_12,
			     .runtime = RUNTIME,
			     .code_type = CODE_TYPE,
			     .text_type = TEXT_TYPE };
	struct peek peek = { .read = read_memory, .data = &memory };

	memset(&memory, 0, sizeof(memory));
	put(RUNTIME + 40, INTERPRETER);
	put(INTERPRETER + 72, THREAD);
	put(THREAD + 144, TID);
	put(THREAD + 56, CFRAME);
	put(CFRAME, FRAME(0));
	put_frame(FRAME(0), FRAME(1), CODE(0));
	put_frame(FRAME(1), 0, CODE(1));
	put_text(TEXT(0), "inner");
	put_text(TEXT(1), "outer");
	put_text(TEXT(9), "file.py");
	put_code(CODE(0), TEXT(0), LINE);
	put_code(CODE(1), TEXT(1), LINE);
	put(TABLE + 16, 2);
	memcpy(memory.bytes + (TABLE - BASE) + 32, "\xd0\x00", 2); /* the first line */
	assert_int_equal(layout_find(VERSION_3_12, NULL, &find.layout), 0);
	return python_new(&find, &peek, &python);
}

static int clear(void **state)
{
	python_snapshot_clear(&snapshot);
	python = python_free(python);
	return 0;
}

static const struct python_stack *take(void)
{
	const uint32_t tid = TID;

	python_snapshot_clear(&snapshot);
	memory.reads = 0;
	assert_int_equal(python_take(python, &tid, 1, &snapshot), 0);
	assert_true(memory.reads <= LIMIT_PYTHON_READS);
	return snapshot.stack_count ? &snapshot.stack[0] : NULL;
}

static const char *function(const struct python_stack *stack, size_t i)
{
	return snapshot.frame[stack->first + i].code->function;
}

static void test_a_stack_is_read(void **state)
{
	const struct python_stack *stack = take();

	assert_int_equal(stack->count, 2);
	assert_string_equal(function(stack, 0), "inner");
	assert_string_equal(function(stack, 1), "outer");
	assert_int_equal(snapshot.frame[stack->first].line, LINE);
	assert_false(stack->moving || stack->cut || stack->broken || snapshot.cut);
}

static void test_another_code_at_the_same_address(void **state)
{
	take();
	put_text(TEXT(2), "newcomer");
	put_code(CODE(0), TEXT(2), LINE);
	assert_string_equal(function(take(), 0), "newcomer");
	/* Or with the same name. */
	put_code(CODE(0), TEXT(2), LINE + 1);
	take();
	assert_int_equal(snapshot.frame[0].line, LINE + 1);
}

/* As the programs send it. */
static struct ts_python_frame frame_in(uint64_t code)
{
	struct ts_python_frame frame = { .code = code, .position = code + 192 };
	__u64 word[TS_PYTHON_CHECK];

	memcpy(word, memory.bytes + (code - BASE) + 56, sizeof(word));
	frame.check = stack_hash_code(word);
	return frame;
}

static void test_a_frame_of_the_programs_has_the_name_of_its_code(void **state)
{
	struct ts_python_frame frame = frame_in(CODE(0)), later;
	struct python_frame named;

	python_renew(python);
	frame.position |= TS_PYTHON_ENTRY | TS_PYTHON_CUT;
	assert_int_equal(python_name(python, &frame, &named), 0);
	assert_string_equal(named.code->function, "inner");
	assert_string_equal(named.code->file, "file.py");
	assert_int_equal(named.line, LINE);
	/* Another one has come in its place: the old one stays known, as long as there is room. */
	put_text(TEXT(2), "newcomer");
	put_code(CODE(0), TEXT(2), LINE);
	later = frame_in(CODE(0));
	assert_int_equal(python_name(python, &later, &named), 0);
	assert_string_equal(named.code->function, "newcomer");
	assert_int_equal(python_name(python, &frame, &named), 0);
	assert_string_equal(named.code->function, "inner");
	/* One that was not seen in time has no name, and not that of another. */
	frame.check ^= 8;
	assert_int_equal(python_name(python, &frame, &named), -ESTALE);
	put(CODE(0) + 8, TEXT_TYPE);
	assert_int_equal(python_name(python, &later, &named), 0);
	later.check ^= 8;
	assert_int_equal(python_name(python, &later, &named), -EBADMSG);
	later.code = 0xdead0000;
	assert_int_equal(python_name(python, &later, &named), -EFAULT);
	/* It has not begun, or has left its function. */
	frame = frame_in(CODE(1));
	put_int(CODE(1) + 176, 4);
	assert_int_equal(python_name(python, &frame, &named), 1);
	frame.code = 0;
	assert_int_equal(python_name(python, &frame, &named), 1);
}

static int place(struct ts_python *ret)
{
	struct peek peek = { .read = read_memory, .data = &memory };
	int r;

	peek_renew(&peek);
	memory.reads = 0;
	r = place_find(python_found(python), &peek, ret);
	assert_true(memory.reads <= LIMIT_PYTHON_READS);
	return r;
}

static void test_the_place_of_a_threads_state_is_found_by_its_value(void **state)
{
	struct ts_python found;

	put(THREAD + 136, PTHREAD);
	assert_int_equal(place(&found), -ENOENT);
	put(PTHREAD + 0x310 + 8, THREAD);
	assert_int_equal(place(&found), 0);
	assert_int_equal(found.state, 0x318);
	assert_int_equal(found.frame, 56);
	assert_int_equal(found.indirect, 0);
	/* The first one has ended. */
	put(THREAD + 8, THREAD + 0x400);
	put(THREAD + 0x400 + 136, PTHREAD);
	put(THREAD + 136, 0xdead0000);
	assert_int_equal(place(&found), -ENOENT);
	put(PTHREAD + 0x310 + 24, THREAD + 0x400);
	assert_int_equal(place(&found), 0);
	assert_int_equal(found.state, 0x328);
	/* No end of threads, and of interpreters. */
	put(THREAD + 8, THREAD);
	assert_int_equal(place(&found), -ENOENT);
	put(INTERPRETER, INTERPRETER);
	assert_int_equal(place(&found), -ENOENT);
	put(RUNTIME + 40, 0xdead0000);
	assert_int_equal(place(&found), -EFAULT);
}

static void test_an_endless_list_of_frames_is_cut(void **state)
{
	put(FRAME(1) + 8, FRAME(0));
	assert_true(take()->cut);
	assert_int_equal(snapshot.frame_count, LIMIT_PYTHON_FRAMES);
}

static void test_endless_threads_and_interpreters_end(void **state)
{
	put(THREAD + 8, THREAD);
	take();
	assert_true(snapshot.cut);
	assert_true(snapshot.stack_count <= LIMIT_PYTHON_THREADS);
	/* And if none of them is one of the process's. */
	put(THREAD + 144, TID + 1);
	take();
	assert_true(snapshot.cut);
	assert_int_equal(snapshot.stack_count, 0);
	put(INTERPRETER + 72, 0);
	put(INTERPRETER, INTERPRETER);
	take();
	assert_true(snapshot.cut);
}

static void test_pointers_into_nowhere_break_the_stack(void **state)
{
	put(FRAME(1), 0xdead0000);
	assert_true(take()->broken);
	assert_int_equal(take()->count, 1);
	put_frame(FRAME(1), UINT64_MAX - 4, CODE(1));
	assert_true(take()->broken);
	assert_int_equal(take()->count, 2);
	put(CFRAME, 8);
	assert_true(take()->broken);
	put(THREAD + 56, UINT64_MAX);
	assert_true(take()->broken);
}

static void test_what_is_no_code_object_is_no_frame(void **state)
{
	put(CODE(1) + 8, TEXT_TYPE);
	assert_true(take()->broken);
	assert_int_equal(take()->count, 1);
}

static void test_a_code_object_that_has_been_freed_is_none(void **state)
{
	put(CODE(1), 0);
	assert_true(take()->broken);
	assert_int_equal(take()->count, 1);
	put(CODE(1), 0x7f0000001000);
	assert_true(take()->broken);
	put(CODE(1), UINT32_MAX);
	assert_false(take()->broken);
}

static void test_long_names_are_cut(void **state)
{
	const struct python_stack *stack;

	memset(memory.bytes + (TEXT(2) - BASE) + 40, 'a', 0x600);
	put_text(TEXT(2), "");
	put(TEXT(2) + 16, 1ull << 40);
	put_code(CODE(0), TEXT(2), LINE);
	stack = take();
	assert_int_equal(strlen(function(stack, 0)), LIMIT_PYTHON_TEXT + strlen("…"));
	/* Behind the end of memory. */
	put_text(BASE + 0xffc0, "");
	put(BASE + 0xffc0 + 16, 1 << 20);
	put_code(CODE(0), BASE + 0xffc0, LINE);
	assert_true(take()->broken);
}

static void test_texts_are_visible_utf8(void **state)
{
	const uint32_t odd[] = { 0xd800, 0xffffffff, 0x1b, 0x202e, 0x2603, 0x1f600 };

	put_text(TEXT(2), "");
	put(TEXT(2) + 16, 6);
	put_int(TEXT(2) + 32, 4u << 2 | 1u << 5);
	memcpy(memory.bytes + (TEXT(2) - BASE) + 56, odd, sizeof(odd));
	put_code(CODE(0), TEXT(2), LINE);
	assert_string_equal(function(take(), 0), "\ufffd\ufffd\ufffd\ufffd\u2603\U0001f600");
	put_int(TEXT(2) + 32, 3u << 2 | 1u << 5); /* no such kind */
	put_code(CODE(0), TEXT(2), LINE + 1);	  /* or it is known */
	assert_true(take()->broken);
}

static void test_a_huge_table_of_lines_is_left_out(void **state)
{
	put(TABLE + 16, LIMIT_PYTHON_LINES + 1);
	assert_int_equal(take()->count, 2);
	assert_int_equal(snapshot.frame[0].line, 0);
}

static void test_tables_of_lines_are_not_gone_through_for_ever(void **state)
{
	const uint32_t table_bytes = 4000;

	put(THREAD + 8, THREAD);
	put(FRAME(1) + 8, FRAME(0));
	put(TABLE + 16, table_bytes);
	take();
	assert_true(snapshot.cut);
	assert_in_range(snapshot.frame_count, 1, LIMIT_PYTHON_BYTES / table_bytes);
}

/* Reads before the first walk, and of one: the innermost frame (2), the frames, the innermost
 * again. */
#define READS_BEFORE 5
#define READS_A_WALK 6

static void turn(struct memory *of)
{
	put_frame(FRAME(1), 0, CODE((of->reads - READS_BEFORE) / READS_A_WALK % 2));
}

static void test_a_stack_that_changes_all_the_time_is_moving(void **state)
{
	memory.before = turn;
	assert_true(take()->moving);
	memory.before = NULL;
	assert_false(take()->moving);
}

static void leave(struct memory *of)
{
	uint32_t i = (of->reads - READS_BEFORE) % READS_A_WALK;

	put(CFRAME, i == READS_A_WALK - 1 ? FRAME(1) : FRAME(0));
}

static void test_a_frame_that_is_left_during_the_walk_is_moving(void **state)
{
	memory.before = leave;
	assert_true(take()->moving);
}

static void test_a_generator_without_a_caller_has_just_yielded(void **state)
{
	put_int(CODE(1) + 48, 0x20);
	assert_true(take()->moving);
	put_int(CODE(0) + 48, 0x20);
	put_int(CODE(1) + 48, 0);
	assert_false(take()->moving);
}

static uint64_t seed = 1;

static void scramble(struct memory *of)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	put(BASE + (seed >> 33) % (sizeof(of->bytes) - 8), BASE + (seed >> 40) % sizeof(of->bytes));
}

static void prepare_again(void **state)
{
	clear(state);
	prepare(state);
}

static void test_scrambled_memory_ends(void **state)
{
	for (int i = 0; i < 2000; i++) {
		const uint32_t tid = TID;

		if (i % 10 == 0) {
			prepare_again(state);
			memory.before = scramble;
		}
		python_snapshot_clear(&snapshot);
		python_take(python, &tid, 1, &snapshot);
	}
}

static void test_scrambled_tables_of_lines_end(void **state)
{
	uint8_t table[64];

	for (int i = 0; i < 30000; i++) {
		for (size_t k = 0; k < sizeof(table); k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			table[k] = (uint8_t)(seed >> 56);
		}
		for (enum lines_format f = LINES_LNOTAB; f <= LINES_LOCATIONS; f++)
			assert_true(lines_find(f, table, seed >> 58, INT32_MAX - 3, i % 512) >= 0);
	}
}

static void check_what_it_tells(uint32_t version)
{
	uint8_t runtime[LAYOUT_DEBUG_SIZE] = "xdebugpy";
	const uint64_t told = version, without_gil = 1;
	struct layout layout;

	memcpy(runtime + 8, &told, sizeof(told));
	memcpy(runtime + 16, &without_gil, sizeof(without_gil));
	assert_int_equal(layout_find(version, runtime, &layout), -ENOTUNIQ);
	memset(runtime + 16, 0, 8);
	assert_int_equal(layout_find(version, runtime, &layout), -EBADMSG); /* all at 0 */
	memset(runtime + 24, 0xff, sizeof(runtime) - 24);
	assert_int_equal(layout_find(version, runtime, &layout), -EBADMSG);
	assert_int_equal(layout_find(version ^ 0x30000, runtime, &layout), -EBADMSG);
	runtime[0] = 0;
	assert_int_equal(layout_find(version, runtime, &layout), -EBADMSG);
}

static void test_what_an_interpreter_tells_of_itself_is_checked(void **state)
{
	uint8_t runtime[LAYOUT_DEBUG_SIZE] = "xdebugpy";
	struct layout layout;

	check_what_it_tells(0x030d00f0);
	check_what_it_tells(0x030e00f0);
	assert_int_equal(layout_find(0x030f00f0, runtime, &layout), -EOPNOTSUPP);
	assert_int_equal(layout_find(0x030800f0, runtime, &layout), -EOPNOTSUPP);
}

static void test_what_3_14_tells_of_itself(void **state)
{
	/* Of Debian's 3.14.8, from the first after the free-threaded one on. */
	static const uint64_t told[] = {
		0x4d4c8, 0x310,	 0x328, 0x37248, 0x1c70, 0x1c68, 0x1cb0, 0x1cc0, 0x1cf0, 0x1e08,
		0x1df8,	 0x1e00, 0x10,	0x1e68,	 0x0,	 0x1e78, 0x1e70, 0x1f38, 0x0,	 0x340,
		0x0,	 0x8,	 0x10,	0x48,	 0x98,	 0xa0,	 0xe8,	 0x20,	 0x58,	 0x8,
		0x0,	 0x38,	 0x50,	0x4a,	 0x40,	 0x0,	 0xd8,	 0x70,	 0x78,	 0x80,
		0x88,	 0x44,	 0x34,	0x60,	 0x68,	 0xd0,	 0x0,	 0x10,	 0x8,	 0x1a0,
		0x18,	 0x58,	 0xa8,	0x28,	 0x20,	 0x10,	 0x28,	 0x18,	 0x10,	 0xc8,
		0x18,	 0x28,	 0x20,	0x30,	 0x20,	 0x28,	 0x18,	 0x10,	 0x20,	 0x10,
		0x18,	 0x28,	 0x10,	0x20,	 0x40,	 0x20,	 0x10,	 0x28,
	};
	uint8_t runtime[LAYOUT_DEBUG_SIZE] = "xdebugpy";
	const uint64_t version = 0x030e08f0;
	struct layout layout;

	memcpy(runtime + 8, &version, sizeof(version));
	memcpy(runtime + 24, told, sizeof(told));
	assert_int_equal(layout_find(0x030e08f0, runtime, &layout), 0);
	assert_int_equal(layout.runtime.head, 0x328);
	assert_int_equal(layout.interpreter.threads, 0x1cb0);
	assert_int_equal(layout.thread.next, 8);
	assert_int_equal(layout.thread.frame, 0x48);
	assert_int_equal(layout.thread.native, 0xa0);
	assert_int_equal(layout.frame.code, 0);
	assert_int_equal(layout.frame.position, 0x38);
	assert_int_equal(layout.frame.locals, 0x50);
	assert_int_equal(layout.frame.owner, 0x4a);
	assert_int_equal(layout.code.first_line, 0x44);
	assert_int_equal(layout.code.qualname, 0x80);
	assert_int_equal(layout.code.bytecode, 0xd0);
	assert_int_equal(layout.tuple_items, 0x20);
	assert_int_equal(layout.float_value, 0x10);
	assert_int_equal(layout.long_digits, 0x18);
	assert_int_equal(layout.bytes.data, 0x20);
	assert_int_equal(layout.unicode.state, 0x20);
	assert_int_equal(layout.unicode.ascii, 0x28);
	assert_int_equal(layout.tags, 3);
}

static int count_local(void *data, const char *name, const char *value)
{
	(*(unsigned int *)data)++;
	return 0;
}

static void test_locals_end_too(void **state)
{
	const uint32_t tid = TID;
	unsigned int count = 0;

	put_int(CODE(0) + 72, UINT32_MAX); /* so many */
	take();
	assert_int_equal(snapshot.frame_count, 2);
	for (int i = 0; i < 64; i++)
		put(FRAME(0) + 72 + i * 8, FRAME(0));
	put(CODE(0) + 96, TEXT(3));
	for (int i = 0; i < 70; i++)
		put(TEXT(3) + 24 + i * 8, TEXT(0));
	assert_true(python_locals(python, &snapshot.frame[0], count_local, &count) <= 0);
	assert_true(count <= LIMIT_PYTHON_LOCALS);
	for (int i = 0; i < 2000; i++) {
		memory.before = NULL;
		prepare_again(state);
		put_int(CODE(0) + 72, 100);
		python_snapshot_clear(&snapshot);
		assert_int_equal(python_take(python, &tid, 1, &snapshot), 0);
		for (int k = 0; k < 300; k++)
			scramble(&memory);
		python_locals(python, &snapshot.frame[0], count_local, &count);
	}
}

static void test_memory_that_cannot_be_read(void **state)
{
	const size_t size = 8192;
	uint8_t *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peek peek;
	uint64_t word;

	peek_open(&peek, (uint32_t)getpid());
	assert_int_equal(munmap(at + 4096, 4096), 0);
	assert_int_equal(mprotect(at, 4096, PROT_READ), 0);
	assert_int_equal(peek_word(&peek, (uintptr_t)at + 4088, &word), 0);
	assert_int_equal(peek_word(&peek, (uintptr_t)at + 4092, &word), -EFAULT);
	assert_int_equal(peek_word(&peek, 0, &word), -EFAULT);
	assert_int_equal(peek_word(&peek, UINT64_MAX, &word), -EFAULT);
	peek.bytes_left = 7;
	assert_int_equal(peek_word(&peek, (uintptr_t)at, &word), -EDQUOT);
	munmap(at, size);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, prepare, clear)
	const struct CMUnitTest tests[] = {
		TEST(a_stack_is_read),
		TEST(another_code_at_the_same_address),
		TEST(a_frame_of_the_programs_has_the_name_of_its_code),
		TEST(the_place_of_a_threads_state_is_found_by_its_value),
		TEST(an_endless_list_of_frames_is_cut),
		TEST(endless_threads_and_interpreters_end),
		TEST(pointers_into_nowhere_break_the_stack),
		TEST(what_is_no_code_object_is_no_frame),
		TEST(a_code_object_that_has_been_freed_is_none),
		TEST(long_names_are_cut),
		TEST(texts_are_visible_utf8),
		TEST(a_huge_table_of_lines_is_left_out),
		TEST(tables_of_lines_are_not_gone_through_for_ever),
		TEST(a_stack_that_changes_all_the_time_is_moving),
		TEST(a_frame_that_is_left_during_the_walk_is_moving),
		TEST(a_generator_without_a_caller_has_just_yielded),
		TEST(scrambled_memory_ends),
		TEST(scrambled_tables_of_lines_end),
		TEST(locals_end_too),
		TEST(what_an_interpreter_tells_of_itself_is_checked),
		TEST(what_3_14_tells_of_itself),
		TEST(memory_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
