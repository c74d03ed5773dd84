/* loss.h: summarizes in one line what an answer lacks. */
#ifndef TS_CLIENT_LOSS_H
#define TS_CLIENT_LOSS_H

#include <stdio.h>

#include "proto/control.pb-c.h"

/* Prints "not watched for 1.20 s (…) · lost: 24 events (ring-full); …", safe for a terminal; prints
 * nothing if nothing was lost. */
void loss_write_line(FILE *out, const Tracesmith__V1__Done *done);
/* The same with a newline. */
void loss_write(FILE *out, const Tracesmith__V1__Done *done);
/* The same on standard error, after the program's name. */
void loss_complain(const Tracesmith__V1__Done *done);

#endif
