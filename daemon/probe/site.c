/* Site: reads a driver library's dynamic symbols and the first instructions of its functions. The
 * library is untrusted: anybody can map a file of this name. */
#include "daemon/probe/site.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/elf.h"
#include "daemon/limits.h"
#include "daemon/probe/note.h"

#define PROLOGUE_SIZE 16
#define SYMBOL_SIZE   128

/* What a probe goes behind: instructions without effect. The first would be single-stepped. On
 * Linux 6.18 the second becomes a call into a page that the child of a fork does not have: its
 * first call of the function kills it. */
static const struct {
	uint8_t code[5], size;
} passed[] = {
	{ { 0xf3, 0x0f, 0x1e, 0xfa }, 4 },	 /* endbr64 */
	{ { 0x0f, 0x1f, 0x44, 0x00, 0x00 }, 5 }, /* a nop */
};

static size_t skipped(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		if (size > passed[i].size && !memcmp(code, passed[i].code, passed[i].size))
			return passed[i].size;
	return 0;
}

enum site_cost site_cost(const uint8_t *code, size_t size, uint64_t *skip)
{
	size_t n;

	*skip = 0;
	while ((n = skipped(code, size))) {
		*skip += n;
		code += n;
		size -= n;
	}
	if (size < 2)
		return SITE_SINGLE_STEP;
	if (code[0] == 0x90 || (code[0] == 0x0f && code[1] == 0x1f))
		return SITE_NOP;
	if ((code[0] & 0xf8) == 0x50 || (code[0] == 0x41 && (code[1] & 0xf8) == 0x50))
		return SITE_EMULATED; /* push of a register */
	if (code[0] == 0xe8 || code[0] == 0xe9 || code[0] == 0xeb)
		return SITE_EMULATED; /* call and jmp to a fixed address */
	return SITE_SINGLE_STEP;
}

uint8_t site_instruction(const uint8_t *code, size_t size)
{
	const struct {
		uint8_t mask, byte, size;
	} known[] = {
		{ 0xf8, 0x50, 1 }, /* push */
		{ 0xff, 0x41, 2 }, /* the same of r8 to r15, or part of something longer */
		{ 0xfe, 0xe8, 5 }, /* call, jmp */
		{ 0xff, 0xeb, 2 }, /* jmp */
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (size >= known[i].size && (code[0] & known[i].mask) == known[i].byte)
			return known[i].size;
	return 1;
}

/* One name of a function. */
struct alias {
	char name[SYMBOL_SIZE];
	const struct library_function *function;
	uint16_t event_flags;
};

static int alias_compare(const void *a, const void *b)
{
	return strcmp(((const struct alias *)a)->name, ((const struct alias *)b)->name);
}

static size_t alias_add(struct alias *alias, const struct library_function *function,
			const char *name, const char *suffix, uint16_t event_flags)
{
	if (!name || (event_flags && !suffix))
		return 0;
	snprintf(alias->name, sizeof(alias->name), "%s%s", name, suffix ? suffix : "");
	alias->function = function;
	alias->event_flags = event_flags;
	return 1;
}

/* All names of all functions, sorted. */
static struct alias *alias_table(const struct library_row *row, size_t *ret_count)
{
	struct alias *alias = calloc(row->count * (2 + LIBRARY_ALIASES_MAX), sizeof(*alias));
	size_t count = 0;

	if (!alias)
		return NULL;
	for (size_t i = 0; i < row->count; i++) {
		const struct library_function *function = &row->function[i];

		if (function->flags & PROBE_NOTE)
			continue;
		count += alias_add(&alias[count], function, function->model.name, NULL, 0);
		count += alias_add(&alias[count], function, function->model.name,
				   function->per_thread, TS_EVENT_PER_THREAD);
		for (int k = 0; k < LIBRARY_ALIASES_MAX; k++)
			count += alias_add(&alias[count], function, function->alias[k], NULL, 0);
	}
	qsort(alias, count, sizeof(*alias), alias_compare);
	*ret_count = count;
	return alias;
}

static int site_make(const struct elf *elf, const struct alias *alias, uint64_t address,
		     struct site *ret)
{
	uint8_t code[PROLOGUE_SIZE];
	struct site site = { .function = alias->function, .event_flags = alias->event_flags };
	uint64_t skip;
	ssize_t n;
	int r;

	r = elf_offset(elf, address, &site.offset);
	if (r < 0)
		return r;
	n = pread(elf->fd, code, sizeof(code), (off_t)site.offset);
	if (n <= 0)
		return -EBADMSG;
	site.cost = (uint8_t)site_cost(code, (size_t)n, &skip);
	site.offset += skip;
	site.passed = (uint8_t)skip;
	site.size = site_instruction(code + skip, (size_t)n - skip);
	*ret = site;
	return 0;
}

/* The dynamic symbols and their names. */
struct table {
	Elf64_Sym *symbol;
	char *names;
	size_t count, names_size;
};

static void table_release(struct table *table)
{
	free(table->symbol);
	free(table->names);
}

static int table_load(const struct elf *elf, struct table *ret)
{
	const Elf64_Shdr *symbols = elf_symbols(elf, SHT_DYNSYM);
	const Elf64_Shdr *names = symbols ? &elf->section[symbols->sh_link] : NULL;
	int r;

	if (!symbols)
		return -EBADMSG;
	r = elf_load(elf, symbols, LIMIT_LIBRARY_SYMBOLS * sizeof(Elf64_Sym),
		     (void **)&ret->symbol);
	if (r == 0)
		r = elf_load(elf, names, LIMIT_LIBRARY_NAMES, (void **)&ret->names);
	ret->count = symbols->sh_size / sizeof(Elf64_Sym);
	ret->names_size = names->sh_size;
	return r;
}

static int site_compare(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Two names at one address would count a call twice: the first one stays. */
static size_t site_sort(struct site *site, size_t count)
{
	size_t kept = 0;

	qsort(site, count, sizeof(*site), site_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || site[kept - 1].offset != site[i].offset)
			site[kept++] = site[i];
	return kept;
}

/* A probe behind a nop that must be passed would be hit by who jumps there, too. */
static bool site_make_noted(const struct elf *elf, const struct library_function *function,
			    const struct note *note, struct site *ret)
{
	uint8_t code[PROLOGUE_SIZE];
	ssize_t n = pread(elf->fd, code, sizeof(code), (off_t)note->offset);
	uint64_t skip;

	*ret = (struct site){
		.function = function,
		.offset = note->offset,
		.semaphore = note->semaphore,
		.note = note->operands,
	};
	if (n <= 0)
		return false;
	ret->cost = (uint8_t)site_cost(code, (size_t)n, &skip);
	ret->size = 1;
	return skip == 0;
}

static size_t site_collect_notes(const struct elf *elf, const struct library_row *row,
				 struct site *site)
{
	struct note note[PROBE_NOTES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < row->count; i++) {
		const struct library_function *function = &row->function[i];
		size_t found = 0;

		if (function->flags & PROBE_NOTE)
			found = notes_find(elf, function, note, PROBE_NOTES_MAX - count);
		for (size_t k = 0; k < found; k++)
			count += site_make_noted(elf, function, &note[k], &site[count]);
	}
	return count;
}

static size_t site_collect(const struct elf *elf, const struct table *table,
			   const struct alias *alias, size_t alias_count, struct site *site)
{
	size_t count = 0;

	/* A versioned symbol can occur several times: at most one site per name. */
	for (size_t i = 0; i < table->count && count < alias_count; i++) {
		const Elf64_Sym *symbol = &table->symbol[i];
		struct alias key, *found;
		const char *name;

		if (!symbol->st_value || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
		    symbol->st_name >= table->names_size)
			continue;
		name = table->names + symbol->st_name;
		if (strlen(name) >= sizeof(key.name))
			continue;
		strcpy(key.name, name);
		found = bsearch(&key, alias, alias_count, sizeof(*alias), alias_compare);
		if (found && !site_make(elf, found, symbol->st_value, &site[count]))
			count++;
	}
	return count;
}

int site_find(int fd, const struct library_row *row, struct site **ret, size_t *ret_count)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	_cleanup_(table_release) struct table table = { 0 };
	_cleanup_(freep) struct alias *alias = NULL;
	_cleanup_(freep) struct site *site = NULL;
	size_t alias_count = 0, count;
	int r;

	if (elf_open(&elf, fd) < 0)
		return -EBADMSG;
	r = table_load(&elf, &table);
	if (r < 0)
		return r == -ENOMEM ? r : -EBADMSG;
	alias = alias_table(row, &alias_count);
	site = calloc(alias_count + PROBE_NOTES_MAX, sizeof(*site));
	if (!alias || !site)
		return -ENOMEM;
	count = site_collect(&elf, &table, alias, alias_count, site);
	count += site_collect_notes(&elf, row, site + count);
	count = site_sort(site, count);
	*ret = TAKE(site);
	*ret_count = count;
	return 0;
}
