/* launcher.h: the program's threads that call the driver, and what recording costs them. */
#ifndef TS_INJECT_LAUNCHER_H
#define TS_INJECT_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCHERS_MAX 2048

struct launcher {
	uint32_t tid; /* 0: free */
	/* The thread's current call; only the thread uses it. */
	uint32_t open; /* its correlation id */
	uint32_t depth;
	uint32_t calls;
	uint32_t inside; /* a callback of ours is running */
	uint32_t queued; /* calls ever made: see queue.c */
	uint64_t start_ns;
	uint64_t busy_ns; /* total cost of recording, by its own count */
	/* Written by others too. */
	_Alignas(64) uint32_t taking; /* somebody takes from its queue */
	uint32_t taken;		      /* calls, ever */
	uint64_t charged_ns;	      /* total cost, by the count of others */
	uint64_t told_ns;	      /* total of both at the last launcher_costs() */
};

/* Thread id of the running thread in its PID namespace, without a system call where possible. */
uint32_t thread_id(void);

/* NULL: that thread has none. */
struct launcher *launcher_find(uint32_t tid);
/* For the running thread, which thread_id() has named. NULL: no room for it. */
struct launcher *launcher_note(uint32_t tid);
/* Iterates, from NULL to NULL. */
struct launcher *launcher_next(const struct launcher *before);
/* Unique and below LAUNCHERS_MAX. */
uint32_t launcher_place(const struct launcher *launcher);

/* Calls that nobody has taken yet. */
bool launcher_has_queued(const struct launcher *launcher);

/* By the thread itself. */
static inline void launcher_charge(struct launcher *launcher, uint64_t ns)
{
	__atomic_store_n(&launcher->busy_ns, launcher->busy_ns + ns, __ATOMIC_RELAXED);
}

/* By another thread. */
static inline void launcher_charge_other(struct launcher *launcher, uint64_t ns)
{
	__atomic_fetch_add(&launcher->charged_ns, ns, __ATOMIC_RELAXED);
}

/* What all threads paid since the last time, and in `ret_most` what the one that paid most did.
 * Forgets threads that are gone. From our thread. */
uint64_t launcher_costs(uint64_t *ret_most);
/* Whether a thread is inside a callback of ours just now. */
bool launcher_is_inside(void);
void launcher_forget_all(void);

#endif
