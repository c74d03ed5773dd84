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

/* And one with a place of the name that is looked for. */
static const struct noted {
	Elf64_Ehdr header;
	Elf64_Phdr segment[2];
	Elf64_Shdr section[5];
	char names[36]; /* the addresses follow without a gap */
	Elf64_Nhdr note;
	char owner[8];
	uint64_t address[3];
	char text[64];
	uint8_t code[16];
} noted = {
	.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
		    .e_phoff = offsetof(struct noted, segment),
		    .e_phnum = 2,
		    .e_phentsize = sizeof(Elf64_Phdr),
		    .e_shoff = offsetof(struct noted, section),
		    .e_shnum = 5,
		    .e_shentsize = sizeof(Elf64_Shdr),
		    .e_shstrndx = 2 },
	.segment = { { .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = sizeof(struct noted) },
		     { .p_type = PT_LOAD, .p_flags = PF_W, .p_filesz = sizeof(struct noted) } },
	.section = { { 0 },
		     { .sh_type = SHT_DYNSYM, .sh_entsize = sizeof(Elf64_Sym), .sh_link = 2 },
		     { .sh_type = SHT_STRTAB,
		       .sh_offset = offsetof(struct noted, names),
		       .sh_size = 32 },
		     { .sh_type = SHT_NOTE,
		       .sh_offset = offsetof(struct noted, note),
		       .sh_size = offsetof(struct noted, code) - offsetof(struct noted, note) },
		     { .sh_type = SHT_PROGBITS, .sh_name = 1, .sh_addr = 1 } },
	.names = "\0.stapsdt.base",
	.note = { 8, sizeof(uint64_t) * 3 + 64, 3 },
	.owner = "stapsdt",
	.address = { offsetof(struct noted, code), 1, 64 },
	.text = "pytorch\0malloc\0008@%rax -4@$0 8@-8(%rbp,%r12,8) 8@%rcx",
	.code = { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 },
};

static void write_seed(const char *directory, const char *name, const void *data, size_t size)
{
	_cleanup_(closep) int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
}

/* A file of which nothing is found is no seed. */
static void check_noted(void)
{
	_cleanup_(closep) int fd = memfd_create("seed", MFD_CLOEXEC);
	struct site *site;
	size_t count = 0;

	if (write(fd, &noted, sizeof(noted)) != sizeof(noted) ||
	    site_find(fd, &library_torch_cuda, &site, &count) < 0 || count != 1)
		abort();
	free(site);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	if (!directory)
		return 0;
	check_noted();
	write_seed(directory, "seed", &seed, sizeof(seed));
	write_seed(directory, "noted", &noted, sizeof(noted));
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
	if (site_find(fd, &library_torch_cuda, &site, &sites) == 0)
		free(site);
	return 0;
}
