/* elf.h: reads an untrusted ELF file: whatever it contains, and even if it changes meanwhile. */
#ifndef TS_ELF_H
#define TS_ELF_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/limits.h"

/* The header's numbers are those of `segment` and `section`; nothing else in it or in them is
 * checked. */
struct elf {
	int fd; /* the caller's */
	Elf64_Ehdr header;
	Elf64_Phdr segment[LIMIT_ELF_SEGMENTS];
	Elf64_Shdr *section; /* NULL: there are none, or they cannot be read */
};

/* -EBADMSG: not a 64-bit ELF file, or a damaged one; of an ELF file, ret->header.e_ident and
 * e_machine are set even then. There is something to close only after success. */
int elf_open(struct elf *ret, int fd);
void elf_close(struct elf *elf);

/* All of `size`, or -EBADMSG. */
int elf_read(const struct elf *elf, uint64_t offset, void *to, size_t size);
/* A whole section in memory of the caller's, with a NUL after it. -EBADMSG: larger than `max` */
int elf_load(const struct elf *elf, const Elf64_Shdr *section, size_t max, void **ret);

/* Between the offset in the file and the address, of code: 0, or -ENOENT. */
int elf_address(const struct elf *elf, uint64_t offset, uint64_t *ret);
int elf_offset(const struct elf *elf, uint64_t address, uint64_t *ret);
/* The same, of what can be written. */
int elf_data_offset(const struct elf *elf, uint64_t address, uint64_t *ret);

/* The first table of Elf64_Sym of a type, whose names are in the section sh_link; or NULL. */
const Elf64_Shdr *elf_symbols(const struct elf *elf, uint32_t type);

#endif
