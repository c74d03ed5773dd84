/* ask.h: reads what diff compares from a recording, with ordinary queries. */
#ifndef TS_CLIENT_DIFF_ASK_H
#define TS_CLIENT_DIFF_ASK_H

#include "client/base/options.h"
#include "client/diff/diff.h"

/* Asks options->file, this run of the side. `inside`: reads its blocks, too. Errors are printed. */
int diff_ask(const struct options *options, struct diff *diff, int side, uint32_t run, bool inside);

#endif
