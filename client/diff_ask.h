/* diff_ask.h: what a recording says of itself, asked like any other query. */
#ifndef TS_CLIENT_DIFF_ASK_H
#define TS_CLIENT_DIFF_ASK_H

#include "client/diff.h"
#include "client/options.h"

/* Asks options->file; `side` is 0 or 1. What goes wrong is said on stderr. */
int diff_ask(const struct options *options, struct diff *diff, int side);

#endif
