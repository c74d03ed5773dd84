/* Site: reads a driver library's dynamic symbols and the first instructions of its functions. The
 * library is untrusted: everything read from it is checked, nothing is mapped. */
#include "daemon/probe/site.h"

#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"

#define PROLOGUE_SIZE 16
#define SYMBOL_SIZE   128

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static void elf_endp(Elf **elf)
{
	if (*elf)
		elf_end(*elf);
}

enum site_cost site_cost(const uint8_t *code, size_t size, uint64_t *skip)
{
	*skip = 0;
	if (size >= sizeof(endbr64) + 1 && !memcmp(code, endbr64, sizeof(endbr64))) {
		*skip = sizeof(endbr64);
		code += sizeof(endbr64);
		size -= sizeof(endbr64);
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

static int site_file_offset(Elf *elf, uint64_t address, uint64_t *ret)
{
	size_t count;
	GElf_Phdr header;

	if (elf_getphdrnum(elf, &count))
		return -EBADMSG;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header))
			return -EBADMSG;
		if (header.p_type == PT_LOAD && (header.p_flags & PF_X) &&
		    address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz) {
			*ret = address - header.p_vaddr + header.p_offset;
			return 0;
		}
	}
	return -ENOENT;
}

static int site_make(Elf *elf, int fd, const struct alias *alias, uint64_t address,
		     struct site *ret)
{
	uint8_t code[PROLOGUE_SIZE];
	struct site site = { .function = alias->function, .event_flags = alias->event_flags };
	uint64_t skip;
	ssize_t n;
	int r;

	r = site_file_offset(elf, address, &site.offset);
	if (r < 0)
		return r;
	n = pread(fd, code, sizeof(code), (off_t)site.offset);
	if (n <= 0)
		return -EBADMSG;
	site.cost = (uint8_t)site_cost(code, (size_t)n, &skip);
	site.offset += skip;
	*ret = site;
	return 0;
}

/* Anybody can map a file of this name, of any size with any numbers in it: libelf would believe
 * them, and reads whole sections into memory. */
static bool site_is_sane(int fd)
{
	Elf64_Ehdr header;

	return pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	       !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
	       header.e_shnum > 0 && header.e_shentsize == sizeof(Elf64_Shdr);
}

static Elf_Scn *site_dynamic_symbols(Elf *elf, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;
	GElf_Shdr names;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, ret) && ret->sh_type == SHT_DYNSYM)
			break;
	if (!section || ret->sh_entsize != sizeof(Elf64_Sym) ||
	    ret->sh_size > LIMIT_LIBRARY_SYMBOLS * sizeof(Elf64_Sym) ||
	    !gelf_getshdr(elf_getscn(elf, ret->sh_link), &names) ||
	    names.sh_size > LIMIT_LIBRARY_NAMES)
		return NULL;
	return section;
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

static size_t site_collect(Elf *elf, int fd, const GElf_Shdr *header, Elf_Data *symbols,
			   const struct alias *alias, size_t alias_count, struct site *site)
{
	size_t count = 0, total = header->sh_size / header->sh_entsize;

	/* A versioned symbol can occur several times: at most one site per name. */
	for (size_t i = 0; i < total && count < alias_count; i++) {
		struct alias key, *found;
		const char *name;
		GElf_Sym symbol;

		if (!gelf_getsym(symbols, (int)i, &symbol) || !symbol.st_value ||
		    GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (!name || strlen(name) >= sizeof(key.name))
			continue;
		strcpy(key.name, name);
		found = bsearch(&key, alias, alias_count, sizeof(*alias), alias_compare);
		if (found && !site_make(elf, fd, found, symbol.st_value, &site[count]))
			count++;
	}
	return site_sort(site, count);
}

int site_find(int fd, const struct library_row *row, struct site **ret, size_t *ret_count)
{
	_cleanup_(freep) struct alias *alias = NULL;
	_cleanup_(freep) struct site *site = NULL;
	_cleanup_(elf_endp) Elf *elf = NULL;
	size_t alias_count = 0, count;
	Elf_Data *symbols = NULL;
	Elf_Scn *section;
	GElf_Shdr header;

	elf_version(EV_CURRENT);
	if (!site_is_sane(fd))
		return -EBADMSG;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return -EBADMSG;
	section = site_dynamic_symbols(elf, &header);
	if (section)
		symbols = elf_getdata(section, NULL);
	if (!symbols)
		return -EBADMSG;
	alias = alias_table(row, &alias_count);
	site = calloc(alias_count, sizeof(*site));
	if (!alias || !site)
		return -ENOMEM;
	count = site_collect(elf, fd, &header, symbols, alias, alias_count, site);
	*ret = TAKE(site);
	*ret_count = count;
	return 0;
}
