/* callers.h: the threads of a process that make hot calls, the latest, and how much of the time
 * they had a processor. A hit takes as long where a program has to wait for a processor; the time
 * that it takes it from is shorter. Pure.
 */
#ifndef TS_PRICE_CALLERS_H
#define TS_PRICE_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#define CALLERS_MAX 16

struct caller {
	uint32_t tid;	/* 0: none */
	uint64_t calls; /* in this turn */
	bool known;	/* since the last turn: */
	uint64_t ran_ns, waited_ns;
};

struct callers {
	struct caller caller[CALLERS_MAX];
	uint32_t next;
	uint64_t since_ns; /* start of this turn, 0: the first one */
};

void callers_call(struct callers *callers, uint32_t tid);
/* Those whose calls count in this turn; 0: nobody called. */
uint32_t callers_count(const struct callers *callers);
bool callers_have(const struct callers *callers, uint32_t tid);

/* How long a thread has run, and waited while it could have run, in all. False: nobody knows. */
typedef bool callers_times(void *data, uint32_t tid, uint64_t *ret_ran_ns, uint64_t *ret_waited_ns);

/* A turn ends, and the next one begins: the share of it in which the program did not wait for a
 * processor, at most 1; 0: nobody called, so the turn goes on, or it is the first one. Of threads
 * that wait one after the other all waits count; of those that wait at the same time, not for less
 * than they ran. */
double callers_turn(struct callers *callers, uint64_t now_ns, callers_times *times, void *data);

#endif
