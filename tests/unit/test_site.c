/* Sites: where functions of a library can be probed, and what that costs. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/probe/site.h"

static void cost_is_that_of_the_first_instruction(void **state)
{
	static const struct {
		uint8_t code[12];
		enum site_cost cost;
		uint64_t skip;
		uint8_t instruction;
	} rows[] = {
		{ { 0x55, 0x48, 0x89, 0xe5 }, SITE_EMULATED, 0, 1 },		    /* push %rbp */
		{ { 0x41, 0x57, 0x41, 0x56 }, SITE_EMULATED, 0, 2 },		    /* push %r15 */
		{ { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48 }, SITE_EMULATED, 4, 1 },    /* endbr64 */
		{ { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83 }, SITE_SINGLE_STEP, 4, 1 }, /* sub */
		{ { 0x48, 0x83, 0xec, 0x08 }, SITE_SINGLE_STEP, 0, 1 },
		{ { 0x0f, 0x1f, 0x40, 0x00, 0x55 }, SITE_NOP, 0, 1 },
		{ { 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55, 0x48 }, SITE_EMULATED, 5, 1 },
		{ { 0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x48 },
		  SITE_EMULATED,
		  9,
		  1 },
		{ { 0x90, 0x55 }, SITE_NOP, 0, 1 },
		{ { 0xe9, 0, 0, 0, 0 }, SITE_EMULATED, 0, 5 }, /* jmp */
		{ { 0x31, 0xc0, 0xc3 }, SITE_SINGLE_STEP, 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t skip = 99;

		assert_int_equal(site_cost(rows[i].code, sizeof(rows[i].code), &skip),
				 rows[i].cost);
		assert_int_equal(skip, rows[i].skip);
		assert_int_equal(site_instruction(rows[i].code + skip, sizeof(rows[i].code) - skip),
				 rows[i].instruction);
	}
}

static void cost_of_a_function_cut_off_is_the_highest(void **state)
{
	static const uint8_t push = 0x55;
	uint64_t skip;

	assert_int_equal(site_cost(&push, 1, &skip), SITE_SINGLE_STEP);
}

/* This very program exports a few names of the table. */
__attribute__((visibility("default"))) int cuInit(unsigned int flags);
__attribute__((visibility("default"))) int cuLaunchKernel_ptsz(void);
__attribute__((visibility("default"))) int cuEventDestroy(void);

__attribute__((noinline)) int cuInit(unsigned int flags)
{
	return (int)flags;
}

__attribute__((noinline)) int cuLaunchKernel_ptsz(void)
{
	return 1;
}

__attribute__((noinline)) int cuEventDestroy(void)
{
	return 2;
}

static const struct site *find(const struct site *site, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(site[i].function->model.name, name))
			return &site[i];
	return NULL;
}

static void functions_are_found_by_all_their_names(void **state)
{
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) struct site *site = NULL;
	size_t count;

	assert_int_equal(site_find(fd, &library_cuda, &site, &count), 0);
	assert_int_equal(count, 3);
	assert_non_null(find(site, count, "cuInit"));
	assert_int_equal(find(site, count, "cuInit")->event_flags, 0);
	assert_int_equal(find(site, count, "cuLaunchKernel")->event_flags, TS_EVENT_PER_THREAD);
	assert_non_null(find(site, count, "cuEventDestroy_v2"));
}

/* A library is its row: another one has other functions in the same file. */
static void only_the_functions_of_the_row_are_found(void **state)
{
	static const struct library_function other[] = {
		{ .number = 1, .model.name = "otherDestroy", .alias = { "cuEventDestroy" } },
		{ .number = 2, .model.name = "cuNothing" },
	};
	const struct library_row row = { .function = other, .count = 2 };
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) struct site *site = NULL;
	size_t count;

	assert_int_equal(site_find(fd, &row, &site, &count), 0);
	assert_int_equal(count, 1);
	assert_ptr_equal(site->function, &other[0]);
}

static void a_file_that_is_no_elf_is_refused(void **state)
{
	_cleanup_(freep) struct site *site = NULL;
	char path[] = "/tmp/test_site.XXXXXX";
	_cleanup_(closep) int fd = mkstemp(path);
	size_t count;

	unlink(path);
	assert_int_equal(write(fd, "\177ELF and then nothing", 21), 21);
	assert_int_equal(site_find(fd, &library_cuda, &site, &count), -EBADMSG);
	assert_null(site);
}

/* A sparse file costs its owner nothing, and would cost us what it claims. */
static void sections_as_large_as_memory_are_refused(void **state)
{
	static const struct {
		uint64_t symbols, names;
	} rows[] = { { 4ull << 30, 100 }, { 240, 4ull << 30 } };

	for (size_t i = 0; i < 2; i++) {
		_cleanup_(freep) struct site *site = NULL;
		char path[] = "/tmp/test_site.XXXXXX";
		_cleanup_(closep) int fd = mkstemp(path);
		Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
				    .e_type = ET_DYN,
				    .e_machine = EM_X86_64,
				    .e_version = 1,
				    .e_ehsize = sizeof(head),
				    .e_shoff = 64,
				    .e_shentsize = sizeof(Elf64_Shdr),
				    .e_shnum = 3 };
		Elf64_Shdr section[3] = {
			{ 0 },
			{ .sh_type = SHT_DYNSYM,
			  .sh_offset = 4096,
			  .sh_size = rows[i].symbols,
			  .sh_entsize = sizeof(Elf64_Sym),
			  .sh_link = 2 },
			{ .sh_type = SHT_STRTAB, .sh_offset = 4096, .sh_size = rows[i].names },
		};
		size_t count;

		unlink(path);
		assert_int_equal(ftruncate(fd, 5ll << 30), 0);
		assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
		assert_int_equal(pwrite(fd, section, sizeof(section), 64), sizeof(section));
		assert_int_equal(site_find(fd, &library_cuda, &site, &count), -EBADMSG);
	}
}

static void table_has_no_number_twice_and_fits(void **state)
{
	bool used[PROBE_FUNCTIONS_MAX] = { false };

	for (size_t i = 0; i < library_cuda.count; i++) {
		const struct library_function *function = &library_cuda.function[i];

		assert_in_range(function->number, 1, PROBE_FUNCTIONS_MAX - 1);
		assert_false(used[function->number]);
		used[function->number] = true;
		/* An out-parameter's pointer waits in a field that a slot fills. */
		for (int k = 0; k < PROBE_OUTS_MAX && function->out[k].from; k++) {
			bool filled = false;

			for (int n = 0; n < PROBE_SLOTS_MAX; n++)
				filled |= function->slot[n].from == PROBE_ARG &&
					  function->slot[n].width == 8 &&
					  function->slot[n].to == function->out[k].to;
			assert_true(filled);
			assert_true(function->flags & PROBE_RETURN);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_is_that_of_the_first_instruction),
		cmocka_unit_test(cost_of_a_function_cut_off_is_the_highest),
		cmocka_unit_test(functions_are_found_by_all_their_names),
		cmocka_unit_test(only_the_functions_of_the_row_are_found),
		cmocka_unit_test(a_file_that_is_no_elf_is_refused),
		cmocka_unit_test(sections_as_large_as_memory_are_refused),
		cmocka_unit_test(table_has_no_number_twice_and_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
