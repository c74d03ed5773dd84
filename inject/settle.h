/* settle.h: lets a thread of the program wait for the first attempt to record, and until the daemon
 * sees its calls. */
#ifndef TS_INJECT_SETTLE_H
#define TS_INJECT_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

/* On our thread, before it does anything that may wait. */
void settle_begin(void);
/* The attempt has succeeded or failed, once and for all. */
void settle_done(void);
/* The daemon sees the program's calls, or there is none. */
void settle_watched(void);
/* Waits for both, at most this long for each, and no longer once our thread waits for the calling
 * one. False: the daemon does not see them after that time. */
bool settle_wait(unsigned int ms, unsigned int watched_ms);
/* For the first recording that starts: since when the program does not wait any more, 0 if it still
 * does, or never has. On our thread. */
uint64_t settle_missed_since_ns(void);

#endif
