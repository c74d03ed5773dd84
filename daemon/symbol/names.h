/* names.h: the functions behind offsets of an ELF file. */
#ifndef TS_SYMBOL_NAMES_H
#define TS_SYMBOL_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names_query {
	uint64_t offset; /* in the file */
	char *name;	 /* out: as in the file, owned by the caller, NULL: none found */

	/* The best symbol so far. */
	uint64_t address; /* the offset's, as the file counts */
	uint64_t value;
	uint32_t rank; /* 0: none */
	uint32_t name_at;
};

/* Finds the names of all queries (which it sorts) in one pass over each symbol table: .symtab, or
 * if there is none that of `debug_directory`/.build-id (NULL: skipped), then .dynsym. The file may
 * contain anything, and change during the call. -EBADMSG: not a 64-bit ELF file. */
int names_find(int fd, const char *debug_directory, struct names_query *query, size_t count);

#endif
