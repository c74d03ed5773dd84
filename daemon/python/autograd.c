/* Autograd: finds the library, and in the code of its functions the places of its variables. What
 * is wrong here is found out by the numbers: those of a launch in the backward pass must be of one
 * in the forward pass. */
#include "daemon/python/autograd.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/hash.h"
#include "daemon/maps/file.h"
#include "daemon/maps/proc.h"
#include "daemon/python/find.h"

#define LIBRARY	     "/libtorch_cpu.so"
#define CODE_SIZE    160
#define REX_W	     0x48
#define REX_WR	     0x4c
#define DATA16	     0x66
#define CALL_SIZE    5
#define CALL_AT_SIZE 6
#define LEA_SIZE     7

/* Where what is looked at of a node begins; the rest is behind it in all versions since 1.7.
 * Of a class that is derived from std::enable_shared_from_this, the number is behind its pointers;
 * later versions count references in the node itself. */
#define SHARED_NODE    "_ZTISt23enable_shared_from_thisIN5torch8autograd4NodeEE"
#define SHARED_NUMBER  24
#define COUNTED_NUMBER 16

#define NEXT_NUMBER    "_ZN2at15sequence_number4peekEv"
#define THREAD_NUMBER  "_ZN2at14RecordFunction15currentThreadIdEv"
static const char *const node_functions[] = {
	"_ZN5torch8autograd16get_current_nodeEv",
	"_ZN5torch8autograd4Node13assign_parentEv",
};

struct library {
	struct peek *peek;
	const struct elf *elf;
	uint64_t bias;
};

struct search {
	struct peek *peek;
	struct ts_autograd *ret;
	uint32_t mappings;
	int outcome;
};

static int32_t number_at(const uint8_t *code)
{
	int32_t number;

	memcpy(&number, code, sizeof(number));
	return number;
}

/* call FUNCTION, or call *POINTER(%rip), with the prefixes that the linker may need for others. */
static size_t call_size(const uint8_t *code, size_t size)
{
	size_t i = 0;

	while (i < size && (code[i] == DATA16 || code[i] == REX_W))
		i++;
	if (i + CALL_SIZE <= size && code[i] == 0xe8)
		return i + CALL_SIZE;
	return i + CALL_AT_SIZE <= size && code[i] == 0xff && code[i + 1] == 0x15 ? i + CALL_AT_SIZE
										  : 0;
}

/* lea INDEX(%rip),%rdi and the call of __tls_get_addr. */
static size_t get_address_size(const uint8_t *code, size_t size)
{
	size_t called;

	if (size < LEA_SIZE || code[0] != REX_W || code[1] != 0x8d || code[2] != 0x3d)
		return 0;
	called = call_size(code + LEA_SIZE, size - LEA_SIZE);
	return called ? LEA_SIZE + called : 0;
}

/* An instruction that reads at MORE(%rax), takes that address, or adds MORE to it. */
struct use {
	int32_t more;
	bool last; /* then %rax has something else */
};

static bool read_operand(const uint8_t *code, size_t size, int32_t *ret)
{
	uint8_t mode = size ? code[0] & 0xc7 : 0xff; /* without the register */

	if (mode == 0x80 && size > sizeof(*ret))
		*ret = number_at(code + 1);
	else if (mode == 0x40 && size > 1)
		*ret = (int8_t)code[1];
	else if (mode == 0)
		*ret = 0;
	else
		return false;
	return true;
}

static bool read_use(const uint8_t *code, size_t size, struct use *ret)
{
	/* The start of mov, lea, movups, movaps, movdqu, movdqa and movq. */
	static const struct {
		uint8_t size, byte[3];
		bool general;
	} reads[] = {
		{ 2, { REX_W, 0x8b }, true },	    { 2, { REX_WR, 0x8b }, false },
		{ 2, { REX_W, 0x8d }, true },	    { 2, { REX_WR, 0x8d }, false },
		{ 2, { 0x0f, 0x10 }, false },	    { 2, { 0x0f, 0x28 }, false },
		{ 3, { 0xf3, 0x0f, 0x6f }, false }, { 3, { DATA16, 0x0f, 0x6f }, false },
		{ 3, { 0xf3, 0x0f, 0x7e }, false },
	};

	ret->last = true;
	if (size > 6 && code[0] == REX_W && code[1] == 0x05)
		return ret->more = number_at(code + 2), true;
	if (size > 3 && code[0] == REX_W && code[1] == 0x83 && code[2] == 0xc0)
		return ret->more = (int8_t)code[3], true;
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		size_t start = reads[i].size;

		if (size <= start || memcmp(code, reads[i].byte, start) != 0)
			continue;
		ret->last = reads[i].general && !(code[start] & 0x38);
		return read_operand(code + start, size - start, &ret->more);
	}
	return false;
}

/* And no operand of a move or a comparison between registers. */
static bool is_return(const uint8_t *code, size_t at)
{
	static const char before[] = { '\x89', '\x8b', '\x01', '\x29', '\x31', '\x39', '\x85' };

	return code[at] == 0xc3 && at && !memchr(before, code[at - 1], sizeof(before));
}

/* Of a variable of several words the first counts: it may be the second that is read first. */
static int32_t read_more(const uint8_t *code, size_t size)
{
	int32_t more = 0;
	bool found = false;
	struct use use;

	for (size_t i = 0; i < size && !is_return(code, i); i++) {
		if (!read_use(code + i, size - i, &use))
			continue;
		more = found && more < use.more ? more : use.more;
		found = true;
		if (use.last)
			break;
	}
	return more;
}

/* The variable that is asked for last counts: one before may be whether it was made yet. */
int autograd_read_code(const uint8_t *code, size_t size, uint64_t at, struct autograd_code *ret)
{
	struct autograd_code found = { 0 };
	size_t behind = 0;

	for (size_t i = 0, step; i < size && !is_return(code, i); i += step) {
		size_t get = get_address_size(code + i, size - i);

		step = get ? get : 1;
		if (get) {
			found.index =
				at + i + LEA_SIZE + (uint64_t)(int64_t)number_at(code + i + 3);
			behind = i + get;
		} else if (!found.index && code[i] == 0xff && call_size(code + i, size - i)) {
			found.called =
				at + i + CALL_AT_SIZE + (uint64_t)(int64_t)number_at(code + i + 2);
			break;
		}
	}
	if (!found.index && !found.called)
		return -ENOENT;
	if (found.index)
		found.more = read_more(code + behind, size - behind);
	*ret = found;
	return 0;
}

static int read_function(const struct library *library, uint64_t address, struct autograd_code *ret)
{
	uint8_t code[CODE_SIZE];
	uint64_t offset;
	int r = elf_offset(library->elf, address, &offset);

	if (r == 0)
		r = elf_read(library->elf, offset, code, sizeof(code));
	return r < 0 ? r : autograd_read_code(code, sizeof(code), address, ret);
}

/* Of the thread-local variable that the function returns. */
static int find_variable(const struct library *library, const char *function, uint32_t *ret_module,
			 uint32_t *ret_offset)
{
	struct autograd_code code;
	uint64_t index[2], called;
	Elf64_Sym symbol;
	int r = elf_hashed_symbol(library->elf, function, &symbol);

	if (r == 0)
		r = read_function(library, symbol.st_value, &code);
	if (r == 0 && !code.index) {
		r = peek_word(library->peek, library->bias + code.called, &called);
		if (r == 0)
			r = read_function(library, called - library->bias, &code);
		if (r == 0 && !code.index)
			r = -ENOENT;
	}
	if (r == 0)
		r = peek_bytes(library->peek, library->bias + code.index, index, sizeof(index));
	if (r < 0)
		return r;
	*ret_module = (uint32_t)index[0];
	*ret_offset = (uint32_t)(index[1] + (uint64_t)(int64_t)code.more);
	return 0;
}

static int find_node(const struct library *library, uint32_t *ret_module, uint32_t *ret_offset)
{
	int r = -ENOENT;

	for (size_t i = 0; r < 0 && i < ARRAY_SIZE(node_functions); i++)
		r = find_variable(library, node_functions[i], ret_module, ret_offset);
	return r;
}

static int look_at(const struct library *library, struct ts_autograd *ret)
{
	struct ts_autograd found = { 0 };
	uint32_t of_node = 0, of_thread = 0;
	Elf64_Sym symbol;
	int r = find_variable(library, NEXT_NUMBER, &found.module, &found.next);

	if (r == 0)
		r = find_variable(library, THREAD_NUMBER, &of_thread, &found.thread);
	if (r == 0)
		r = find_node(library, &of_node, &found.node);
	if (r == 0 && (!found.module || of_thread != found.module || of_node != found.module))
		r = -ENOENT;
	if (r < 0)
		return r;
	r = elf_hashed_symbol(library->elf, SHARED_NODE, &symbol);
	found.number = r == 0 ? SHARED_NUMBER : COUNTED_NUMBER;
	*ret = found;
	return 0;
}

static int on_mapping(void *data, const struct maps_record *record)
{
	const char *name = record->path ? strrchr(record->path, '/') : NULL;
	struct search *search = data;
	_cleanup_(closep) int fd = -1;
	struct library library = { .peek = search->peek };
	struct elf elf;

	if (search->mappings++ == LIMIT_MAPPINGS)
		return 1;
	if (!record->inode || !name || strncmp(name, LIBRARY, strlen(LIBRARY)) != 0)
		return 0;
	fd = maps_record_open(record);
	if (fd < 0 || elf_open(&elf, fd) < 0)
		return 0;
	library.elf = &elf;
	search->outcome = find_bias(&elf, record, &library.bias);
	if (search->outcome == 0)
		search->outcome = look_at(&library, search->ret);
	elf_close(&elf);
	return 1;
}

int autograd_find(uint32_t pid, struct peek *peek, struct ts_autograd *ret)
{
	struct search search = { .peek = peek, .ret = ret, .outcome = -ENOENT };
	int r = maps_proc_mappings(pid, on_mapping, &search);

	return r < 0 ? r : search.outcome;
}
