/* memory.h: who held how much over time, as JSON for the page. */
#ifndef TS_CLIENT_MEMORY_H
#define TS_CLIENT_MEMORY_H

#include "client/serve/web.h"

/* memory?since=&until=&columns=&pid=&by=path|process */
void memory_layers(const struct web_request *request, struct web_answer *answer);

#endif
