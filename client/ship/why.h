/* why.h: what failed, as one sentence for the operator. */
#ifndef TS_CLIENT_SHIP_WHY_H
#define TS_CLIENT_SHIP_WHY_H

#define WHY_BYTES 1024

/* Returns the error. What others said is made safe for a terminal. */
int why_fail(char why[WHY_BYTES], int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
