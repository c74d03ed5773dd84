/* expression.h: what a DWARF expression in .eh_frame comes to, as far as a rule can say it. */
#ifndef TS_UNWIND_EXPRESSION_H
#define TS_UNWIND_EXPRESSION_H

#include "daemon/unwind/cursor.h"

enum value_kind {
	VALUE_NUMBER,
	VALUE_RSP, /* rsp + offset */
	VALUE_RBP,
	VALUE_PC,     /* the address itself, of which only the bits within a page are known */
	VALUE_AT_RSP, /* *(rsp + offset) */
	VALUE_AT_RBP,
	VALUE_OTHER, /* anything else */
};

struct value {
	enum value_kind kind;
	int64_t offset; /* NUMBER: itself */
};

/* Numbers of the registers in DWARF. */
enum { REGISTER_RBP = 6, REGISTER_RSP = 7, REGISTER_PC = 16 };

/* At address `pc` of the file. */
struct value expression_value(struct span expression, uint64_t pc);

#endif
