/* program.h: the instructions of .eh_frame, which say how the caller's registers are found. */
#ifndef TS_UNWIND_PROGRAM_H
#define TS_UNWIND_PROGRAM_H

#include "daemon/unwind/cursor.h"
#include "proto/rule.h"

enum saved_kind {
	SAVED_SAME,	 /* unchanged, or nothing is said */
	SAVED_AT_CFA,	 /* at CFA + offset */
	SAVED_AT_VALUE,	 /* at what the expression comes to */
	SAVED_CFA,	 /* it is CFA + offset */
	SAVED_UNDEFINED, /* there is none */
	SAVED_OTHER,	 /* somewhere that is not followed */
};

struct saved {
	enum saved_kind kind;
	int64_t offset; /* bytes */
	struct span expression;
};

enum followed { FOLLOWED_RBP, FOLLOWED_RSP, FOLLOWED_PC, FOLLOWED };

/* How the registers are found from one address on. */
struct row {
	uint64_t cfa_register;
	int64_t cfa_offset;
	struct span cfa_expression; /* instead, unless it is none */
	struct saved saved[FOLLOWED];
};

/* What all functions of an entry have in common. */
struct program {
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	struct span common; /* their first instructions */
};

/* The row at `pc` of the function that starts at `start` and has these instructions. -EBADMSG:
 * damaged, or an unknown instruction. */
int program_row(const struct program *program, struct span instructions, uint64_t start,
		uint64_t pc, struct row *ret);
/* The same, as a walk needs it. */
struct rule program_rule(const struct row *row, bool signal, uint64_t pc);

#endif
