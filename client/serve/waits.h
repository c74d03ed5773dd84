/* waits.h: what an operation waited for, and what waited for it. */
#ifndef TS_CLIENT_WAITS_H
#define TS_CLIENT_WAITS_H

#include "client/serve/web.h"

/* ?pid, ?what=work|calls with ?id of the stream or thread, ?at its start, ?since and ?until. */
void waits_arrows(const struct web_request *request, struct web_answer *answer);

#endif
