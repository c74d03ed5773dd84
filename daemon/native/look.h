/* look.h: the registers of a process's threads, as the kernel has them, without stopping any.
 *
 * The kernel has the registers of a program since its last entry to the kernel. So they hold for
 * a thread that is on no CPU; one that runs is sampled (sample.h).
 */
#ifndef TS_NATIVE_LOOK_H
#define TS_NATIVE_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/task.h"
#include "core/base/cleanup.h"

struct broker;
struct look;

#define LOOK_FDS 3

/* The descriptors that it is made of. Needs a BPF program, which the kernel has had all parts for
 * since 5.15. A negative errno: it does not have it. */
int look_ask(struct broker *broker, int ret[LOOK_FDS]);
/* Takes them over, if it succeeds. */
int look_new(const int fd[LOOK_FDS], struct look **ret);
/* For sample.h. */
int look_sampler(const struct look *look);
struct look *look_free(struct look *look);
/* Of all threads of a process, the first `max`, in the order of their ids as the kernel counts. On
 * any thread, several at one time. -ESRCH: there are none. */
int look_at(const struct look *look, uint32_t pid, struct task_registers *ret, size_t max,
	    size_t *ret_count);

CLEANUP_DEFINE(struct look, look_free)

#endif
