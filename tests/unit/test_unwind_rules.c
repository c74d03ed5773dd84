/* Rules: what .eh_frame says about an address, held against readelf for all rows of the libraries
 * that every program has, and for files that no compiler writes. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/unwind/frames.h"
#include "daemon/unwind/rules.h"

#define COLUMNS 24

/* The table of one function, as readelf prints it. */
struct table {
	char column[COLUMNS][16];
	int columns;
};

struct tally {
	uint32_t rows, expressions, signals, bad;
};

static struct table table_of(char *line)
{
	struct table table = { .columns = 0 };

	for (char *word = strtok(line, " \n"); word && table.columns < COLUMNS;
	     word = strtok(NULL, " \n"))
		if (*word != '(') /* the other name of a register */
			snprintf(table.column[table.columns++], sizeof(table.column[0]), "%s",
				 word);
	return table;
}

static const char *cell(const struct table *head, const struct table *row, const char *column)
{
	for (int i = 0; i < head->columns && i < row->columns; i++)
		if (!strcmp(head->column[i], column))
			return row->column[i];
	return "u";
}

/* What a row of readelf's comes to. RULE_KINDS: an expression, which it does not print. */
static struct rule rule_of(const struct table *head, const struct table *row)
{
	const char *cfa = cell(head, row, "CFA"), *rbp = cell(head, row, "rbp");
	struct rule rule = { .kind = RULE_BAD };
	char reg[8];
	long offset;

	if (!strcmp(cell(head, row, "ra"), "u"))
		return (struct rule){ .kind = RULE_END };
	if (!strcmp(cfa, "exp") || !strcmp(rbp, "exp"))
		return (struct rule){ .kind = RULE_KINDS };
	if (sscanf(cfa, "%7[a-z0-9]%ld", reg, &offset) != 2)
		fail_msg("readelf: %s", cfa);
	if (!strcmp(cell(head, row, "ra"), "c-8") && (!strcmp(reg, "rsp") || !strcmp(reg, "rbp"))) {
		rule.kind = reg[1] == 's' ? RULE_RSP : RULE_RBP;
		rule.cfa = (int32_t)(offset / 8);
		if (sscanf(rbp, "c%ld", &offset) == 1) {
			rule.rbp_kind = RULE_RBP_AT_CFA;
			rule.rbp = (int16_t)(offset / 8);
		}
	}
	return rule;
}

static void assert_rule(const char *path, uint64_t address, struct rule got, struct rule wanted)
{
	if (memcmp(&got, &wanted, sizeof(got)) != 0)
		fail_msg("%s: %#" PRIx64 ": kind %d cfa %d rbp %d at %d, not %d %d %d %d", path,
			 address, got.kind, got.cfa, got.rbp_kind, got.rbp, wanted.kind, wanted.cfa,
			 wanted.rbp_kind, wanted.rbp);
}

/* One row, at its first address and at its last. */
static void compare(const char *path, const struct frames *frames, uint64_t from, uint64_t to,
		    struct rule wanted, struct tally *tally)
{
	struct rule rule = frames_rule(frames, from);

	tally->rows++;
	tally->signals += rule.kind == RULE_SIGNAL;
	tally->bad += rule.kind == RULE_BAD;
	if (wanted.kind == RULE_KINDS) {
		tally->expressions++;
		return;
	}
	assert_rule(path, from, rule, wanted);
	if (to > from)
		assert_rule(path, to - 1, frames_rule(frames, to - 1), wanted);
}

/* Every `stride`-th function. */
static struct tally compare_file(const char *path, const struct frames *frames, uint32_t stride)
{
	char command[PATH_MAX + 64], line[1024];
	struct table head = { .columns = 0 }, row;
	uint64_t start, end = 0, from = 0, at;
	struct rule wanted = { 0 };
	struct tally tally = { 0 };
	uint32_t functions = 0;
	bool open = false;
	FILE *readelf;

	snprintf(command, sizeof(command), "readelf --debug-dump=frames-interp '%s' 2>/dev/null",
		 path);
	readelf = popen(command, "r");
	assert_non_null(readelf);
	while (fgets(line, sizeof(line), readelf)) {
		const char *pc = strstr(line, "FDE ") ? strstr(line, " pc=") : NULL;
		bool is_row = strlen(line) > 17 && line[16] == ' ' &&
			      sscanf(line, "%16" SCNx64 " ", &at) == 1 && end;

		if (open && (pc || strlen(line) < 2 || is_row))
			compare(path, frames, from, is_row ? at : end, wanted, &tally);
		open = false;
		if (pc) {
			sscanf(pc, " pc=%" SCNx64 "..%" SCNx64, &start, &end);
			if (functions++ % stride)
				end = 0;
		} else if (strstr(line, "   LOC ")) {
			head = table_of(line);
		} else if (is_row) {
			row = table_of(line);
			wanted = rule_of(&head, &row);
			from = at;
			open = true;
		} else if (strstr(line, " CIE ")) {
			end = 0;
		}
	}
	pclose(readelf); /* which fails where a separate debug file is missing */
	return tally;
}

static bool path_of(const char *name, char *ret)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	char line[PATH_MAX + 128];
	FILE *maps;

	*ret = '\0';
	maps = handle ? fopen("/proc/self/maps", "r") : NULL;
	if (!maps)
		return false;
	while (!*ret && fgets(line, sizeof(line), maps))
		if (strchr(line, '/') && strstr(strrchr(line, '/'), name))
			sscanf(strchr(line, '/'), "%[^\n]", ret);
	fclose(maps);
	return *ret;
}

static void rules_are_what_readelf_prints(void **state)
{
	static const char *const names[] = { "libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6",
					     "libpython3.11.so.1.0", "libm.so.6" };
	struct tally sum = { 0 };

	if (system("readelf --version >/dev/null 2>&1") != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(closep) int fd = -1;
		char path[PATH_MAX];
		struct frames frames;
		struct tally tally;

		if (!path_of(names[i], path))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(frames_open(&frames, fd), 0);
		assert_int_not_equal(frames.entries, 0);
		tally = compare_file(path, &frames, 1);
		assert_int_not_equal(tally.rows, 0);
		/* Nearly none cannot be followed. */
		assert_true(tally.bad * 100 <= tally.rows);
		sum.rows += tally.rows;
		sum.expressions += tally.expressions;
		sum.signals += tally.signals;
	}
	assert_true(sum.rows > 20000);
	assert_true(sum.expressions > 0);
	assert_true(sum.signals > 0); /* the C library's return from a signal */
}

/* A static program has no sorted table. */
static void without_a_table_entries_are_searched_through(void **state)
{
	_cleanup_(closep) int fd = open(ATTACH_STATIC, O_RDONLY | O_CLOEXEC);
	struct frames frames;

	assert_int_equal(frames_open(&frames, fd), 0);
	frames.entries = 0;
	assert_int_not_equal(frames.frames_size, 0);
	assert_true(compare_file(ATTACH_STATIC, &frames, 50).rows > 50);
	assert_int_equal(frames_rule(&frames, 1).kind, RULE_NONE);
}

/* A file of one page of code at 0x1000 and entries at 0x2000, without a table. */
#define CODE	 0x1000
#define ENTRIES	 0x2000
#define SECTIONS 0x3000
#define NAMES	 0x3800

struct made {
	uint8_t bytes[SECTIONS - ENTRIES];
	size_t size;
	size_t common; /* where the last common entry is */
};

static void put(struct made *made, uint64_t number, size_t size)
{
	memcpy(made->bytes + made->size, &number, size);
	made->size += size;
}

static void put_bytes(struct made *made, const void *bytes, size_t size)
{
	if (size)
		memcpy(made->bytes + made->size, bytes, size);
	made->size += size;
}

/* Common: CFA is RSP + 8, the return address right below it. */
static void put_common(struct made *made, const char *augmentation, size_t augmentation_size)
{
	static const uint8_t align_and_register[] = { 1, 0x78, 16 };
	static const uint8_t instructions[] = { 0x0c, 7, 8, 0x80 | 16, 1 };

	made->common = made->size;
	put(made, 4 + 1 + augmentation_size + 3 + 2 + sizeof(instructions), 4);
	put(made, 0, 4);
	put(made, 1, 1);
	put_bytes(made, augmentation, augmentation_size);
	put_bytes(made, align_and_register, 3);
	put(made, 1, 1);
	put(made, 0x03, 1); /* addresses are absolute, of 4 bytes */
	put_bytes(made, instructions, sizeof(instructions));
}

static void put_function(struct made *made, uint32_t start, uint32_t size,
			 const uint8_t *instructions, size_t count)
{
	put(made, 4 + 8 + 1 + count, 4);
	put(made, made->size - made->common, 4);
	put(made, start, 4);
	put(made, size, 4);
	put(made, 0, 1);
	put_bytes(made, instructions, count);
}

static int write_made(const struct made *made)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	const Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
				  .e_machine = EM_X86_64,
				  .e_phoff = sizeof(head),
				  .e_phnum = 1,
				  .e_phentsize = sizeof(Elf64_Phdr),
				  .e_shoff = SECTIONS,
				  .e_shentsize = sizeof(Elf64_Shdr),
				  .e_shnum = 3,
				  .e_shstrndx = 2 };
	const Elf64_Phdr segment = { .p_type = PT_LOAD,
				     .p_flags = PF_X | PF_R,
				     .p_filesz = SECTIONS };
	const Elf64_Shdr section[3] = {
		{ 0 },
		{ .sh_name = 1,
		  .sh_type = SHT_PROGBITS,
		  .sh_offset = ENTRIES,
		  .sh_size = made->size },
		{ .sh_name = 11,
		  .sh_type = SHT_STRTAB,
		  .sh_offset = NAMES,
		  .sh_size = sizeof(names) },
	};
	int fd = memfd_create("made", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(pwrite(fd, &segment, sizeof(segment), sizeof(head)), sizeof(segment));
	assert_int_equal(pwrite(fd, made->bytes, made->size, ENTRIES), made->size);
	assert_int_equal(pwrite(fd, section, sizeof(section), SECTIONS), sizeof(section));
	assert_int_equal(pwrite(fd, names, sizeof(names), NAMES), sizeof(names));
	return fd;
}

static struct rule made_rule(const struct made *made, uint64_t address)
{
	_cleanup_(closep) int fd = write_made(made);
	struct frames frames;

	assert_int_equal(frames_open(&frames, fd), 0);
	return frames_rule(&frames, address);
}

static struct rule one_function(const char *augmentation, const uint8_t *instructions, size_t count,
				uint64_t address)
{
	struct made made = { .size = 0 };

	put_common(&made, augmentation, strlen(augmentation) + 1);
	put_function(&made, CODE, 0x100, instructions, count);
	return made_rule(&made, address);
}

static void expressions_of_compilers_and_linkers_are_understood(void **state)
{
	static const uint8_t plt[] = { 0x0f, 11,   0x77, 8,    0x80, 0,	  0x3f,
				       0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	static const uint8_t realigned[] = { 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0 };
	static const uint8_t signal[] = { 0x0f, 4,    0x77, 0xa0, 0x01, 0x06, 0x10, 16,
					  3,	0x77, 0xa8, 0x01, 0x10, 6,    3,    0x77,
					  0xf8, 0x00, 0x10, 7,	  3,	0x77, 0xa0, 0x01 };
	static const uint8_t by_r10[] = { 0x0c, 10, 0 };
	static const uint8_t end[] = { 0x07, 16 };
	struct rule wanted = { .kind = RULE_RSP, .cfa = 1 };

	/* Before and after a stub of the linkage table has pushed its number. */
	assert_rule("plt", CODE, one_function("zR", plt, sizeof(plt), CODE + 16 + 10), wanted);
	wanted.cfa = 2;
	assert_rule("plt", CODE, one_function("zR", plt, sizeof(plt), CODE + 16 + 11), wanted);
	wanted = (struct rule){ .kind = RULE_AT_RBP, .cfa = -1, .rbp_kind = RULE_RBP_AT_RBP };
	assert_rule("realigned", CODE, one_function("zR", realigned, sizeof(realigned), CODE),
		    wanted);
	assert_int_equal(one_function("zR", by_r10, 3, CODE).kind, RULE_BAD);
	assert_int_equal(one_function("zR", end, 2, CODE).kind, RULE_END);
	assert_int_equal(one_function("zRS", signal, sizeof(signal), CODE).kind, RULE_SIGNAL);
	/* Only where the registers are as the kernel saves them, and the entry says what it is. */
	assert_int_equal(one_function("zR", signal, sizeof(signal), CODE).kind, RULE_BAD);
	assert_int_equal(one_function("zRS", signal, 6, CODE).kind, RULE_AT_RSP);
}

static void a_state_is_put_aside_and_taken_back(void **state)
{
	static const uint8_t restored[] = { 0x07, 16, 0x41, 0xc0 | 16 };
	static const uint8_t code[] = { 0x0e, 24, 0x86, 3, 0x0a, 0x41, 0x0e, 8, 0xc6, 0x41, 0x0b };
	const struct rule saved = {
		.kind = RULE_RSP, .cfa = 3, .rbp_kind = RULE_RBP_AT_CFA, .rbp = -3
	};
	const struct rule plain = { .kind = RULE_RSP, .cfa = 1 };

	assert_rule("first", CODE, one_function("zR", code, sizeof(code), CODE), saved);
	assert_rule("second", CODE, one_function("zR", code, sizeof(code), CODE + 1), plain);
	assert_rule("third", CODE, one_function("zR", code, sizeof(code), CODE + 2), saved);
	/* And that of the common instructions. */
	assert_int_equal(one_function("zR", restored, sizeof(restored), CODE).kind, RULE_END);
	assert_rule("restored", CODE, one_function("zR", restored, sizeof(restored), CODE + 1),
		    plain);
}

static void damaged_instructions_make_no_rule(void **state)
{
	static const struct {
		uint8_t bytes[12];
		size_t count;
	} rows[] = {
		{ { 0x0b }, 1 },	     /* nothing was put aside */
		{ { 0x01, 0, 0, 0, 0 }, 5 }, /* an unknown instruction */
		{ { 0x3f }, 1 },
		{ { 0x0c, 0x80, 0x80, 0x80 }, 4 },    /* a number without an end */
		{ { 0x0f, 100, 0x77, 8 }, 4 },	      /* a block longer than the entry */
		{ { 0x0f, 3, 0x2f, 0xfd, 0xff }, 5 }, /* an expression that jumps back */
		{ { 0x0f, 2, 0x22, 0x06 }, 4 },	      /* one that takes what is not there */
		{ { 0x0e, 12 }, 2 },		      /* half a word */
		{ { 0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f }, 6 }, /* a frame of 32 GiB */
		{ { 0x90, 2 }, 2 },			       /* the return address is elsewhere */
	};
	uint8_t many[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(one_function("zR", rows[i].bytes, rows[i].count, CODE).kind,
				 RULE_BAD);
	memset(many, 0x0a, sizeof(many));
	assert_int_equal(one_function("zR", many, sizeof(many), CODE).kind, RULE_BAD);
}

static void an_entry_counts_only_where_it_contains_the_address(void **state)
{
	static const uint8_t second[] = { 0x0e, 32 };
	struct made made = { .size = 0 };

	put_common(&made, "zR", 3);
	put_function(&made, CODE, 0x10, NULL, 0);
	put_function(&made, CODE + 8, 0x10, second, sizeof(second)); /* overlaps: the first wins */
	assert_int_equal(made_rule(&made, CODE + 0xf).cfa, 1);
	assert_int_equal(made_rule(&made, CODE + 0x10).cfa, 4);
	assert_int_equal(made_rule(&made, CODE - 1).kind, RULE_NONE);
	assert_int_equal(made_rule(&made, CODE + 0x18).kind, RULE_NONE);
}

static void damaged_entries_end_the_search(void **state)
{
	struct made made = { .size = 0 };

	put(&made, 0xffffffff, 4); /* 64-bit lengths, which nobody writes */
	assert_int_equal(made_rule(&made, CODE).kind, RULE_NONE);
	made.size = 0;
	put(&made, 1000, 4); /* longer than the section */
	put(&made, 0, 4);
	assert_int_equal(made_rule(&made, CODE).kind, RULE_NONE);
	made.size = 0;
	put_common(&made, "zR", 3);
	put_function(&made, CODE, 0x10, NULL, 0);
	memset(made.bytes + made.common + 9, 'R', 6); /* an augmentation that does not end */
	assert_int_equal(made_rule(&made, CODE).kind, RULE_NONE);
	made.size = 0;
	put_common(&made, "zR", 3);
	made.common = made.size; /* a function that is its own common entry */
	put_function(&made, CODE, 0x10, NULL, 0);
	assert_int_equal(made_rule(&made, CODE).kind, RULE_NONE);
}

static void a_rule_survives_being_packed(void **state)
{
	static const struct rule rows[] = {
		{ RULE_RSP, RULE_RBP_AT_CFA, -2, 3 },
		{ RULE_LINK, RULE_RBP_LOST, INT16_MIN, -RULE_CFA_MAX },
		{ RULE_AT_RBP, RULE_RBP_AT_RBP, INT16_MAX, RULE_CFA_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t packed = rule_pack(rows[i], 0xbeef);

		assert_rule("packed", 0, rule_unpack(packed), rows[i]);
		assert_int_equal(rule_check(packed), 0xbeef);
	}
}

/* Two rules share a set, a third one replaces one of them, and none is taken for another's. */
static void rules_are_filed_in_sets_of_two(void **state)
{
	enum { SETS = 16, RULES = 1000 };
	struct rules rules = { .slot = calloc(RULE_SLOTS, sizeof(struct rule_slot)),
			       .mask = SETS * 2 - 1 };
	uint32_t found = 0;
	struct rule got;

	assert_non_null(rules.slot);
	for (int32_t i = 0; i < RULES; i++) {
		uint64_t key = rule_key(1, CODE + (uint64_t)i, 1);

		assert_false(rules_get(&rules, key, &got));
		for (int times = 0; times < 2; times++)
			rules_put(&rules, key, (struct rule){ .kind = RULE_RSP, .cfa = i });
		assert_true(rules_get(&rules, key, &got));
		assert_int_equal(got.cfa, i);
	}
	for (int32_t i = 0; i < RULES; i++)
		if (rules_get(&rules, rule_key(1, CODE + (uint64_t)i, 1), &got)) {
			assert_int_equal(got.cfa, i);
			found++;
		}
	assert_int_equal(found, SETS * 2);
	assert_int_equal(rules.filed, RULES);
	assert_int_equal(rules.replaced, RULES - SETS * 2);
	/* Of another process, and of an interrupted address. */
	assert_false(rules_get(&rules, rule_key(2, CODE + RULES - 1, 1), &got));
	assert_false(rules_get(&rules, rule_key(1, CODE + RULES - 1, 0), &got));
	free(rules.slot);
}

/* What a process had filed before its mappings changed is never found again. */
static void each_epoch_has_keys_of_its_own(void **state)
{
	enum { EPOCHS = 64 };

	for (uint32_t a = 0; a < EPOCHS; a++)
		for (uint32_t b = a + 1; b < EPOCHS; b++)
			assert_int_not_equal(rule_seed(1, UINT64_MAX, a),
					     rule_seed(1, UINT64_MAX, b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_what_readelf_prints),
		cmocka_unit_test(without_a_table_entries_are_searched_through),
		cmocka_unit_test(expressions_of_compilers_and_linkers_are_understood),
		cmocka_unit_test(a_state_is_put_aside_and_taken_back),
		cmocka_unit_test(damaged_instructions_make_no_rule),
		cmocka_unit_test(an_entry_counts_only_where_it_contains_the_address),
		cmocka_unit_test(damaged_entries_end_the_search),
		cmocka_unit_test(a_rule_survives_being_packed),
		cmocka_unit_test(rules_are_filed_in_sets_of_two),
		cmocka_unit_test(each_epoch_has_keys_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
