/* test_merge: native frames and frames of Python as one stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/python/merge.h"

#define FRAMES_MAX 32

/* Native: "l" a loop, "t" an instruction of one, "n" another. Python: "f" a frame, "e" one that a
 * loop was entered with, "s" one of 3.12's own, "h" a hidden one. Merged: native frames as capital
 * letters. */
static size_t set(const char *native, const char *python, struct merge_stack *stack, uint8_t *loop,
		  uint8_t *mark)
{
	stack->native_count = strlen(native);
	stack->python_count = strlen(python);
	for (size_t i = 0; i < stack->native_count; i++)
		loop[i] = native[i] == 'l'   ? MERGE_LOOP
			  : native[i] == 't' ? MERGE_LOOP_PART
					     : MERGE_NO_LOOP;
	for (size_t i = 0; i < stack->python_count; i++)
		mark[i] = (uint8_t)((strchr("es", python[i]) ? MERGE_ENTRY : 0) |
				    (strchr("sh", python[i]) ? MERGE_HIDDEN : 0));
	stack->loop = loop;
	stack->mark = mark;
	return stack->native_count + stack->python_count;
}

static void check_all(const char *native, const char *python, const char *expected,
		      struct merge_stack stack, bool uneven)
{
	struct merged merged[FRAMES_MAX];
	char text[FRAMES_MAX + 1] = "";
	uint8_t loop[FRAMES_MAX], mark[FRAMES_MAX];
	bool found_uneven;
	size_t next[2] = { 0 }, count;

	assert_true(set(native, python, &stack, loop, mark) <= FRAMES_MAX);
	count = merge(&stack, merged, &found_uneven);
	for (size_t i = 0; i < count; i++) {
		bool is_python = merged[i].python;

		/* Each at most once, and in order. */
		assert_true(merged[i].index >= next[is_python]);
		next[is_python] = merged[i].index + 1;
		text[i] = is_python ? python[merged[i].index]
				    : (char)(native[merged[i].index] - 'a' + 'A');
	}
	assert_string_equal(text, expected);
	assert_int_equal(found_uneven, uneven);
}

static void check_cut(const char *native, const char *python, const char *expected,
		      bool native_whole, bool python_whole, bool uneven)
{
	check_all(
		native, python, expected,
		(struct merge_stack){ .native_whole = native_whole, .python_whole = python_whole },
		uneven);
}

static void check(const char *native, const char *python, const char *expected)
{
	check_cut(native, python, expected, true, true, false);
}

static void each_loop_takes_the_frames_up_to_its_entry(void **state)
{
	check("nnlnlnn", "ffefe", "NNffeNfeNN"); /* 3.11 */
	check("nnlnlnn", "ffsfs", "NNffNfNN");	 /* 3.12 */
	check("nlnlnln", "eee", "NeNeNeN");	 /* 3.9 */
	check("lnn", "e", "eNN");
	check("nnn", "", "NNN");
	check("", "", "");
}

static void instructions_that_are_functions_belong_to_their_loop(void **state)
{
	check("ntlntlnn", "ffsfs", "NffNfNN");
	check("tlnn", "fs", "fNN");
	check("ntnln", "fs", "NTNfN"); /* one of no loop */
	check("nt", "", "NT");
}

static void what_python_hides_is_not_shown(void **state)
{
	check("nlnln", "hfehffs", "NfeNffN");
	check("nlnlnn", "hsfs", "NLNfNN");
}

static void a_loop_without_frames_stays(void **state)
{
	/* It has just been entered, or is about to return. */
	check_cut("lnnlnn", "fe", "LNNfeNN", true, true, true);
}

static void a_call_that_was_not_there_yet(void **state)
{
	check_cut("nlnn", "fefe", "feNfeNN", true, true, true);
}

static void a_loop_that_has_no_name(void **state)
{
	const struct merge_stack whole = { .native_whole = true,
					   .python_whole = true,
					   .at_once = true };

	check_all("nnlnln", "ffefe", "NNffeNfeN", whole, false);
	check_all("nnnnln", "ffefe", "NNNNffefeN", whole, true);
	check_all("nnnn", "ffefe", "NNNNffefe", whole, true);
	check_all("nnln", "", "NNLN", whole, true);
}

static void stacks_that_end_early_are_joined_from_inside(void **state)
{
	/* The native frames end in code that is compiled at run time. */
	check_cut("nlnn", "fefefe", "NfeNNfefe", false, true, false);
	/* The frames of Python are too many. */
	check_cut("nlnlnln", "fefff", "NfeNfffNLN", true, false, false);
	check_cut("nnn", "fe", "NNNfe", false, true, false);
	check_cut("lll", "", "LLL", false, false, false);
}

static void marks_of_each_version(void **state)
{
	struct layout layout = { .entries = LAYOUT_ALL_ENTER };

	assert_int_equal(merge_mark(&layout, 0, 0), MERGE_ENTRY);
	layout.entries = LAYOUT_ENTRY_FLAG;
	assert_int_equal(merge_mark(&layout, 0, 3), 0);
	assert_int_equal(merge_mark(&layout, 1, 0), MERGE_ENTRY);
	layout.entries = LAYOUT_ENTRY_FRAME;
	assert_int_equal(merge_mark(&layout, 1, 0), 0);
	assert_int_equal(merge_mark(&layout, 0, 3), MERGE_ENTRY | MERGE_HIDDEN);
}

static void names_of_the_loop(void **state)
{
	assert_int_equal(merge_loop("_PyEval_EvalFrameDefault"), MERGE_LOOP);
	assert_int_equal(merge_loop("_PyEval_EvalFrameDefault.cold"), MERGE_LOOP);
	assert_int_equal(merge_loop("_PyEval_EvalFrameDefault.constprop.0"), MERGE_LOOP);
	assert_int_equal(merge_loop("_PyEval_EvalFrameDefaults"), MERGE_NO_LOOP);
	assert_int_equal(merge_loop("_PyEval_EvalFrame"), MERGE_NO_LOOP);
	assert_int_equal(merge_loop("_TAIL_CALL_CALL_PY_EXACT_ARGS"), MERGE_LOOP_PART);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_loop_takes_the_frames_up_to_its_entry),
		cmocka_unit_test(instructions_that_are_functions_belong_to_their_loop),
		cmocka_unit_test(what_python_hides_is_not_shown),
		cmocka_unit_test(a_loop_without_frames_stays),
		cmocka_unit_test(a_call_that_was_not_there_yet),
		cmocka_unit_test(a_loop_that_has_no_name),
		cmocka_unit_test(stacks_that_end_early_are_joined_from_inside),
		cmocka_unit_test(marks_of_each_version),
		cmocka_unit_test(names_of_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
