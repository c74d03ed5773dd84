/* fuzz_attach: memory of a process that is attached to, as what its loader says of libraries and
 * locks: from the first library on, whatever it points to. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"
#include "tests/fuzz/seed.h"

#define ENTRY TS_INJECT_ATTACH_ENTRY

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A loader with two libraries, of which the second one is ours. Its address is 0, after a
 * byte of the input. */
struct memory {
	uint64_t first;
	struct {
		uint64_t base, name, dynamic, next, previous;
	} library[2];
	Elf64_Dyn dynamic[4];
	uint32_t hash[4]; /* buckets, first symbol, words of the filter, shift */
	uint64_t filter;
	uint32_t bucket, chain;
	Elf64_Sym symbol[2];
	char strings[64];
	char name[2][32];
	uint32_t lock[6]; /* held by another thread */
};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (uint8_t)*name++;
	return hash;
}

static uint64_t at(size_t offset)
{
	return offset;
}

#define AT(member) at(offsetof(struct memory, member))

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");
	struct memory memory = {
		.first = AT(library[0]),
		.library = { { .name = AT(name[0]),
			       .dynamic = AT(dynamic),
			       .next = AT(library[1]) },
			     { .name = AT(name[1]), .dynamic = AT(dynamic) } },
		.dynamic = { { DT_SYMTAB, { AT(symbol) } },
			     { DT_STRTAB, { AT(strings) } },
			     { DT_GNU_HASH, { AT(hash) } } },
		.hash = { 1, 1, 1, 6 },
		.bucket = 1,
		.chain = hash_of(ENTRY) | 1,
		.symbol = { { 0 }, { .st_name = 1, .st_shndx = 1, .st_value = 0x40 } },
		.strings = "\0" ENTRY,
		.name = { "/lib/libc.so.6", "/opt/libtracesmith.so" },
		.lock = { 1, 1, 1, 0, 1 },
	};

	if (directory)
		write_seed(directory, 0, 0, &memory, sizeof(memory));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(closep) int mem = memfd_create("fuzz", MFD_CLOEXEC);
	const struct attach_target target = { .pid = getpid(),
					      .mem = mem,
					      .loader_state = AT(lock),
					      .loader_state_size = sizeof(uint32_t[6]) };
	uint64_t handle = 0, entry = 0, again = 0;
	bool ours;
	int r;

	if (size < 2 || write(mem, data + 1, size - 1) != (ssize_t)size - 1)
		return 0;
	r = attach_target_loaded(&target, &handle, &entry, &ours);
	must(r == 0 || r == -ENOENT);
	if (r == 0) {
		must(attach_target_entry(&target, handle, &again) == 0 && again == entry);
		/* What was found is there. */
		must(handle < size && memmem(data, size, ENTRY, sizeof(ENTRY)));
	}
	must(attach_target_loader(&target, getpid()) < LOADER_ANY);
	return 0;
}
