/* hash.h: finds a dynamic symbol by its name. */
#ifndef TS_ELF_HASH_H
#define TS_ELF_HASH_H

#include "daemon/elf/elf.h"

/* A defined one, by the table of hashes: a few short reads, however large the file. -ENOENT: there
 * is none, or no such table (.gnu.hash). */
int elf_hashed_symbol(const struct elf *elf, const char *name, Elf64_Sym *ret);

#endif
