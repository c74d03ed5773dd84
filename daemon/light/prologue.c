/* Prologue: reads the first instructions of a function, and knows few on purpose: those with which
 * compilers begin functions, which do the same wherever they stand. What it does not know cannot be
 * moved.
 *
 * The first instruction stays in place. A probe of the kernel replaces its first byte, executes the
 * original elsewhere and goes on behind it: with a jump from the first byte on, that would be in
 * the middle of the jump.
 *
 * Nothing may jump to what is moved but from before it. A branch to an instruction that changes the
 * stack pointer, or to one before it, would unbalance the stack; so all that is moved must stand
 * before such an instruction, or be it. */
#include "daemon/light/prologue.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define RSP   4
#define RBP   5
#define REX_W 8
#define REX_R 4
#define REX_B 1

struct instruction {
	uint8_t size;
	bool frame;    /* sets up the stack, which happens once */
	bool passive;  /* changes no register that an argument may be in */
	int16_t words; /* that it puts on the stack, -1: unknown */
};

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
/* mov %fs:0x28,REG: what is compared at the end to see whether the stack is as it was */
static const uint8_t canary[] = { 0x04, 0x25, 0x28, 0x00, 0x00, 0x00 };

struct code {
	const uint8_t *at;
	size_t size;
};

static uint8_t byte(const struct code *code, size_t n)
{
	return n < code->size ? code->at[n] : 0;
}

static int32_t number(const struct code *code, size_t n)
{
	int32_t value = 0;

	if (n + sizeof(value) <= code->size)
		memcpy(&value, code->at + n, sizeof(value));
	return value;
}

/* Of the operand whose description stands at `n`: its bytes, 0 if it depends on where the code is,
 * or is of no interest. */
static uint8_t operand_size(const struct code *code, size_t n)
{
	uint8_t mode = byte(code, n) >> 6, memory = byte(code, n) & 7;

	if (mode == 3)
		return 1;
	if (mode == 0)
		return 0;
	return (uint8_t)(1 + (memory == RSP) + (mode == 1 ? 1 : 4));
}

/* Callee-saved registers hold no argument. */
static bool is_preserved(unsigned int reg)
{
	return reg == 3 || reg == RBP || reg >= 12;
}

/* sub, and, add to the stack pointer, with a number at `n`. */
static struct instruction read_stack(const struct code *code, size_t n, bool byte_number)
{
	struct instruction instruction = { .frame = true, .passive = true };
	uint8_t what = byte(code, n - 1);
	int32_t value = byte_number ? (int8_t)byte(code, n) : number(code, n);

	instruction.size = (uint8_t)(n + (byte_number ? 1 : 4));
	instruction.words = -1;
	if (what == 0xe4 && value < 0)
		return instruction;
	if (what == 0xc4)
		value = -value;
	else if (what != 0xec)
		return (struct instruction){ 0 };
	if (value <= 0)
		return (struct instruction){ 0 };
	if (value % 8 == 0 && value <= 1024)
		instruction.words = (int16_t)(value / 8);
	return instruction;
}

/* With an operand that a byte at `n` describes: mov, lea, xor, test. */
static struct instruction read_operand(const struct code *code, uint8_t rex, size_t n)
{
	struct instruction instruction = { 0 };
	uint8_t opcode = byte(code, n - 1), form = byte(code, n), size = operand_size(code, n);
	unsigned int reg = (form >> 3 & 7) + (rex & REX_R ? 8 : 0);
	unsigned int other = (form & 7) + (rex & REX_B ? 8 : 0);
	bool memory = form >> 6 != 3;
	/* Who is written. */
	bool to_reg = opcode == 0x8b || opcode == 0x8d || opcode == 0x33;
	unsigned int to = to_reg ? reg : other;

	if (!size || (opcode == 0x8d && !memory) ||
	    (memory && opcode != 0x8d && opcode != 0x89 && opcode != 0x8b))
		return instruction;
	if (opcode != 0x85 && to == RSP && (to_reg || !memory))
		return instruction;
	instruction.size = (uint8_t)(n + size);
	instruction.passive = opcode == 0x85 || (!to_reg && memory) || is_preserved(to);
	return instruction;
}

static struct instruction read_nop(const struct code *code, size_t n)
{
	uint8_t form = byte(code, n), size = operand_size(code, n);

	if (form == 0x00)
		size = 1;
	else if (form >> 6 == 3 || form >> 3 & 7)
		size = 0;
	return (struct instruction){ .size = size ? (uint8_t)(n + size) : 0, .passive = true };
}

static struct instruction read_one(const struct code *code)
{
	size_t n = 0;
	uint8_t rex = 0, opcode;

	if (code->size > 3 + sizeof(canary) && byte(code, 0) == 0x64 &&
	    (byte(code, 1) & ~REX_R) == 0x48 && byte(code, 2) == 0x8b &&
	    (byte(code, 3) & ~0x38) == canary[0] &&
	    !memcmp(code->at + 4, canary + 1, sizeof(canary) - 1) &&
	    ((byte(code, 1) & REX_R) || (byte(code, 3) >> 3 & 7) != RSP))
		return (struct instruction){ .size = 3 + sizeof(canary), .frame = true };
	if (byte(code, 0) == 0x66 && (byte(code, 1) == 0x90 || byte(code, 1) == 0x0f))
		n = 1;
	else if ((byte(code, 0) & 0xf0) == 0x40)
		rex = byte(code, n++);
	opcode = byte(code, n++);
	if (opcode == 0x90 && !(rex & REX_B))
		return (struct instruction){ .size = (uint8_t)n, .passive = true };
	if (opcode == 0x0f && byte(code, n) == 0x1f && !rex)
		return read_nop(code, n + 1);
	if (n == 2 && byte(code, 0) == 0x66)
		return (struct instruction){ 0 };
	/* push of a register; of the stack pointer nobody does */
	if ((opcode & 0xf8) == 0x50 && !(rex & REX_W) && (opcode != 0x54 || rex & REX_B))
		return (struct instruction){
			.size = (uint8_t)n, .frame = true, .passive = true, .words = 1
		};
	if ((opcode == 0x83 || opcode == 0x81) && rex == 0x48)
		return read_stack(code, n + 1, opcode == 0x83);
	if (opcode == 0x89 || opcode == 0x8b || opcode == 0x8d || opcode == 0x31 ||
	    opcode == 0x33 || opcode == 0x85)
		return read_operand(code, rex, n);
	/* mov of a number to a register */
	if ((opcode & 0xf8) == 0xb8 && !(rex & REX_W) && (opcode != 0xbc || rex & REX_B))
		return (struct instruction){ .size = (uint8_t)(n + 4) };
	return (struct instruction){ 0 };
}

static struct instruction read_next(const uint8_t *code, size_t size, size_t at)
{
	struct code rest = { code + at, size - at };
	struct instruction instruction = read_one(&rest);

	if (instruction.size > rest.size)
		instruction.size = 0;
	return instruction;
}

int prologue_read(const uint8_t *code, size_t size, struct prologue *ret)
{
	struct instruction first, next;
	size_t start = 0, at;

	if (size > PROLOGUE_MAX)
		size = PROLOGUE_MAX;
	if (size >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)))
		start = sizeof(endbr64);
	first = read_next(code, size, start);
	if (!first.size || !first.passive || first.words < 0)
		return -ENOTSUP;
	start += first.size;
	at = start;
	do {
		next = read_next(code, size, at);
		if (!next.size)
			return -ENOTSUP;
		at += next.size;
	} while (at < start + PROLOGUE_JUMP);
	ret->start = (uint8_t)start;
	ret->moved = (uint8_t)(at - start);
	ret->words = (uint8_t)first.words;
	/* The last that is moved, or what follows it. */
	while (!next.frame) {
		next = read_next(code, size, at);
		if (!next.size)
			return -ENOTSUP;
		at += next.size;
	}
	return 0;
}
