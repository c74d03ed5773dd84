/* addresses.h: which addresses of devices were taken when, as JSON for the page. */
#ifndef TS_CLIENT_ADDRESSES_H
#define TS_CLIENT_ADDRESSES_H

#include "client/serve/web.h"

/* addresses?since=&until=&pid= */
void addresses_map(const struct web_request *request, struct web_answer *answer);

#endif
