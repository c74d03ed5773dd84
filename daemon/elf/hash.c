/* Hash: .gnu.hash, as the loader reads it: a filter, then a bucket, then a chain of hashes, whose
 * last has bit 0. Nothing in it is believed: a number that leads out of the file finds nothing. */
#include "daemon/elf/hash.h"

#include <errno.h>
#include <string.h>

#define CHAIN_MAX 4096 /* a table that is made well has one or two in each */
#define NAME_SIZE 256
#define START	  5381
#define WORD_BITS 64

struct table {
	uint32_t buckets, first, filter_words, shift;
};

static uint32_t hash_of(const char *name)
{
	uint32_t hash = START;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static const Elf64_Shdr *find_table(const struct elf *elf)
{
	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];

		if (section->sh_type == SHT_GNU_HASH && section->sh_link < elf->header.e_shnum &&
		    elf->section[section->sh_link].sh_link < elf->header.e_shnum)
			return section;
	}
	return NULL;
}

static int may_have(const struct elf *elf, uint64_t at, const struct table *table, uint32_t hash)
{
	uint64_t word, wanted;
	int r;

	r = elf_read(elf, at + (uint64_t)(hash / WORD_BITS % table->filter_words) * sizeof(word),
		     &word, sizeof(word));
	if (r < 0)
		return r;
	wanted = 1ull << hash % WORD_BITS | 1ull << (hash >> (table->shift & 31)) % WORD_BITS;
	return (word & wanted) == wanted ? 0 : -ENOENT;
}

static int has_name(const struct elf *elf, const Elf64_Shdr *symbols, uint32_t index,
		    const char *name, Elf64_Sym *ret)
{
	const Elf64_Shdr *names = &elf->section[symbols->sh_link];
	size_t size = strlen(name) + 1;
	char text[NAME_SIZE];
	Elf64_Sym symbol;
	int r;

	r = elf_read(elf, symbols->sh_offset + (uint64_t)index * sizeof(symbol), &symbol,
		     sizeof(symbol));
	if (r == 0)
		r = elf_read(elf, names->sh_offset + symbol.st_name, text, size);
	if (r < 0)
		return r;
	if (memcmp(text, name, size) != 0 || symbol.st_shndx == SHN_UNDEF)
		return -ENOENT;
	*ret = symbol;
	return 0;
}

int elf_hashed_symbol(const struct elf *elf, const char *name, Elf64_Sym *ret)
{
	const Elf64_Shdr *section = find_table(elf), *symbols;
	uint32_t hash = hash_of(name), index, other;
	struct table table;
	uint64_t at;
	int r;

	if (!section || strlen(name) >= NAME_SIZE)
		return -ENOENT;
	symbols = &elf->section[section->sh_link];
	r = elf_read(elf, section->sh_offset, &table, sizeof(table));
	if (r < 0)
		return r;
	if (!table.buckets || !table.filter_words)
		return -ENOENT;
	at = section->sh_offset + sizeof(table);
	r = may_have(elf, at, &table, hash);
	if (r < 0)
		return r;
	at += (uint64_t)table.filter_words * sizeof(uint64_t);
	r = elf_read(elf, at + (uint64_t)(hash % table.buckets) * sizeof(index), &index,
		     sizeof(index));
	if (r < 0)
		return r;
	at += (uint64_t)table.buckets * sizeof(index);
	for (int i = 0; i < CHAIN_MAX && index >= table.first; i++, index++) {
		r = elf_read(elf, at + (uint64_t)(index - table.first) * sizeof(other), &other,
			     sizeof(other));
		if (r < 0)
			return r;
		if ((other | 1) == (hash | 1) && has_name(elf, symbols, index, name, ret) == 0)
			return 0;
		if (other & 1)
			break;
	}
	return -ENOENT;
}
