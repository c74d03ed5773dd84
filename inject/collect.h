/* collect.h: what CUPTI records. */
#ifndef TS_INJECT_COLLECT_H
#define TS_INJECT_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/cupti_find.h"
#include "proto/event.h"

/* Whether another user records kernels, by CONCURRENT_KERNEL: one that uses KERNEL must not be
 * asked, as it would lose that. */
bool collect_others(const struct cupti *cupti);
/* Makes CUPTI record these kinds (enum ts_records); calls also where call_subscribe() got no
 * subscription. `whole_graphs`: no context exists yet, so graphs may be recorded as a whole.
 * Returns CUPTI_OK, or the reason of the failure, with everything undone. */
int collect_begin(const struct cupti *cupti, uint32_t records, bool whole_graphs);
/* Other records from now on. */
void collect_change(uint32_t records);
/* What is recorded now; 0: nothing. */
uint32_t collect_records(void);
/* Whether a graph is one record: once that is switched off, it cannot be switched on again. */
bool collect_has_whole_graphs(void);
/* Whether the next flush must be a forced one; asking resets it. */
bool collect_is_stale(void);
/* Switches off and takes in what is left. True: CUPTI holds none of our buffers. */
bool collect_end(uint64_t limit_ns);
/* When collect_end had switched everything off. */
uint64_t collect_off_ns(void);
/* Reports a state to the daemon, with what is recorded now. For an end: the period in which it was
 * switched off; otherwise `until_ns` is 0. */
void collect_tell(const struct ts_collect *state, uint64_t since_ns, uint64_t until_ns);
void collect_forget(void);

#endif
