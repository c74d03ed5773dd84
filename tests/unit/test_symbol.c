/* test_symbol: names for offsets in real, stripped and hostile ELF files. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/demangle.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/symbol/cache.h"
#include "daemon/symbol/names.h"
#include "daemon/symbol/symbol.h"

#define DEADLINE_MS 60000

static char directory[] = "/tmp/test_symbol.XXXXXX";

static __attribute__((noinline)) int hidden_function(int x)
{
	__asm__ volatile("nop");
	return x + 1;
}

int mangled_function(int x) __asm__("_ZN5space5Thing3runEi");
__attribute__((noinline)) int mangled_function(int x)
{
	__asm__ volatile("nop");
	return x + 2;
}

static int find_base(struct dl_phdr_info *info, size_t size, void *data)
{
	*(uint64_t *)data = info->dlpi_addr; /* the program comes first */
	return 1;
}

/* Where a function of this program lies in its file. */
static uint64_t offset_of(const void *function)
{
	uint64_t base = 0, address;
	Elf64_Phdr segment;
	Elf64_Ehdr header;
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int i;

	dl_iterate_phdr(find_base, &base);
	address = (uintptr_t)function - base;
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	for (i = 0; i < header.e_phnum; i++) {
		assert_int_equal(
			pread(fd, &segment, sizeof(segment), header.e_phoff + i * sizeof(segment)),
			sizeof(segment));
		if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	fail();
	return 0;
}

static char *path_in(const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
	return path;
}

/* A copy of this program, to be damaged. */
static int copy_self(const char *name)
{
	_cleanup_(closep) int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *path = path_in(name);
	int to = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char block[65536];
	ssize_t n;

	assert_true(to >= 0);
	while ((n = read(from, block, sizeof(block))) > 0)
		assert_int_equal(write(to, block, n), n);
	return to;
}

static void write_at(int fd, uint64_t offset, const void *data, size_t size)
{
	assert_int_equal(pwrite(fd, data, size, offset), size);
}

static void strip(int fd)
{
	Elf64_Ehdr header;

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	header.e_shnum = header.e_shstrndx = 0;
	header.e_shoff = 0;
	write_at(fd, 0, &header, sizeof(header));
}

/* The raw name of one place; NULL also for what is not an ELF file. */
static char *name_at(int fd, const char *debug, uint64_t offset)
{
	struct names_query query = { .offset = offset };

	names_find(fd, debug, &query, 1);
	return query.name;
}

static void check_name(int fd, const char *debug, uint64_t offset, const char *expected)
{
	_cleanup_(freep) char *name = name_at(fd, debug, offset);

	if (!expected) {
		assert_null(name);
		return;
	}
	assert_non_null(name);
	assert_string_equal(name, expected);
}

static void static_functions_have_names(void **state)
{
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint64_t offset = offset_of(hidden_function);

	check_name(fd, NULL, offset, "hidden_function");
	check_name(fd, NULL, offset + 3, "hidden_function");
	check_name(fd, NULL, offset_of(mangled_function), "_ZN5space5Thing3runEi");
	check_name(fd, NULL, 0, NULL); /* the ELF header is no function */
	check_name(fd, NULL, UINT64_MAX, NULL);
}

static void many_places_are_found_in_one_pass(void **state)
{
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint64_t hidden = offset_of(hidden_function), here = offset_of(static_functions_have_names);
	struct names_query query[] = {
		{ .offset = here + 5 }, { .offset = hidden },	  { .offset = 1 },
		{ .offset = here },	{ .offset = hidden + 1 },
	};
	size_t i, names = 0;

	assert_int_equal(names_find(fd, NULL, query, 5), 0);
	for (i = 0; i < 5; i++) {
		_cleanup_(freep) char *name = query[i].name;

		if (query[i].offset == 1) {
			assert_null(name);
			continue;
		}
		assert_string_equal(name, query[i].offset - hidden <= 1
						  ? "hidden_function"
						  : "static_functions_have_names");
		names++;
	}
	assert_int_equal(names, 4);
}

static void stripped_file_has_no_names(void **state)
{
	_cleanup_(closep) int fd = copy_self("stripped");

	check_name(fd, NULL, offset_of(hidden_function), "hidden_function");
	strip(fd);
	check_name(fd, NULL, offset_of(hidden_function), NULL);
}

/* Finds the build id the other way, in memory. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
	char *hex = data;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const ElfW(Nhdr) *note = (void *)(info->dlpi_addr + segment->p_vaddr);
		const uint8_t *id = (const uint8_t *)(note + 1) + 4;
		unsigned int j;

		if (segment->p_type != PT_NOTE || note->n_type != NT_GNU_BUILD_ID)
			continue;
		for (j = 0; j < note->n_descsz && j < 32; j++)
			sprintf(hex + 2 * j, "%02x", id[j]);
	}
	return 1;
}

static void names_come_from_the_debug_file_of_a_stripped_one(void **state)
{
	_cleanup_(closep) int fd = copy_self("stripped"), debug = -1;
	_cleanup_(freep) char *folder = NULL, *root = path_in(".build-id");
	char hex[128] = "", name[256];

	dl_iterate_phdr(find_build_id, hex);
	if (!hex[0])
		skip(); /* linked without */
	strip(fd);
	mkdir(root, 0700);
	snprintf(name, sizeof(name), ".build-id/%.2s", hex);
	folder = path_in(name);
	mkdir(folder, 0700);
	snprintf(name, sizeof(name), ".build-id/%.2s/%s.debug", hex, hex + 2);
	debug = copy_self(name);
	check_name(fd, directory, offset_of(hidden_function), "hidden_function");
	check_name(fd, "/nowhere", offset_of(hidden_function), NULL);
}

static void truncated_file_is_read_as_far_as_it_goes(void **state)
{
	_cleanup_(closep) int fd = copy_self("truncated");
	uint64_t offset = offset_of(hidden_function);
	struct stat st;
	off_t size;

	assert_int_equal(fstat(fd, &st), 0);
	for (size = st.st_size; size > 0; size = size * 9 / 10) {
		_cleanup_(freep) char *name = NULL;

		assert_int_equal(ftruncate(fd, size), 0);
		name = name_at(fd, NULL, offset);
		assert_true(!name || strcmp(name, "hidden_function") == 0);
	}
}

static void random_bytes_do_no_harm(void **state)
{
	_cleanup_(closep) int fd = copy_self("random");
	uint64_t offset = offset_of(hidden_function), seed = 1;
	Elf64_Ehdr header;
	int i;

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	for (i = 0; i < 3000; i++) {
		uint64_t place;
		uint8_t was[8];

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		/* Headers of file, segments and sections, which are what is believed. */
		place = (seed >> 33) % 1024;
		if (seed & (1ull << 20))
			place = header.e_shoff + place * 2;
		if (pread(fd, was, sizeof(was), place) != sizeof(was))
			continue;
		write_at(fd, place, &seed, sizeof(seed));
		free(name_at(fd, directory, offset));
		if (i % 8) /* some damage stays */
			write_at(fd, place, was, sizeof(was));
	}
}

static void huge_counts_are_not_believed(void **state)
{
	_cleanup_(closep) int fd = copy_self("huge");
	Elf64_Ehdr header, damaged;

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	damaged = header;
	damaged.e_shnum = 0xffff;
	write_at(fd, 0, &damaged, sizeof(damaged));
	check_name(fd, NULL, offset_of(hidden_function), NULL);
	damaged = header;
	damaged.e_phnum = 0xffff;
	write_at(fd, 0, &damaged, sizeof(damaged));
	check_name(fd, NULL, offset_of(hidden_function), NULL);
	damaged = header;
	damaged.e_shoff = UINT64_MAX - 8;
	write_at(fd, 0, &damaged, sizeof(damaged));
	check_name(fd, NULL, offset_of(hidden_function), NULL);
}

/* A file of 2^40 bytes that claims 2^60 bytes of symbols: holes, or first `covering` ones of which
 * each covers everything. */
static void check_hostile(size_t covering)
{
	_cleanup_(freep) char *path = path_in("hostile");
	_cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			      .e_phoff = 64,
			      .e_phnum = 1,
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_shoff = 512,
			      .e_shnum = 2,
			      .e_shentsize = sizeof(Elf64_Shdr) };
	Elf64_Phdr segment = { .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = 1 << 20 };
	Elf64_Shdr section[2] = {
		{ .sh_type = SHT_SYMTAB,
		  .sh_offset = 4096,
		  .sh_size = 1ull << 60,
		  .sh_entsize = sizeof(Elf64_Sym),
		  .sh_link = 1 },
		{ .sh_type = SHT_STRTAB, .sh_offset = 64, .sh_size = UINT64_MAX },
	};
	Elf64_Sym symbol[1024];
	struct names_query query[1024] = { 0 };
	uint64_t start_ns;
	size_t i;

	for (i = 0; i < 1024; i++)
		symbol[i] = (Elf64_Sym){ .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					 .st_shndx = 1,
					 .st_size = 1 << 20,
					 .st_name = i };
	write_at(fd, 0, &header, sizeof(header));
	write_at(fd, 64, &segment, sizeof(segment));
	write_at(fd, 512, section, sizeof(section));
	for (i = 0; i < covering / 1024; i++)
		write_at(fd, 4096 + i * sizeof(symbol), symbol, sizeof(symbol));
	assert_int_equal(ftruncate(fd, 1ll << 40), 0);
	for (i = 0; i < 1024; i++)
		query[i].offset = i;
	start_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	names_find(fd, NULL, query, 1024);
	assert_true(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns < 20 * NS_PER_S);
	for (i = 0; i < 1024; i++)
		free(query[i].name);
}

static void work_on_a_hostile_file_ends(void **state)
{
	check_hostile(0);
	check_hostile(LIMIT_ELF_SYMBOLS);
}

static void check_demangled(const char *symbol, const char *expected)
{
	_cleanup_(freep) char *name = demangle(symbol);

	assert_string_equal(name, expected);
}

static void names_are_demangled_and_clean(void **state)
{
	check_demangled("_ZN5space5Thing3runEi", "space::Thing::run(int)");
	check_demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
			"core::fmt::Write::write_fmt");
	check_demangled("cuMemAlloc_v2", "cuMemAlloc_v2");
	check_demangled("f", "f"); /* a type's code, but no mangled name */
	check_demangled("_Znonsense", "_Znonsense");
	check_demangled("__libc_start_main@@GLIBC_2.34", "__libc_start_main");
	check_demangled("clock_nanosleep@GLIBC_2.2.5", "clock_nanosleep");
	check_demangled("_ZNSt6thread4joinEv@@GLIBCXX_3.4.11", "std::thread::join()");
	check_demangled("@", "@");
	check_demangled("a\x1b[31m\xff", "a?[31m?");
	check_demangled("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
}

/* Each pair is twice the one before: some 2^38 bytes of text. */
static void name_that_stands_for_endless_text_is_cut(void **state)
{
	const char *numbers = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char symbol[LIMIT_SYMBOL_NAME] = "_Z1f4pairIiiE", *name;
	size_t length = strlen(symbol);

	for (; *numbers; numbers++)
		length += sprintf(symbol + length, "S_IS%c_S%c_E", *numbers, *numbers);
	name = demangle(symbol);
	assert_int_equal(strlen(name), LIMIT_SYMBOL_NAME - 1);
	assert_memory_equal(name, "f(pair<int, int>, pair<pair<", 28);
	free(name);
	memset(symbol, 'x', sizeof(symbol));
	symbol[sizeof(symbol) - 1] = '\0';
	check_demangled(symbol, symbol);
}

static void cache_knows_names_and_that_there_is_none(void **state)
{
	struct cache *cache = cache_new();
	struct cache_key key = { .device = 1, .inode = 2, .offset = 3 }, other = key;
	const char *name;

	other.modified_ns = 1;
	assert_false(cache_find(cache, &key, &name));
	cache_add(cache, &key, "name");
	assert_true(cache_find(cache, &key, &name));
	assert_string_equal(name, "name");
	assert_false(cache_find(cache, &other, &name));
	cache_add(cache, &key, NULL);
	assert_true(cache_find(cache, &key, &name));
	assert_null(name);
	cache_free(cache);
}

struct office {
	uv_loop_t loop;
	struct symbolizer *symbolizer;
	struct maps_file file;
	uint32_t done, named;
	bool closed;
};

static void on_done(void *data, struct symbol_job *job)
{
	struct office *office = data;

	office->done++;
	assert_int_equal(job->stack_id, 7);
	assert_int_equal(job->count, 4);
	assert_string_equal(job->frame[0].name, "hidden_function");
	assert_string_equal(job->frame[1].name, "space::Thing::run(int)");
	assert_null(job->frame[2].name);
	/* A return address is behind the call, so this one is of what lies before. */
	assert_true(!job->frame[3].name || strcmp(job->frame[3].name, "hidden_function") != 0);
	symbol_job_free(job);
}

static void on_symbolizer_closed(void *data)
{
	((struct office *)data)->closed = true;
}

/* References are counted by maps, which has no part in this test: the files are lent by hand. */
static void add_job(struct office *office, int *ret)
{
	struct symbol_job *job = symbol_job_new(4);
	uint64_t hidden = offset_of(hidden_function);
	int i;

	job->stack_id = 7;
	job->frame[0].offset = hidden;
	job->frame[1].offset = offset_of(mangled_function) + 1;
	job->frame[3].offset = hidden;
	for (i = 0; i < 4; i++)
		if (i != 2)
			job->frame[i].file = maps_file_ref(&office->file);
	*ret = symbolizer_add(office->symbolizer, job);
}

static void jobs_come_back_on_the_loop_also_those_left_at_the_end(void **state)
{
	struct office office = { .file = { .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
					   .references = 1 } };
	uint64_t end_ns = uv_hrtime() + DEADLINE_MS * 1000000ull;
	uint32_t added = 0, refused = 0;
	int r;

	uv_loop_init(&office.loop);
	assert_int_equal(symbolizer_new(&office.loop, on_done, &office, &office.symbolizer), 0);
	add_job(&office, &r);
	assert_int_equal(r, 0);
	while (office.done == 0 && uv_hrtime() < end_ns)
		uv_run(&office.loop, UV_RUN_ONCE);
	assert_int_equal(office.done, 1);
	while (added + refused < LIMIT_SYMBOL_JOBS + 10) {
		add_job(&office, &r);
		added += r == 0;
		refused += r == -EAGAIN;
	}
	assert_int_equal(refused, 10);
	symbolizer_close(office.symbolizer, on_symbolizer_closed);
	uv_run(&office.loop, UV_RUN_DEFAULT);
	assert_true(office.closed);
	assert_int_equal(office.done, 1 + added);
	assert_int_equal(office.file.references, 1);
	assert_int_equal(uv_loop_close(&office.loop), 0);
	close(office.file.fd);
}

static int setup(void **state)
{
	hidden_function(mangled_function(1));
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(static_functions_have_names),
		cmocka_unit_test(many_places_are_found_in_one_pass),
		cmocka_unit_test(stripped_file_has_no_names),
		cmocka_unit_test(names_come_from_the_debug_file_of_a_stripped_one),
		cmocka_unit_test(truncated_file_is_read_as_far_as_it_goes),
		cmocka_unit_test(random_bytes_do_no_harm),
		cmocka_unit_test(huge_counts_are_not_believed),
		cmocka_unit_test(work_on_a_hostile_file_ends),
		cmocka_unit_test(names_are_demangled_and_clean),
		cmocka_unit_test(name_that_stands_for_endless_text_is_cut),
		cmocka_unit_test(cache_knows_names_and_that_there_is_none),
		cmocka_unit_test(jobs_come_back_on_the_loop_also_those_left_at_the_end),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
