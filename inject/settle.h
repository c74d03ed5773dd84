/* settle.h: lets a thread of the program wait for the first attempt to record. */
#ifndef TS_INJECT_SETTLE_H
#define TS_INJECT_SETTLE_H

/* It has succeeded or failed, once and for all. */
void settle_done(void);
/* Waits for that, at most this long. */
void settle_wait(unsigned int ms);

#endif
