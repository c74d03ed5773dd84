/* Build_id: of the first note of this type in a segment; in a section if there are no segments, as
 * in a file of debug information that others share. */
#include "daemon/elf/build_id.h"

#include <string.h>

#define NOTES_MAX 4096

static size_t note_build_id(const uint8_t *note, size_t size, uint8_t ret[ELF_BUILD_ID_MAX])
{
	size_t name, descriptor;
	Elf64_Nhdr header;

	while (size >= sizeof(header)) {
		memcpy(&header, note, sizeof(header));
		name = ((size_t)header.n_namesz + 3) / 4 * 4;
		descriptor = ((size_t)header.n_descsz + 3) / 4 * 4;
		if (name > size || descriptor > size || sizeof(header) + name + descriptor > size)
			return 0;
		note += sizeof(header);
		if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
		    memcmp(note, "GNU", 4) == 0 && header.n_descsz <= ELF_BUILD_ID_MAX) {
			memcpy(ret, note + name, header.n_descsz);
			return header.n_descsz;
		}
		note += name + descriptor;
		size -= sizeof(header) + name + descriptor;
	}
	return 0;
}

static size_t read_notes(const struct elf *elf, uint64_t offset, uint64_t size,
			 uint8_t ret[ELF_BUILD_ID_MAX])
{
	uint8_t note[NOTES_MAX];

	return size <= sizeof(note) && elf_read(elf, offset, note, size) == 0
		       ? note_build_id(note, size, ret)
		       : 0;
}

size_t elf_build_id(const struct elf *elf, uint8_t ret[ELF_BUILD_ID_MAX])
{
	unsigned int sections = elf->header.e_phnum ? 0 : elf->header.e_shnum;
	size_t size = 0;

	for (unsigned int i = 0; i < elf->header.e_phnum && size == 0; i++)
		if (elf->segment[i].p_type == PT_NOTE)
			size = read_notes(elf, elf->segment[i].p_offset, elf->segment[i].p_filesz,
					  ret);
	for (unsigned int i = 0; i < sections && size == 0; i++)
		if (elf->section[i].sh_type == SHT_NOTE)
			size = read_notes(elf, elf->section[i].sh_offset, elf->section[i].sh_size,
					  ret);
	return size;
}
