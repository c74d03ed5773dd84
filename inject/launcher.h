/* launcher.h: the program's threads that call the driver, and what collecting costs them. */
#ifndef TS_INJECT_LAUNCHER_H
#define TS_INJECT_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCHERS_MAX 2048

struct launcher {
	uint32_t tid; /* 0: free */
	/* The call that the thread is in; the thread's own. */
	uint32_t open; /* its correlation id */
	uint32_t depth;
	uint32_t calls;
	uint32_t inside; /* a callback of ours */
	uint32_t queued; /* calls, ever: see queue.c */
	uint64_t start_ns;
	uint64_t busy_ns; /* what collecting cost it, ever, as it says */
	/* What others write too. */
	_Alignas(64) uint32_t taking; /* somebody takes of its queue */
	uint32_t taken;		      /* calls, ever */
	uint64_t charged_ns;	      /* what it cost, ever, as others say */
	uint64_t told_ns;	      /* of both, by launcher_costs() */
};

/* That of the running thread as its PID namespace counts it, without a system call where that can
 * be. */
uint32_t thread_id(void);

/* NULL: there is none of that thread. */
struct launcher *launcher_find(uint32_t tid);
/* Of the running thread, which thread_id() has named. NULL: no room to note it. */
struct launcher *launcher_note(uint32_t tid);
/* One after the other, from NULL on, until NULL. */
struct launcher *launcher_next(const struct launcher *before);
/* Below LAUNCHERS_MAX, its alone. */
uint32_t launcher_place(const struct launcher *launcher);

/* Calls that nobody has taken yet. */
bool launcher_has_queued(const struct launcher *launcher);

/* By the thread itself. */
static inline void launcher_charge(struct launcher *launcher, uint64_t ns)
{
	__atomic_store_n(&launcher->busy_ns, launcher->busy_ns + ns, __ATOMIC_RELAXED);
}

/* By another one. */
static inline void launcher_charge_other(struct launcher *launcher, uint64_t ns)
{
	__atomic_fetch_add(&launcher->charged_ns, ns, __ATOMIC_RELAXED);
}

/* What all of them paid since the last time, and in `ret_most` what the one did that paid most.
 * Forgets threads that are gone. From our thread. */
uint64_t launcher_costs(uint64_t *ret_most);
/* Whether a thread is inside a callback of ours just now. */
bool launcher_is_inside(void);
void launcher_forget_all(void);

#endif
