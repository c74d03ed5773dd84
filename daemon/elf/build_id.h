/* build_id.h: what a linker calls a file, and the file with its debug information. */
#ifndef TS_ELF_BUILD_ID_H
#define TS_ELF_BUILD_ID_H

#include "daemon/elf/elf.h"

#define ELF_BUILD_ID_MAX 64

/* Its size in bytes; 0: it has none. */
size_t elf_build_id(const struct elf *elf, uint8_t ret[ELF_BUILD_ID_MAX]);

#endif
