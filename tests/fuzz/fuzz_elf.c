/* fuzz_elf: any ELF file, with any names, as a program's and as a driver library. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/cleanup.h"
#include "core/base/demangle.h"
#include "daemon/library/library.h"
#include "daemon/probe/site.h"
#include "daemon/symbol/names.h"

#define QUERIES 8

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file with one symbol, to begin with. */
static const struct seed {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr section[2];
	Elf64_Sym symbol[2];
	char names[32];
} seed = {
	.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
		    .e_phoff = offsetof(struct seed, segment),
		    .e_phnum = 1,
		    .e_phentsize = sizeof(Elf64_Phdr),
		    .e_shoff = offsetof(struct seed, section),
		    .e_shnum = 2,
		    .e_shentsize = sizeof(Elf64_Shdr) },
	.segment = { .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = sizeof(struct seed) },
	.section = { { .sh_type = SHT_SYMTAB,
		       .sh_offset = offsetof(struct seed, symbol),
		       .sh_size = 2 * sizeof(Elf64_Sym),
		       .sh_entsize = sizeof(Elf64_Sym),
		       .sh_link = 1 },
		     { .sh_type = SHT_STRTAB,
		       .sh_offset = offsetof(struct seed, names),
		       .sh_size = 32 } },
	.symbol = { { 0 },
		    { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		      .st_shndx = 1,
		      .st_name = 1,
		      .st_size = sizeof(struct seed) } },
	.names = "\0_ZN5space5Thing3runEi",
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");
	_cleanup_(closep) int fd = -1;
	char path[PATH_MAX];

	if (!directory)
		return 0;
	snprintf(path, sizeof(path), "%s/seed", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, &seed, sizeof(seed)) != sizeof(seed))
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(closep) int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct names_query query[QUERIES] = { 0 };
	struct site *site;
	size_t i, sites;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return 0;
	for (i = 0; i < QUERIES; i++)
		query[i].offset = i * size / QUERIES;
	names_find(fd, NULL, query, QUERIES);
	for (i = 0; i < QUERIES; i++) {
		if (query[i].name)
			free(demangle(query[i].name));
		free(query[i].name);
	}
	if (site_find(fd, &library_cuda, &site, &sites) == 0)
		free(site);
	return 0;
}
