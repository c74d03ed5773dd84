/* confine.h: what a helper process gives up for good, so that whoever takes it over has little.
 * Each of them is final, and inherited. 0, or a negative errno: go no further then.
 */
#ifndef TS_CONFINE_H
#define TS_CONFINE_H

#include <stddef.h>
#include <stdint.h>

struct confine_bounds {
	uint64_t memory_bytes; /* of address space */
	uint64_t data_bytes;   /* of that, other than files and code; 0: all */
	uint64_t file_bytes;   /* where a file may not be written beyond */
	uint64_t cpu_s;
	uint64_t files; /* that may be open */
};

/* Every capability, and the hope of others. */
int confine_rights(void);
/* The same, but for those of them that it has: a bit for each, by the kernel's numbers. Before
 * there are threads, each of which has its own. */
int confine_rights_but(uint64_t kept);

/* More resources than these. No core is dumped, no process started. Where memory is short, the
 * kernel takes this process rather than the daemon. */
int confine_resources(const struct confine_bounds *bounds);

/* Opening files for writing: EACCES, as if it were not permitted. */
int confine_opening(void);

/* All system calls but these, which answer with EPERM. */
int confine_calls(const uint16_t *call, size_t count);
/* The same, but they are answered with SIGSYS. */
int confine_calls_or_trap(const uint16_t *call, size_t count);
/* These system calls, which then answer with EPERM. */
int confine_without(const uint16_t *call, size_t count);
/* All commands of bpf(2) but these. The same. */
int confine_bpf(const uint16_t *command, size_t count);

#endif
