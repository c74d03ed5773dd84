/* loss.h: what is missing from an answer, in one line. */
#ifndef TS_CLIENT_LOSS_H
#define TS_CLIENT_LOSS_H

#include <stdio.h>

#include "proto/control.pb-c.h"

/* "lost: 24 events (ring-full), 3 gaps of 1.2 s; …" and the end of the line, as a terminal may have
 * it; nothing where nothing was lost. */
void loss_write(FILE *out, const Tracesmith__V1__Done *done);
/* The same on standard error, as this program's word. */
void loss_complain(const Tracesmith__V1__Done *done);

#endif
