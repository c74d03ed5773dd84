/* freeze.h: stops all threads of a process for a moment.
 *
 * Whatever a thread waited for is restarted by the kernel. A thread in a call that would end half
 * done is waited for, so that nothing of the process ends otherwise than without us. The kernel
 * lets go of all threads if we die, or if the tracing thread ends.
 */
#ifndef TS_FREEZE_H
#define TS_FREEZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct freeze_thread {
	pid_t tid;
	bool stopped;
	struct user_regs_struct regs;
};

struct freeze {
	pid_t pid;
	struct freeze_thread *thread;
	size_t count, room;
	uint64_t began_ns;
};

/* Within `limit_ns`, or -EAGAIN. -EPERM: traced by another; -ESRCH. On failure it runs again. */
int freeze_stop(pid_t pid, uint64_t limit_ns, struct freeze *ret);
/* Whether a stopped thread may be in a handler: that blocks its signal, as a rule. */
bool freeze_blocks(const struct freeze_thread *thread);
/* Where a stopped thread goes on. */
void freeze_move(struct freeze_thread *thread, uint64_t address);
/* Returns for how long it was stopped. */
uint64_t freeze_release(struct freeze *freeze);

#endif
