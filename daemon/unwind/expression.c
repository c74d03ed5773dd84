/* expression: evaluates without registers: what is put on the stack says what the value would be.
 * Only operations without jumps are known, so the length of the expression bounds the work.
 *
 * Compilers write `rbp - 8, deref` where a function aligns its stack, and linkers, for stubs of the
 * procedure linkage table, one that depends on the low bits of the address.
 */
#include "daemon/unwind/expression.h"

#include "daemon/limits.h"

#define PAGE_MASK 4095

enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_REGISTERS = 32, /* so many of each of the last two */
};

struct stack {
	struct value value[LIMIT_UNWIND_VALUES];
	size_t count;
	bool bad;
};

static const struct value other = { .kind = VALUE_OTHER };

static void push(struct stack *stack, struct value value)
{
	if (stack->count == LIMIT_UNWIND_VALUES)
		stack->bad = true;
	else
		stack->value[stack->count++] = value;
}

static struct value pop(struct stack *stack)
{
	if (stack->count == 0) {
		stack->bad = true;
		return other;
	}
	return stack->value[--stack->count];
}

static struct value number(uint64_t value)
{
	return (struct value){ VALUE_NUMBER, (int64_t)value };
}

static struct value register_plus(unsigned int reg, int64_t offset)
{
	switch (reg) {
	case REGISTER_RSP:
		return (struct value){ VALUE_RSP, offset };
	case REGISTER_RBP:
		return (struct value){ VALUE_RBP, offset };
	case REGISTER_PC:
		return (struct value){ VALUE_PC, offset };
	default:
		return other;
	}
}

static struct value deref(struct value at)
{
	if (at.kind == VALUE_RSP)
		return (struct value){ VALUE_AT_RSP, at.offset };
	if (at.kind == VALUE_RBP)
		return (struct value){ VALUE_AT_RBP, at.offset };
	return other;
}

static struct value plus(struct value a, struct value b)
{
	struct value sum = a.kind == VALUE_NUMBER ? b : a;

	if ((a.kind != VALUE_NUMBER && b.kind != VALUE_NUMBER) || sum.kind > VALUE_PC)
		return other;
	sum.offset = (int64_t)((uint64_t)a.offset + (uint64_t)b.offset);
	return sum;
}

/* Where a program is loaded moves its addresses by whole pages. */
static struct value and (struct value a, struct value b, uint64_t pc)
{
	if (b.kind != VALUE_NUMBER)
		return other;
	if (a.kind == VALUE_NUMBER)
		return number((uint64_t)a.offset & (uint64_t)b.offset);
	if (a.kind == VALUE_PC && (b.offset & ~(int64_t)PAGE_MASK) == 0)
		return number((pc + (uint64_t)a.offset) & (uint64_t)b.offset);
	return other;
}

static struct value binary(uint8_t operation, struct value a, struct value b, uint64_t pc)
{
	bool numbers = a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER;

	if (operation == OP_PLUS)
		return plus(a, b);
	if (operation == OP_AND)
		return and(a, b, pc);
	if (operation == OP_GE && numbers)
		return number(a.offset >= b.offset);
	if (operation == OP_SHL && numbers && b.offset >= 0 && b.offset < 64)
		return number((uint64_t)a.offset << b.offset);
	return other;
}

static void step(struct stack *stack, struct cursor *cursor, uint64_t pc)
{
	uint8_t operation = (uint8_t)cursor_number(cursor, 1);
	struct value a, b;
	size_t size;

	if (operation >= OP_LIT0 && operation < OP_LIT0 + OP_REGISTERS) {
		push(stack, number(operation - OP_LIT0));
	} else if (operation >= OP_BREG0 && operation < OP_BREG0 + OP_REGISTERS) {
		push(stack, register_plus(operation - OP_BREG0, cursor_signed(cursor)));
	} else if (operation >= OP_CONST1U && operation <= OP_CONST4S) {
		size = 1u << (operation - OP_CONST1U) / 2;
		a = number(cursor_number(cursor, size));
		if ((operation - OP_CONST1U) % 2)
			a = number(cursor_sign((uint64_t)a.offset, (unsigned int)size * 8));
		push(stack, a);
	} else if (operation == OP_DEREF) {
		push(stack, deref(pop(stack)));
	} else if (operation == OP_PLUS_UCONST) {
		push(stack, plus(pop(stack), number(cursor_unsigned(cursor))));
	} else if (operation == OP_PLUS || operation == OP_AND || operation == OP_GE ||
		   operation == OP_SHL) {
		b = pop(stack);
		a = pop(stack);
		push(stack, binary(operation, a, b, pc));
	} else {
		stack->bad = true;
	}
}

struct value expression_value(struct span expression, uint64_t pc)
{
	struct cursor cursor = cursor_of(expression);
	struct stack stack = { .count = 0 };

	while (cursor_left(&cursor) > 0 && !cursor.bad && !stack.bad)
		step(&stack, &cursor, pc);
	if (cursor.bad || stack.bad || stack.count == 0)
		return other;
	return stack.value[stack.count - 1];
}
