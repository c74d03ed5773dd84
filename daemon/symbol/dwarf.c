/* Dwarf: by elfutils' libdw. A function that was compiled into another one has in its entry where
 * it was called; so the line of an address is that of the innermost, and each one's call is the
 * line of the next. */
#include "daemon/symbol/dwarf.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/demangle.h"

struct dwarf {
	Elf *elf, *common_elf;
	Dwarf *data, *common;
};

struct dwarf *dwarf_free(struct dwarf *dwarf)
{
	if (!dwarf)
		return NULL;
	dwarf_end(dwarf->data);
	dwarf_end(dwarf->common);
	elf_end(dwarf->elf);
	elf_end(dwarf->common_elf);
	free(dwarf);
	return NULL;
}

static Dwarf *read_file(int fd, Elf **ret_elf)
{
	*ret_elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	return *ret_elf ? dwarf_begin_elf(*ret_elf, DWARF_C_READ, NULL) : NULL;
}

int dwarf_open(int fd, int common_fd, struct dwarf **ret)
{
	struct dwarf *dwarf = calloc(1, sizeof(*dwarf));

	if (!dwarf)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	dwarf->data = read_file(fd, &dwarf->elf);
	if (!dwarf->data) {
		dwarf_free(dwarf);
		return -ENOENT;
	}
	if (common_fd >= 0)
		dwarf->common = read_file(common_fd, &dwarf->common_elf);
	if (dwarf->common)
		dwarf_setalt(dwarf->data, dwarf->common);
	*ret = dwarf;
	return 0;
}

/* By the table of addresses, which not every compiler writes. */
static bool find_unit(struct dwarf *dwarf, uint64_t address, Dwarf_Die *ret)
{
	Dwarf_CU *unit = NULL;

	if (dwarf_addrdie(dwarf->data, address, ret))
		return true;
	while (dwarf_get_units(dwarf->data, unit, &unit, NULL, NULL, ret, NULL) == 0)
		if (dwarf_haspc(ret, address) > 0)
			return true;
	return false;
}

static void set_text(char text[LIMIT_SYMBOL_NAME], const char *from)
{
	snprintf(text, LIMIT_SYMBOL_NAME, "%s", from ? from : "");
}

/* Without "." and "..", as they are written: the directories may not be here. */
static void tidy(char *path)
{
	char *to = path, *from = path;

	while (*path == '/' && *from) {
		size_t size;

		from += strspn(from, "/");
		size = strcspn(from, "/");
		if (size == 2 && strncmp(from, "..", 2) == 0) {
			while (to > path && *--to != '/')
				;
		} else if (size > 1 || (size == 1 && *from != '.')) {
			*to++ = '/';
			memmove(to, from, size);
			to += size;
		}
		from += size;
	}
	if (*path == '/')
		*to = '\0';
}

/* Relative to where it was compiled. */
static void set_file(struct dwarf_place *place, Dwarf_Die *unit, const char *file)
{
	const char *directory = NULL;
	Dwarf_Attribute attribute;

	if (file && *file != '/' && dwarf_attr(unit, DW_AT_comp_dir, &attribute))
		directory = dwarf_formstring(&attribute);
	if (directory)
		snprintf(place->file, sizeof(place->file), "%s/%s", directory, file);
	else
		set_text(place->file, file);
	tidy(place->file);
}

static void set_function(struct dwarf_place *place, Dwarf_Die *function)
{
	_cleanup_(freep) char *name = NULL;
	const char *symbol = NULL;
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute))
		symbol = dwarf_formstring(&attribute);
	name = symbol ? demangle(symbol) : NULL;
	set_text(place->function, name ? name : dwarf_diename(function));
}

static uint32_t number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0
		       ? (uint32_t)value
		       : 0;
}

/* Where the function of this entry was called from: in the next one. */
static void set_call(struct dwarf_place *place, Dwarf_Die *unit, Dwarf_Die *functions,
		     Dwarf_Die *inlined)
{
	Dwarf_Files *files;
	size_t count;

	place->line = number_of(inlined, DW_AT_call_line);
	if (dwarf_getsrcfiles(functions, &files, &count) == 0)
		set_file(place, unit,
			 dwarf_filesrc(files, number_of(inlined, DW_AT_call_file), NULL, NULL));
}

static void set_line(struct dwarf_place *place, Dwarf_Die *unit, uint64_t address)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int number = 0;

	memset(place, 0, sizeof(*place));
	if (!line || dwarf_lineno(line, &number) < 0 || number <= 0)
		return;
	set_file(place, unit, dwarf_linesrc(line, NULL, NULL));
	place->line = (uint32_t)number;
}

/* Where a unit's functions are described: in itself, or in a file of its own (-gsplit-dwarf), which
 * libdw opens. False: that is not there, so it cannot be told whose line it is: a function may have
 * been compiled into this one. */
static bool find_functions(Dwarf_Die *unit, Dwarf_Die *ret)
{
	uint8_t type = DW_UT_compile;
	Dwarf_Die split = { .cu = NULL };

	*ret = *unit;
	if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) != 0 ||
	    type != DW_UT_skeleton || dwarf_haschildren(unit) > 0)
		return true;
	*ret = split;
	return split.cu;
}

/* What contains the address, from the innermost out: dwarf_getscopes() itself goes on, behind an
 * inlined function, with where that was declared. */
static int find_scopes(Dwarf_Die *unit, uint64_t address, Dwarf_Die **ret)
{
	_cleanup_(freep) Dwarf_Die *scope = NULL;

	return dwarf_getscopes(unit, address, &scope) > 0 ? dwarf_getscopes_die(&scope[0], ret) : 0;
}

uint32_t dwarf_find(struct dwarf *dwarf, uint64_t address, struct dwarf_place *place)
{
	_cleanup_(freep) Dwarf_Die *scope = NULL;
	Dwarf_Die unit, functions;
	uint32_t count = 0;
	int scopes;

	if (!find_unit(dwarf, address, &unit) || !find_functions(&unit, &functions))
		return 0;
	set_line(&place[0], &unit, address);
	scopes = find_scopes(&functions, address, &scope);
	for (int i = 0; i < scopes; i++) {
		int tag = dwarf_tag(&scope[i]);

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		set_function(&place[count], &scope[i]);
		if (tag == DW_TAG_subprogram)
			return count + 1;
		/* Of too many, the outermost is kept. */
		if (count + 1 < DWARF_DEPTH_MAX)
			count++;
		memset(&place[count], 0, sizeof(*place));
		set_call(&place[count], &unit, &functions, &scope[i]);
	}
	return place[0].line ? count + 1 : 0;
}
