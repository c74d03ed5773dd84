/* test_walk_python: the frames of Python in the library's walk: an interpreter of the test's
 * making, with the frames that each version links, and all that is left to the kernel's walk. */
#include "walk_fixture.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define EXPORT	    __attribute__((visibility("default")))

#define RSP	    16
#define OUTSIDE	    0x500010 /* a return address */
#define INTERPRETER 0x600020 /* another one, in its code */
#define CODE_START  0x600000
#define CODE_END    0x700000
#define FRAMES	    150
#define CHECK	    16 /* bytes */
#define NONE	    0x0ull
#define MARK	    0x010000ull
#define SHIM	    0x030000ull
#define DESCRIPTOR  0x900

/* What the library looks for, in the program itself. */
EXPORT uint64_t PyCode_Type[8], PyType_Type[8];
EXPORT int Py_IsInitialized(void);

static int initialized;

EXPORT int Py_IsInitialized(void)
{
	return initialized;
}

struct fake_code {
	uint64_t count, type, word[TS_PYTHON_CHECK];
};

enum { AT_CODE, AT_PREVIOUS, AT_POSITION, AT_MARK, FRAME_WORDS };

static struct fake_code code[FRAMES];
static uint64_t frame[FRAMES][FRAME_WORDS];
static uint64_t thread_state[4];
static pthread_key_t key;
static struct ts_python python;
static struct ts_python_frame expected[FRAMES];
static uint32_t expected_count;

/* A thread has its state where pthread_getspecific() would look. */
static uint32_t find_state(void)
{
	uint64_t base = walk_thread_pointer();

	for (uint32_t at = 0; at < DESCRIPTOR; at += 8)
		if (walk_load(base + at) == (uint64_t)thread_state)
			return at;
	fail_msg("A thread's own values are not in its descriptor");
	return 0;
}

static int setup(void **state)
{
	walk_setup(state);
	stand_on_stack();
	walker.place.initialized = Py_IsInitialized;
	walker.place.code_type = (uint64_t)PyCode_Type;
	walker.place.type_at = 8;
	walker.place.is_main = 1;
	walker.place.code_start = CODE_START;
	walker.place.code_end = CODE_END;
	initialized = 1;
	expected_count = 0;
	stack[RSP] = INTERPRETER;
	learn(INTERPRETER, ends);
	learn(OUTSIDE, ends);
	assert_int_equal(pthread_key_create(&key, NULL), 0);
	assert_int_equal(pthread_setspecific(key, thread_state), 0);
	python = (struct ts_python){
		.state = find_state(),
		.frame = 2 * sizeof(uint64_t),
		.indirect = TS_PYTHON_DIRECT,
		.check = CHECK,
		.size = FRAME_WORDS,
		.code = AT_CODE,
		.previous = AT_PREVIOUS,
		.position = AT_POSITION,
		.mark = AT_MARK,
		.mark_shift = 16,
	};
	return 0;
}

static int teardown(void **state)
{
	pthread_key_delete(key);
	return walk_teardown(state);
}

static uint64_t position_of(size_t n)
{
	return 0x7f0000001000 + n * 6;
}

/* Frames with these marks, the innermost first. */
static void link_frames(const uint64_t *marks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		code[i] = (struct fake_code){ 1, (uint64_t)PyCode_Type, { 0 } };
		for (size_t k = 0; k < TS_PYTHON_CHECK; k++)
			code[i].word[k] = i * 1000 + k;
		frame[i][AT_CODE] = (uint64_t)&code[i];
		frame[i][AT_PREVIOUS] = i + 1 < count ? (uint64_t)frame[i + 1] : 0;
		frame[i][AT_POSITION] = position_of(i);
		frame[i][AT_MARK] = marks ? marks[i] : NONE;
	}
	thread_state[2] = (uint64_t)frame[0];
}

static void expect(size_t n)
{
	expected[expected_count++] = (struct ts_python_frame){
		.code = (uint64_t)&code[n],
		.position = position_of(n),
		.check = stack_hash_code((const __u64 *)code[n].word),
	};
}

static void expect_entry(void)
{
	expected[expected_count++] = (struct ts_python_frame){ .position = TS_PYTHON_ENTRY };
}

static uint64_t walk(void)
{
	return walk_from(&stack[RSP], 0);
}

static uint64_t native(void)
{
	return ID(ENTRY, stack[RSP]);
}

static uint64_t with_python(void)
{
	return stack_id_with_python(native(), expected, expected_count);
}

static void share(void)
{
	known_add_python(known, &python, true);
}

static void frames_are_those_that_are_linked(void **state)
{
	share();
	link_frames(NULL, 3);
	for (size_t i = 0; i < 3; i++)
		expect(i);
	assert_int_equal(walk(), with_python());
	assert_int_not_equal(walk(), native());
}

static void thread_without_frames_has_its_native_ones(void **state)
{
	share();
	thread_state[2] = 0;
	assert_int_equal(walk(), native());
	pthread_setspecific(key, NULL);
	assert_int_equal(walk(), native());
}

/* Until 3.12 a variable of the interpreter's loop points to the frame. */
static void innermost_may_be_found_by_way_of_another_structure(void **state)
{
	uint64_t between[3] = { 0 };

	python.indirect = sizeof(uint64_t);
	share();
	link_frames(NULL, 2);
	expect(0);
	expect(1);
	between[1] = thread_state[2];
	thread_state[2] = (uint64_t)between;
	assert_int_equal(walk(), with_python());
	between[1] = 0;
	assert_int_equal(walk(), native());
	thread_state[2] = 0;
	assert_int_equal(walk(), native());
}

/* Flags of a position are none of the program's; an index has 32 bits, and others beside it. */
static void position_is_an_address_or_an_index(void **state)
{
	share();
	link_frames(NULL, 1);
	expect(0);
	frame[0][AT_POSITION] |= TS_PYTHON_FLAGS;
	assert_int_equal(walk(), with_python());
}

static void index_is_only_half_a_word(void **state)
{
	python.index = 1;
	share();
	link_frames(NULL, 1);
	expect(0);
	frame[0][AT_POSITION] = 0x12345678000000aa;
	expected[0].position = 0xaa;
	assert_int_equal(walk(), with_python());
}

static void tags_are_not_part_of_an_address(void **state)
{
	python.tags = 3;
	share();
	link_frames(NULL, 2);
	expect(0);
	expect(1);
	frame[0][AT_CODE] |= 1;
	frame[1][AT_CODE] |= 3;
	assert_int_equal(walk(), with_python());
}

static void frames_that_are_marked_have_entered(void **state)
{
	static const uint64_t marks[] = { NONE, MARK, NONE };

	python.marks = TS_PYTHON_ENTERED;
	share();
	link_frames(marks, ARRAY_SIZE(marks));
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		expect(i);
	assert_int_equal(walk(), with_python());
}

/* One behind a function says of that where it was entered; one behind another, or before all, is
 * of a function that has just been left. */
static void shims_are_of_no_function(void **state)
{
	static const uint64_t marks[] = { SHIM, NONE, SHIM, NONE, NONE, SHIM, SHIM, MARK };

	python.marks = TS_PYTHON_SHIMS;
	share();
	link_frames(marks, ARRAY_SIZE(marks));
	expect_entry();
	expect(1);
	expect(3);
	expect(4);
	expect_entry();
	expect(7);
	assert_int_equal(walk(), with_python());
}

/* Their code is none. */
static void shims_may_have_any_code(void **state)
{
	static const uint64_t marks[] = { NONE, SHIM, NONE };

	python.marks = TS_PYTHON_SHIMS;
	share();
	link_frames(marks, ARRAY_SIZE(marks));
	frame[1][AT_CODE] = 1;
	expect(0);
	expect(2);
	assert_int_equal(walk(), with_python());
}

static void depth_cuts_frames(void **state)
{
	share();
	link_frames(NULL, 3);
	expect(0);
	expect(1);
	known_set_depth(known, DEPTH, 2, false);
	assert_int_equal(walk(), with_python());
	known_set_depth(known, DEPTH, 0, false);
	assert_int_equal(walk(), native());
}

/* The kernel's walk counts its steps, those over shims too. */
static void shims_count_for_the_depth(void **state)
{
	static const uint64_t marks[] = { NONE, SHIM, NONE, SHIM, NONE, SHIM, NONE };

	python.marks = TS_PYTHON_SHIMS;
	share();
	link_frames(marks, ARRAY_SIZE(marks));
	expect(0);
	expect(2);
	known_set_depth(known, DEPTH, 4, false);
	assert_int_equal(walk(), with_python());
	expect(4);
	known_set_depth(known, DEPTH, 5, false);
	assert_int_equal(walk(), with_python());
}

static void no_depth_is_more_than_the_kernel_sends(void **state)
{
	share();
	link_frames(NULL, FRAMES);
	for (size_t i = 0; i < FRAMES; i++)
		expect(i);
	known_set_depth(known, DEPTH, UINT32_MAX, false);
	assert_int_equal(walk(), with_python());
}

/* Frames of a process that is broken: the call goes on. */
static void frames_in_a_circle_have_an_end(void **state)
{
	static const uint64_t marks[] = { NONE, SHIM, SHIM };

	python.marks = TS_PYTHON_SHIMS;
	share();
	link_frames(marks, ARRAY_SIZE(marks));
	frame[2][AT_PREVIOUS] = (uint64_t)frame[1];
	known_set_depth(known, DEPTH, TS_STACK_PYTHON_MAX, false);
	assert_int_not_equal(walk(), 0);
	frame[2][AT_PREVIOUS] = (uint64_t)frame[0];
	assert_int_not_equal(walk(), 0);
}

static void code_of_another_type_is_not_known(void **state)
{
	static _Alignas(uint64_t) uint8_t shifted[sizeof(frame[0]) + 8];

	share();
	link_frames(NULL, 3);
	code[1].type = (uint64_t)PyType_Type;
	assert_int_equal(walk(), 0);
	code[1].type = (uint64_t)PyCode_Type;
	assert_int_not_equal(walk(), 0);
	frame[1][AT_CODE] = 0;
	assert_int_equal(walk(), 0);
	frame[1][AT_CODE] = (uint64_t)&code[1] + 4;
	assert_int_equal(walk(), 0);
	frame[1][AT_CODE] = (uint64_t)&code[1];
	assert_int_not_equal(walk(), 0);
	memcpy(shifted + 4, frame[2], sizeof(frame[2]));
	frame[1][AT_PREVIOUS] = (uint64_t)(shifted + 4);
	assert_int_equal(walk(), 0);
}

static void interpreter_that_has_ended_is_left_alone(void **state)
{
	share();
	thread_state[2] = (uint64_t)pages; /* nobody may read there */
	initialized = 0;
	assert_int_equal(walk(), 0);
}

static void of_an_embedded_python_nothing_is_read(void **state)
{
	share();
	walker.place.is_main = 0;
	thread_state[2] = (uint64_t)pages;
	for (int again = 0; again < 2; again++)
		assert_int_equal(walk(), 0);
	stack[RSP] = OUTSIDE;
	assert_int_equal(walk(), native());
}

static void where_frames_are_may_not_be_known_yet(void **state)
{
	link_frames(NULL, 1);
	assert_int_equal(walk(), 0);
	known_set_depth(known, DEPTH, 0, false);
	assert_int_equal(walk(), native());
	known_set_depth(known, DEPTH, PYTHON_DEPTH, false);
	stack[RSP] = OUTSIDE;
	assert_int_equal(walk(), native());
}

static uint64_t walked_elsewhere;

/* The stack is taken for this thread's, but that of the interpreter is another one. */
static void *walk_elsewhere(void *data)
{
	if (data)
		pthread_setspecific(key, data);
	walker.place.block = 0;
	walked_elsewhere = ID(ENTRY, stack[RSP]);
	if (!walk_python(&walker, thread_id(), stack[RSP] == INTERPRETER, &walked_elsewhere))
		walked_elsewhere = 0;
	return NULL;
}

static uint64_t walk_other_thread(void *own_state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, walk_elsewhere, own_state), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return walked_elsewhere;
}

/* Its frames may go while it is in the call. */
static void other_threads_are_known_without_frames_of_python_only(void **state)
{
	share();
	thread_state[2] = (uint64_t)pages; /* nobody may read there */
	assert_int_equal(walk_other_thread(thread_state), 0);
	assert_int_equal(walk_other_thread(NULL), native());
	stack[RSP] = OUTSIDE;
	assert_int_equal(walk_other_thread(thread_state), native());
	assert_int_equal(walk_other_thread(NULL), native());
}

/* Who knows whether its first frames are the interpreter's. */
static void stack_that_was_cut_may_be_the_interpreters(void **state)
{
	share();
	walker.place.is_main = 0;
	thread_state[2] = (uint64_t)pages;
	stack[RSP] = OUTSIDE;
	stack[RSP + 1] = INTERPRETER;
	learn(OUTSIDE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	assert_int_equal(walk(), 0);
	forget();
	learn(OUTSIDE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	known_set_depth(known, 2, PYTHON_DEPTH, false);
	assert_int_equal(walk(), 0);
	pthread_setspecific(key, NULL);
	assert_int_equal(walk(), native());
	/* There is no Python. */
	walker.place.code_start = walker.place.code_end = walker.place.code_type = 0;
	pthread_setspecific(key, thread_state);
	forget();
	learn(OUTSIDE, ends);
	assert_int_equal(walk(), native());
}

static void *find_place(void *data)
{
	walk_find_place(data);
	return NULL;
}

static struct walk_place place_of_thread(void)
{
	struct walk_place place;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, find_place, &place), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return place;
}

/* Objects of a Python without the GIL have more before their type. */
static void types_are_found_by_name(void **state)
{
	uint64_t function = (uint64_t)Py_IsInitialized;
	struct walk_place place;

	memset(PyCode_Type, 0, sizeof(PyCode_Type));
	place = place_of_thread();
	assert_int_equal(place.type_at, 0);
	assert_int_equal(place.is_main, 0);
	PyCode_Type[3] = (uint64_t)PyType_Type;
	assert_int_equal(place_of_thread().type_at, 24);
	PyCode_Type[1] = (uint64_t)PyType_Type;
	place = place_of_thread();
	assert_int_equal(place.type_at, 8);
	assert_int_equal(place.code_type, (uint64_t)PyCode_Type);
	assert_ptr_equal(place.initialized, Py_IsInitialized);
	assert_in_range(function, place.code_start, place.code_end - 1);
	assert_false((uint64_t)fopen - place.code_start < place.code_end - place.code_start);
	/* This program embeds one, it is none. */
	assert_int_equal(place.is_main, 0);
}

/* Under a name of its kind the program is one. */
static void program_is_a_python_by_its_name(void **state)
{
	static const struct {
		const char *name;
		int status;
	} named[] = { { "python3.14", 0 }, { "python", 0 }, { "mypython", 1 } };
	char own[512], path[600], *end;
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	assert_in_range(length, 1, sizeof(own) - 1);
	own[length] = '\0';
	end = strrchr(own, '/');
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		char *const argv[] = { path, (char *)"place", NULL };
		int status, r;
		pid_t pid = -1;

		snprintf(path, sizeof(path), "%.*s/walk.%d", (int)(end - own), own, getpid());
		assert_int_equal(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "%.*s/walk.%d/%s", (int)(end - own), own, getpid(),
			 named[i].name);
		r = link(own, path) < 0 ? -errno
					: -posix_spawn(&pid, path, NULL, NULL, argv, environ);
		unlink(path);
		*strrchr(path, '/') = '\0';
		rmdir(path);
		assert_int_equal(r, 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), named[i].status);
	}
}

static int tell_place(void)
{
	PyCode_Type[1] = (uint64_t)PyType_Type;
	return place_of_thread().is_main ? 0 : 1;
}

int main(int argc, char **argv)
{
#define OWN(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
		OWN(frames_are_those_that_are_linked),
		OWN(thread_without_frames_has_its_native_ones),
		OWN(innermost_may_be_found_by_way_of_another_structure),
		OWN(position_is_an_address_or_an_index),
		OWN(index_is_only_half_a_word),
		OWN(tags_are_not_part_of_an_address),
		OWN(frames_that_are_marked_have_entered),
		OWN(shims_are_of_no_function),
		OWN(shims_may_have_any_code),
		OWN(depth_cuts_frames),
		OWN(shims_count_for_the_depth),
		OWN(no_depth_is_more_than_the_kernel_sends),
		OWN(frames_in_a_circle_have_an_end),
		OWN(code_of_another_type_is_not_known),
		OWN(interpreter_that_has_ended_is_left_alone),
		OWN(of_an_embedded_python_nothing_is_read),
		OWN(where_frames_are_may_not_be_known_yet),
		OWN(other_threads_are_known_without_frames_of_python_only),
		OWN(stack_that_was_cut_may_be_the_interpreters),
		cmocka_unit_test(types_are_found_by_name),
		cmocka_unit_test(program_is_a_python_by_its_name),
	};
#undef OWN

	if (argc == 2 && strcmp(argv[1], "place") == 0)
		return tell_place();
	return cmocka_run_group_tests_name("walk_python", tests, NULL, NULL);
}
