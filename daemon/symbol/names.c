/* names: the functions behind offsets of an ELF file. The file is untrusted: a symbol table is read
 * piece by piece, and the work on it is bounded too. */
#include "daemon/symbol/names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "daemon/elf/build_id.h"
#include "daemon/elf/elf.h"
#include "daemon/limits.h"

#define SYMBOLS_PER_READ 4096
/* Symbols may overlap; the total number of comparisons of an address with a symbol around it. */
#define COMPARISONS_MAX (4 * LIMIT_ELF_SYMBOLS)

/* A symbol with a size beats one without, which may only be the nearest one before; a global name
 * beats its local and weak aliases. 0: not a function. */
static uint32_t symbol_rank(const Elf64_Sym *symbol)
{
	static const uint8_t binding_rank[] = { [STB_LOCAL] = 1, [STB_GLOBAL] = 3, [STB_WEAK] = 2 };
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);
	unsigned int binding = ELF64_ST_BIND(symbol->st_info);

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF)
		return 0;
	return (symbol->st_size > 0 ? 4 : 0) +
	       (binding < sizeof(binding_rank) ? binding_rank[binding] : 1);
}

static uint64_t symbol_end(const struct elf *elf, const Elf64_Sym *symbol)
{
	const Elf64_Shdr *section;

	if (symbol->st_size > 0)
		return symbol->st_value + symbol->st_size;
	if (symbol->st_shndx >= elf->header.e_shnum)
		return symbol->st_value + 1;
	section = &elf->section[symbol->st_shndx];
	return section->sh_addr + section->sh_size;
}

static bool is_better(const struct names_query *query, const Elf64_Sym *symbol, uint32_t rank)
{
	bool sized = rank > 4, was_sized = query->rank > 4;

	if (query->rank == 0 || sized != was_sized)
		return query->rank == 0 || sized;
	if (symbol->st_value != query->value)
		return symbol->st_value > query->value;
	return rank > query->rank;
}

static size_t search(const struct names_query *query, size_t count, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (query[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void match(const struct elf *elf, const Elf64_Sym *symbol, struct names_query *query,
		  size_t count, uint64_t *budget)
{
	uint32_t rank = symbol_rank(symbol);
	uint64_t end;
	size_t i;

	if (rank == 0 || symbol->st_value > query[count - 1].address)
		return;
	end = symbol_end(elf, symbol);
	if (end <= query[0].address)
		return;
	for (i = search(query, count, symbol->st_value);
	     i < count && query[i].address<end && * budget> 0; i++, (*budget)--) {
		if (query[i].name || !is_better(&query[i], symbol, rank))
			continue;
		query[i].rank = rank;
		query[i].value = symbol->st_value;
		query[i].name_at = symbol->st_name;
	}
}

static void read_name(const struct elf *elf, const Elf64_Shdr *strings, struct names_query *query)
{
	char name[LIMIT_SYMBOL_NAME];
	uint64_t size = sizeof(name) - 1;

	if (query->rank == 0 || query->name_at >= strings->sh_size)
		return;
	if (size > strings->sh_size - query->name_at)
		size = strings->sh_size - query->name_at;
	if (strings->sh_offset > INT64_MAX ||
	    elf_read(elf, strings->sh_offset + query->name_at, name, size) < 0)
		return;
	name[size] = '\0';
	if (name[0])
		query->name = strdup(name);
}

static int scan(const struct elf *elf, const Elf64_Shdr *table, struct names_query *query,
		size_t count)
{
	uint64_t left = table->sh_size / sizeof(Elf64_Sym), at = table->sh_offset;
	uint64_t budget = COMPARISONS_MAX;
	_cleanup_(freep) Elf64_Sym *symbol = NULL;
	size_t i, n;
	int r;

	symbol = malloc(SYMBOLS_PER_READ * sizeof(*symbol));
	if (!symbol)
		return -ENOMEM;
	if (left > LIMIT_ELF_SYMBOLS)
		left = LIMIT_ELF_SYMBOLS;
	for (; left > 0 && budget > 0; left -= n, at += n * sizeof(*symbol)) {
		n = left < SYMBOLS_PER_READ ? left : SYMBOLS_PER_READ;
		r = elf_read(elf, at, symbol, n * sizeof(*symbol));
		if (r < 0)
			return r;
		for (i = 0; i < n; i++)
			match(elf, &symbol[i], query, count, &budget);
	}
	return 0;
}

/* Returns whether the file has such a table. */
static bool find_in(const struct elf *elf, uint32_t type, struct names_query *query, size_t count)
{
	const Elf64_Shdr *table = elf_symbols(elf, type);
	size_t i;

	if (!table)
		return false;
	for (i = 0; i < count; i++)
		query[i].rank = 0;
	if (scan(elf, table, query, count) < 0)
		return true;
	for (i = 0; i < count; i++)
		if (!query[i].name)
			read_name(elf, &elf->section[table->sh_link], &query[i]);
	return true;
}

static int debug_open(const struct elf *elf, const char *directory)
{
	char path[PATH_MAX], hex[2 * ELF_BUILD_ID_MAX + 1] = "";
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t size = elf_build_id(elf, id), i;
	int fd;

	if (size < 2)
		return -ENOENT;
	for (i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", directory, hex, hex + 2);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static void find_in_debug(const struct elf *elf, const char *directory, struct names_query *query,
			  size_t count)
{
	_cleanup_(elf_close) struct elf debug = { .section = NULL };
	_cleanup_(closep) int fd = debug_open(elf, directory);

	if (fd >= 0 && elf_open(&debug, fd) == 0)
		find_in(&debug, SHT_SYMTAB, query, count);
}

static bool any_without_name(const struct names_query *query, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!query[i].name)
			return true;
	return false;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct names_query *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

int names_find(int fd, const char *debug_directory, struct names_query *query, size_t count)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	size_t i;
	int r;

	if (count == 0)
		return 0;
	r = elf_open(&elf, fd);
	if (r < 0)
		return r;
	for (i = 0; i < count; i++)
		if (elf_address(&elf, query[i].offset, &query[i].address) < 0)
			query[i].address = UINT64_MAX; /* no symbol reaches so far */
	qsort(query, count, sizeof(*query), compare_addresses);
	if (!find_in(&elf, SHT_SYMTAB, query, count) && debug_directory)
		find_in_debug(&elf, debug_directory, query, count);
	if (any_without_name(query, count))
		find_in(&elf, SHT_DYNSYM, query, count);
	return 0;
}
