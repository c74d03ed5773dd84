/* fuzz_lines: what a helper says about lines, which it may have been made to say; and any file
 * whose debug information is in another one. libdw itself is not fuzzed: only helpers run it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/elf.h"
#include "daemon/symbol/debug_file.h"
#include "daemon/symbol/places.h"
#include "tests/fuzz/seed.h"

enum { SAYS, FILE_OF_ITS_OWN };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file with a build id and a link. */
static const struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr section[2];
	Elf64_Nhdr note;
	char owner[4];
	uint8_t id[20];
	char names[32], link[16];
} file = {
	.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
		    .e_phoff = offsetof(struct file, segment),
		    .e_phnum = 1,
		    .e_phentsize = sizeof(Elf64_Phdr),
		    .e_shoff = offsetof(struct file, section),
		    .e_shnum = 2,
		    .e_shentsize = sizeof(Elf64_Shdr) },
	.segment = { .p_type = PT_NOTE,
		     .p_offset = offsetof(struct file, note),
		     .p_filesz = sizeof(Elf64_Nhdr) + 24 },
	.section = { { .sh_type = SHT_STRTAB,
		       .sh_offset = offsetof(struct file, names),
		       .sh_size = 32 },
		     { .sh_type = SHT_PROGBITS,
		       .sh_name = 1,
		       .sh_offset = offsetof(struct file, link),
		       .sh_size = 16 } },
	.note = { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID },
	.owner = "GNU",
	.names = "\0.gnu_debuglink",
	.link = "libfile.debug",
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char says[] = "\2"
				   "7\0inner\0/src/f.c\0"
				   "19\0outer\0/src/f.c";
	const char *directory = getenv("TS_FUZZ_SEEDS");

	if (!directory)
		return 0;
	write_seed(directory, 0, SAYS, says, sizeof(says));
	write_seed(directory, 1, FILE_OF_ITS_OWN, &file, sizeof(file));
	return 0;
}

/* What it said is known afterwards, or nothing is. */
static void hear(const uint8_t *data, size_t size)
{
	struct cache_key key = { .inode = 1 };
	struct places places = { .at = { .slot = NULL } };
	const struct places_at *at;
	int r = places_read(&places, &key, data[0], (const char *)data + 1, size - 1);

	at = places_get(&places, &key);
	if ((r == 0) != (at != NULL) || (at && at->count != data[0]))
		abort();
	for (uint32_t i = 0; at && i < at->count; i++)
		if (strlen(at->place[i].function) + strlen(at->place[i].file) > size)
			abort();
	places_clear(&places);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(closep) int fd = -1, debug = -1, common = -1;
	char path[DEBUG_FILE_PATH_MAX];

	if (size < 2)
		return 0;
	if (data[0] == SAYS) {
		hear(data + 1, size - 1);
		return 0;
	}
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1) {
		debug = debug_file_open(fd, (uint32_t)getpid(), "/nowhere/libfile.so", path);
		common = debug_file_open_common(fd, (uint32_t)getpid(), "/nowhere/libfile.so");
	}
	return 0;
}
