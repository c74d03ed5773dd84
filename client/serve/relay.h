/* relay.h: the daemon's queries, for the page. */
#ifndef TS_CLIENT_RELAY_H
#define TS_CLIENT_RELAY_H

#include "client/serve/web.h"

/* /query/NAME: the query's answer as `tsctl query NAME --json` has it; with as many rows as there
 * is room for, and of each stack only the innermost frames. */
void relay_query(const struct web_request *request, struct web_answer *answer);
/* /clock: the daemon's hello. */
void relay_clock(const struct web_request *request, struct web_answer *answer);

#endif
