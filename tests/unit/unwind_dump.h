/* unwind_dump.h: what a program writes about one of its stacks: a head, then the frames that the C
 * library found, then a copy of the stack, then of a second one. */
#ifndef TS_TESTS_UNWIND_DUMP_H
#define TS_TESTS_UNWIND_DUMP_H

#include <stdint.h>

#define DUMP_STACK  32768
#define DUMP_FRAMES 128

struct unwind_dump {
	uint64_t pc, sp, bp;
	uint64_t size, other, other_size; /* of the copy at sp; where the second one is */
	uint32_t frames; /* of the truth; its first one is in the same function as pc */
	uint32_t reserved;
	uint64_t frame[DUMP_FRAMES];
	uint8_t stack[DUMP_STACK], other_stack[DUMP_STACK];
};

/* To DIRECTORY/NAME, the mappings to DIRECTORY/maps. `other`: of a second stack, or 0. */
int unwind_dump(const char *directory, const char *name, uint64_t other);

#endif
