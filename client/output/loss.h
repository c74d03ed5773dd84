/* loss.h: summarizes in one line what an answer lacks. */
#ifndef TS_CLIENT_LOSS_H
#define TS_CLIENT_LOSS_H

#include <stdio.h>

#include "proto/control.pb-c.h"

/* Prints "lost: 24 events (ring-full), 3 gaps of 1.2 s; …" and a newline, safe for a terminal;
 * prints nothing if nothing was lost. */
void loss_write(FILE *out, const Tracesmith__V1__Done *done);
/* The same on standard error, after the program's name. */
void loss_complain(const Tracesmith__V1__Done *done);

#endif
