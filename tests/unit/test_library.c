/* The table of probed libraries: whose copy a file is, and what the model gets of all rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/library/library.h"

static void a_copy_is_known_by_its_name(void **state)
{
	assert_ptr_equal(library_of("/usr/lib64/libcuda.so.1"), &library_cuda);
	assert_ptr_equal(library_of("libcuda.so.580.95.05"), &library_cuda);
	assert_ptr_equal(library_of("/gone/libcuda.so.1 (deleted)"), &library_cuda);
	assert_null(library_of("/usr/lib64/libcudart.so.12"));
	assert_null(library_of("/usr/lib64/libcuda.so.1/libc.so.6"));
	assert_null(library_of(""));
}

/* Without one there is nothing to read where results come; and it is not free for the program. */
static void a_return_is_probed_for_what_it_tells(void **state)
{
	const struct library_row *row;

	for (size_t n = 0; (row = library_get(n)); n++)
		for (size_t i = 0; i < row->count; i++) {
			const struct library_function *function = &row->function[i];
			const bool returns = function->flags & PROBE_RETURN;

			if (function->out[0].from)
				assert_true(returns);
			if (function->model.effect == EFFECT_EVENT_DESTROY)
				assert_false(returns);
			assert_int_equal(library_functions().row[function->number].returns,
					 returns);
		}
}

/* They are not to go with the windows of a process's budget. */
static void ranges_are_always_watched_and_may_be_lost(void **state)
{
	assert_ptr_equal(library_of("/a/libtracesmith-range.so.1"), &library_range);
	assert_null(library_range.devices);
	for (size_t i = 0; i < library_range.count; i++) {
		assert_false(library_is_hot(&library_range.function[i]));
		assert_false(library_range.function[i].flags & (PROBE_KEEP | PROBE_RETURN));
	}
}

/* In windows nobody would know what is live; and the sums are right again after a loss. */
static void tensors_are_those_of_a_gpu_and_may_be_lost(void **state)
{
	struct probe_desc desc;

	assert_ptr_equal(library_of("/a/torch/lib/libc10.so"), &library_torch);
	assert_ptr_equal(library_of("/usr/lib/x86_64-linux-gnu/libc10.so.1.13"), &library_torch);
	assert_ptr_equal(library_of("/a/torch/lib/libc10_cuda.so"), &library_torch_cuda);
	for (size_t i = 0; i < library_torch.count; i++) {
		library_probe_desc(&library_torch.function[i], &desc);
		/* There are few reports of no memory: the model tells their devices apart. */
		if (library_torch.function[i].model.effect == EFFECT_OOM)
			assert_int_equal(library_torch.function[i].model.detail, 1);
		else
			assert_int_equal(desc.device_type, 1);
		assert_false(library_is_hot(&library_torch.function[i]));
		assert_false(desc.flags & (PROBE_KEEP | PROBE_RETURN));
	}
}

/* Notes and functions are found in different ways; the arguments of notes are in as many operands.
 */
static void a_library_has_notes_or_functions(void **state)
{
	const struct library_row *row;

	for (size_t n = 0; (row = library_get(n)); n++)
		for (size_t i = 0; i < row->count; i++) {
			const struct library_function *function = &row->function[i];
			const struct probe_slot *slot = function->slot;

			assert_int_equal(function->flags & PROBE_NOTE,
					 row->function[0].flags & PROBE_NOTE);
			for (size_t k = 0; function->flags & PROBE_NOTE && slot[k].from; k++) {
				assert_int_equal(slot[k].from, PROBE_ARG);
				assert_in_range(slot[k].arg, 0, PROBE_OPERANDS_MAX - 1);
				assert_in_range(k, 0, PROBE_OPERANDS_MAX - 1);
			}
		}
}

/* What is beyond the sixth is on the stack. Of NCCL every call has to name its communicator. */
static void arguments_are_where_the_program_looks(void **state)
{
	const struct library_row *row;

	for (size_t n = 0; (row = library_get(n)); n++)
		for (size_t i = 0; i < row->count; i++) {
			const struct library_function *function = &row->function[i];
			const struct probe_slot *slot = function->slot;
			bool spilled = false, named = false;

			for (size_t k = 0; k < PROBE_SLOTS_MAX && slot[k].from; k++) {
				if (slot[k].arg == PROBE_ARG_SELF)
					continue;
				assert_in_range(slot[k].arg, 0, 8);
				spilled |= slot[k].arg > 5;
				named |= slot[k].to == offsetof(struct ts_api, handle);
			}
			assert_int_equal((function->flags & PROBE_SPILLED) != 0, spilled);
			if (function->model.effect >= EFFECT_COMM_INIT &&
			    function->model.effect != EFFECT_GROUP_START &&
			    function->model.effect != EFFECT_GROUP_END)
				assert_true(named);
		}
}

static void nccl_is_probed_where_it_is_a_library(void **state)
{
	struct probe_desc desc;

	assert_ptr_equal(library_of("/a/nvidia/nccl/lib/libnccl.so.2"), &library_nccl);
	for (size_t i = 0; i < library_nccl.count; i++) {
		const struct library_function *function = &library_nccl.function[i];

		library_probe_desc(function, &desc);
		assert_false(library_is_hot(function)); /* a call outside of a window counts, too */
		assert_false(desc.flags & (PROBE_KEEP | PROBE_REPORT));
		assert_int_equal(desc.id_at != PROBE_ID_NOWHERE,
				 function->model.effect == EFFECT_COMM_INIT);
	}
}

static void any_of_the_patterns_may_match(void **state)
{
	assert_true(library_matches("/a/libnccl.so.2", "libcuda.so*, libnccl.so*\tlibc10*"));
	assert_true(library_matches("/a/libc10_cuda.so", "libcuda.so*, libnccl.so*\tlibc10*"));
	assert_false(library_matches("/a/libm.so", "libcuda.so*, libnccl.so*\tlibc10*"));
	assert_false(library_matches("/a/libm.so", ""));
	assert_false(library_matches("/a/libm.so", " ,\t "));
}

/* What the kernel prints of a file that has no such name, and what a user may write. */
static void names_and_patterns_of_any_length_are_safe(void **state)
{
	char path[5000], patterns[5000];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	memset(patterns, 'a', sizeof(patterns));
	memcpy(patterns + sizeof(patterns) - 4, " b*", 4);
	assert_false(library_matches(path, patterns));
	assert_true(library_matches("/lib/b", patterns));
}

static void the_defaults_name_the_files_of_every_row_but_those_by_choice(void **state)
{
	char *files = library_files(), *places = library_places();
	const struct library_row *row;

	for (size_t i = 0; (row = library_get(i)); i++)
		if (row->by_choice)
			assert_null(strstr(files, row->files));
		else
			assert_true(strstr(files, row->files) && strstr(places, row->places));
	free(files);
	free(places);
}

static void a_group_without_functions_misses_nothing(void **state)
{
	assert_true(library_has_group(&library_cuda, PROBE_HOT));
	assert_true(library_has_group(&library_cuda, PROBE_COLD));
	assert_false(library_has_group(&library_cuda, PROBE_REPORTS));
	assert_true(library_has_group(&library_nccl, PROBE_COLD));
	assert_false(library_has_group(&library_nccl, PROBE_HOT));
	assert_true(library_has_group(&library_torch, PROBE_REPORTS));
	/* By its name it may be any. */
	assert_true(library_has_group(NULL, PROBE_REPORTS));
}

static void the_model_has_every_function_once(void **state)
{
	struct function_table table = library_functions();
	const struct library_row *row;
	size_t count = 0, found = 0;

	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++, count++) {
			uint16_t number = row->function[k].number;

			assert_in_range(number, 1, table.count - 1);
			assert_string_equal(table.row[number].name, row->function[k].model.name);
		}
	for (uint32_t i = 0; i < table.count; i++)
		found += table.row[i].name != NULL;
	assert_int_equal(found, count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_known_by_its_name),
		cmocka_unit_test(a_return_is_probed_for_what_it_tells),
		cmocka_unit_test(ranges_are_always_watched_and_may_be_lost),
		cmocka_unit_test(tensors_are_those_of_a_gpu_and_may_be_lost),
		cmocka_unit_test(a_library_has_notes_or_functions),
		cmocka_unit_test(arguments_are_where_the_program_looks),
		cmocka_unit_test(nccl_is_probed_where_it_is_a_library),
		cmocka_unit_test(any_of_the_patterns_may_match),
		cmocka_unit_test(names_and_patterns_of_any_length_are_safe),
		cmocka_unit_test(the_defaults_name_the_files_of_every_row_but_those_by_choice),
		cmocka_unit_test(a_group_without_functions_misses_nothing),
		cmocka_unit_test(the_model_has_every_function_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
