/* Freeing: a code object is freed by what its type says, tp_dealloc, which nobody calls by its
 * name. But a compiler with a profile may copy it to where a type mostly is that of code objects,
 * behind a comparison with its address. So the address must be nowhere in the file's code. */
#include "daemon/python/freeing.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/patience.h"
#include "daemon/elf/hash.h"
#include "daemon/maps/look.h"
#include "daemon/maps/proc.h"

#define BLOCK 65536

struct search {
	uint64_t type, function; /* addresses in the process */
	uint32_t mappings;
	int file;
	uint64_t offset;
};

/* In the process it is relative to the next instruction, and in a file that is never moved also as
 * it is. Zeros right before the function are what the linker fills gaps with. */
static bool block_names(const uint8_t *data, size_t size, uint64_t at, uint64_t address, bool fixed)
{
	int32_t word;

	for (size_t i = 0; i + sizeof(word) <= size; i++) {
		memcpy(&word, data + i, sizeof(word));
		if ((word && at + i + sizeof(word) + (uint64_t)(int64_t)word == address) ||
		    (fixed && (uint32_t)word == address))
			return true;
	}
	return false;
}

static bool segment_names(const struct elf *elf, const Elf64_Phdr *segment, uint64_t address,
			  uint64_t until_ns)
{
	const bool fixed = elf->header.e_type == ET_EXEC;
	static uint8_t block[BLOCK];
	uint64_t done = 0;

	while (done < segment->p_filesz) {
		uint64_t left = segment->p_filesz - done;
		size_t size = left < sizeof(block) ? (size_t)left : sizeof(block);

		if (clock_ns(CLOCK_MONOTONIC) > until_ns ||
		    elf_read(elf, segment->p_offset + done, block, size) < 0 ||
		    block_names(block, size, segment->p_vaddr + done, address, fixed))
			return true;
		/* One that ends in the next block starts in this one. */
		done += size == left ? size : size - sizeof(int32_t) + 1;
	}
	return false;
}

bool freeing_is_named(const struct elf *elf, uint64_t address)
{
	uint64_t until_ns =
		clock_ns(CLOCK_MONOTONIC) + patience_ms(LIMIT_PYTHON_CODE_MS) * (uint64_t)NS_PER_MS;

	for (unsigned int i = 0; i < elf->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
		    segment_names(elf, segment, address, until_ns))
			return true;
	}
	return false;
}

/* The file is the interpreter's: its type is the one that was found. */
static int look_at(struct search *search, const struct elf *elf, const struct maps_record *record)
{
	Elf64_Sym symbol;
	uint64_t bias;
	int r = find_bias(elf, record, &bias);

	if (r == 0)
		r = elf_hashed_symbol(elf, "PyCode_Type", &symbol);
	if (r == 0)
		r = elf_offset(elf, search->function - bias, &search->offset);
	if (r < 0)
		return r;
	if (bias + symbol.st_value != search->type ||
	    search->offset != record->offset + (search->function - record->start) ||
	    freeing_is_named(elf, search->function - bias))
		return -ENOENT;
	return 0;
}

static int on_mapping(void *data, const struct maps_record *record)
{
	struct search *search = data;
	_cleanup_(closep) int fd = -1;
	struct stat st;
	struct elf elf;
	int r;

	if (search->mappings++ == LIMIT_MAPPINGS)
		return -ENOENT;
	if (search->function < record->start || search->function >= record->end)
		return 0;
	fd = record->inode ? maps_record_open(record) : -ENOENT;
	/* The kernel reads it, too. */
	if (fd < 0 || fstat(fd, &st) < 0 || !maps_file_answers(fd, &st) || elf_open(&elf, fd) < 0)
		return -ENOENT;
	r = look_at(search, &elf, record);
	elf_close(&elf);
	if (r < 0)
		return -ENOENT;
	search->file = TAKE_FD(fd);
	return 1;
}

int freeing_find(uint32_t pid, const struct find *find, struct peek *peek, int *ret_file,
		 uint64_t *ret_offset)
{
	struct search search = { .type = find->code_type, .file = -1 };
	int r = peek_word(peek, find->code_type + find->layout.type_dealloc, &search.function);

	if (r == 0)
		r = maps_proc_mappings(pid, on_mapping, &search);
	if (r != 1)
		return -ENOENT;
	*ret_file = search.file;
	*ret_offset = search.offset;
	return 0;
}
