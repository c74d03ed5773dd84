/* hooked.h: whether a probe would be put over a program's own jump.
 *
 * An inline hook is a jump over the start of a function. A breakpoint put over it makes the program
 * run the instruction that the file has there, and then what follows of the jump: it crashes. So
 * before probes are put on a file its code is compared in each process that has pages of its own of
 * it, and nobody gets any who has changed what they would replace. A hook that is set in the very
 * moment is not seen; one that is set over a probe is the program's business with the kernel, and
 * works.
 */
#ifndef TS_HOOKED_H
#define TS_HOOKED_H

#include <stdint.h>

#include "bpf/hooked.h"

struct broker;
struct hooked;

/* NULL: this kernel does not tell (before Linux 5.18), or not here (in a PID namespace), and nobody
 * is found to have changed any. */
struct hooked *hooked_new(struct broker *broker);
struct hooked *hooked_free(struct hooked *hooked);

/* Compares the code of process `pid`, 0: of all, with that of the file. -ETXTBSY: that of
 * `*ret_pid` differs; -EBUSY: it could not be told now. Takes
 * some 20 us, and 30 for each process with pages of its own; 10 ms where locks are taken: not for
 * the loop. */
int hooked_look(const struct hooked *hooked, int file, const struct hooked_code *code,
		uint32_t codes, uint32_t pid, uint32_t *ret_pid);

#endif
