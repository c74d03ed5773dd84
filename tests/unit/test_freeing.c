/* test_freeing: a function that only a table has is told from one that code names. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "daemon/python/freeing.h"

#define CODE	  4096
#define CODE_SIZE (3 * 65536)
#define FUNCTION  (CODE + 150000) /* behind zeros */

extern const char __executable_start[];

__attribute__((noinline)) static int called(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

__attribute__((noinline)) static int in_a_table(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

static int (*volatile table[])(int n) = { in_a_table };

static uint64_t address_in(const struct elf *elf, int (*function)(int n))
{
	uint64_t bias = elf->header.e_type == ET_EXEC ? 0 : (uintptr_t)__executable_start;

	return (uintptr_t)function - bias;
}

static void a_function_that_code_names_is_found(void **state)
{
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf elf;

	assert_int_equal(elf_open(&elf, fd), 0);
	assert_int_equal(called(3), table[0](2));
	assert_true(freeing_is_named(&elf, address_in(&elf, called)));
	assert_false(freeing_is_named(&elf, address_in(&elf, table[0])));
	elf_close(&elf);
}

/* Code that is nothing but one number, at each place around the end of what is read at once. */
static bool is_named(uint16_t type, uint64_t at, int32_t number)
{
	const struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
	} head = {
		.header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT },
			    .e_type = type,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = sizeof(Elf64_Ehdr),
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 1 },
		.segment = { .p_type = PT_LOAD,
			     .p_flags = PF_R | PF_X,
			     .p_offset = CODE,
			     .p_vaddr = CODE,
			     .p_filesz = CODE_SIZE,
			     .p_memsz = CODE_SIZE },
	};
	_cleanup_(closep) int fd = memfd_create("code", MFD_CLOEXEC);
	struct elf elf;
	bool named;

	assert_int_equal(ftruncate(fd, CODE + CODE_SIZE), 0);
	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(pwrite(fd, &number, sizeof(number), (off_t)at), sizeof(number));
	assert_int_equal(elf_open(&elf, fd), 0);
	named = freeing_is_named(&elf, FUNCTION);
	elf_close(&elf);
	return named;
}

static void it_is_found_wherever_it_is(void **state)
{
	for (uint64_t at = CODE + 65536 - 5; at < CODE + 65536 + 5; at++) {
		int32_t from_next = (int32_t)(FUNCTION - (at + sizeof(from_next)));

		assert_true(is_named(ET_DYN, at, from_next));
		assert_false(is_named(ET_DYN, at, from_next + 1));
		assert_true(is_named(ET_EXEC, at, FUNCTION));
		assert_false(is_named(ET_DYN, at, FUNCTION));
	}
	assert_true(is_named(ET_EXEC, CODE + CODE_SIZE - sizeof(int32_t), FUNCTION));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_that_code_names_is_found),
		cmocka_unit_test(it_is_found_wherever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
