/* Build_id: of the first note of this type in a segment. */
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

size_t elf_build_id(const struct elf *elf, uint8_t ret[ELF_BUILD_ID_MAX])
{
	uint8_t note[NOTES_MAX];
	size_t size = 0;
	unsigned int i;

	for (i = 0; i < elf->header.e_phnum && size == 0; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (segment->p_type == PT_NOTE && segment->p_filesz <= sizeof(note) &&
		    elf_read(elf, segment->p_offset, note, segment->p_filesz) == 0)
			size = note_build_id(note, segment->p_filesz, ret);
	}
	return size;
}
