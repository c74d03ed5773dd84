/* walk.h: a stack as the rules of its functions give it, from registers and what is on the stack.
 *
 * It is pure: where rules and words come from is the caller's. The stack may hold anything, and
 * change meanwhile. A walk that cannot go on ends, and says why.
 */
#ifndef TS_UNWIND_WALK_H
#define TS_UNWIND_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rule.h"

struct walk_registers {
	uint64_t pc, sp, bp;
};

struct walk_source {
	void *data;
	/* The rule at an address or, of a return address, of the call before it. -ENOENT: the
	 * address is in no file; -EAGAIN: it cannot be found out now. */
	int (*rule)(void *data, uint64_t pc, bool returned, struct rule *ret);
	/* 8 bytes of the process's memory. */
	bool (*word)(void *data, uint64_t at, uint64_t *ret);
	/* Tells each rule that was used, so that it can be filed; may be NULL. RULE_NONE: for
	 * addresses in no file, too. */
	void (*used)(void *data, uint64_t pc, bool returned, struct rule rule);
	/* Tells the stack pointer of each frame; may be NULL. */
	void (*frame)(void *data, uint64_t sp);
};

struct walk {
	uint32_t count; /* frames: where the program was, then return addresses, innermost first */
	enum ts_stack_end end;
	bool linked; /* some have no rule, and were followed by their frame pointers */
};

/* `returned`: pc is a return address, in the middle of a walk. */
void walk(const struct walk_source *source, struct walk_registers registers, bool returned,
	  uint64_t *frame, uint32_t max, struct walk *ret);

/* A copy of a stack. */
struct walk_copy {
	uint64_t at;
	const uint8_t *bytes;
	size_t size;
	uint32_t missing; /* a bit for each PROBE_MISS_PAGE bytes that are not there */
};
bool walk_copy_word(const struct walk_copy *copy, uint64_t at, uint64_t *ret);

#endif
