/* Find: looks through the files of the executable mappings. An interpreter exports its functions to
 * its extension modules, so it can be told by them, wherever it was linked into. */
#include "daemon/python/find.h"

#include <errno.h>
#include <stdbool.h>

#include "core/base/cleanup.h"
#include "daemon/elf/hash.h"
#include "daemon/maps/file.h"
#include "daemon/maps/proc.h"

#define PAGE_MASK    (~4095ull)
#define VERSION_3_9  0x03090000u
#define VERSION_3_10 0x030a0000u

struct search {
	struct peek *peek;
	struct find *ret;
	int outcome; /* so far */
	uint32_t mappings;
};

int find_bias(const struct elf *elf, const struct maps_record *record, uint64_t *ret)
{
	for (unsigned int i = 0; i < elf->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
		    (segment->p_offset & PAGE_MASK) == record->offset) {
			*ret = record->start - (segment->p_vaddr & PAGE_MASK);
			return 0;
		}
	}
	return -ENOENT;
}

static uint64_t address_of(const struct elf *elf, uint64_t bias, const char *name)
{
	Elf64_Sym symbol;

	return elf_hashed_symbol(elf, name, &symbol) == 0 ? bias + symbol.st_value : 0;
}

/* Before 3.11 it does not say, but later versions have functions that earlier ones had not. */
static int find_version(struct search *search, const struct elf *elf, uint64_t bias, uint32_t *ret)
{
	uint64_t at = address_of(elf, bias, "Py_Version"), version = 0;
	int r = 0;

	if (at)
		r = peek_word(search->peek, at, &version);
	else if (address_of(elf, bias, "Py_Is"))
		version = VERSION_3_10;
	else if (address_of(elf, bias, "PyObject_GC_IsTracked"))
		version = VERSION_3_9;
	*ret = (uint32_t)version;
	return r;
}

/* Whether it runs: there is an interpreter in it. */
static int look_at(struct search *search, const struct elf *elf, uint64_t bias)
{
	uint8_t runtime[LAYOUT_DEBUG_SIZE];
	struct find found = { .code_type = address_of(elf, bias, "PyCode_Type") };
	uint64_t head;
	int r;

	if (!found.code_type)
		return -ENOENT;
	found.text_type = address_of(elf, bias, "PyUnicode_Type");
	found.runtime = address_of(elf, bias, "_PyRuntime");
	r = find_version(search, elf, bias, &found.version);
	if (r == 0)
		*search->ret = found;
	if (r == 0 && (!found.version || !found.runtime))
		r = -EOPNOTSUPP;
	if (r == 0)
		r = peek_bytes(search->peek, found.runtime, runtime, sizeof(runtime));
	if (r == 0)
		r = layout_find(found.version, runtime, &found.layout);
	if (r == 0)
		r = peek_word(search->peek, found.runtime + found.layout.runtime.head, &head);
	if (r < 0)
		return r;
	*search->ret = found;
	return head ? 0 : -EAGAIN;
}

static int on_mapping(void *data, const struct maps_record *record)
{
	struct search *search = data;
	_cleanup_(closep) int fd = -1;
	struct elf elf;
	uint64_t bias;
	int r;

	if (search->mappings++ == LIMIT_MAPPINGS)
		return 1;
	fd = record->inode ? maps_record_open(record) : -1;
	if (fd < 0 || elf_open(&elf, fd) < 0)
		return 0;
	r = find_bias(&elf, record, &bias);
	if (r == 0)
		r = look_at(search, &elf, bias);
	elf_close(&elf);
	if (r != -ENOENT)
		search->outcome = r;
	return r == 0;
}

int find_python(uint32_t pid, struct peek *peek, struct find *ret)
{
	struct search search = { .peek = peek, .ret = ret, .outcome = -ENOENT };
	int r;

	*ret = (struct find){ 0 };
	r = maps_proc_mappings(pid, on_mapping, &search);
	return r < 0 ? r : search.outcome;
}
