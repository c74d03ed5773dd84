/* Notes: where a library says that it can be probed, and where its arguments are there. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/limits.h"
#include "daemon/probe/operand.h"
#include "daemon/probe/site.h"

#define SI   13
#define DI   14
#define AX   10
#define BX   5
#define CX   11
#define DX   12
#define BP   4
#define SP   19
#define R8   9
#define R12  3
#define R15  0

#define NONE PROBE_OPERAND_NONE
#define CONSTANT(width, is_signed, value)                                                          \
	{                                                                                          \
		PROBE_OPERAND_CONSTANT, 0, 0, 0, width, is_signed, 0, value                        \
	}
#define REGISTER(width, is_signed, word)                                                           \
	{                                                                                          \
		PROBE_OPERAND_REGISTER, word, 0, 0, width, is_signed, 0, 0                         \
	}
#define MEMORY(width, base, index, scale, value)                                                   \
	{                                                                                          \
		PROBE_OPERAND_MEMORY, base, index, scale, width, 0, 0, value                       \
	}

static void operands_are_read_as_compilers_write_them(void **state)
{
	static const struct {
		const char *text;
		struct probe_operand operand;
	} rows[] = {
		{ "8@%rax", REGISTER(8, 0, AX) },
		{ "-4@%ebx", REGISTER(4, 1, BX) },
		{ "2@%si", REGISTER(2, 0, SI) },
		{ "-1@%dil", REGISTER(1, 1, DI) },
		{ "-1@%dl", REGISTER(1, 1, DX) },
		{ "4@%r8d", REGISTER(4, 0, R8) },
		{ "8@%r15", REGISTER(8, 0, R15) },
		{ "8@$5", CONSTANT(8, 0, 5) },
		{ "-4@$-1", CONSTANT(4, 1, -1) },
		{ "8@$0x10", CONSTANT(8, 0, 16) },
		{ "8@$18446744073709551615", CONSTANT(8, 0, -1) },
		{ "8@-8(%rbp)", MEMORY(8, BP, NONE, 1, -8) },
		{ "4@(%rsp)", MEMORY(4, SP, NONE, 1, 0) },
		{ "8@144(%rsp)", MEMORY(8, SP, NONE, 1, 144) },
		{ "8@(%rcx,%r12,8)", MEMORY(8, CX, R12, 8, 0) },
		{ "8@-16(%rax,%rbx)", MEMORY(8, AX, BX, 1, -16) },
		{ "8@32(,%rax,4)", MEMORY(8, NONE, AX, 4, 32) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct probe_note note;

		operands_parse(rows[i].text, &note);
		assert_memory_equal(&note.operand[0], &rows[i].operand, sizeof(note.operand[0]));
		assert_int_equal(note.operand[1].from, PROBE_OPERAND_UNKNOWN);
	}
}

static void an_operand_that_cannot_be_read_spoils_no_other(void **state)
{
	static const char *const unknown[] = {
		"",
		"8",
		"8@",
		"@%rax",
		"3@%rax",
		"16@%rax",
		"--8@%rax",
		"8f@%xmm0",
		"8@%xmm0",
		"8@%ah",
		"8@%",
		"8@%raxx",
		"8@$",
		"8@$x",
		"8@$-",
		"8@$99999999999999999999",
		"8@$5x",
		"8@16",
		"8@symbol",
		"8@symbol(%rip)",
		"8@8(%rip)",
		"8@(%rbp",
		"8@(",
		"8@()",
		"8@(,)",
		"8@(%rax,)",
		"8@(%rax,%rbx,)",
		"8@(%rax,%rbx,3)",
		"8@(%rax,%rbx,256)",
		"8@(%rax,%rbx,-1)",
		"8@(%rax)x",
		"8@8+8(%rax)",
		"8@0000000000000000000000000000000000000000000000000000000000001(%rax)",
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		struct probe_note note;

		snprintf(text, sizeof(text), "8@%%rax %s", unknown[i]);
		operands_parse(text, &note);
		assert_int_equal(note.operand[0].from, PROBE_OPERAND_REGISTER);
		assert_int_equal(note.operand[1].from, PROBE_OPERAND_UNKNOWN);
		if (!*unknown[i])
			continue;
		strcat(text, " 8@$7");
		operands_parse(text, &note);
		assert_int_equal(note.operand[1].from, PROBE_OPERAND_UNKNOWN);
		assert_int_equal(note.operand[2].value, 7);
	}
}

static void further_operands_are_left_out(void **state)
{
	struct probe_note note;

	operands_parse("8@$1 8@$2  8@$3 8@$4 8@$5 8@$6", &note);
	for (int i = 0; i < PROBE_OPERANDS_MAX; i++)
		assert_int_equal(note.operand[i].value, i + 1);
}

/* A library: code at 0x1000 of the file and 0x11000 of memory, data at 0x2000 and 0x22000. */
#define CODE_AT	     0x1000
#define CODE_ADDRESS 0x11000
#define DATA_AT	     0x2000
#define DATA_ADDRESS 0x22000
#define BASE_ADDRESS 0x11f00
#define NOTES_SIZE   2048
#define ARGUMENTS    "8@%rax -4@$0 8@-8(%rbp) 8@%rcx"
#define NOP	     0x90

static struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment[2];
	Elf64_Shdr section[6];
	char names[64];
	uint8_t notes[NOTES_SIZE];
	size_t notes_size; /* no part of the format */
} image;

_Static_assert(sizeof(image) < CODE_AT, "the code comes after it");

static void put(const void *data, size_t size)
{
	assert_true(image.notes_size + size <= NOTES_SIZE);
	memcpy(image.notes + image.notes_size, data, size);
	image.notes_size += size;
}

static uint64_t note_base = BASE_ADDRESS;

static void put_note(uint64_t place, uint64_t semaphore, const char *name, size_t name_size,
		     const char *arguments)
{
	const uint64_t address[] = { place, note_base, semaphore };
	const Elf64_Nhdr header = {
		8, (Elf64_Word)(sizeof(address) + name_size + strlen(arguments) + 1), 3
	};

	put(&header, sizeof(header));
	put("stapsdt", 8);
	put(address, sizeof(address));
	put(name, name_size);
	put(arguments, strlen(arguments) + 1);
	put("\0\0\0", (4 - image.notes_size % 4) % 4);
}

#define MALLOC(place, semaphore, arguments)                                                        \
	put_note(place, semaphore, "pytorch\0malloc", sizeof("pytorch\0malloc"), arguments)

static void image_new(void)
{
	image = (struct image){
		.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			    .e_phoff = offsetof(struct image, segment),
			    .e_phnum = 2,
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_shoff = offsetof(struct image, section),
			    .e_shnum = 6,
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shstrndx = 2 },
		.segment = { { .p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = CODE_AT,
			       .p_vaddr = CODE_ADDRESS,
			       .p_filesz = 0x1000 },
			     { .p_type = PT_LOAD,
			       .p_flags = PF_R | PF_W,
			       .p_offset = DATA_AT,
			       .p_vaddr = DATA_ADDRESS,
			       .p_filesz = 0x1000 } },
		.section = { [1] = { .sh_type = SHT_DYNSYM,
				     .sh_entsize = sizeof(Elf64_Sym),
				     .sh_link = 2 },
			     [2] = { .sh_type = SHT_STRTAB,
				     .sh_offset = offsetof(struct image, names),
				     .sh_size = sizeof(image.names) },
			     [3] = { .sh_type = SHT_NOTE,
				     .sh_offset = offsetof(struct image, notes) },
			     [4] = { .sh_type = SHT_PROGBITS,
				     .sh_name = 1,
				     .sh_addr = BASE_ADDRESS },
			     [5] = { .sh_type = SHT_NOTE, .sh_size = 1ull << 40 } },
		.names = "\0.stapsdt.base",
	};
}

/* As the broker gets them: the caller frees *ret. */
static int find(struct site **ret, size_t *ret_count)
{
	_cleanup_(closep) int fd = memfd_create("note", MFD_CLOEXEC);
	static uint8_t nops[0x1000];

	image.section[3].sh_size = image.notes_size;
	memset(nops, NOP, sizeof(nops));
	memcpy(nops + 0x800, "\x0f\x1f\x44\x00\x00\x55", 6);
	assert_int_equal(pwrite(fd, &image, sizeof(image), 0), sizeof(image));
	assert_int_equal(pwrite(fd, nops, sizeof(nops), CODE_AT), sizeof(nops));
	assert_int_equal(ftruncate(fd, DATA_AT + 0x1000), 0);
	return site_find(fd, &library_torch_cuda, ret, ret_count);
}

static size_t count(void)
{
	_cleanup_(freep) struct site *site = NULL;
	size_t sites = 0;

	assert_int_equal(find(&site, &sites), 0);
	return sites;
}

static void places_of_the_name_are_found_with_their_semaphores(void **state)
{
	_cleanup_(freep) struct site *site = NULL;
	size_t sites;

	image_new();
	put_note(CODE_ADDRESS + 0x300, 0, "other\0malloc", sizeof("other\0malloc"), ARGUMENTS);
	put_note(CODE_ADDRESS + 0x400, 0, "pytorch\0free", sizeof("pytorch\0free"), "8@%rax");
	MALLOC(CODE_ADDRESS + 0x200, DATA_ADDRESS + 10, "8@%rbx -4@%ecx 8@$512 8@%rax");
	MALLOC(CODE_ADDRESS + 0x100, 0, ARGUMENTS);
	MALLOC(CODE_ADDRESS + 0x100, 0, ARGUMENTS); /* the same one */
	assert_int_equal(find(&site, &sites), 0);
	assert_int_equal(sites, 2);
	assert_int_equal(site[0].offset, CODE_AT + 0x100);
	assert_int_equal(site[0].semaphore, 0);
	assert_int_equal(site[0].note.operand[2].value, -8);
	assert_int_equal(site[0].cost, SITE_NOP);
	assert_int_equal(site[1].offset, CODE_AT + 0x200);
	assert_int_equal(site[1].semaphore, DATA_AT + 10);
	assert_int_equal(site[1].note.operand[2].value, 512);
	assert_string_equal(site[1].function->model.name, "pytorch:malloc");
}

/* As prelink did: the addresses of notes stay, that of a section made for this does not. */
static void a_library_that_was_moved_is_found_where_it_is(void **state)
{
	_cleanup_(freep) struct site *site = NULL;
	size_t sites;

	image_new();
	MALLOC(CODE_ADDRESS + 0x100, DATA_ADDRESS + 10, ARGUMENTS);
	image.section[4].sh_addr += 0x20;
	assert_int_equal(find(&site, &sites), 0);
	assert_int_equal(sites, 1);
	assert_int_equal(site[0].offset, CODE_AT + 0x120);
	assert_int_equal(site[0].semaphore, DATA_AT + 42);
}

/* Beside others that do, which the same library may have. */
static void a_note_that_says_no_base_is_where_it_says(void **state)
{
	_cleanup_(freep) struct site *site = NULL;
	size_t sites;

	image_new();
	note_base = 0;
	MALLOC(CODE_ADDRESS + 0x100, DATA_ADDRESS + 10, "-8@%rax -1@%dl -8@%r14 -8@-56(%rbp)");
	note_base = BASE_ADDRESS;
	assert_int_equal(find(&site, &sites), 0);
	assert_int_equal(sites, 1);
	assert_int_equal(site[0].offset, CODE_AT + 0x100);
	assert_int_equal(site[0].semaphore, DATA_AT + 10);
}

static void places_that_cannot_be_used_are_left_out(void **state)
{
	image_new();
	MALLOC(CODE_ADDRESS - 1, 0, ARGUMENTS);
	MALLOC(CODE_ADDRESS + 0x1000, 0, ARGUMENTS);
	MALLOC(UINT64_MAX, 0, ARGUMENTS);
	MALLOC(DATA_ADDRESS, 0, ARGUMENTS);
	MALLOC(CODE_ADDRESS, 5, ARGUMENTS);
	MALLOC(CODE_ADDRESS, CODE_ADDRESS, ARGUMENTS);
	MALLOC(CODE_ADDRESS, 0, "8@%rax -4@$0 8@%xmm0 8@%rcx");
	MALLOC(CODE_ADDRESS, 0, "8@%rax");
	MALLOC(CODE_ADDRESS, 0, "");
	MALLOC(CODE_ADDRESS + 0x800, 0, ARGUMENTS); /* a nop that must be passed */
	assert_int_equal(count(), 0);
	/* The stream is of no interest. */
	MALLOC(CODE_ADDRESS, 0, "8@%rax -4@$0 8@$5 8@stream(%rip)");
	assert_int_equal(count(), 1);
}

static void a_library_without_notes_has_no_places(void **state)
{
	image_new();
	assert_int_equal(count(), 0);
	image.header.e_shstrndx = UINT16_MAX;
	image.section[3].sh_type = SHT_PROGBITS;
	assert_int_equal(count(), 0);
}

static void damaged_notes_end_the_search(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
		size_t left;
	} rows[] = {
		{ 0, UINT32_MAX, 0 }, { 0, UINT32_MAX - 7, 0 },
		{ 0, 2000, 0 },	      { 4, UINT32_MAX, 0 },
		{ 4, 2000, 0 },	      { 0, 0, 0 },
		{ 4, 0, 0 },	      { 4, 20, 0 },
		{ 4, 30, 0 },	      { 8, 4, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		image_new();
		MALLOC(CODE_ADDRESS, 0, ARGUMENTS);
		MALLOC(CODE_ADDRESS + 1, 0, ARGUMENTS);
		memcpy(image.notes + rows[i].at, &rows[i].value, sizeof(rows[i].value));
		assert_int_equal(count(), rows[i].left);
	}
	/* Cut off anywhere. */
	for (size_t cut = 1; cut < image.notes_size; cut++) {
		image_new();
		MALLOC(CODE_ADDRESS, 0, ARGUMENTS);
		assert_in_range(cut, 1, image.notes_size);
		image.notes_size -= cut;
		assert_int_equal(count(), 0);
		image.notes_size += cut;
	}
}

static void texts_end_within_their_note(void **state)
{
	image_new();
	MALLOC(CODE_ADDRESS, 0, ARGUMENTS);
	/* Without its last NUL, and with a size that says so. */
	image.notes[4]--;
	put("\0\0\0\0", 4);
	assert_int_equal(count(), 0);
}

static void too_many_places_are_left_out(void **state)
{
	image_new();
	for (int i = 0; i < PROBE_NOTES_MAX + 4; i++)
		MALLOC(CODE_ADDRESS + (uint64_t)i, 0, ARGUMENTS);
	assert_int_equal(count(), PROBE_NOTES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operands_are_read_as_compilers_write_them),
		cmocka_unit_test(an_operand_that_cannot_be_read_spoils_no_other),
		cmocka_unit_test(further_operands_are_left_out),
		cmocka_unit_test(places_of_the_name_are_found_with_their_semaphores),
		cmocka_unit_test(a_library_that_was_moved_is_found_where_it_is),
		cmocka_unit_test(a_note_that_says_no_base_is_where_it_says),
		cmocka_unit_test(places_that_cannot_be_used_are_left_out),
		cmocka_unit_test(a_library_without_notes_has_no_places),
		cmocka_unit_test(damaged_notes_end_the_search),
		cmocka_unit_test(texts_end_within_their_note),
		cmocka_unit_test(too_many_places_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
