/* ask.h: what a recording says of itself, asked like any other query. */
#ifndef TS_CLIENT_DIFF_ASK_H
#define TS_CLIENT_DIFF_ASK_H

#include "client/base/options.h"
#include "client/diff/diff.h"

/* Asks options->file, that run of the side. `inside`: what it says of its parts, too. What goes
 * wrong is said on stderr. */
int diff_ask(const struct options *options, struct diff *diff, int side, uint32_t run, bool inside);

#endif
