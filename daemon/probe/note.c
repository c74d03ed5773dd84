/* Note: finds the places of a name among the notes of a library, which is untrusted: anybody can
 * map a file of its name. */
#include "daemon/probe/note.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"
#include "daemon/probe/operand.h"

#define OWNER	   "stapsdt"
#define TYPE	   3
#define BASE	   ".stapsdt.base"
#define CODE_SIZE  8
#define ADDRESSES  3 /* that its contents begin with */
#define ALIGNED(n) (((size_t)(n) + 3) / 4 * 4)

/* The contents of a note. */
struct described {
	uint64_t place, base, semaphore; /* addresses */
	const char *provider, *name, *operands;
};

struct search {
	const struct elf *elf;
	const struct library_function *function;
	uint64_t base; /* where it is now; 0: not to be found, or as it was linked */
	struct note *note;
	size_t count, max;
};

/* The next text, up to its NUL within `size`. NULL: it has none. */
static const char *take_text(const char **at, size_t *size)
{
	const char *text = *at;
	size_t length = strnlen(text, *size);

	if (length == *size)
		return NULL;
	*at += length + 1;
	*size -= length + 1;
	return text;
}

static bool describe(const char *at, size_t size, struct described *ret)
{
	uint64_t address[ADDRESSES];

	if (size < sizeof(address))
		return false;
	memcpy(address, at, sizeof(address));
	at += sizeof(address);
	size -= sizeof(address);
	ret->place = address[0];
	ret->base = address[1];
	ret->semaphore = address[2];
	ret->provider = take_text(&at, &size);
	ret->name = ret->provider ? take_text(&at, &size) : NULL;
	ret->operands = ret->name ? take_text(&at, &size) : NULL;
	return ret->operands;
}

static bool goes_by(const struct described *note, const char *name)
{
	size_t length = strlen(note->provider);

	return strncmp(name, note->provider, length) == 0 && name[length] == ':' &&
	       strcmp(name + length + 1, note->name) == 0;
}

static bool has_operands(const struct library_function *function, const struct probe_note *note)
{
	for (size_t i = 0; i < PROBE_SLOTS_MAX && function->slot[i].from != PROBE_END; i++) {
		uint8_t arg = function->slot[i].arg;

		if (arg >= PROBE_OPERANDS_MAX || note->operand[arg].from == PROBE_OPERAND_UNKNOWN)
			return false;
	}
	return true;
}

static bool take_note(const struct search *search, const char *at, size_t size, struct note *ret)
{
	struct described note;
	struct note found = { 0 };
	uint64_t moved;

	if (!describe(at, size, &note) || !goes_by(&note, search->function->model.name))
		return false;
	/* Some macros write no base: then nobody knows, and what nobody moves stands as it is. */
	moved = search->base && note.base ? search->base - note.base : 0;
	operands_parse(note.operands, &found.operands);
	if (!has_operands(search->function, &found.operands) ||
	    elf_offset(search->elf, note.place + moved, &found.offset) < 0 ||
	    (note.semaphore &&
	     elf_data_offset(search->elf, note.semaphore + moved, &found.semaphore) < 0))
		return false;
	*ret = found;
	return true;
}

static void search_notes(struct search *search, const char *at, size_t size)
{
	Elf64_Nhdr header;

	while (size >= sizeof(header) && search->count < search->max) {
		size_t name, contents;

		memcpy(&header, at, sizeof(header));
		name = ALIGNED(header.n_namesz);
		contents = ALIGNED(header.n_descsz);
		at += sizeof(header);
		size -= sizeof(header);
		if (name > size || contents > size - name)
			return;
		if (header.n_type == TYPE && header.n_namesz == sizeof(OWNER) &&
		    memcmp(at, OWNER, sizeof(OWNER)) == 0)
			search->count += take_note(search, at + name, header.n_descsz,
						   &search->note[search->count]);
		at += name + contents;
		size -= name + contents;
	}
}

/* Where the linker put a section for this purpose: by how much it is elsewhere now, code is, too.
 */
static uint64_t find_base(const struct elf *elf)
{
	const Elf64_Ehdr *header = &elf->header;
	_cleanup_(freep) void *names = NULL;

	if (header->e_shstrndx >= header->e_shnum ||
	    elf_load(elf, &elf->section[header->e_shstrndx], LIMIT_LIBRARY_NAMES, &names) < 0)
		return 0;
	for (unsigned int i = 0; i < header->e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];

		if (section->sh_name < elf->section[header->e_shstrndx].sh_size &&
		    strcmp((const char *)names + section->sh_name, BASE) == 0)
			return section->sh_addr;
	}
	return 0;
}

size_t notes_find(const struct elf *elf, const struct library_function *function, struct note *ret,
		  size_t max)
{
	struct search search = {
		.elf = elf,
		.function = function,
		.base = find_base(elf),
		.note = ret,
		.max = max,
	};
	size_t left = LIMIT_LIBRARY_NOTES;

	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];
		_cleanup_(freep) void *notes = NULL;

		if (section->sh_type != SHT_NOTE || section->sh_size > left)
			continue;
		/* Read or not: one that ends behind the file was read up to there. */
		left -= section->sh_size;
		if (elf_load(elf, section, section->sh_size, &notes) == 0)
			search_notes(&search, notes, section->sh_size);
	}
	return search.count;
}
