/* frames: .eh_frame of an untrusted file, read in small pieces, never mapped. Entries are believed
 * only where they contain the address, so wrong or overlapping ones give no wrong function.
 */
#include "daemon/unwind/frames.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/elf/elf.h"
#include "daemon/unwind/program.h"

/* How a pointer is written: a format, and what it is relative to. */
enum {
	POINTER_FORMAT = 0x0f,
	POINTER_ABSOLUTE = 0x00,
	POINTER_ULEB = 0x01,
	POINTER_2 = 0x02,
	POINTER_4 = 0x03,
	POINTER_8 = 0x04,
	POINTER_SIGNED = 0x08,
	POINTER_SLEB = 0x09,
	POINTER_BASE = 0x70,
	POINTER_TO_ITSELF = 0x10,
	POINTER_TO_HEADER = 0x30,
	POINTER_OMITTED = 0xff,
	TABLE_POINTERS = POINTER_TO_HEADER | POINTER_SIGNED | POINTER_4,
};

#define HEADER_MAX	 32  /* bytes of .eh_frame_hdr before its table */
#define ROW_BYTES	 8   /* of the table: where a function starts, and its entry */
#define ROWS_AT_ONCE	 512 /* that are read, when few are left */
#define ENTRY_AT_ONCE	 256 /* bytes: nearly all entries are shorter */
#define AUGMENTATION_MAX 8

/* Bytes of the file, and where they are in memory. */
struct piece {
	struct span span;
	uint64_t address;
};

/* What functions have in common. */
struct common {
	struct program program;
	uint8_t encoding;
	bool sized; /* what precedes the instructions of a function says how long it is */
	bool signal;
};

struct function {
	uint64_t start, size;
	struct span instructions;
};

/* Less than `size` where the file ends. */
static size_t read_at(const struct frames *frames, uint64_t offset, void *to, size_t size)
{
	ssize_t n;

	if (offset > INT64_MAX - size)
		return 0;
	do
		n = pread(frames->fd, to, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? 0 : (size_t)n;
}

static int address_of(const struct frames *frames, uint64_t offset, bool code, uint64_t *ret)
{
	for (uint32_t i = 0; i < frames->segments; i++) {
		const struct frames_segment *segment = &frames->segment[i];

		if (offset >= segment->offset && offset - segment->offset < segment->size &&
		    (segment->code || !code)) {
			*ret = segment->address + (offset - segment->offset);
			return 0;
		}
	}
	return -ENOENT;
}

static int offset_of(const struct frames *frames, uint64_t address, uint64_t *ret)
{
	for (uint32_t i = 0; i < frames->segments; i++) {
		const struct frames_segment *segment = &frames->segment[i];

		if (address >= segment->address && address - segment->address < segment->size) {
			*ret = segment->offset + (address - segment->address);
			return 0;
		}
	}
	return -ENOENT;
}

int frames_address(const struct frames *frames, uint64_t offset, uint64_t *ret)
{
	return address_of(frames, offset, true, ret);
}

static uint64_t read_pointer(struct cursor *cursor, const struct piece *piece, uint8_t encoding)
{
	uint64_t base = 0;

	if ((encoding & POINTER_BASE) == POINTER_TO_ITSELF)
		base = piece->address + (uint64_t)(cursor->at - piece->span.at);
	else if ((encoding & POINTER_BASE) != POINTER_ABSOLUTE)
		cursor->bad = true;
	switch (encoding & POINTER_FORMAT) {
	case POINTER_ABSOLUTE:
	case POINTER_8:
	case POINTER_8 | POINTER_SIGNED:
		return base + cursor_number(cursor, 8);
	case POINTER_4:
		return base + cursor_number(cursor, 4);
	case POINTER_4 | POINTER_SIGNED:
		return base + cursor_sign(cursor_number(cursor, 4), 32);
	case POINTER_2:
		return base + cursor_number(cursor, 2);
	case POINTER_2 | POINTER_SIGNED:
		return base + cursor_sign(cursor_number(cursor, 2), 16);
	case POINTER_ULEB:
		return base + cursor_unsigned(cursor);
	case POINTER_SLEB:
		return base + (uint64_t)cursor_signed(cursor);
	default:
		cursor->bad = true;
		return 0;
	}
}

/* What each letter of the augmentation stands for. */
static void read_augmentation(struct cursor *cursor, const struct piece *piece, const char *letter,
			      struct common *common)
{
	struct cursor data;

	if (*letter++ != 'z') {
		cursor->bad = true;
		return;
	}
	common->sized = true;
	data = cursor_of(cursor_take(cursor, cursor_unsigned(cursor)));
	for (; *letter; letter++) {
		if (*letter == 'R')
			common->encoding = (uint8_t)cursor_number(&data, 1);
		else if (*letter == 'L')
			cursor_number(&data, 1);
		else if (*letter == 'P')
			read_pointer(&data, piece, (uint8_t)cursor_number(&data, 1) & 0x7f);
		else if (*letter == 'S')
			common->signal = true;
		else if (*letter != 'B')
			cursor->bad = true;
	}
	cursor->bad |= data.bad;
}

/* `body` follows the entry's length. */
static int parse_common(const struct piece *body, struct common *ret)
{
	struct cursor cursor = cursor_of(body->span);
	char augmentation[AUGMENTATION_MAX + 1] = "";
	struct common common = { .encoding = POINTER_ABSOLUTE };
	uint8_t version;
	size_t i;

	if (cursor_number(&cursor, 4) != 0)
		return -EBADMSG;
	version = (uint8_t)cursor_number(&cursor, 1);
	if (version != 1 && version != 3 && version != 4)
		return -EBADMSG;
	for (i = 0; i < AUGMENTATION_MAX; i++) {
		augmentation[i] = (char)cursor_number(&cursor, 1);
		if (!augmentation[i])
			break;
	}
	if (augmentation[AUGMENTATION_MAX - 1])
		return -EBADMSG;
	if (version == 4)
		cursor_number(&cursor, 2); /* sizes of an address and of a segment's number */
	common.program.code_align = cursor_unsigned(&cursor);
	common.program.data_align = cursor_signed(&cursor);
	common.program.return_register =
		version == 1 ? cursor_number(&cursor, 1) : cursor_unsigned(&cursor);
	if (augmentation[0])
		read_augmentation(&cursor, body, augmentation, &common);
	common.program.common = cursor_take(&cursor, cursor_left(&cursor));
	if (cursor.bad)
		return -EBADMSG;
	*ret = common;
	return 0;
}

static int parse_function(const struct piece *body, const struct common *common,
			  struct function *ret)
{
	struct cursor cursor = cursor_of(body->span);
	struct function function;

	cursor_number(&cursor, 4);
	function.start = read_pointer(&cursor, body, common->encoding);
	function.size = read_pointer(&cursor, body, common->encoding & POINTER_FORMAT);
	if (common->sized)
		cursor_take(&cursor, cursor_unsigned(&cursor));
	function.instructions = cursor_take(&cursor, cursor_left(&cursor));
	if (cursor.bad)
		return -EBADMSG;
	*ret = function;
	return 0;
}

static bool function_has(const struct function *function, uint64_t address)
{
	return address >= function->start && address - function->start < function->size;
}

static struct rule function_rule(const struct function *function, const struct common *common,
				 uint64_t address)
{
	struct row row;

	if (program_row(&common->program, function->instructions, function->start, address, &row) <
	    0)
		return (struct rule){ .kind = RULE_BAD };
	return program_rule(&row, common->signal, address);
}

/* The body of the entry that the bytes start with. `ret_size`: of the whole entry. */
static int entry_body(struct span bytes, uint64_t address, size_t *ret_size, struct piece *ret)
{
	struct cursor cursor = cursor_of(bytes);
	uint64_t length = cursor_number(&cursor, 4);

	if (cursor.bad || length < 4 || length >= 0xfffffff0)
		return -EBADMSG;
	*ret_size = 4 + length;
	ret->span = cursor_take(&cursor, length);
	ret->address = address + 4;
	return cursor.bad ? -ENOBUFS : 0;
}

static int read_entry(const struct frames *frames, uint64_t offset, uint8_t *bytes, size_t max,
		      struct piece *ret)
{
	size_t size = read_at(frames, offset, bytes, max < ENTRY_AT_ONCE ? max : ENTRY_AT_ONCE);
	size_t whole;
	uint64_t address;
	int r;

	if (address_of(frames, offset, false, &address) < 0)
		return -EBADMSG;
	r = entry_body((struct span){ bytes, size }, address, &whole, ret);
	if (r != -ENOBUFS)
		return r;
	if (whole > max || read_at(frames, offset, bytes, whole) < whole)
		return -EBADMSG;
	return entry_body((struct span){ bytes, whole }, address, &whole, ret);
}

/* How far before its own start (of the body) the common entry of a function is; 0: it is one. */
static uint32_t common_distance(const struct piece *body)
{
	struct cursor cursor = cursor_of(body->span);

	return (uint32_t)cursor_number(&cursor, 4);
}

/* By the entry at an offset, if it is about the address. */
static struct rule entry_rule(const struct frames *frames, uint64_t offset, uint64_t address)
{
	const struct rule bad = { .kind = RULE_BAD };
	uint8_t bytes[LIMIT_UNWIND_ENTRY], common_bytes[LIMIT_UNWIND_COMMON];
	struct piece body, common_body;
	struct function function;
	struct common common;
	uint32_t distance;

	if (read_entry(frames, offset, bytes, sizeof(bytes), &body) < 0)
		return bad;
	distance = common_distance(&body);
	if (distance == 0 || distance > offset + 4)
		return bad;
	if (read_entry(frames, offset + 4 - distance, common_bytes, sizeof(common_bytes),
		       &common_body) < 0 ||
	    parse_common(&common_body, &common) < 0 ||
	    parse_function(&body, &common, &function) < 0)
		return bad;
	if (!function_has(&function, address))
		return (struct rule){ .kind = RULE_NONE };
	return function_rule(&function, &common, address);
}

struct row_of_table {
	int32_t start, entry; /* relative to the header */
};

/* The entry of the last function that starts at or before the address. */
static int table_find(const struct frames *frames, uint64_t address, uint64_t *ret_offset)
{
	int64_t wanted = (int64_t)(address - frames->header_address);
	uint32_t low = 0, high = frames->entries, middle, i;
	struct row_of_table row[ROWS_AT_ONCE];
	size_t size;

	while (high - low > ROWS_AT_ONCE) {
		middle = low + (high - low) / 2;
		if (read_at(frames, frames->table_offset + (uint64_t)middle * ROW_BYTES, row,
			    ROW_BYTES) < ROW_BYTES)
			return -EBADMSG;
		if (row[0].start <= wanted)
			low = middle;
		else
			high = middle;
	}
	size = (size_t)(high - low) * ROW_BYTES;
	if (read_at(frames, frames->table_offset + (uint64_t)low * ROW_BYTES, row, size) < size)
		return -EBADMSG;
	for (i = 0, high -= low; i < high;) {
		middle = i + (high - i) / 2;
		if (row[middle].start <= wanted)
			i = middle + 1;
		else
			high = middle;
	}
	if (i == 0)
		return -ENOENT;
	return offset_of(frames, frames->header_address + (uint64_t)(int64_t)row[i - 1].entry,
			 ret_offset);
}

/* Goes through all entries. */
static struct rule scan(const struct frames *frames, struct span bytes, uint64_t base,
			uint64_t address)
{
	struct rule none = { .kind = RULE_NONE };
	size_t at, size, known_at = SIZE_MAX;
	struct piece body, common_body;
	struct function function;
	struct common common;

	for (at = 0; at < bytes.size; at += size) {
		struct span rest = { bytes.at + at, bytes.size - at };
		uint32_t distance;
		size_t common_at, unused;

		if (entry_body(rest, base + at, &size, &body) < 0)
			return none;
		distance = common_distance(&body);
		if (distance == 0)
			continue;
		if (distance > at + 4)
			return none;
		common_at = at + 4 - distance;
		rest = (struct span){ bytes.at + common_at, bytes.size - common_at };
		if (common_at != known_at) {
			known_at = SIZE_MAX;
			if (entry_body(rest, base + common_at, &unused, &common_body) < 0 ||
			    common_body.span.size > LIMIT_UNWIND_COMMON ||
			    parse_common(&common_body, &common) < 0)
				continue;
			known_at = common_at;
		}
		if (parse_function(&body, &common, &function) == 0 &&
		    function_has(&function, address))
			return function_rule(&function, &common, address);
	}
	return none;
}

static struct rule scan_rule(const struct frames *frames, uint64_t address)
{
	_cleanup_(freep) uint8_t *bytes = NULL;
	struct rule none = { .kind = RULE_NONE };
	uint64_t base;
	size_t size;

	if (frames->frames_size == 0 || address_of(frames, frames->frames_offset, false, &base) < 0)
		return none;
	bytes = malloc(frames->frames_size);
	if (!bytes)
		return none;
	size = read_at(frames, frames->frames_offset, bytes, frames->frames_size);
	return scan(frames, (struct span){ bytes, size }, base, address);
}

struct rule frames_rule(const struct frames *frames, uint64_t address)
{
	uint64_t offset;
	int r;

	if (frames->entries == 0)
		return scan_rule(frames, address);
	r = table_find(frames, address, &offset);
	if (r < 0)
		return (struct rule){ .kind = r == -ENOENT ? RULE_NONE : RULE_BAD };
	return entry_rule(frames, offset, address);
}

bool frames_are_none(const struct frames *frames)
{
	return frames->entries == 0 && frames->frames_size == 0;
}

/* Leaves out a table that is not sorted, or larger than its segment. */
static void open_header(struct frames *frames, const Elf64_Phdr *segment)
{
	uint8_t bytes[HEADER_MAX];
	struct piece piece = { { bytes, read_at(frames, segment->p_offset, bytes, HEADER_MAX) },
			       segment->p_vaddr };
	struct cursor cursor = cursor_of(piece.span);
	uint8_t version = (uint8_t)cursor_number(&cursor, 1);
	uint8_t frames_encoding = (uint8_t)cursor_number(&cursor, 1);
	uint8_t count_encoding = (uint8_t)cursor_number(&cursor, 1);
	uint8_t table_encoding = (uint8_t)cursor_number(&cursor, 1);
	uint64_t count, used;

	if (version != 1 || frames_encoding == POINTER_OMITTED ||
	    count_encoding == POINTER_OMITTED || table_encoding != TABLE_POINTERS)
		return;
	read_pointer(&cursor, &piece, frames_encoding & 0x7f);
	count = read_pointer(&cursor, &piece, count_encoding);
	used = (uint64_t)(cursor.at - bytes);
	if (cursor.bad || segment->p_filesz < used || count > UINT32_MAX ||
	    count > (segment->p_filesz - used) / ROW_BYTES)
		return;
	frames->header_address = segment->p_vaddr;
	frames->table_offset = segment->p_offset + used;
	frames->entries = (uint32_t)count;
}

/* The section that a file has for its entries, by its name. */
static void open_section(struct frames *frames, const struct elf *elf)
{
	static const char wanted[] = ".eh_frame";
	uint64_t names;

	if (elf->header.e_shstrndx >= elf->header.e_shnum)
		return;
	names = elf->section[elf->header.e_shstrndx].sh_offset;
	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];
		char name[sizeof(wanted)] = "";

		if (section->sh_type == SHT_NOBITS || section->sh_size > LIMIT_UNWIND_SCAN ||
		    names > INT64_MAX)
			continue;
		read_at(frames, names + section->sh_name, name, sizeof(name));
		if (memcmp(name, wanted, sizeof(wanted)) != 0)
			continue;
		frames->frames_offset = section->sh_offset;
		frames->frames_size = section->sh_size;
		return;
	}
}

int frames_open(struct frames *ret, int fd)
{
	struct frames frames = { .fd = fd };
	struct elf elf;
	int r;

	r = elf_open(&elf, fd);
	if (r < 0)
		return r;
	if (elf.header.e_machine != EM_X86_64) {
		elf_close(&elf);
		return -EBADMSG;
	}
	for (unsigned int i = 0; i < elf.header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf.segment[i];

		if (segment->p_type == PT_LOAD && frames.segments < LIMIT_UNWIND_SEGMENTS)
			frames.segment[frames.segments++] =
				(struct frames_segment){ segment->p_vaddr, segment->p_offset,
							 segment->p_filesz,
							 segment->p_flags & PF_X };
		else if (segment->p_type == PT_GNU_EH_FRAME)
			open_header(&frames, segment);
	}
	if (frames.entries == 0)
		open_section(&frames, &elf);
	elf_close(&elf);
	*ret = frames;
	return 0;
}
