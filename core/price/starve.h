/* starve.h: whether the probes keep the kernel's per-CPU workers from their work, or the host is
 * merely busy. Pure.
 *
 * That work waits long says little: builds, real-time threads or a hypervisor do that as well. The
 * probes are suspected only if traps took a considerable share of that CPU while the work waited
 * for it. Then the process that spends most in them is left out; and if work goes on to wait
 * without it, the suspicion was wrong, and none arises for a while, which doubles each time.
 */
#ifndef TS_PRICE_STARVE_H
#define TS_PRICE_STARVE_H

#include <stdbool.h>
#include <stdint.h>

/* Without probes a busy host has some 10 ms; with 45,000 hits a second on each CPU it was 220 ms at
 * worst, with 300,000 more than a second, and beyond that work waited for good. */
#define STARVE_LONG_NS 500000000ull

struct starve {
	/* Of this turn: the longest wait, and whether one was long while traps took the CPU. */
	uint64_t waited_ns;
	bool trapped;
	uint64_t judge_ns;    /* not before that */
	uint64_t suspects_ns; /* since then somebody is left out; 0: nobody */
	uint64_t pause_ns;    /* the last one, after a wrong suspicion */
};

/* How long work has waited for the worker of one CPU, and how much of its time traps took
 * meanwhile. */
void starve_wait(struct starve *starve, uint64_t waited_ns, double trapped_ns);
/* All CPUs have been told. True: who spends most in traps is to be left out. */
bool starve_turn(struct starve *starve, uint64_t now_ns);

#endif
