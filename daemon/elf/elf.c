/* elf: reads an ELF file that may be damaged on purpose, and may be truncated during reading: it is
 * never mapped but read in pieces into bounded memory, and none of its numbers is believed. This is
 * why it is not read by elfutils, which maps it, or reads whole sections of any size, and believes
 * some of them. */
#include "daemon/elf/elf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"

int elf_read(const struct elf *elf, uint64_t offset, void *to, size_t size)
{
	uint8_t *at = to;

	if (offset > INT64_MAX - size)
		return -EBADMSG;
	while (size > 0) {
		ssize_t n = pread(elf->fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		at += n;
		offset += (size_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int elf_load(const struct elf *elf, const Elf64_Shdr *section, size_t max, void **ret)
{
	_cleanup_(freep) char *bytes = NULL;
	int r;

	if (section->sh_size > max)
		return -EBADMSG;
	bytes = malloc(section->sh_size + 1);
	if (!bytes)
		return -ENOMEM;
	r = elf_read(elf, section->sh_offset, bytes, section->sh_size);
	if (r < 0)
		return r;
	bytes[section->sh_size] = '\0';
	*ret = TAKE(bytes);
	return 0;
}

static int read_sections(struct elf *elf)
{
	const Elf64_Ehdr *header = &elf->header;
	_cleanup_(freep) Elf64_Shdr *section = NULL;
	size_t size = header->e_shnum * sizeof(*section);
	int r;

	if (header->e_shnum == 0)
		return 0;
	if (header->e_shnum > LIMIT_ELF_SECTIONS || header->e_shentsize != sizeof(*section))
		return -EBADMSG;
	section = malloc(size);
	if (!section)
		return -ENOMEM;
	r = elf_read(elf, header->e_shoff, section, size);
	if (r < 0)
		return r;
	elf->section = TAKE(section);
	return 0;
}

int elf_open(struct elf *ret, int fd)
{
	Elf64_Ehdr *header = &ret->header;
	int r;

	ret->fd = fd;
	ret->section = NULL;
	memset(header, 0, sizeof(*header));
	r = elf_read(ret, 0, header, sizeof(*header));
	if (r < 0) {
		memset(header, 0, sizeof(*header));
		return r;
	}
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return -EBADMSG;
	if (header->e_phnum > LIMIT_ELF_SEGMENTS ||
	    (header->e_phnum > 0 && header->e_phentsize != sizeof(Elf64_Phdr)))
		return -EBADMSG;
	r = elf_read(ret, header->e_phoff, ret->segment, header->e_phnum * sizeof(Elf64_Phdr));
	if (r < 0)
		return r;
	/* Without sections there are no names, but notes may lead to some. */
	if (read_sections(ret) < 0)
		header->e_shnum = 0;
	return 0;
}

void elf_close(struct elf *elf)
{
	free(elf->section);
}

static bool is_code(const Elf64_Phdr *segment)
{
	return segment->p_type == PT_LOAD && (segment->p_flags & PF_X);
}

int elf_address(const struct elf *elf, uint64_t offset, uint64_t *ret)
{
	for (unsigned int i = 0; i < elf->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (is_code(segment) && offset >= segment->p_offset &&
		    offset - segment->p_offset < segment->p_filesz) {
			*ret = segment->p_vaddr + (offset - segment->p_offset);
			return 0;
		}
	}
	return -ENOENT;
}

static int find_offset(const struct elf *elf, uint32_t flag, uint64_t address, uint64_t *ret)
{
	for (unsigned int i = 0; i < elf->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & flag) &&
		    address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz) {
			*ret = segment->p_offset + (address - segment->p_vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_offset(const struct elf *elf, uint64_t address, uint64_t *ret)
{
	return find_offset(elf, PF_X, address, ret);
}

int elf_data_offset(const struct elf *elf, uint64_t address, uint64_t *ret)
{
	return find_offset(elf, PF_W, address, ret);
}

const Elf64_Shdr *elf_symbols(const struct elf *elf, uint32_t type)
{
	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];

		if (section->sh_type == type && !(section->sh_flags & SHF_COMPRESSED) &&
		    section->sh_entsize == sizeof(Elf64_Sym) &&
		    section->sh_link < elf->header.e_shnum)
			return section;
	}
	return NULL;
}
