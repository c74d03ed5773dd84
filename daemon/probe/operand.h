/* operand.h: an argument of a note, in the assembler's words: where the compiler has left it. Pure.
 */
#ifndef TS_OPERAND_H
#define TS_OPERAND_H

#include <stdint.h>

#include "bpf/probe.h"

/* `text` is that of all arguments, as in "8@%rax -4@%ebx 8@-8(%rbp) 8@$5": the size, negative if it
 * is signed, and an operand of x86-64. What cannot be read is PROBE_OPERAND_UNKNOWN: other
 * registers, symbols, and whatever the note has not. */
void operands_parse(const char *text, struct probe_note *ret);

#endif
