/* Operand: parses what a note says of its arguments. The text is anybody's. */
#include "daemon/probe/operand.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

#define TEXT_SIZE     64 /* "-8@-9223372036854775808(%r10,%r11,8)" has 37 */
#define WORD_OF(name) (offsetof(struct ts_registers, name) / sizeof(uint64_t))

static const struct {
	const char *name[4]; /* by size, the largest first */
	uint8_t word;	     /* in pt_regs */
} registers[] = {
	{ { "rax", "eax", "ax", "al" }, WORD_OF(ax) },
	{ { "rbx", "ebx", "bx", "bl" }, WORD_OF(bx) },
	{ { "rcx", "ecx", "cx", "cl" }, WORD_OF(cx) },
	{ { "rdx", "edx", "dx", "dl" }, WORD_OF(dx) },
	{ { "rsi", "esi", "si", "sil" }, WORD_OF(si) },
	{ { "rdi", "edi", "di", "dil" }, WORD_OF(di) },
	{ { "rbp", "ebp", "bp", "bpl" }, WORD_OF(bp) },
	{ { "rsp", "esp", "sp", "spl" }, WORD_OF(sp) },
	{ { "r8", "r8d", "r8w", "r8b" }, WORD_OF(r8) },
	{ { "r9", "r9d", "r9w", "r9b" }, WORD_OF(r9) },
	{ { "r10", "r10d", "r10w", "r10b" }, WORD_OF(r10) },
	{ { "r11", "r11d", "r11w", "r11b" }, WORD_OF(r11) },
	{ { "r12", "r12d", "r12w", "r12b" }, WORD_OF(r12) },
	{ { "r13", "r13d", "r13w", "r13b" }, WORD_OF(r13) },
	{ { "r14", "r14d", "r14w", "r14b" }, WORD_OF(r14) },
	{ { "r15", "r15d", "r15w", "r15b" }, WORD_OF(r15) },
};

/* Moves *at behind the register's name, of which any size will do. */
static bool parse_register(const char **at, uint8_t *ret)
{
	size_t length;

	if (**at != '%')
		return false;
	length = strspn(*at + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		for (size_t k = 0; k < ARRAY_SIZE(registers[i].name); k++) {
			const char *name = registers[i].name[k];

			if (strlen(name) != length || strncmp(*at + 1, name, length) != 0)
				continue;
			*at += 1 + length;
			*ret = registers[i].word;
			return true;
		}
	return false;
}

static bool parse_number(const char **at, long long *ret)
{
	const char *digits = *at + (**at == '-');
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*ret = **at == '-' ? strtoll(*at, &end, 0) : (long long)strtoull(*at, &end, 0);
	*at = end;
	return errno == 0;
}

static bool parse_char(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

/* displacement(base,index,scale), of which only a register is needed. */
static bool parse_memory(const char **at, struct probe_operand *ret)
{
	long long scale = 1;

	ret->from = PROBE_OPERAND_MEMORY;
	ret->base = ret->index = PROBE_OPERAND_NONE;
	if (**at != '(' && !parse_number(at, &ret->value))
		return false;
	if (!parse_char(at, '(') || (**at != ',' && !parse_register(at, &ret->base)))
		return false;
	if (parse_char(at, ',') && (!parse_register(at, &ret->index) ||
				    (parse_char(at, ',') && !parse_number(at, &scale))))
		return false;
	ret->scale = (uint8_t)scale;
	return parse_char(at, ')') && (scale == 1 || scale == 2 || scale == 4 || scale == 8);
}

static bool parse_place(const char **at, struct probe_operand *ret)
{
	if (parse_char(at, '$')) {
		ret->from = PROBE_OPERAND_CONSTANT;
		return parse_number(at, &ret->value);
	}
	if (**at != '%')
		return parse_memory(at, ret);
	ret->from = PROBE_OPERAND_REGISTER;
	return parse_register(at, &ret->base);
}

static bool parse_operand(const char *at, struct probe_operand *ret)
{
	ret->is_signed = parse_char(&at, '-');
	if (*at != '1' && *at != '2' && *at != '4' && *at != '8')
		return false;
	ret->width = (uint8_t)(*at++ - '0');
	return parse_char(&at, '@') && parse_place(&at, ret) && *at == '\0';
}

void operands_parse(const char *text, struct probe_note *ret)
{
	char one[TEXT_SIZE];
	size_t length;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < PROBE_OPERANDS_MAX; i++, text += length) {
		struct probe_operand operand = { 0 };

		text += strspn(text, " ");
		length = strcspn(text, " ");
		if (!length || length >= sizeof(one))
			continue;
		memcpy(one, text, length);
		one[length] = '\0';
		if (parse_operand(one, &operand))
			ret->operand[i] = operand;
	}
}
