/* Own: where a function lies in the file of the program that runs, by the loader's word. */
#include "daemon/helper/own.h"

#include <link.h>
#include <stddef.h>

struct place {
	uintptr_t address;
	uint64_t offset; /* 0: not found */
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *place = data;

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && place->address - start < segment->p_filesz)
			place->offset = place->address - start + segment->p_offset;
	}
	return 1; /* the first is the program */
}

uint64_t own_offset(const void *function)
{
	struct place place = { .address = (uintptr_t)function };

	dl_iterate_phdr(find_segment, &place);
	return place.offset;
}
