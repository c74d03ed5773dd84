/* fuzz_python: memory that looks like an interpreter's to begin with, and may be anything; what an
 * interpreter says of its own structures; tables of lines; and machine code that is read for what
 * it refers to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "daemon/light/prologue.h"
#include "daemon/python/autograd.h"
#include "daemon/python/place.h"
#include "daemon/python/python.h"
#include "daemon/python/value.h"
#include "tests/fuzz/seed.h"

#define BASE	    0x100000u
#define RUNTIME	    (BASE + 0x0)
#define INTERPRETER (BASE + 0x1000)
#define THREAD	    (BASE + 0x2000)
#define CFRAME	    (BASE + 0x2800)
#define FRAME(n)    (BASE + 0x3000 + (n)*0x100)
#define CODE(n)	    (BASE + 0x8000 + (n)*0x200)
#define TEXT(n)	    (BASE + 0xa000 + (n)*0x100)
#define TABLE	    (BASE + 0xc000)
#define CODE_TYPE   (BASE + 0xd000)
#define TEXT_TYPE   (BASE + 0xd800)
#define NUMBER	    (BASE + 0xe000)
#define TID	    77
#define LINES	    3 /* formats */

enum { MEMORY, LAYOUT, TABLE_OF_LINES, MACHINE_CODE };

static const uint32_t versions[] = { 0x030900f0, 0x030a00f0, 0x030b07f0,
				     0x030c01f0, 0x030d01f0, 0x030e01f0 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t memory[0x10000];

static int read_memory(void *data, uint64_t address, void *to, size_t size)
{
	if (size > sizeof(memory) || address < BASE || address - BASE > sizeof(memory) - size)
		return -EFAULT;
	memcpy(to, memory + (address - BASE), size);
	return 0;
}

static void put(uint32_t address, uint64_t value)
{
	memcpy(memory + (address - BASE), &value, sizeof(value));
}

static void put_text(uint32_t at, const char *text)
{
	put(at + 8, TEXT_TYPE);
	put(at + 16, strlen(text));
	put(at + 32, 1u << 2 | 1u << 5 | 1u << 6); /* ASCII, in one piece */
	strcpy((char *)memory + (at - BASE) + 40, text);
}

static void put_code(uint32_t at, uint32_t name)
{
	put(at, 1);
	put(at + 8, CODE_TYPE);
	put(at + 68, 40);
	put(at + 112, TEXT(9));
	put(at + 128, name);
	put(at + 136, TABLE);
}

/* A thread of 3.12 in one function, called by another. */
static void put_interpreter(void)
{
	memset(memory, 0, sizeof(memory));
	put(RUNTIME + 40, INTERPRETER);
	put(INTERPRETER + 72, THREAD);
	put(THREAD + 144, TID);
	put(THREAD + 56, CFRAME);
	put(CFRAME, FRAME(0));
	for (uint32_t i = 0; i < 2; i++) {
		put(FRAME(i), CODE(i));
		put(FRAME(i) + 8, i ? 0 : FRAME(1));
		put(FRAME(i) + 56, CODE(i) + 192);
		put_code(CODE(i), TEXT(i));
		put_text(TEXT(i), i ? "outer" : "inner");
	}
	put_text(TEXT(9), "file.py");
	put(TABLE + 16, 2);
	put(TABLE + 32, 0xd0);
	put(NUMBER + 8, CODE_TYPE);
}

/* Patches: each a place of two bytes, a length of one, and the bytes. */
static void patch(const uint8_t *data, size_t size)
{
	while (size > 3) {
		size_t at = data[0] | (size_t)data[1] << 8, count = data[2];

		data += 3;
		size -= 3;
		count = count < size ? count : size;
		count = count < sizeof(memory) - at ? count : sizeof(memory) - at;
		memcpy(memory + at, data, count);
		data += count;
		size -= count;
	}
}

static int take_local(void *data, const char *name, const char *value)
{
	size_t *bytes = data;

	*bytes += strlen(name) + strlen(value);
	return 0;
}

/* Everything that is ever read of one. */
static void read_interpreter(const struct find *find)
{
	struct peek peek = { .read = read_memory };
	struct text_source source = { &peek, &find->layout, find->text_type };
	struct ts_python_frame frame = { .code = CODE(0), .position = CODE(0) + 192 };
	struct python_snapshot snapshot = { 0 };
	struct ts_python place;
	struct python_frame named;
	char value[VALUE_SIZE];
	const uint32_t tid = TID;
	struct python *python;
	size_t bytes = 0;

	peek_renew(&peek);
	if (python_new(find, &peek, &python) < 0)
		return;
	if (python_take(python, &tid, 1, &snapshot) == 0) {
		for (size_t i = 0; i < snapshot.frame_count; i++)
			bytes += strlen(snapshot.frame[i].code->function) +
				 strlen(snapshot.frame[i].code->file);
		if (snapshot.frame_count)
			python_locals(python, &snapshot.frame[0], take_local, &bytes);
	}
	python_renew(python);
	(void)python_name(python, &frame, &named);
	peek_renew(&peek);
	(void)place_find(find, &peek, &place);
	peek_renew(&peek);
	if (value_text(&source, NUMBER, value) == 0 && strlen(value) >= sizeof(value))
		abort();
	python_snapshot_clear(&snapshot);
	python_free(python);
}

static void read_memory_of(const uint8_t *data, size_t size, bool says_layout)
{
	struct find find = {
		.version = versions[data[0] % ARRAY_SIZE(versions)],
		.runtime = RUNTIME,
		.code_type = CODE_TYPE,
		.text_type = TEXT_TYPE,
	};
	uint8_t runtime[LAYOUT_DEBUG_SIZE] = { 0 };
	size_t said = 0;

	if (says_layout) {
		said = size - 1 < sizeof(runtime) ? size - 1 : sizeof(runtime);
		memcpy(runtime, data + 1, said);
	}
	put_interpreter();
	patch(data + 1 + said, size - 1 - said);
	if (layout_find(find.version, runtime, &find.layout) == 0)
		read_interpreter(&find);
}

static void read_lines(const uint8_t *data, size_t size)
{
	if (size < 4)
		return;
	(void)lines_find(data[0] % LINES, data + 4, size - 4, (int8_t)data[1],
			 (int16_t)(data[2] | data[3] << 8));
}

static void read_code(const uint8_t *data, size_t size)
{
	struct autograd_code code;
	struct prologue prologue;

	(void)autograd_read_code(data, size, BASE, &code);
	if (prologue_read(data, size < PROLOGUE_MAX ? size : PROLOGUE_MAX, &prologue) < 0)
		return;
	if (prologue.moved < PROLOGUE_JUMP || prologue.start + prologue.moved > PROLOGUE_MAX ||
	    prologue.start + (size_t)prologue.moved > size)
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	/* 3.12, whose first frame is moved, and what is at NUMBER made a text. */
	static const uint8_t moved[] = { 3, 0, 0x28, 2, 0, 0x31, 0x08, 0xe0, 2, 0, 0xd8 };
	static const uint8_t says[LAYOUT_DEBUG_SIZE + 1] = { 4,	  'x', 'd', 'e', 'b',
							     'u', 'g', 'p', 'y' };
	static const uint8_t lines[] = { 2, 1, 8, 0, 0xd0, 0x00, 0xf8, 0x80, 0x80, 0x01 };
	/* push %rbp; mov %rsp,%rbp; sub $16,%rsp */
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10 };
	const char *directory = getenv("TS_FUZZ_SEEDS");

	if (!directory)
		return 0;
	write_seed(directory, 0, MEMORY, moved, sizeof(moved));
	write_seed(directory, 1, LAYOUT, says, sizeof(says));
	write_seed(directory, 2, TABLE_OF_LINES, lines, sizeof(lines));
	write_seed(directory, 3, MACHINE_CODE, code, sizeof(code));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	switch (data[0]) {
	case MEMORY:
	case LAYOUT:
		read_memory_of(data + 1, size - 1, data[0] == LAYOUT);
		break;
	case TABLE_OF_LINES:
		read_lines(data + 1, size - 1);
		break;
	case MACHINE_CODE:
		read_code(data + 1, size - 1);
		break;
	}
	return 0;
}
