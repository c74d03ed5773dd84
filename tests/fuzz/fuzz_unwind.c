/* fuzz_unwind: any .eh_frame, in any file, and any stack that is walked by it. */
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/unwind/frames.h"
#include "daemon/unwind/walk.h"
#include "tests/fuzz/seed.h"

#define ADDRESSES 8
#define STACK	  0x7000
#define ROWS	  4 /* of a table in front of the entries */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the rest of an input is. */
enum { WHOLE_FILE, ENTRIES, TABLE, KINDS };

/* One function, whose frame is found in several ways, the last one through memory. */
static const uint8_t entries[] = { 20,	 0,    0,    0,	   0,	 0,    0,    0,	   1,	 'z',  'R',
				   0,	 1,    0x78, 16,   1,	 0x03, 0x0c, 7,	   8,	 0x90, 1,
				   0,	 0,    44,   0,	   0,	 0,    28,   0,	   0,	 0,    0,
				   0,	 0,    0,    0,	   1,	 0,    0,    0,	   0x41, 0x0e, 16,
				   0x86, 2,    0x41, 0x0d, 6,	 0x0a, 0x42, 0x0f, 3,	 0x76, 0x78,
				   0x06, 0x10, 6,    2,	   0x76, 0,    0x44, 0x0b, 0x41, 0xc6, 0x0c,
				   7,	 8,    0,    0,	   0,	 0,    0,    0,	   0,	 0 };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const uint8_t table[ROWS * 8] = { 0, 0, 0, 0, sizeof(table),	0, 0, 0,
						 0, 1, 0, 0, sizeof(table) + 24 };
	uint8_t both[sizeof(table) + sizeof(entries)];
	const char *directory = getenv("TS_FUZZ_SEEDS");
	const Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
				  .e_machine = EM_X86_64 };

	if (!directory)
		return 0;
	memcpy(both, table, sizeof(table));
	memcpy(both + sizeof(table), entries, sizeof(entries));
	write_seed(directory, 0, WHOLE_FILE, &head, sizeof(head));
	write_seed(directory, 1, ENTRIES, entries, sizeof(entries));
	write_seed(directory, 2, TABLE, both, sizeof(both));
	return 0;
}

static int rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	*ret = frames_rule(data, pc - returned);
	return 0;
}

static struct walk_copy stack;

static bool word(void *data, uint64_t at, uint64_t *ret)
{
	return walk_copy_word(&stack, at, ret);
}

static void try(struct frames *frames, const uint8_t *data, size_t size)
{
	const struct walk_source source = { .data = frames, .rule = rule, .word = word };
	uint64_t frame[16];
	struct walk walked;

	stack = (struct walk_copy){ STACK, data, size };
	for (uint64_t i = 0; i < ADDRESSES; i++) {
		struct walk_registers at = { i * size / ADDRESSES, STACK, STACK + i * 8 };
		uint64_t address;

		frames_address(frames, at.pc, &address);
		walk(&source, at, i % 2, frame, ARRAY_SIZE(frame), &walked);
		if (walked.count == 0 || walked.count > ARRAY_SIZE(frame))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(closep) int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct frames frames = { .fd = fd, .segments = 1, .segment = { { .code = true } } };
	uint8_t kind;

	if (fd < 0 || size < 1)
		return 0;
	kind = data[0] % KINDS;
	data++;
	size--;
	if (write(fd, data, size) != (ssize_t)size)
		return 0;
	frames.segment[0].size = size;
	if (kind == WHOLE_FILE && frames_open(&frames, fd) < 0)
		return 0;
	if (kind == ENTRIES)
		frames.frames_size = size;
	if (kind == TABLE)
		frames.entries = ROWS;
	try(&frames, data, size);
	return 0;
}
