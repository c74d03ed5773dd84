/* trial.h: whether a process survives a return probe on this kernel.
 *
 * Where it returns to is a page of the kernel's. On Linux 6.11, and until early 2025 on 6.12 and
 * 6.13, that page makes a system call, which a seccomp filter with a list of what is allowed (a
 * container's) refuses: the process then jumps to nowhere. From 6.6 to 6.10 the same happens to one
 * with a shadow stack, on which the kernel does not change the return address. So a child of the
 * broker tries both, before any program gets such a probe. It waits for that from before the broker
 * gives up its rights, and ends with it.
 */
#ifndef TS_BROKER_TRIAL_H
#define TS_BROKER_TRIAL_H

#include <stdint.h>
#include <sys/types.h>

enum trial_result {
	TRIAL_SURVIVED,
	TRIAL_SECCOMP,	    /* it died, with a filter */
	TRIAL_SHADOW_STACK, /* it died, with a shadow stack */
	TRIAL_FAILED,	    /* not known */
	TRIAL_RESULTS
};

struct trial {
	pid_t pid;
	int socket; /* a negative errno: there is no child */
};

/* Before there are threads. */
void trial_begin(struct trial *ret);
/* Offset in our own program of the function that the child calls. */
uint64_t trial_place(void);
/* Once. `link`: its return probe, which stays the caller's, or a negative errno. Takes a few
 * seconds at most. `ret_error`: of TRIAL_FAILED, as a positive errno. */
enum trial_result trial_run(struct trial *trial, int link, uint8_t *ret_error);
/* A sentence for users, which TRIAL_SURVIVED has none of. */
const char *trial_text(enum trial_result result);

#endif
