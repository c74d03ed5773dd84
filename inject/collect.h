/* collect.h: what CUPTI is told to record. */
#ifndef TS_INJECT_COLLECT_H
#define TS_INJECT_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/cupti_find.h"

/* Switches CUPTI on with these records (enum ts_records). `whole_graphs`: no context exists yet, so
 * graphs may be recorded as a whole. CUPTI_OK, or why it cannot be, all given back. */
int collect_begin(const struct cupti *cupti, uint32_t records, bool whole_graphs);
/* Other records from now on. */
void collect_change(uint32_t records);
/* What is recorded now; 0: nothing. */
uint32_t collect_records(void);
/* Whether the next flush has to be a forced one; asked once. */
bool collect_is_stale(void);
/* Switches off and takes in what there still is. True: CUPTI holds no buffer of ours. */
bool collect_end(uint64_t limit_ns);
/* Tells the daemon what is so now (enum ts_collect_state). */
/* When collect_end had switched everything off. */
uint64_t collect_off_ns(void);
/* Of an end: from when to when it was switched off; else `until_ns` is 0. */
void collect_tell(uint32_t state, uint64_t since_ns, uint64_t until_ns, uint32_t left_out,
		  uint32_t budget_ppm);
void collect_forget(void);

#endif
