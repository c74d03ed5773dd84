/* program: runs call frame instructions up to an address. There are no jumps, so the bytes of an
 * entry bound the work. Of the registers only those in `enum followed` are kept.
 */
#include "daemon/unwind/program.h"

#include <errno.h>

#include "core/base/array.h"
#include "daemon/limits.h"
#include "daemon/unwind/expression.h"

struct machine {
	const struct program *program;
	const struct row *initial; /* after the common instructions; NULL: while they run */
	struct row row;
	struct row aside[LIMIT_UNWIND_STATES];
	size_t aside_count;
	uint64_t location, pc;
	bool done; /* the next instructions are for addresses beyond pc */
};

struct operand {
	uint64_t number;
	struct span block;
};

typedef int (*instruction)(struct machine *m, const struct operand *a, const struct operand *b);

/* NULL: a register that is not followed. */
static struct saved *saved_of(const struct machine *m, struct row *row, uint64_t reg)
{
	if (reg == m->program->return_register)
		return &row->saved[FOLLOWED_PC];
	if (reg == REGISTER_RBP)
		return &row->saved[FOLLOWED_RBP];
	if (reg == REGISTER_RSP)
		return &row->saved[FOLLOWED_RSP];
	return NULL;
}

static int save(struct machine *m, uint64_t reg, struct saved how)
{
	struct saved *saved = saved_of(m, &m->row, reg);

	if (saved)
		*saved = how;
	return 0;
}

static int64_t aligned(const struct machine *m, uint64_t number)
{
	return (int64_t)(number * (uint64_t)m->program->data_align);
}

static int nothing(struct machine *m, const struct operand *a, const struct operand *b)
{
	return 0;
}

static int advance(struct machine *m, const struct operand *a, const struct operand *b)
{
	uint64_t bytes = a->number * m->program->code_align;

	m->done = bytes > m->pc - m->location;
	m->location += bytes;
	return 0;
}

static int offset(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ SAVED_AT_CFA, aligned(m, b->number), { 0 } });
}

static int value_offset(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ SAVED_CFA, aligned(m, b->number), { 0 } });
}

static int negative_offset(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ SAVED_AT_CFA, aligned(m, -b->number), { 0 } });
}

static int expression(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ SAVED_AT_VALUE, 0, b->block });
}

static int undefined(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ .kind = SAVED_UNDEFINED });
}

static int same(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ .kind = SAVED_SAME });
}

static int somewhere(struct machine *m, const struct operand *a, const struct operand *b)
{
	return save(m, a->number, (struct saved){ .kind = SAVED_OTHER });
}

static int restore(struct machine *m, const struct operand *a, const struct operand *b)
{
	struct row initial = m->initial ? *m->initial : (struct row){ 0 };
	struct saved *saved = saved_of(m, &initial, a->number);

	return saved ? save(m, a->number, *saved) : 0;
}

static int put_aside(struct machine *m, const struct operand *a, const struct operand *b)
{
	if (m->aside_count == LIMIT_UNWIND_STATES)
		return -EBADMSG;
	m->aside[m->aside_count++] = m->row;
	return 0;
}

static int take_back(struct machine *m, const struct operand *a, const struct operand *b)
{
	if (m->aside_count == 0)
		return -EBADMSG;
	m->row = m->aside[--m->aside_count];
	return 0;
}

static int cfa_register(struct machine *m, const struct operand *a, const struct operand *b)
{
	m->row.cfa_register = a->number;
	m->row.cfa_expression = (struct span){ 0 };
	return 0;
}

static int cfa_offset(struct machine *m, const struct operand *a, const struct operand *b)
{
	m->row.cfa_offset = (int64_t)a->number;
	return 0;
}

static int cfa_offset_aligned(struct machine *m, const struct operand *a, const struct operand *b)
{
	m->row.cfa_offset = aligned(m, a->number);
	return 0;
}

static int cfa(struct machine *m, const struct operand *a, const struct operand *b)
{
	cfa_offset(m, b, NULL);
	return cfa_register(m, a, NULL);
}

static int cfa_aligned(struct machine *m, const struct operand *a, const struct operand *b)
{
	cfa_offset_aligned(m, b, NULL);
	return cfa_register(m, a, NULL);
}

static int cfa_expression(struct machine *m, const struct operand *a, const struct operand *b)
{
	m->row.cfa_expression = a->block;
	return 0;
}

/* clang-format off */
static const struct {
	instruction run;     /* NULL: unknown */
	char operands[3];    /* u, s: LEB128; b: block; 1, 2, 4: bytes */
} instructions[64] = {
	[0x00] = { nothing, "" },
	[0x02] = { advance, "1" },
	[0x03] = { advance, "2" },
	[0x04] = { advance, "4" },
	[0x05] = { offset, "uu" },
	[0x06] = { restore, "u" },
	[0x07] = { undefined, "u" },
	[0x08] = { same, "u" },
	[0x09] = { somewhere, "uu" },	     /* in another register */
	[0x0a] = { put_aside, "" },
	[0x0b] = { take_back, "" },
	[0x0c] = { cfa, "uu" },
	[0x0d] = { cfa_register, "u" },
	[0x0e] = { cfa_offset, "u" },
	[0x0f] = { cfa_expression, "b" },
	[0x10] = { expression, "ub" },
	[0x11] = { offset, "us" },
	[0x12] = { cfa_aligned, "us" },
	[0x13] = { cfa_offset_aligned, "s" },
	[0x14] = { value_offset, "uu" },
	[0x15] = { value_offset, "us" },
	[0x16] = { somewhere, "ub" },	     /* it is what the expression comes to */
	[0x2e] = { nothing, "u" },	     /* size of the arguments */
	[0x2f] = { negative_offset, "uu" },
};
/* clang-format on */

static struct operand read_operand(struct cursor *cursor, char type)
{
	switch (type) {
	case 'u':
		return (struct operand){ .number = cursor_unsigned(cursor) };
	case 's':
		return (struct operand){ .number = (uint64_t)cursor_signed(cursor) };
	case 'b':
		return (struct operand){ .block = cursor_take(cursor, cursor_unsigned(cursor)) };
	case '\0':
		return (struct operand){ 0 };
	default:
		return (struct operand){ .number = cursor_number(cursor, (size_t)(type - '0')) };
	}
}

static int run_one(struct machine *m, struct cursor *cursor)
{
	uint8_t byte = (uint8_t)cursor_number(cursor, 1);
	const char *operands = instructions[byte & 63].operands;
	struct operand a = { .number = byte & 63 }, b = { 0 };
	instruction run = NULL;

	switch (byte >> 6) { /* three have their first operand in the same byte */
	case 0:
		run = instructions[byte].run;
		a = read_operand(cursor, operands[0]);
		b = read_operand(cursor, operands[0] ? operands[1] : '\0');
		break;
	case 1:
		run = advance;
		break;
	case 2:
		run = offset;
		b = read_operand(cursor, 'u');
		break;
	case 3:
		run = restore;
		break;
	}
	if (!run || cursor->bad)
		return -EBADMSG;
	return run(m, &a, &b);
}

static int run_all(struct machine *m, struct span instructions_span)
{
	struct cursor cursor = cursor_of(instructions_span);
	int r = 0;

	while (r == 0 && cursor_left(&cursor) > 0 && !m->done)
		r = run_one(m, &cursor);
	return r;
}

int program_row(const struct program *program, struct span instructions_span, uint64_t start,
		uint64_t pc, struct row *ret)
{
	struct machine m = { .program = program, .location = start, .pc = pc };
	struct row initial;
	int r;

	r = run_all(&m, program->common);
	if (r < 0)
		return r;
	initial = m.row;
	m.initial = &initial;
	m.aside_count = 0;
	m.location = start;
	m.done = false;
	r = run_all(&m, instructions_span);
	if (r < 0)
		return r;
	*ret = m.row;
	return 0;
}

/* In words, as a rule has them. */
static bool words(int64_t bytes, int64_t max, int64_t *ret)
{
	*ret = bytes / 8;
	return bytes % 8 == 0 && *ret >= -max && *ret <= max;
}

static bool saved_at(const struct saved *saved, enum value_kind kind, int64_t offset_words,
		     uint64_t pc)
{
	struct value value;

	if (saved->kind != SAVED_AT_VALUE)
		return false;
	value = expression_value(saved->expression, pc);
	return value.kind == kind && value.offset == offset_words * 8;
}

/* That the registers were saved by the kernel is only believed where they are as it saves them. */
static bool row_is_signal(const struct row *row, uint64_t pc)
{
	struct value value = expression_value(row->cfa_expression, pc);

	return value.kind == VALUE_AT_RSP && value.offset == (int64_t)RULE_SIGNAL_RSP * 8 &&
	       saved_at(&row->saved[FOLLOWED_PC], VALUE_RSP, RULE_SIGNAL_PC, pc) &&
	       saved_at(&row->saved[FOLLOWED_RBP], VALUE_RSP, RULE_SIGNAL_RBP, pc);
}

static struct value row_cfa(const struct row *row, uint64_t pc)
{
	if (row->cfa_expression.at)
		return expression_value(row->cfa_expression, pc);
	if (row->cfa_register == REGISTER_RSP)
		return (struct value){ VALUE_RSP, row->cfa_offset };
	if (row->cfa_register == REGISTER_RBP)
		return (struct value){ VALUE_RBP, row->cfa_offset };
	return (struct value){ .kind = VALUE_OTHER };
}

static void rule_set_rbp(struct rule *rule, const struct saved *saved, uint64_t pc)
{
	struct value value;
	int64_t at = 0;

	rule->rbp_kind = RULE_RBP_LOST;
	if (saved->kind == SAVED_SAME) {
		rule->rbp_kind = RULE_RBP_SAME;
	} else if (saved->kind == SAVED_AT_CFA && words(saved->offset, INT16_MAX, &at)) {
		rule->rbp_kind = RULE_RBP_AT_CFA;
	} else if (saved->kind == SAVED_AT_VALUE) {
		value = expression_value(saved->expression, pc);
		if (value.kind == VALUE_RBP && words(value.offset, INT16_MAX, &at))
			rule->rbp_kind = RULE_RBP_AT_RBP;
	}
	rule->rbp = rule->rbp_kind == RULE_RBP_LOST ? 0 : (int16_t)at;
}

struct rule program_rule(const struct row *row, bool signal, uint64_t pc)
{
	static const uint8_t kinds[] = {
		[VALUE_RSP] = RULE_RSP,
		[VALUE_RBP] = RULE_RBP,
		[VALUE_AT_RSP] = RULE_AT_RSP,
		[VALUE_AT_RBP] = RULE_AT_RBP,
	};
	const struct saved *rsp = &row->saved[FOLLOWED_RSP], *address = &row->saved[FOLLOWED_PC];
	const struct rule bad = { .kind = RULE_BAD };
	struct rule rule = { 0 };
	struct value value;
	int64_t at;

	if (signal && row_is_signal(row, pc))
		return (struct rule){ .kind = RULE_SIGNAL };
	if (address->kind == SAVED_UNDEFINED)
		return (struct rule){ .kind = RULE_END };
	if (address->kind != SAVED_AT_CFA || address->offset != -8)
		return bad;
	if (rsp->kind != SAVED_SAME && (rsp->kind != SAVED_CFA || rsp->offset != 0))
		return bad;
	value = row_cfa(row, pc);
	if (value.kind >= ARRAY_SIZE(kinds) || !kinds[value.kind] ||
	    !words(value.offset, RULE_CFA_MAX, &at))
		return bad;
	rule.kind = kinds[value.kind];
	rule.cfa = (int32_t)at;
	rule_set_rbp(&rule, &row->saved[FOLLOWED_RBP], pc);
	return rule;
}
