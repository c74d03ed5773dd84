/* budget.h: what recording costs the program, and what to leave out to cost less. */
#ifndef TS_INJECT_BUDGET_H
#define TS_INJECT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Time CUPTI spends on a kernel's or copy's record within the call that submits it: 0.6 to 1.0 us
 * on an H200 with CUPTI 13.0. It cannot be measured from outside while the program runs. */
#define BUDGET_WORK_NS 800
/* The same on CUPTI's record of a call: 3.1 us in a PyTorch step, 0.2 in a loop of launches. */
#define BUDGET_CALL_NS 3100

/* Starts over: `limit_ppm` of a thread's time, 0: no limit; `wanted` is enum ts_records. */
void budget_set(uint64_t now_ns, uint32_t limit_ppm, uint32_t wanted);
/* Call at each tick: reports every half second what was spent. Returns which of the wanted records
 * not to record now. */
uint32_t budget_tick(uint64_t now_ns);

/* The rule alone. */
struct budget_rule {
	uint32_t limit_ppm;
	uint32_t step;	      /* 0: record everything */
	uint32_t over, under; /* windows in a row */
};
/* This many windows have passed; the thread that paid most paid this much on average. True: the
 * step changed. */
bool budget_rule_turn(struct budget_rule *rule, uint32_t wanted, uint32_t busiest_ppm,
		      uint32_t windows);
/* How many windows make up a whole cycle of the step, including what it leaves out only at
 * times. */
uint32_t budget_rule_windows(const struct budget_rule *rule);
uint32_t budget_left_out(const struct budget_rule *rule, uint32_t wanted, uint64_t now_ns);

#endif
